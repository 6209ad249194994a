//! A function that remembers translations, before an agent that a test plays.

mod rig;

use rig::{Agent, RAM, Rig, agent::to};
use trapless_devices::ats::{GroupResponse, Invalidation, Message, ResponseCode, Translation};
use trapless_devices::{DeviceId, MmioDevice, Persist, StateReader, StateWriter};
use trapless_pci::{EndpointTest, Host};
use vm_memory::{Bytes, GuestAddress};

const REGISTERS: u64 = 0x4000_0000;
const COMMAND: u64 = REGISTERS + 0x04;
const STATUS: u64 = REGISTERS + 0x08;
const COPY: u64 = 1 << 5;
const COPIED: u64 = 1 << 4;
const NO_SOURCE: u64 = 1 << 5 | 1 << 7;
/// Registers of the extended capabilities.
const ATS_CONTROL: u64 = 0x106;
const PRI_CONTROL: u64 = 0x10c;
const PRI_STATUS: u64 = 0x10e;
const PRI_ALLOCATION: u64 = 0x114;
const STOPPED: u64 = 1 << 8;
const SOURCE: u64 = 0x5000;
const TO: u64 = RAM + 0x8000;

fn plug(host: &mut Host) {
    host.plug(|at| Box::new(EndpointTest::new(at.memory, Box::new(()))));
}

fn place(rig: &mut Rig) {
    rig.set_config(1, 0x10, 4, REGISTERS);
    rig.set_config(1, 4, 2, 6);
}

/// A function with ATS, whose agent knows where it writes.
fn rig() -> Rig {
    let mut rig = Rig::with(plug);
    let _ = rig.system.agent.set(Agent::default());
    tell(&rig, TO, to(TO, 0x1000, true));
    place(&mut rig);
    rig.set_config(1, ATS_CONTROL, 2, 1 << 15);
    rig
}

/// Lets the function ask for a page.
fn allow(rig: &mut Rig) {
    rig.set_config(1, PRI_ALLOCATION, 4, 1);
    rig.set_config(1, PRI_CONTROL, 2, 1);
}

fn agent(rig: &Rig) -> &Agent {
    rig.system.agent.get().unwrap()
}

fn tell(rig: &Rig, page: u64, what: Translation) {
    agent(rig).told.lock().unwrap().insert(page, what);
}

fn forget(rig: &Rig, page: u64) {
    agent(rig).told.lock().unwrap().remove(&page);
}

/// Begins to copy eight bytes from an address; answers the status.
fn copy(rig: &mut Rig, from: u64) -> u64 {
    for (at, value) in [(0x0c, from), (0x14, TO), (0x1c, 8)] {
        rig.store(REGISTERS + at, 8, value);
    }
    rig.store(COMMAND, 4, COPY);
    status(rig)
}

fn status(rig: &mut Rig) -> u64 {
    rig.load(STATUS, 4) & !(1 << 6)
}

fn send(rig: &mut Rig, device: u32, message: Message) {
    let messages = &agent(rig).messages;
    messages
        .lock()
        .unwrap()
        .push_back((DeviceId(device), message));
    assert!(rig.host.needs_poll());
    rig.host.poll();
    assert!(!rig.host.needs_poll());
}

fn invalidate(rig: &mut Rig, process: Option<u32>, first: u64, last: u64) {
    let what = Invalidation {
        tag: 7,
        process,
        global: false,
        first,
        last,
    };
    send(rig, 8, Message::Invalidate(what));
    let completed = std::mem::take(&mut *agent(rig).completed.lock().unwrap());
    assert_eq!(completed.len(), 1);
    assert_eq!(
        (completed[0].device.0, completed[0].tags, completed[0].count),
        (8, 1 << 7, 1)
    );
}

fn respond(rig: &mut Rig, group: u16, code: ResponseCode) {
    let answer = GroupResponse {
        process: None,
        group,
        code,
    };
    send(rig, 8, Message::Respond(answer));
}

/// Pages that the function has asked for since.
fn asked(rig: &Rig) -> Vec<u64> {
    let asked = std::mem::take(&mut *agent(rig).asked.lock().unwrap());
    asked.into_iter().map(|(page, _)| page).collect()
}

