//! The device with level-triggered wires, and a guest that behaves or does not.

use crate::bus::BusDevice;
use crate::devices::test_device::device::TestDevice;
use crate::devices::test_device::registers::{
    ACK, BURST, CONTROL, COUNT, ERRORS, INTERVAL, PAGE_HIGH, PAGE_LOW,
};
use crate::irqchip::plic;
use crate::irqchip::wire::{Kind, Wire};
use crate::map;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trapless_devices::{GuestRam, IrqLine};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const PAGE: u64 = map::RAM_BASE + 0x1000;

/// A level wire that also counts its rising edges.
#[derive(Clone, Default)]
struct Probe(Arc<(AtomicBool, AtomicU64)>);

impl IrqLine for Probe {
    fn set(&self, high: bool) {
        if !self.0.0.swap(high, Ordering::SeqCst) && high {
            self.0.1.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Wire for Probe {
    fn kind(&self) -> Kind {
        Kind::Level
    }

    fn into_line(self: Box<Self>) -> Box<dyn IrqLine> {
        self
    }
}

fn device(sources: usize) -> (Arc<TestDevice>, Vec<Probe>, Arc<GuestRam>) {
    let range = [(GuestAddress(map::RAM_BASE), 1 << 20)];
    let ram = Arc::new(GuestMemoryMmap::from_ranges(&range).unwrap());
    let probes = vec![Probe::default(); sources]
        .iter()
        .map(|_| Probe::default())
        .collect::<Vec<_>>();
    let wires = probes.iter().map(|p| Box::new(p.clone()) as _);
    let device = TestDevice::start(&ram, wires.collect(), &plic::unconnected()).unwrap();
    device.resume();
    (device, probes, ram)
}

fn write(device: &TestDevice, offset: u64, value: u32) {
    BusDevice::write(device, offset, &value.to_le_bytes());
}

fn read(device: &TestDevice, offset: u64) -> u32 {
    let mut data = [0; 4];
    BusDevice::read(device, offset, &mut data);
    u32::from_le_bytes(data)
}

fn until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never happened");
        std::thread::yield_now();
    }
}

#[test]
fn every_interrupt_is_numbered_and_the_line_follows_the_counters() {
    let (device, probes, ram) = device(3);
    write(&device, PAGE_LOW, PAGE as u32);
    write(&device, COUNT, 100);
    write(&device, BURST, 4);
    write(&device, CONTROL, 1);
    let at = |index: u64, offset| GuestAddress(PAGE + 64 * index + offset);
    for index in 0..3u64 {
        for handled in 1..=100u64 {
            let sent = || ram.load::<u64>(at(index, 0), Ordering::SeqCst).unwrap();
            until(|| sent() >= handled && probes[index as usize].0.0.load(Ordering::SeqCst));
            assert!(sent() < handled + 4, "ran ahead");
            ram.store(handled, at(index, 8), Ordering::Release).unwrap();
            write(&device, ACK, index as u32);
        }
    }
    until(|| read(&device, CONTROL) == 0);
    assert!(probes.iter().all(|p| !p.0.0.load(Ordering::SeqCst)));
    assert_eq!(read(&device, ERRORS), 0);
    device.quit();
}

#[test]
fn stop_lowers_lines_and_pause_holds_the_counters() {
    let (device, probes, ram) = device(1);
    write(&device, PAGE_LOW, PAGE as u32);
    write(&device, BURST, 8);
    write(&device, INTERVAL, 1_000_000);
    write(&device, CONTROL, 1);
    let sent = || {
        let sent = ram.load::<u64>(GuestAddress(PAGE), Ordering::SeqCst);
        sent.unwrap()
    };
    until(|| sent() == 1);
    device.pause();
    let before = sent();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(sent(), before);
    assert_eq!(read(&device, CONTROL), 1);
    device.resume();
    assert!(probes[0].0.0.load(Ordering::SeqCst));
    write(&device, CONTROL, 0);
    assert!(!probes[0].0.0.load(Ordering::SeqCst));
    device.quit();
}

#[test]
fn hostile_values_are_harmless() {
    let (device, _, ram) = device(1);
    for page in [0, 1, PAGE + 8, !0xfff] {
        write(&device, PAGE_LOW, page as u32);
        write(&device, PAGE_HIGH, (page >> 32) as u32);
        write(&device, CONTROL, 1);
        assert_eq!(read(&device, CONTROL), 0, "{page:#x}");
    }
    write(&device, PAGE_LOW, PAGE as u32);
    write(&device, PAGE_HIGH, 0);
    ram.store(u64::MAX, GuestAddress(PAGE + 8), Ordering::SeqCst)
        .unwrap();
    write(&device, ACK, u32::MAX);
    write(&device, CONTROL, 1);
    until(|| read(&device, ERRORS) == 1);
    until(|| read(&device, CONTROL) == 0);
    device.quit();
}
