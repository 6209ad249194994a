//! The VMM's disk and the back end that serves it, with a driver made by hand between them: what
//! the VMM hands over is what the back end needs.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trapless_devices::virtio::VirtioDevice;
use trapless_vmm::backend::blk;
use trapless_vmm::backend::cli::{Blk, Cpu, Loop, Waiting};
use trapless_vmm::backend::disk::Disk;
use trapless_vmm::backend::requests::Requests;
use trapless_vmm::backend::service::{Broken, Calls, Service, TURN};
use trapless_vmm::devices::virtio::vhost::queues::ServedElsewhere;
use trapless_vmm::devices::virtio::vhost::user::{self, Connection, VhostUser};
use trapless_vmm::guest::ram::{self, Kind};
use trapless_vmm::map;
use virtio_queue::desc::RawDescriptor;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::mock::MockSplitQueue;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::tempdir::TempDir;

const SECTORS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(2);
const SIZE: u16 = 16;
const HEADER: u64 = map::RAM_BASE + 0x8000;
const DATA: u64 = map::RAM_BASE + 0x9000;
const STATUS: u64 = map::RAM_BASE + 0xa000;
const WRITABLE: u16 = 2;
const CHAINED: u16 = 1;

/// Readable within two seconds?
fn signalled(event: &EventFd) -> bool {
    let mut wanted = libc::pollfd {
        fd: event.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, which outlives the call.
    let found = unsafe { libc::poll(&mut wanted, 1, 2000) };
    found == 1 && event.read().is_ok()
}

/// A guest with a disk whose sector n consists of bytes n.
struct Guest {
    memory: GuestMemoryMmap,
    device: VhostUser,
    _folder: TempDir,
}

fn back_end(folder: &Path, event_loop: Loop) -> PathBuf {
    let disk = folder.join("disk");
    let content: Vec<u8> = (0..SECTORS).flat_map(|n| [n as u8; 512]).collect();
    std::fs::write(&disk, content).unwrap();
    let socket = folder.join("socket");
    let options = Blk {
        socket: socket.clone(),
        disk,
        read_only: false,
        waiting: Waiting {
            event_loop,
            cpu: Cpu::Thread,
            populate: true,
        },
    };
    std::thread::spawn(move || blk::serve(&options));
    socket
}

fn connect(socket: &Path) -> Connection {
    Connection::open(user::Kind::Block, socket, PATIENCE).unwrap()
}

fn device(socket: &Path, memory: &GuestMemoryMmap) -> VhostUser {
    let ram = Arc::new(memory.clone());
    VhostUser::new(user::Kind::Block, connect(socket), ram).unwrap()
}

impl Guest {
    fn new(event_loop: Loop) -> Self {
        let folder = TempDir::new().unwrap();
        let memory = ram::allocate(1 << 20, Kind::Shared).unwrap();
        let socket = back_end(folder.as_path(), event_loop);
        let device = device(&socket, &memory);
        Self {
            memory,
            device,
            _folder: folder,
        }
    }

    /// Has the device serve a request of these parts: address, length, flags.
    fn request(&mut self, parts: &[(u64, u32, u16)]) -> u8 {
        let memory = self.memory.clone();
        let ring = MockSplitQueue::create(&memory, GuestAddress(map::RAM_BASE), SIZE);
        let descriptors: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(n, &(addr, len, flags))| {
                let last = n + 1 == parts.len();
                let flags = flags | if last { 0 } else { CHAINED };
                RawDescriptor::from(Descriptor::new(addr, len, flags, n as u16 + 1))
            })
            .collect();
        ring.build_desc_chain(&descriptors).unwrap();
        let queue: Queue = ring.create_queue().unwrap();
        self.memory
            .write_obj(0xff_u8, GuestAddress(STATUS))
            .unwrap();
        self.device.activate(self.device.features() | 1 << 32);
        self.device.start(&[queue]).unwrap();
        assert!(signalled(&self.device.events().call), "no interrupt");
        self.device.reset();
        self.memory.read_obj(GuestAddress(STATUS)).unwrap()
    }

    fn header(&self, kind: u32, sector: u64) {
        self.memory.write_obj(kind, GuestAddress(HEADER)).unwrap();
        self.memory
            .write_obj(sector, GuestAddress(HEADER + 8))
            .unwrap();
    }

    fn data(&self) -> [u8; 512] {
        let mut data = [0; 512];
        self.memory
            .read_slice(&mut data, GuestAddress(DATA))
            .unwrap();
        data
    }
}