/// Promise: the capabilities are found one after the other, and say what there is.
#[test]
fn capabilities_are_linked() {
    let mut rig = rig();
    assert_eq!(rig.config(1, 0x100, 4), 0x1081_000f);
    assert_eq!(rig.config(1, 0x104, 2), 1 << 5);
    assert_eq!(rig.config(1, 0x108, 4), 0x0001_0013);
    assert_eq!(rig.config(1, 0x110, 4), 1);
    rig.set_config(1, PRI_STATUS, 2, 0xffff);
    assert_eq!(rig.config(1, PRI_STATUS, 2), STOPPED);
    rig.set_config(1, PRI_CONTROL, 2, 0xffff);
    assert_eq!(
        (rig.config(1, PRI_CONTROL, 2), rig.config(1, PRI_STATUS, 2)),
        (1, 0)
    );
}

/// Promise: a function asks once for what it uses, as long as it has room and is not told to
/// forget; a range is forgotten if any byte of it is named.
#[test]
fn translations_are_remembered() {
    let mut rig = rig();
    for page in [SOURCE, SOURCE + 0x1000] {
        tell(&rig, page, to(RAM + 0x4000, 0x2000, false));
    }
    rig.ram
        .write_obj(0x77_u64, GuestAddress(RAM + 0x5008))
        .unwrap();
    // It is told of the range that the address is in, so the source is in the second half of it.
    assert_eq!(copy(&mut rig, SOURCE + 8), COPIED);
    assert_eq!(rig.ram.read_obj::<u64>(GuestAddress(TO)).unwrap(), 0x77);
    assert_eq!(asked(&rig), [SOURCE, TO]);
    for _ in 0..3 {
        assert_eq!(copy(&mut rig, 0x4010), COPIED);
    }
    assert!(asked(&rig).is_empty());
    invalidate(&mut rig, None, 0x6000, TO - 1);
    invalidate(&mut rig, Some(3), 0, u64::MAX);
    assert_eq!(copy(&mut rig, SOURCE), COPIED);
    assert!(asked(&rig).is_empty());
    invalidate(&mut rig, None, 0x4000, 0x4fff);
    assert_eq!(copy(&mut rig, SOURCE), COPIED);
    assert_eq!(asked(&rig), [SOURCE]);
    invalidate(&mut rig, None, 0, u64::MAX);
    assert_eq!(copy(&mut rig, SOURCE), COPIED);
    assert_eq!(asked(&rig), [SOURCE, TO]);
    // Disabled it remembers nothing, and asks nobody.
    rig.set_config(1, ATS_CONTROL, 2, 0);
    assert_eq!(copy(&mut rig, RAM), COPIED);
    assert!(asked(&rig).is_empty());
    // It says that it has forgotten all the same.
    invalidate(&mut rig, None, 0, 0xfff);
    let what = Invalidation {
        tag: 9,
        process: None,
        global: false,
        first: 0,
        last: 0xfff,
    };
    for nobody in [0, 9, 16, 0x1_0008] {
        send(&mut rig, nobody, Message::Invalidate(what));
    }
    assert_eq!(*agent(&rig).timed_out.lock().unwrap(), [9; 4]);
    rig.set_config(1, ATS_CONTROL, 2, 1 << 15);
    assert_eq!(copy(&mut rig, SOURCE), COPIED);
    assert_eq!(asked(&rig), [SOURCE, TO]);
    // Of what only untranslated requests reach, only the right is remembered.
    let only = Translation {
        untranslated_only: true,
        ..to(0, 0x1000, true)
    };
    tell(&rig, RAM, only);
    agent(&rig).used.lock().unwrap().clear();
    for _ in 0..2 {
        assert_eq!(copy(&mut rig, RAM + 8), COPIED);
    }
    assert_eq!(*agent(&rig).used.lock().unwrap(), [TO; 2]);
    assert_eq!(asked(&rig), [RAM]);
    // More than there is room for.
    for n in 0..40 {
        tell(&rig, n << 20, to(RAM, 0x1000, true));
        assert_eq!(copy(&mut rig, n << 20), COPIED);
    }
    asked(&rig);
    copy(&mut rig, 39 << 20);
    copy(&mut rig, 0);
    assert_eq!(asked(&rig)[0], 0);
}

