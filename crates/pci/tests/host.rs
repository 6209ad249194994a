//! The host as software finds it: enumeration, virtio devices behind it, interrupts, reset.

mod rig;

use std::sync::atomic::Ordering::Relaxed;

use rig::{BUFFER, MSIX, RAM, RAM_LEN, Rig, VIRTIO, two_sources};
use trapless_devices::virtio::{DriverFault, QueueIo, VirtioDevice};
use trapless_devices::{MmioDevice, Persist, StateReader, StateWriter};
use trapless_pci::Host;
use trapless_pci::virtio::VirtioPci;
use vm_memory::{Bytes, GuestAddress};

/// Promise: software finds the host bridge and the devices, nothing else, and all that a driver of
/// virtio needs.
#[test]
fn software_finds_what_there_is() {
    let mut rig = Rig::with(two_sources);
    assert_eq!(rig.config(0, 0, 4), 0x0008_1b36);
    assert_eq!(rig.config(0, 0xb, 1), 6, "a bridge");
    for device in [1, 2] {
        assert_eq!(rig.config(device, 0, 4), 0x1044_1af4);
        assert_eq!(rig.config(device, 0x3d, 1), 1, "INTA");
        let kinds: Vec<u64> = (0..5)
            .map(|nth| {
                let at = rig.capability(device, 9, nth);
                rig.config(device, at + 3, 1)
            })
            .collect();
        assert_eq!(kinds, [5, 1, 3, 4, 2]);
        let express = rig.capability(device, 0x10, 0);
        assert_eq!(rig.config(device, express + 4, 4) >> 28 & 1, 1, "FLR");
        let msix = rig.capability(device, 0x11, 0);
        assert_eq!(rig.config(device, msix + 2, 2), 1, "two vectors");
    }
    let ecam = 0x3000_0000;
    let absent = [3 << 15, 1 << 15 | 1 << 12, 1 << 20, 0xfff_fffc];
    assert!(absent.map(|at| rig.load(ecam + at, 4)) == [0xffff_ffff; 4]);
    assert_eq!(rig.config(1, 0x100, 4), 0, "no extended capabilities");
}

/// Promise: a request is answered and told by the message that the driver has set, with the
/// device's ID; without MSI-X by INTx, which reading ISR status ends.
#[test]
fn requests_are_answered_and_told() {
    let mut rig = Rig::with(two_sources);
    rig.enable();
    rig.start();
    rig.ask(BUFFER);
    assert_eq!(rig.used(), 1);
    let bytes = rig.ram.read_obj::<u64>(GuestAddress(BUFFER)).unwrap();
    assert_ne!(bytes, 0);
    // Device 1 has wire 1.
    assert!(rig.wires[1].0.load(Relaxed) && rig.messages().is_empty());
    assert_eq!(rig.config(1, 6, 2) & 8, 8, "status shows INTx");
    rig.set_config(1, 4, 2, 0x406);
    assert!(!rig.wires[1].0.load(Relaxed), "INTx is disabled");
    rig.set_config(1, 4, 2, 6);
    assert!(rig.wires[1].0.load(Relaxed));
    assert_eq!(rig.load(VIRTIO + 0x1000, 1), 1);
    assert!(!rig.wires[1].0.load(Relaxed));
    rig.set_message(0x2800_1000, 0x55);
    rig.ask(BUFFER);
    assert_eq!(rig.messages(), [(8, 0x2800_1000, 0x55)]);
    assert!(!rig.wires[1].0.load(Relaxed));
    assert_eq!(rig.load(VIRTIO + 0x1000, 1), 0);
    let vectors = [1, 2, 0xffff].map(|vector| {
        rig.store(VIRTIO + 0x1a, 2, vector);
        rig.load(VIRTIO + 0x1a, 2)
    });
    assert_eq!(vectors, [1, 0xffff, 0xffff], "vectors that there are");
}

/// Promise: a function that is not bus master writes nothing and interrupts nobody by messages.
/// What it was asked meanwhile it does when it is again, and what was pending is sent.
#[test]
fn only_bus_masters_reach_memory() {
    let mut rig = Rig::with(two_sources);
    rig.enable();
    rig.start();
    rig.set_message(0x2800_1000, 0x55);
    rig.store(MSIX + 28, 4, 1);
    rig.ask(BUFFER);
    rig.set_config(1, 4, 2, 2);
    rig.store(MSIX + 28, 4, 0);
    rig.ask(BUFFER);
    rig.host.poll();
    assert_eq!((rig.used(), rig.messages()), (1, Vec::new()));
    assert_eq!(rig.load(MSIX + 0x800, 4), 2, "pending");
    assert_eq!(rig.load(VIRTIO + 0x14, 1) & 0x40, 0, "nothing is wrong");
    assert!(!rig.host.needs_poll());
    rig.set_config(1, 4, 2, 6);
    assert_eq!(rig.used(), 2);
    assert_eq!(rig.messages(), [(8, 0x2800_1000, 0x55); 2]);
    assert_eq!(rig.load(MSIX + 0x800, 4), 0);
}

/// Always has input of another device.
struct Waiting;

impl VirtioDevice for Waiting {
    fn device_id(&self) -> u32 {
        4
    }

    fn name(&self) -> &'static str {
        "waiting"
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &[u16] {
        &[8]
    }

    fn notify(&mut self, _: usize, _: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        Ok(())
    }

    fn waits(&self) -> bool {
        true
    }
}

