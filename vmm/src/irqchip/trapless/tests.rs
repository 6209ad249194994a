//! Xtrapless against a model of KVM and the controller.

use crate::irqchip::controller::InterruptController;
use crate::irqchip::messages::Message;
use crate::irqchip::options::Injection;
use crate::irqchip::trapless::chip::Chip;
use crate::irqchip::trapless::controller::Controller;
use crate::irqchip::trapless::line::Line;
use crate::irqchip::trapless::port::Port;
use crate::irqchip::trapless::source::entry;
use crate::irqchip::trapless::state::file_word;
use crate::irqchip::trapless::uapi;
use crate::irqchip::wire::{Kind, Wire};
use crate::kvm::sbi;
use crate::map;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trapless_devices::{IrqLine, StateReader, StateWriter};
use vmm_sys_util::eventfd::EventFd;

/// KVM and the controller, as far as a chip sees them.
#[derive(Default)]
struct Model {
    granted: bool,
    /// Everything done, in order.
    log: Vec<String>,
    attributes: BTreeMap<(u32, u64), u64>,
    resample: Vec<u16>,
    /// KVM can have wires drive sources.
    wires: bool,
}

#[derive(Clone, Default)]
struct Mock(Arc<Mutex<Model>>);

impl Mock {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.model().log)
    }

    fn line(&self, source: u16, high: bool) {
        let key = (uapi::GRP_LINE, source.into());
        self.model().attributes.insert(key, high.into());
    }
}

