//! A device that shares itself (SR-IOV) as software finds it: virtual functions that appear, answer
//! where the capability says, reach memory under their own IDs, and go.

mod rig;

use rig::{BUFFER, Rig, entropy};
use trapless_devices::{DeviceId, MmioDevice, Persist, StateReader, StateWriter};
use trapless_pci::virtio::VirtioPci;
use trapless_pci::{Function, Host};

/// Where the tests put the BARs of virtual functions.
const MSIX: u64 = 0x4010_0000;
const VIRTIO: u64 = 0x4_0010_0000;
/// The capability, and registers in it.
const SRIOV: u64 = 0x100;
const CONTROL: u64 = SRIOV + 8;
const COUNT: u64 = SRIOV + 0x10;
/// Virtual functions exist, and answer.
const EXIST: u64 = 1 | 1 << 3;

fn plug(host: &mut Host) {
    host.plug_shared(3, |at| {
        let functions = at.into_iter().enumerate().map(|(n, at)| {
            assert_eq!(at.device, DeviceId(8 + n as u32));
            let function = VirtioPci::new(entropy(), at.memory, Box::new(()));
            Box::new(match n {
                0 => function.with_virtual_functions(),
                _ => function,
            }) as Box<dyn Function>
        });
        functions.collect()
    });
}

fn rig() -> Rig {
    Rig::with(plug)
}

/// Places the BARs of virtual functions, and lets two exist.
fn enable(rig: &mut Rig) {
    rig.set_config(1, SRIOV + 0x28, 4, MSIX);
    rig.set_config(1, SRIOV + 0x34, 4, VIRTIO & 0xffff_ffff);
    rig.set_config(1, SRIOV + 0x38, 4, VIRTIO >> 32);
    rig.set_config(1, COUNT, 2, 2);
    rig.set_config(1, CONTROL, 2, EXIST);
}

/// Config space of a function of device 1.
fn space(function: u64, at: u64) -> u64 {
    Rig::space(1, at) + (function << 12)
}

/// Lets a virtual function be bus master, with message `data` for its queue.
fn set_up(rig: &mut Rig, function: u64, data: u64) {
    rig.store(space(function, 4), 2, 4);
    let table = MSIX + (function - 1) * 0x1000;
    rig.store(table + 16, 8, 0x2800_0000);
    rig.store(table + 24, 4, data);
    rig.store(table + 28, 4, 0);
    let msix = rig.load(space(function, 0x34), 1);
    assert_eq!(rig.load(space(function, msix), 1), 0x11);
    rig.store(space(function, msix + 2), 2, 0x8000);
    rig.virtio = VIRTIO + (function - 1) * 0x4000;
    rig.start();
}

fn state(host: &Host) -> Vec<u8> {
    let mut state = StateWriter::default();
    host.save(&mut state);
    state.into_bytes()
}

/// Promise: software finds the capability as the specification has it (9.3.3), and sizes the BARs
/// of virtual functions as any other.
#[test]
fn software_finds_the_capability() {
    let mut rig = rig();
    assert_eq!(rig.config(1, SRIOV, 4), 0x0001_0010);
    for (at, value) in [
        (0xc, 3),
        (0xe, 3),
        (0x14, 1),
        (0x16, 1),
        (0x1a, 0x1044),
        (0x20, 1),
    ] {
        assert_eq!(rig.config(1, SRIOV + at, 2), value, "{at:#x}");
    }
    for at in [0x24, 0x28, 0x34, 0x38] {
        rig.set_config(1, SRIOV + at, 4, 0xffff_ffff);
    }
    let sizes = [0x24, 0x28, 0x34, 0x38].map(|at| rig.config(1, SRIOV + at, 4));
    assert_eq!(sizes, [0, 0xffff_f000, 0xffff_c00c, 0xffff_ffff]);
    rig.enable();
    rig.store(rig.virtio, 4, 1);
    let features = rig.load(rig.virtio + 4, 4);
    assert_eq!(features >> 5 & 1, 1, "VIRTIO_F_SR_IOV");
}

