//! Two guests on the cable of `trapless-backend net`, with drivers made by hand: what one sends the
//! other receives, and no more than it has room for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trapless_devices::virtio::VirtioDevice;
use trapless_vmm::backend::cli::{Cpu, Loop, Net, Waiting};
use trapless_vmm::backend::direction::{Direction, End};
use trapless_vmm::backend::net;
use trapless_vmm::backend::service::{Broken, Service};
use trapless_vmm::devices::virtio::vhost::queues::ServedElsewhere;
use trapless_vmm::devices::virtio::vhost::user::{self, Connection, VhostUser};
use trapless_vmm::guest::ram::{self, Kind};
use trapless_vmm::map;
use virtio_queue::desc::RawDescriptor;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::mock::MockSplitQueue;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::tempdir::TempDir;

const SIZE: u16 = 16;
const HEADER: usize = 12;
const WRITABLE: u16 = 2;
const CHAINED: u16 = 1;
/// Where each queue has its rings, and where buffers are.
const QUEUES: [u64; 2] = [map::RAM_BASE, map::RAM_BASE + 0x8000];
const BUFFERS: u64 = map::RAM_BASE + 0x1_0000;

/// Buffers: offset from [`BUFFERS`], bytes. Each inner list is a frame.
type Chains<'a> = &'a [&'a [(u64, u32)]];

struct Guest {
    memory: GuestMemoryMmap,
    device: VhostUser,
    /// Where its used rings are.
    used: [u64; 2],
}

impl Guest {
    fn new(socket: &Path) -> Self {
        let memory = ram::allocate(1 << 20, Kind::Shared).unwrap();
        let kind = user::Kind::Net([2, 0, 0, 0, 0, 1]);
        let connection = Connection::open(kind, socket, Duration::from_secs(2)).unwrap();
        let device = VhostUser::new(kind, connection, Arc::new(memory.clone())).unwrap();
        Self {
            memory,
            device,
            used: [0; 2],
        }
    }

    fn queue(&self, number: usize, chains: Chains<'_>, flags: u16) -> Queue {
        let at = GuestAddress(QUEUES[number]);
        let ring = MockSplitQueue::create(&self.memory, at, SIZE);
        let mut descriptors = Vec::new();
        for chain in chains {
            for (n, &(offset, len)) in chain.iter().enumerate() {
                let more = if n + 1 < chain.len() { CHAINED } else { 0 };
                let next = descriptors.len() as u16 + 1;
                let one = Descriptor::new(BUFFERS + offset, len, flags | more, next);
                descriptors.push(RawDescriptor::from(one));
            }
        }
        ring.add_desc_chains(&descriptors, 0).unwrap();
        ring.create_queue().unwrap()
    }

    /// Starts with buffers to receive into, and frames to send.
    fn start(&mut self, receive: Chains<'_>, send: Chains<'_>) {
        let queues = [self.queue(0, receive, WRITABLE), self.queue(1, send, 0)];
        self.used = [0, 1].map(|number| queues[number].used_ring());
        self.device.activate(self.device.features() | 1 << 32);
        self.device.start(&queues).unwrap();
    }

    /// Number of chains of a queue that have been used.
    fn used(&self, number: usize) -> u16 {
        let index = GuestAddress(self.used[number] + 2);
        self.memory.read_obj(index).unwrap()
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.memory
            .write_slice(bytes, GuestAddress(BUFFERS + offset))
            .unwrap();
    }

    fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory
            .read_slice(&mut bytes, GuestAddress(BUFFERS + offset))
            .unwrap();
        bytes
    }
}

fn cable(folder: &Path, event_loop: Loop) -> [PathBuf; 2] {
    let sockets = ["a", "b"].map(|name| folder.join(name));
    let options = Net {
        socket: sockets.to_vec(),
        waiting: Waiting {
            event_loop,
            cpu: Cpu::Thread,
            populate: true,
        },
    };
    std::thread::spawn(move || net::serve(&options));
    sockets
}