/// Promise: a page that is not there is asked for if software allows that; answers that nobody
/// waits for, and failures, are shown until software clears them.
#[test]
fn pages_are_asked_for() {
    let mut rig = rig();
    assert_eq!(copy(&mut rig, SOURCE), NO_SOURCE);
    assert_eq!(agent(&rig).wishes.lock().unwrap().len(), 0);
    rig.set_config(1, PRI_CONTROL, 2, 1);
    assert_eq!(copy(&mut rig, SOURCE), NO_SOURCE, "none is allowed");
    allow(&mut rig);
    assert_eq!(copy(&mut rig, SOURCE + 8), 0);
    let wish = agent(&rig).wishes.lock().unwrap()[0];
    assert_eq!((wish.device.0, wish.address, wish.group), (8, SOURCE, 0));
    assert!(wish.last && wish.read && !wish.write);
    respond(&mut rig, 5, ResponseCode::Success);
    assert_eq!((status(&mut rig), rig.config(1, PRI_STATUS, 2)), (0, 2));
    rig.set_config(1, PRI_STATUS, 2, 1);
    assert_eq!(rig.config(1, PRI_STATUS, 2), 2);
    rig.set_config(1, PRI_STATUS, 2, 2);
    assert_eq!(rig.config(1, PRI_STATUS, 2), 0);
    // It may still not be there.
    respond(&mut rig, 0, ResponseCode::Success);
    assert_eq!(status(&mut rig), 0);
    tell(&rig, SOURCE, to(RAM, 0x1000, false));
    respond(&mut rig, 1, ResponseCode::Success);
    assert_eq!(status(&mut rig), COPIED);
    forget(&rig, TO);
    invalidate(&mut rig, None, TO, TO);
    assert_eq!(copy(&mut rig, SOURCE), 0);
    assert!(agent(&rig).wishes.lock().unwrap()[2].write);
    respond(&mut rig, 2, ResponseCode::InvalidRequest);
    assert_eq!(status(&mut rig), 1 << 5 | 1 << 8);
    assert_eq!(copy(&mut rig, SOURCE), 0);
    respond(&mut rig, 3, ResponseCode::Failure);
    assert_eq!(
        (status(&mut rig), rig.config(1, PRI_STATUS, 2)),
        (1 << 5 | 1 << 8, 1)
    );
    // It asks no more until that is cleared.
    assert_eq!(copy(&mut rig, SOURCE), 1 << 5 | 1 << 8);
    rig.set_config(1, PRI_STATUS, 2, 1);
    assert_eq!(copy(&mut rig, SOURCE), 0);
    assert_eq!(agent(&rig).wishes.lock().unwrap().len(), 5);
    // Another command is carried out without; its answer is still to come.
    assert_eq!(copy(&mut rig, SOURCE), 1 << 5 | 1 << 8);
    respond(&mut rig, 4, ResponseCode::Failure);
    assert_eq!(
        (status(&mut rig), rig.config(1, PRI_STATUS, 2)),
        (1 << 5 | 1 << 8, 1)
    );
    // Enabled again, nothing of that is left.
    rig.set_config(1, PRI_CONTROL, 2, 0);
    rig.set_config(1, PRI_CONTROL, 2, 1);
    assert_eq!(rig.config(1, PRI_STATUS, 2), 0);
    assert_eq!(copy(&mut rig, SOURCE), 0);
}

/// Promise: a function whose requests are switched off stops when the last one has been answered,
/// or is given up by a reset, which ends the transfer.
#[test]
fn requests_are_switched_off() {
    let mut rig = rig();
    allow(&mut rig);
    assert_eq!(copy(&mut rig, SOURCE), 0);
    rig.set_config(1, PRI_CONTROL, 2, 0);
    assert_eq!((status(&mut rig), rig.config(1, PRI_STATUS, 2)), (0, 0));
    tell(&rig, SOURCE, to(RAM, 0x1000, false));
    respond(&mut rig, 0, ResponseCode::Success);
    assert_eq!(
        (status(&mut rig), rig.config(1, PRI_STATUS, 2)),
        (COPIED, STOPPED)
    );
    allow(&mut rig);
    assert_eq!(copy(&mut rig, 0x3000), 0);
    rig.set_config(1, PRI_CONTROL, 2, 3);
    assert_eq!(
        (status(&mut rig), rig.config(1, PRI_CONTROL, 2)),
        (0, 1),
        "not while it is on"
    );
    rig.set_config(1, PRI_CONTROL, 2, 2);
    assert_eq!(
        (status(&mut rig), rig.config(1, PRI_STATUS, 2)),
        (NO_SOURCE, STOPPED)
    );
}