/// Promise: as many functions exist as software says and fit, only while it says so, and their
/// number stays while they exist.
#[test]
fn functions_appear_and_go() {
    let mut rig = rig();
    let identities = |rig: &mut Rig| [1, 2, 3, 4].map(|n| rig.load(space(n, 8), 4) != 0xffff_ffff);
    assert_eq!(identities(&mut rig), [false; 4]);
    enable(&mut rig);
    assert_eq!(identities(&mut rig), [true, true, false, false]);
    assert_eq!(
        rig.load(space(1, 0), 4),
        0xffff_ffff,
        "the capability has them"
    );
    assert_eq!(rig.load(space(2, 0x3d), 1), 0, "no wire");
    rig.set_config(1, COUNT, 2, 3);
    assert_eq!(rig.config(1, COUNT, 2), 2);
    rig.store(space(1, 4), 2, 0xffff);
    assert_eq!(rig.load(space(1, 4), 2), 4, "bus master is all there is");
    rig.set_config(1, CONTROL, 2, 0);
    assert_eq!(identities(&mut rig), [false; 4]);
    rig.set_config(1, COUNT, 2, 0xffff);
    rig.set_config(1, CONTROL, 2, EXIST);
    assert_eq!(identities(&mut rig), [true, true, true, false]);
    assert_eq!(rig.load(space(1, 4), 2), 0, "as after reset");
    assert_eq!(
        rig.load(VIRTIO + 2 * 0x4000 + 0x12, 2),
        1,
        "the third has a queue"
    );
    rig.set_config(1, CONTROL, 2, 1);
    assert_eq!(rig.load(VIRTIO + 0x12, 2), 0xffff, "no memory");
}

/// Promise: each virtual function works by itself, and reaches memory and interrupts under its own
/// ID; a reset of one leaves the others as they are, one of the physical function none.
#[test]
fn functions_are_independent() {
    let mut rig = rig();
    enable(&mut rig);
    for function in [1, 2] {
        set_up(&mut rig, function, 0x70 + function);
        rig.ask(BUFFER);
        let id = 8 + function as u32;
        assert_eq!(rig.messages(), [(id, 0x2800_0000, 0x70 + id - 8)]);
        assert!(rig.accessed().iter().all(|device| *device == id));
    }
    // The second goes on in the middle of a reset of the first.
    let msix = rig.load(space(1, 0x34), 1);
    let express = (0..6).fold(msix, |at, _| match rig.load(space(1, at), 1) {
        0x10 => at,
        _ => rig.load(space(1, at + 1), 1),
    });
    assert_eq!(rig.load(space(1, express + 4), 4) >> 28 & 1, 1, "FLR");
    rig.store(space(1, express + 8), 2, 0x8000);
    assert_eq!(rig.load(space(1, 4), 2), 0);
    assert_eq!(rig.load(VIRTIO + 0x14, 1), 0);
    rig.ask(BUFFER);
    assert_eq!(rig.messages(), [(10, 0x2800_0000, 0x72)]);
    rig.set_config(1, express + 8, 2, 0x8000);
    assert_eq!(rig.config(1, CONTROL, 2), 0);
    assert_eq!(rig.load(VIRTIO + 0x4014, 1), 0xff);
    enable(&mut rig);
    assert_eq!(rig.load(VIRTIO + 0x4014, 1), 0, "as after reset");
}

/// Promise: a device with virtual functions that comes out of a checkpoint goes on.
#[test]
fn a_restored_device_goes_on() {
    let mut rig = rig();
    enable(&mut rig);
    set_up(&mut rig, 2, 5);
    rig.ask(BUFFER);
    let saved = state(&rig.host);
    rig.renew(plug);
    rig.host.restore(&mut StateReader::new(&saved)).unwrap();
    assert_eq!(state(&rig.host), saved);
    rig.messages();
    rig.ask(BUFFER);
    assert_eq!(rig.messages(), [(10, 0x2800_0000, 5)]);
    rig.host.poll();
}