impl Port for Mock {
    fn lend_irqfd(&self, source: u16, _: &EventFd) -> io::Result<()> {
        self.model().log.push(format!("lend {source}"));
        Ok(())
    }
    fn take_back(&self, source: u16, _: &EventFd) -> io::Result<()> {
        self.model().log.push(format!("take {source}"));
        Ok(())
    }
    fn lend_resampled(&self, source: u16, _: &EventFd, _: &EventFd) -> io::Result<()> {
        self.model().log.push(format!("lend {source}"));
        Ok(())
    }
    fn take_grant(&self) -> bool {
        self.model().granted = true;
        true
    }
    fn return_grant(&self) {
        self.model().granted = false;
    }
    fn granted(&self) -> bool {
        self.model().granted
    }
    fn ugenvsei(&self, operand: u64) {
        assert!(self.granted(), "SIGILL");
        self.model().log.push(format!("ugenvsei {operand:#x}"));
    }
    fn irq_line(&self, source: u16, high: bool) -> io::Result<()> {
        self.line(source, high);
        self.model().log.push(format!("line {source} {high}"));
        Ok(())
    }
    fn add_irqfd(&self, source: u16, resample: bool) -> io::Result<()> {
        self.model().log.push(format!("add {source} {resample}"));
        Ok(())
    }
    fn write_irqfd(&self, source: u16) -> io::Result<()> {
        self.line(source, true);
        self.model().log.push(format!("irqfd {source}"));
        Ok(())
    }
    fn resample_fd(&self, _: u16) -> Option<RawFd> {
        None
    }
    fn take_resample(&self, source: u16) -> bool {
        let mut model = self.model();
        let before = model.resample.len();
        model.resample.retain(|&pending| pending != source);
        model.resample.len() < before
    }
    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()> {
        if group == uapi::GRP_WIRE && !self.model().wires {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.model().attributes.insert((group, attribute), value);
        Ok(())
    }
    fn get(&self, group: u32, attribute: u64) -> io::Result<u64> {
        let model = self.model();
        Ok(*model.attributes.get(&(group, attribute)).unwrap_or(&0))
    }
}

fn chip() -> (Mock, Arc<Chip>) {
    chip_with(false)
}

fn chip_with(messages: bool) -> (Mock, Arc<Chip>) {
    let mock = Mock::default();
    let chip = Arc::new(Chip::new(Box::new(mock.clone()), 2, messages));
    (mock, chip)
}

#[test]
fn only_changes_are_injected_by_instruction_under_a_grant_else_by_ioctl() {
    let (mock, chip) = chip();
    let line = Line::connect(&chip, 10, Kind::Level, Injection::Ugenvsei).unwrap();
    assert_eq!(mock.get(uapi::GRP_SOURCE, 10).unwrap(), 1 << 32 | 1 << 16);
    line.set(false);
    line.set(true);
    line.set(true);
    let grant = chip.grant();
    line.set(false);
    line.set(true);
    drop(grant);
    line.set(false);
    let expected = [
        "line 10 true",
        "ugenvsei 0x200000000000000a",
        "ugenvsei 0x100000000000000a",
        "line 10 false",
    ];
    assert_eq!(mock.take_log(), expected);
    let totals = chip.counters.totals();
    assert_eq!((totals.ugenvsei, totals.ioctl, totals.grants), (2, 2, 1));
}

/// What a shadow of registers needs: the line is not lowered between two events.
#[test]
fn an_edge_triggered_line_injects_each_event() {
    let (mock, chip) = chip();
    let line = Line::connect(&chip, 10, Kind::Edge, Injection::Ugenvsei).unwrap();
    let grant = chip.grant();
    line.set(true);
    line.set(true);
    line.set(false);
    drop(grant);
    let edge = "ugenvsei 0xa";
    assert_eq!(mock.take_log(), [edge, edge]);
}

#[test]
fn a_resampled_line_is_raised_again_while_its_device_wants_it() {
    let (mock, chip) = chip();
    let line = Line::connect(&chip, 1, Kind::Resample, Injection::Irqfd).unwrap();
    line.set(true);
    chip.resampled(1);
    assert_eq!(mock.take_log(), ["add 1 true", "irqfd 1"], "not completed");
    mock.model().resample.push(1);
    chip.resampled(1);
    line.set(false);
    mock.model().resample.push(1);
    chip.resampled(1);
    assert_eq!(mock.take_log(), ["irqfd 1"]);
}

/// Promise: a source that a wire of the host drives looks at it after completions, and is routed
/// like others; where KVM has no such wires no source is left, so that it can be relayed.
#[test]
fn a_wire_drives_a_level_sensitive_source_or_none() {
    const LEVEL: u64 = 1 << 32 | 1 << 16;
    let (mock, chip) = chip();
    let event = EventFd::new(0).unwrap();
    assert!(!chip.drive_by(12, &event).unwrap());
    assert_eq!(mock.get(uapi::GRP_SOURCE, 12).unwrap(), 0);
    assert!(!chip.route(12, 1));
    chip.resample_by(12, &event, &event).unwrap();
    mock.model().wires = true;
    assert!(chip.drive_by(13, &event).unwrap());
    assert_eq!(mock.get(uapi::GRP_SOURCE, 13).unwrap(), LEVEL);
    let wire = mock.get(uapi::GRP_WIRE, 13).unwrap();
    assert_eq!(wire, event.as_raw_fd() as u64);
    assert!(chip.route(13, 1));
    assert_eq!(mock.get(uapi::GRP_SOURCE, 13).unwrap(), LEVEL | 1);
    assert_eq!(mock.take_log(), ["lend 12"]);
}

/// Promise: a source that others assert needs nothing of this process, and is routed like others.
#[test]
fn a_lent_source_is_resampled_without_this_process() {
    let (mock, chip) = chip();
    let controller = Controller::new(chip, Injection::Ugenvsei);
    let event = || EventFd::new(libc::EFD_NONBLOCK).unwrap();
    assert!(controller.resample_by(28, &event(), &event()).unwrap());
    assert_eq!(mock.take_log(), ["lend 28"]);
    let entry = entry(Kind::Resample, 0);
    assert_eq!(mock.get(uapi::GRP_SOURCE, 28).unwrap(), entry);
    assert!(controller.watches().is_empty());
    let to = [28, 1, 0, 0, 0, 0];
    let routed = controller.sbi_call(uapi::SBI_EXT, 0, &to);
    assert_eq!(routed, Some((sbi::SUCCESS, 0)));
}

/// Promise: a message is an edge of the source that its word names, if that is one for messages;
/// all others are refused, and a guest without a PCI host has none.
#[test]
fn messages_name_sources_and_no_others_than_theirs() {
    let (mock, chip) = chip_with(true);
    let controller = Controller::new(chip, Injection::Ugenvsei);
    let messages = controller.messages().unwrap().messages;
    let message = |address, data| Message { address, data };
    for (address, data) in [
        (map::MESSAGES_BASE, 63),
        (map::MESSAGES_BASE, 1024),
        (map::MESSAGES_BASE, 1 << 16 | 64),
        (map::MESSAGES_BASE + 4, 64),
    ] {
        assert!(messages.add(message(address, data)).is_err(), "{data}");
    }
    let args = [70, 1, 0, 0, 0, 0];
    let routed = controller.sbi_call(uapi::SBI_EXT, 0, &args);
    assert_eq!(routed, Some((sbi::SUCCESS, 0)), "before it has a message");
    let event = EventFd::new(libc::EFD_NONBLOCK).unwrap();
    let first = messages.add(message(map::MESSAGES_BASE, 70)).unwrap();
    assert_eq!(
        mock.get(uapi::GRP_SOURCE, 70).unwrap(),
        entry(Kind::Edge, 1)
    );
    messages.attach(first, &event).unwrap();
    let next = message(map::MESSAGES_BASE, 1023);
    let next = messages.change(first, next, Some(&event)).unwrap();
    messages.detach(next, &event).unwrap();
    let expected = ["lend 70", "take 70", "lend 1023", "take 1023"];
    assert_eq!(mock.take_log(), expected);
    let without = self::controller(Injection::Ugenvsei);
    assert!(without.messages().is_none());
    let routed = without.sbi_call(uapi::SBI_EXT, 0, &args);
    assert_eq!(routed, Some((sbi::ERR_INVALID_PARAM, 0)));
}

#[test]
fn a_guest_routes_only_what_exists() {
    let (mock, chip) = chip();
    let _line = Line::connect(&chip, 32, Kind::Edge, Injection::Ugenvsei).unwrap();
    for (source, vhart) in [(33, 0), (0, 0), (32, 2), (1 << 32 | 32, 0), (32, u64::MAX)] {
        assert!(!chip.route(source, vhart), "{source} to {vhart}");
    }
    assert!(chip.route(32, 1));
    assert_eq!(mock.get(uapi::GRP_SOURCE, 32).unwrap(), 1 << 16 | 1);
}

#[test]
fn a_restored_chip_has_routes_files_and_lines_and_catches_up_with_devices() {
    let (mock, saved) = chip();
    let lines: Vec<_> = [1, 2, 3]
        .map(|n| Line::connect(&saved, n, Kind::Level, Injection::Ugenvsei).unwrap())
        .into();
    assert!(saved.route(2, 1));
    lines[0].set(true);
    lines[1].set(true);
    mock.set(uapi::GRP_VCPU, file_word(1, 0), 1 << 2).unwrap();
    mock.set(uapi::GRP_VCPU, file_word(1, uapi::VCPU_SOFT), 1)
        .unwrap();
    let mut writer = StateWriter::default();
    saved.save(&mut writer).unwrap();
    let state = writer.into_bytes();

    // In another process, with another way of injecting.
    let (mock, fresh) = chip();
    let lines: Vec<_> = [1, 2, 3]
        .map(|n| Line::connect(&fresh, n, Kind::Resample, Injection::Irqfd).unwrap())
        .into();
    mock.take_log();
    fresh.hush();
    // As the devices see it: source 2 was lowered after its completion was under way, source 3 was
    // about to rise.
    lines[0].set(true);
    lines[2].set(true);
    assert!(mock.take_log().is_empty());
    fresh.restore(&mut StateReader::new(&state)).unwrap();
    let get = |group, attribute| mock.get(group, attribute).unwrap();
    assert_eq!(get(uapi::GRP_SOURCE, 2), entry(Kind::Resample, 1));
    assert_eq!(get(uapi::GRP_VCPU, file_word(1, 0)), 1 << 2);
    assert_eq!(get(uapi::GRP_VCPU, file_word(1, uapi::VCPU_SOFT)), 1);
    assert_eq!(mock.take_log(), ["line 2 false", "irqfd 3"]);
    assert_eq!([1, 2, 3].map(|n| get(uapi::GRP_LINE, n)), [1, 0, 1]);
    lines[0].set(false);
    lines[0].set(true);
    assert_eq!(mock.take_log(), ["irqfd 1"]);

    // A device whose line was completed without its knowledge is asked, and does not want it high
    // any more.
    let called = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&called);
    lines[2].on_completion(Box::new(move || hook.store(true, Ordering::SeqCst)));
    fresh.hush();
    fresh.restore(&mut StateReader::new(&state)).unwrap();
    assert!(called.load(Ordering::SeqCst));
    assert!(!mock.take_log().contains(&"irqfd 3".to_string()));