/// Within two seconds?
fn soon(mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(2);
    while !condition() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// A header and a frame of `len` bytes of this value.
fn frame(value: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes.resize(HEADER + len, value);
    bytes
}

#[test]
fn what_one_sends_the_other_receives() {
    for event_loop in [Loop::Epoll, Loop::Poll] {
        let folder = TempDir::new().unwrap();
        let [a, b] = cable(folder.as_path(), event_loop);
        let (mut a, mut b) = (Guest::new(&a), Guest::new(&b));
        // Pieces that end at different places.
        a.write(0, &frame(1, 100));
        a.write(0x1000, &frame(2, 60));
        b.write(0x1000, &frame(3, 1500));
        b.start(&[&[(0, 40), (0x800, 200)]], &[&[(0x1000, 1512)]]);
        a.start(
            &[&[(0x2000, 1512)]],
            &[&[(0, 70), (70, 42)], &[(0x1000, 72)]],
        );
        assert!(soon(|| a.used(0) == 1 && b.used(0) == 1), "{event_loop:?}");
        let header = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        assert_eq!(b.read(0, HEADER), header);
        assert_eq!(b.read(HEADER as u64, 28), [1; 28]);
        assert_eq!(b.read(0x800, 72), [1; 72]);
        assert_eq!(b.read(0x848, 10), [0; 10], "and no more");
        assert_eq!(a.read(0x2000 + HEADER as u64, 1500), [3; 1500]);
        assert!(b.device.events().call.read().is_ok(), "an interrupt");
        assert_eq!(a.used(1), 1, "the second waits for a buffer");
        // A receiver that comes again has one.
        b.device.reset();
        b.start(&[&[(0, 1512)]], &[]);
        assert!(soon(|| a.used(1) == 2), "{event_loop:?}");
        assert_eq!(b.read(HEADER as u64, 60), [2; 60]);
    }
}

#[test]
fn what_is_no_frame_is_dropped() {
    let folder = TempDir::new().unwrap();
    let [a, b] = cable(folder.as_path(), Loop::Epoll);
    let (mut a, mut b) = (Guest::new(&a), Guest::new(&b));
    a.write(0x1000, &frame(7, 64));
    b.start(&[&[(0, 100)]], &[]);
    a.start(
        &[],
        &[
            // Half a header; no memory; longer than the buffer; the last arrives.
            &[(0, 6)],
            &[(1 << 30, 64)],
            &[(0, 113)],
            &[(0x1000, 76)],
        ],
    );
    assert!(soon(|| a.used(1) == 4));
    assert!(soon(|| b.used(0) == 1));
    assert_eq!(b.read(HEADER as u64, 64), [7; 64]);
}

#[test]
fn a_cable_has_two_ends() {
    for socket in [vec!["a"], vec!["a", "a"], vec!["a", "b", "c"]] {
        let options = Net {
            socket: socket.into_iter().map(PathBuf::from).collect(),
            waiting: Waiting {
                event_loop: Loop::Epoll,
                cpu: Cpu::Thread,
                populate: true,
            },
        };
        let error = net::serve(&options).unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("twice"), "{error}");
    }
}

/// Neither end must keep the cable, which is the other's, too.
#[test]
fn an_index_out_of_reach_is_a_broken_queue() {
    let memory = Arc::new(ram::allocate(1 << 20, Kind::Shared).unwrap());
    let end = |at: u64, index: u16| {
        let ring = MockSplitQueue::create(&*memory, GuestAddress(at), SIZE);
        let queue: Queue = ring.create_queue().unwrap();
        ring.avail().idx().store(u16::to_le(index));
        End::new(Arc::clone(&memory), queue)
    };
    for [from, to] in [[SIZE + 1, 1], [1, SIZE + 1], [SIZE + 1, SIZE + 1]] {
        let mut direction = Direction::new(end(QUEUES[0], from), end(QUEUES[1], to));
        assert_eq!(direction.serve(true), Err(Broken), "{from} {to}");
    }
}