/// Promise: a function that has input but is not bus master does not keep the machine awake.
#[test]
fn input_waits_for_bus_masters() {
    let mut rig = Rig::with(|host: &mut Host| {
        host.plug(|at| Box::new(VirtioPci::new(Waiting, at.memory, Box::new(()))));
    });
    rig.enable();
    assert!(!rig.host.needs_poll(), "no driver");
    rig.start();
    assert!(rig.host.needs_poll());
    rig.set_config(1, 4, 2, 2);
    rig.host.poll();
    assert!(!rig.host.needs_poll());
    rig.set_config(1, 4, 2, 6);
    assert!(rig.host.needs_poll());
}

/// Promise: what is refused to the device is not written, and the driver is told.
#[test]
fn refused_accesses_stop_the_device_only() {
    let mut rig = Rig::with(two_sources);
    rig.enable();
    rig.start();
    let guarded = RAM + RAM_LEN - 4;
    rig.ask(guarded);
    assert_eq!(rig.used(), 0);
    assert_eq!(rig.ram.read_obj::<u32>(GuestAddress(guarded)).unwrap(), 0);
    assert_eq!(rig.load(VIRTIO + 0x14, 1) & 0x40, 0x40);
    assert_eq!(rig.load(VIRTIO + 0x1000, 1) & 2, 2, "told");
}

/// Promise: a function level reset leaves nothing of what was set, in the middle of work as well.
#[test]
fn a_reset_leaves_nothing() {
    let mut rig = Rig::with(two_sources);
    rig.enable();
    rig.start();
    rig.ask(BUFFER);
    assert!(rig.wires[1].0.load(Relaxed));
    let express = rig.capability(1, 0x10, 0);
    rig.set_config(1, express + 8, 2, 0x8000);
    assert!(!rig.wires[1].0.load(Relaxed));
    assert_eq!(rig.config(1, 4, 2), 0);
    assert_eq!(rig.config(1, 0x20, 4), 0xc);
    assert_eq!(rig.config(1, express + 8, 2), 0);
    assert_eq!(rig.load(VIRTIO + 0x14, 1), 0xff, "nobody answers");
    rig.enable();
    assert_eq!(rig.load(VIRTIO + 0x14, 1), 0);
    rig.start();
    rig.ask(BUFFER);
    assert_eq!(rig.used(), 1);
}

/// Promise: software reaches BARs through the configuration space, before they are placed as well.
#[test]
fn bars_are_reached_through_the_configuration_space() {
    let mut rig = Rig::with(two_sources);
    let access = rig.capability(1, 9, 0);
    let mut through = |bar: u64, offset: u64, len: u64, value: Option<u64>| {
        rig.set_config(1, access + 4, 1, bar);
        rig.set_config(1, access + 8, 4, offset);
        rig.set_config(1, access + 12, 4, len);
        match value {
            Some(value) => rig.set_config(1, access + 16, 4, value),
            None => return rig.config(1, access + 16, 4),
        }
        0
    };
    assert_eq!(through(4, 0x12, 2, None), 1, "one queue");
    through(4, 0x14, 1, Some(1));
    assert_eq!(through(4, 0x14, 1, None), 1);
    // Nothing answers for impossible accesses.
    for (bar, offset, len) in [(4, 0x13, 2), (9, 0, 4), (4, u64::MAX, 4), (4, 0, 3)] {
        through(bar, offset, len, Some(0));
        through(bar, offset, len, None);
    }
}

/// Promise: where regions overlap, the function with the lowest number answers; no region hides the
/// configuration spaces or lies anywhere but in a window.
#[test]
fn overlapping_regions_have_one_owner() {
    let mut rig = Rig::with(two_sources);
    rig.enable();
    rig.set_config(2, 0x20, 4, VIRTIO & 0xffff_ffff);
    rig.set_config(2, 0x24, 4, VIRTIO >> 32);
    rig.set_config(2, 4, 2, 6);
    rig.store(VIRTIO + 0x14, 1, 1);
    rig.set_config(1, 4, 2, 0);
    assert_eq!(rig.load(VIRTIO + 0x14, 1), 0, "it was device 1 that heard");
    rig.set_config(2, 0x20, 4, 0x3000_0000);
    rig.set_config(2, 0x24, 4, 0);
    assert_eq!(rig.config(0, 0, 4), 0x0008_1b36);
}

/// Promise: a host that comes out of a checkpoint goes on as the saved one would have.
#[test]
fn a_restored_host_goes_on() {
    let mut rig = Rig::with(two_sources);
    rig.enable();
    rig.start();
    rig.ask(BUFFER);
    let save = |host: &Host| {
        let mut state = StateWriter::default();
        host.save(&mut state);
        state.into_bytes()
    };
    let state = save(&rig.host);
    rig.renew(two_sources);
    rig.host.restore(&mut StateReader::new(&state)).unwrap();
    assert_eq!(save(&rig.host), state);
    assert!(rig.wires[1].0.load(Relaxed), "INTx is high again");
    rig.set_message(0x2800_1000, 3);
    rig.ask(BUFFER);
    assert_eq!((rig.used(), rig.messages()), (2, vec![(8, 0x2800_1000, 3)]));
    for cut in 0..state.len() {
        rig.renew(two_sources);
        let cut = &mut StateReader::new(&state[..cut]);
        assert!(rig.host.restore(cut).is_err());
    }
}