    for len in (0..state.len()).step_by(8) {
        let cut = fresh.restore(&mut StateReader::new(&state[..len]));
        assert!(cut.unwrap_err().contains("cut off"), "{len}");
    }
}

/// A controller without KVM, for tests of what uses one.
pub(crate) fn controller(way: Injection) -> Controller {
    Controller::new(chip().1, way)
}

/// The same with sources for messages.
pub(crate) fn controller_with_messages() -> Controller {
    Controller::new(chip_with(true).1, Injection::Ugenvsei)
}

#[test]
fn routing_is_found_by_probing_and_checks_its_arguments() {
    let controller = controller(Injection::Ugenvsei);
    controller.connect(32, Kind::Edge, None).unwrap();
    let call = |extension, function, args: [u64; 2]| {
        controller.sbi_call(extension, function, &[args[0], args[1], 0, 0, 0, 0])
    };
    let ext = uapi::SBI_EXT;
    assert_eq!(call(sbi::BASE, sbi::BASE_PROBE, [ext, 0]), Some((0, 1)));
    assert_eq!(call(ext, 0, [32, 1]), Some((sbi::SUCCESS, 0)));
    assert_eq!(call(ext, 0, [32, 2]), Some((sbi::ERR_INVALID_PARAM, 0)));
    assert_eq!(call(ext, 1, [32, 1]), None);
    assert_eq!(call(sbi::BASE, sbi::BASE_PROBE, [0x0900_0000, 0]), None);
}

#[test]
fn a_level_source_never_depends_on_an_irqfd_alone_to_go_low() {
    let (mock, chip) = chip();
    let controller = Controller::new(chip, Injection::Irqfd);
    assert_eq!(controller.features().device_kind, Kind::Resample);
    let line = controller.connect(5, Kind::Level, None).unwrap();
    line.set(true);
    line.set(false);
    assert_eq!(mock.take_log(), ["line 5 true", "line 5 false"]);
}
