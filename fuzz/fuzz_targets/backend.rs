//! Hostile drivers of devices that `trapless-backend` serves: rings and guest RAM of any content,
//! of a disk and of both ends of a cable.

#![no_main]

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_vmm::backend::direction::{Direction, End};
use trapless_vmm::backend::disk::Disk;
use trapless_vmm::backend::requests::Requests;
use trapless_vmm::backend::service::Service;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const RAM: u64 = 0x8000_0000;
/// Two adjacent regions, so that buffers may cross from one into the other.
const REGION: usize = 0x4000;
const SIZE: u16 = 8;
const AVAIL: u64 = 0x400;
const USED: u64 = 0x800;
/// Flags, index, elements, and the event that a device asks for.
const USED_LEN: usize = 4 + 8 * SIZE as usize + 2;
const BUFFERS: u64 = 0x1000;
const SECTORS: usize = 64;

/// A disk image that every run maps again.
fn image() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let name = format!("trapless-fuzz-disk-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&vec![0; SECTORS * 512]).unwrap();
        path
    })
    .clone()
}

/// Guest RAM with a queue as a driver may have left it.
fn guest(input: &mut Unstructured<'_>) -> Result<(Arc<GuestMemoryMmap>, Queue)> {
    let regions = [
        (GuestAddress(RAM), REGION),
        (GuestAddress(RAM + REGION as u64), REGION),
    ];
    let memory = GuestMemoryMmap::from_ranges(&regions).unwrap();
    for n in 0..SIZE {
        let place = input.int_in_range(0..=0x5000_u64)?;
        let addr = match input.int_in_range(0..=7)? {
            0 => input.arbitrary()?,
            _ => RAM + BUFFERS + place,
        };
        let len = match input.int_in_range(0..=7)? {
            0 => input.arbitrary()?,
            1 => 16,
            2 => 512,
            _ => input.int_in_range(0..=2000)?,
        };
        let flags: u16 = input.int_in_range(0..=7)?;
        let next: u16 = input.int_in_range(0..=SIZE)?;
        let at = RAM + u64::from(n) * 16;
        memory.write_obj(addr, GuestAddress(at)).unwrap();
        memory.write_obj::<u32>(len, GuestAddress(at + 8)).unwrap();
        memory.write_obj(flags, GuestAddress(at + 12)).unwrap();
        memory.write_obj(next, GuestAddress(at + 14)).unwrap();
    }
    let ring: [u16; SIZE as usize] = input.arbitrary()?;
    memory
        .write_obj(
            ring.map(|head| head % (SIZE + 1)),
            GuestAddress(RAM + AVAIL + 4),
        )
        .unwrap();
    let index: u16 = input.int_in_range(0..=SIZE + 1)?;
    memory
        .write_obj(index, GuestAddress(RAM + AVAIL + 2))
        .unwrap();
    // Headers of requests, descriptors behind indirect ones.
    let bytes = input.bytes(input.len().min(256))?;
    memory
        .write_slice(bytes, GuestAddress(RAM + BUFFERS))
        .unwrap();
    let mut queue = Queue::new(SIZE).unwrap();
    queue.set_desc_table_address(Some(RAM as u32), None);
    queue.set_avail_ring_address(Some((RAM + AVAIL) as u32), None);
    queue.set_used_ring_address(Some((RAM + USED) as u32), None);
    queue.set_event_idx(input.arbitrary()?);
    queue.set_ready(true);
    Ok((Arc::new(memory), queue))
}

/// All of a guest's RAM that no device may write when the driver offers nothing to write to.
fn content(memory: &GuestMemoryMmap) -> Vec<u8> {
    let mut all = vec![0; 2 * REGION];
    memory.read_slice(&mut all, GuestAddress(RAM)).unwrap();
    all[USED as usize..][..USED_LEN].fill(0);
    all
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let rearm = input.arbitrary()?;
    if input.arbitrary()? {
        let (memory, queue) = guest(input)?;
        let disk = Disk::open(&image(), input.arbitrary()?).unwrap();
        let mut requests = Requests::new(memory, queue, disk);
        let _ = requests.serve(rearm);
        let _ = requests.serve(rearm);
        return Ok(());
    }
    let (sender, transmit) = guest(input)?;
    let (receiver, receive) = guest(input)?;
    let before = content(&sender);
    let from = End::new(Arc::clone(&sender), transmit);
    let mut direction = Direction::new(from, End::new(receiver, receive));
    let _ = direction.serve(rearm);
    let _ = direction.serve(rearm);
    assert_eq!(
        content(&sender),
        before,
        "frames change nothing of the sender"
    );
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