const READ: [(u64, u32, u16); 3] = [
    (HEADER, 16, 0),
    (DATA, 512, WRITABLE),
    (STATUS, 1, WRITABLE),
];
const WRITE: [(u64, u32, u16); 3] = [(HEADER, 16, 0), (DATA, 512, 0), (STATUS, 1, WRITABLE)];

#[test]
fn the_driver_reads_what_it_wrote() {
    for event_loop in [Loop::Epoll, Loop::Poll] {
        let mut guest = Guest::new(event_loop);
        let mut capacity = [0; 8];
        guest.device.read_config(0, &mut capacity);
        assert_eq!(u64::from_le_bytes(capacity), SECTORS);
        guest.header(0, 5);
        assert_eq!(guest.request(&READ), 0);
        assert_eq!(guest.data(), [5; 512]);
        guest
            .memory
            .write_slice(&[0xab; 512], GuestAddress(DATA))
            .unwrap();
        guest.header(1, 6);
        assert_eq!(guest.request(&WRITE), 0);
        guest
            .memory
            .write_slice(&[0; 512], GuestAddress(DATA))
            .unwrap();
        guest.header(0, 6);
        assert_eq!(guest.request(&READ), 0);
        assert_eq!(guest.data(), [0xab; 512]);
    }
}

#[test]
fn mistakes_of_the_driver_are_its_own() {
    let mut guest = Guest::new(Loop::Epoll);
    guest.header(0, SECTORS);
    assert_eq!(guest.request(&READ), 1, "behind the end");
    guest.header(0, u64::MAX / 2);
    assert_eq!(guest.request(&READ), 1, "far behind it");
    guest.header(77, 0);
    assert_eq!(guest.request(&READ), 2, "of no known kind");
    guest.header(0, 0);
    let outside = [
        (HEADER, 16, 0),
        (0x1000, 512, WRITABLE),
        (STATUS, 1, WRITABLE),
    ];
    assert_eq!(guest.request(&outside), 1, "no memory");
    let short = [(HEADER, 8, 0), (STATUS, 1, WRITABLE)];
    assert_eq!(guest.request(&short), 1, "half a header");
    guest.header(0, 3);
    assert_eq!(guest.request(&READ), 0, "and it goes on");
    assert_eq!(guest.data(), [3; 512]);
}

/// The real program, which can be killed.
fn process(folder: &Path) -> (Child, PathBuf) {
    let socket = folder.join("socket");
    let child = Command::new(env!("CARGO_BIN_EXE_trapless-backend"))
        .args(["blk", "--socket"])
        .arg(&socket)
        .arg("--disk")
        .arg(folder.join("disk"))
        .spawn()
        .unwrap();
    (child, socket)
}