/// Promise: a function asks for the page that it wants now, and only as bus master.
#[test]
fn the_page_is_that_of_the_last_access() {
    let mut rig = rig();
    allow(&mut rig);
    assert_eq!(copy(&mut rig, SOURCE), 0);
    respond(&mut rig, 0, ResponseCode::InvalidRequest);
    assert_eq!(status(&mut rig), NO_SOURCE);
    rig.set_config(1, 4, 2, 2);
    assert_eq!(copy(&mut rig, 0x9000), NO_SOURCE);
    rig.set_config(1, 4, 2, 6);
    assert_eq!(copy(&mut rig, 0x9000), 0);
    let wishes = agent(&rig).wishes.lock().unwrap();
    assert!(wishes.iter().map(|wish| wish.address).eq([SOURCE, 0x9000]));
}

/// Promise: one poll passes on a bounded number of messages, however many there are.
#[test]
fn messages_are_passed_on_some_at_a_time() {
    let mut rig = rig();
    let answer = GroupResponse {
        process: None,
        group: 0,
        code: ResponseCode::Success,
    };
    let many = (0..40).map(|_| (DeviceId(8), Message::Respond(answer)));
    agent(&rig).messages.lock().unwrap().extend(many);
    for left in [24, 8, 0] {
        assert!(rig.host.needs_poll());
        rig.host.poll();
        assert_eq!(agent(&rig).messages.lock().unwrap().len(), left);
    }
    assert!(!rig.host.needs_poll());
}

/// Promise: an agent that calls every page there does not keep a function busy for ever.
#[test]
fn answers_at_once_are_not_believed_for_ever() {
    let mut rig = rig();
    allow(&mut rig);
    *agent(&rig).answer.lock().unwrap() = Some(ResponseCode::Success);
    assert_eq!(copy(&mut rig, SOURCE), NO_SOURCE);
    assert_eq!(agent(&rig).wishes.lock().unwrap().len(), 8);
    *agent(&rig).answer.lock().unwrap() = Some(ResponseCode::InvalidRequest);
    assert_eq!(copy(&mut rig, SOURCE), NO_SOURCE);
    assert_eq!(agent(&rig).wishes.lock().unwrap().len(), 9);
}

/// Promise: a checkpoint holds what the function remembers, and what it waits for; after a reset
/// there is nothing of that.
#[test]
fn it_is_saved_and_reset() {
    let mut rig = rig();
    allow(&mut rig);
    tell(&rig, 0x3000, to(RAM, 0x1000, false));
    assert_eq!(copy(&mut rig, 0x3000), COPIED);
    assert_eq!(copy(&mut rig, SOURCE), 0);
    respond(&mut rig, 5, ResponseCode::Success);
    asked(&rig);
    let mut state = StateWriter::default();
    rig.host.save(&mut state);
    let state = state.into_bytes();
    rig.renew(plug);
    rig.host.restore(&mut StateReader::new(&state)).unwrap();
    assert_eq!(
        rig.config(1, PRI_STATUS, 2),
        2,
        "nobody waited for the answer"
    );
    tell(&rig, SOURCE, to(RAM, 0x1000, false));
    respond(&mut rig, 0, ResponseCode::Success);
    assert_eq!(status(&mut rig), COPIED);
    assert_eq!(asked(&rig), [SOURCE]);
    assert_eq!(copy(&mut rig, 0x3000), COPIED);
    assert!(asked(&rig).is_empty());
    for cut in 0..state.len().min(3000) {
        rig.renew(plug);
        let restored = rig.host.restore(&mut StateReader::new(&state[..cut]));
        assert!(restored.is_err(), "{cut}");
    }
    rig.renew(plug);
    rig.host.restore(&mut StateReader::new(&state)).unwrap();
    let express = rig.capability(1, 0x10, 0);
    rig.set_config(1, express + 8, 2, 0x8000);
    place(&mut rig);
    assert_eq!(rig.config(1, ATS_CONTROL, 2), 0);
    assert_eq!(copy(&mut rig, 0x3000), NO_SOURCE, "no translation");
    rig.set_config(1, ATS_CONTROL, 2, 1 << 15);
    respond(&mut rig, 0, ResponseCode::Success);
    assert_eq!(rig.config(1, PRI_STATUS, 2), STOPPED | 2);
    assert_eq!(copy(&mut rig, 0x3000), COPIED);
    assert_eq!(asked(&rig), [0x3000, TO]);
}