#[test]
fn a_back_end_goes_on_where_the_one_before_has_ended() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.as_path().join("disk"), [9; 512]).unwrap();
    let memory = ram::allocate(1 << 20, Kind::Shared).unwrap();
    let (mut first, socket) = process(folder.as_path());
    let mut device = device(&socket, &memory);
    let ring = MockSplitQueue::create(&memory, GuestAddress(map::RAM_BASE), SIZE);
    let parts = [
        Descriptor::new(HEADER, 16, CHAINED, 1),
        Descriptor::new(DATA, 512, CHAINED | WRITABLE, 2),
        Descriptor::new(STATUS, 1, WRITABLE, 0),
    ];
    ring.build_desc_chain(&parts.map(RawDescriptor::from))
        .unwrap();
    let queue: Queue = ring.create_queue().unwrap();
    let used = GuestAddress(queue.used_ring() + 2);
    device.activate(device.features() | 1 << 32);
    device.start(&[queue]).unwrap();
    assert!(signalled(&device.events().call), "the first answers");
    first.kill().unwrap();
    first.wait().unwrap();
    // Made available while there is no back end.
    ring.avail().ring().ref_at(1).unwrap().store(u16::to_le(0));
    ring.avail().idx().store(u16::to_le(2));
    device.events().kick(0);
    memory.write_obj(0xff_u8, GuestAddress(STATUS)).unwrap();
    let (mut second, _) = process(folder.as_path());
    device.adopt(connect(&socket)).unwrap();
    let end = Instant::now() + PATIENCE;
    while memory.read_obj::<u16>(used).unwrap() != 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(memory.read_obj::<u16>(used).unwrap(), 2, "each once");
    assert_eq!(memory.read_obj::<u8>(GuestAddress(STATUS)).unwrap(), 0);
    assert!(
        signalled(&device.events().call),
        "and the guest is notified"
    );
    second.kill().unwrap();
    second.wait().unwrap();
    // Another disk is not the same device.
    std::fs::write(folder.as_path().join("disk"), [9; 1024]).unwrap();
    let (mut third, _) = process(folder.as_path());
    let refused = device.adopt(connect(&socket));
    third.kill().unwrap();
    third.wait().unwrap();
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("another disk"), "{error}");
}

#[test]
fn a_socket_without_listener_is_a_user_error() {
    let nowhere = Path::new("/nonexistent/socket");
    let nowhere = Connection::open(user::Kind::Block, nowhere, Duration::ZERO);
    let error = nowhere.map(|_| ()).unwrap_err();
    assert_eq!(error.code(), 2);
    assert!(
        error.to_string().contains("trapless-backend blk"),
        "{error}"
    );
}

/// A guest that promises requests which are not there must not keep its back end for ever.
#[test]
fn an_index_out_of_reach_is_a_broken_queue() {
    let folder = TempDir::new().unwrap();
    let path = folder.as_path().join("disk");
    std::fs::write(&path, [0; 512]).unwrap();
    let memory = ram::allocate(1 << 20, Kind::Shared).unwrap();
    let ring = MockSplitQueue::create(&memory, GuestAddress(map::RAM_BASE), SIZE);
    let queue: Queue = ring.create_queue().unwrap();
    ring.avail().idx().store(u16::to_le(SIZE + 1));
    let disk = Disk::open(&path, false).unwrap();
    let mut requests = Requests::new(Arc::new(memory.clone()), queue, disk);
    assert_eq!(requests.serve(true), Err(Broken));
    assert_eq!(requests.serve(false), Ok(Calls::NONE));
}

/// A driver can add requests as fast as they are served: others have their turn, and it is
/// interrupted, before all of them are.
#[test]
fn a_turn_ends() {
    let folder = TempDir::new().unwrap();
    let path = folder.as_path().join("disk");
    std::fs::write(&path, [0; 512]).unwrap();
    let memory = ram::allocate(1 << 20, Kind::Shared).unwrap();
    let many = 2 * TURN as u16;
    let ring = MockSplitQueue::create(&memory, GuestAddress(map::RAM_BASE), many);
    let queue: Queue = ring.create_queue().unwrap();
    let used = GuestAddress(queue.used_ring() + 2);
    let parts = [Descriptor::new(STATUS, 1, WRITABLE, 0)];
    ring.build_desc_chain(&parts.map(RawDescriptor::from))
        .unwrap();
    for place in 0..many {
        let entry = ring.avail().ring().ref_at(place.into()).unwrap();
        entry.store(u16::to_le(0));
    }
    ring.avail().idx().store(u16::to_le(many - 1));
    let disk = Disk::open(&path, false).unwrap();
    let mut requests = Requests::new(Arc::new(memory.clone()), queue, disk);
    assert_eq!(requests.serve(true), Ok(Calls::FIRST | Calls::MORE));
    assert_eq!(memory.read_obj::<u16>(used).unwrap(), TURN as u16);
    assert_eq!(requests.serve(true), Ok(Calls::FIRST));
    assert_eq!(memory.read_obj::<u16>(used).unwrap(), many - 1);
}
