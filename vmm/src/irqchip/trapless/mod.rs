//! Xtrapless for one guest: its interrupt sources, and the ways an interrupt takes into the guest.
//!
//! ```text
//! device, in any thread --- SourceLine::set --> ugenvsei          no system call; the thread holds a grant
//!                                           \-> write of an irqfd one system call; KVM injects
//!                                           \-> KVM_IRQ_LINE      one system call; a thread without a grant
//! completion by the guest, controller lowers the line --> resample irqfd --> Chip::resampled
//! guest's SBI call --> Chip::route --> KVM device attribute --> source table
//! ```
//!
//! The names are those of the specification (`spec/`) and of `linux/include/uapi/linux/kvm_trapless.h`. This module
//! knows no system call, so that it is tested on any host; [`Port`] is what it needs of KVM.

#[cfg(target_arch = "riscv64")]
pub mod kvm;
pub mod uapi;

use crate::kvm::exit::Injections;
use std::io;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use trapless_devices::{IrqLine, StateError, StateReader, StateWriter};
use trapless_isa::xtrapless;

/// Sources of a guest: enough for all devices and 32 of the test device.
pub const SOURCES: u16 = 63;

/// Priority of every source; a guest that wants to order them has `vsthreshold` for it.
const PRIORITY: u64 = 1;

/// How a source interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Each event makes it pending once.
    Edge,
    /// Pending again at completion while the line is high.
    Level,
    /// Completion lowers the line and asks the device whether it should be high.
    Resample,
}

impl Kind {
    /// Entry of the source table for KVM: priority, kind and vhart.
    pub fn entry(self, vhart: u16) -> u64 {
        use xtrapless::source as entry;
        let kind = match self {
            Self::Edge => 0,
            Self::Level => entry::ENTRY_LEVEL,
            Self::Resample => entry::ENTRY_LEVEL | entry::ENTRY_RESAMPLE,
        };
        kind | PRIORITY << entry::ENTRY_PRIO_SHIFT | u64::from(vhart) << entry::ENTRY_VHART_SHIFT
    }

    /// Second cell of `interrupts` in the device tree (`IRQ_TYPE_EDGE_RISING`, `IRQ_TYPE_LEVEL_HIGH`).
    pub fn trigger_cell(self) -> u32 {
        match self {
            Self::Edge => 1,
            Self::Level | Self::Resample => 4,
        }
    }
}

/// How the VMM injects.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By the instruction, without a system call
    Ugenvsei,
    /// By writing an eventfd that KVM turns into an interrupt, level lines with resampling
    Irqfd,
    /// By KVM_IRQ_LINE
    Ioctl,
}

/// Operations on a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Make an edge source pending.
    Edge,
    /// Drive a level line high.
    Assert,
    /// Drive a level line low.
    Deassert,
}

impl Op {
    /// Operand of `ugenvsei`.
    pub fn operand(self, source: u16) -> u64 {
        let op = match self {
            Self::Edge => xtrapless::op::EDGE,
            Self::Assert => xtrapless::op::ASSERT,
            Self::Deassert => xtrapless::op::DEASSERT,
        };
        op << xtrapless::ugenvsei::OP_SHIFT | u64::from(source) << xtrapless::ugenvsei::ID_SHIFT
    }
}

/// The system's side of a [`Chip`].
pub trait Port: Send + Sync {
    /// Lets the calling thread execute `ugenvsei` for all sources of this guest; `false` if KVM refuses.
    fn take_grant(&self) -> bool;
    /// Gives the calling thread's grant back.
    fn return_grant(&self);
    /// Whether the calling thread may execute `ugenvsei` for this guest.
    fn granted(&self) -> bool;
    /// Executes `ugenvsei`. Only called if [`Port::granted`].
    fn ugenvsei(&self, operand: u64);
    /// `KVM_IRQ_LINE`.
    fn irq_line(&self, source: u16, high: bool) -> io::Result<()>;
    /// Creates the eventfds of a source and hands them to KVM.
    fn add_irqfd(&self, source: u16, resample: bool) -> io::Result<()>;
    /// Writes the eventfd of a source.
    fn write_irqfd(&self, source: u16) -> io::Result<()>;
    /// Descriptor that becomes readable when a [`Kind::Resample`] source was completed.
    fn resample_fd(&self, source: u16) -> Option<RawFd>;
    /// Takes the notification off that descriptor; `false` if there is none.
    fn take_resample(&self, source: u16) -> bool;
    /// Sets an attribute of the KVM device.
    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()>;
    /// Reads an attribute of the KVM device.
    fn get(&self, group: u32, attribute: u64) -> io::Result<u64>;
}

/// What the VMM did for interrupts, since the guest's start.
#[derive(Default, Debug)]
pub struct Counters {
    /// Executions of `ugenvsei`.
    pub ugenvsei: AtomicU64,
    /// Writes of an irqfd.
    pub irqfd: AtomicU64,
    /// Calls of `KVM_IRQ_LINE`.
    pub ioctl: AtomicU64,
    /// Threads that took a grant.
    pub grants: AtomicU64,
    /// Resample notifications received; reading one is a system call.
    pub resampled: AtomicU64,
    /// Sources routed for the guest.
    pub routed: AtomicU64,
    /// Injections that the system refused.
    pub failed: AtomicU64,
}

impl Counters {
    /// The numbers now.
    pub fn totals(&self) -> Injections {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Injections {
            ugenvsei: load(&self.ugenvsei),
            irqfd: load(&self.irqfd),
            ioctl: load(&self.ioctl),
            resampled: load(&self.resampled),
            routed: load(&self.routed),
            grants: load(&self.grants),
            failed: load(&self.failed),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[derive(Clone, Copy, Debug)]
struct Configured {
    kind: Kind,
    way: Way,
}

struct Source {
    configured: OnceLock<Configured>,
    /// The level the device drives, whatever way it takes to the guest.
    level: AtomicBool,
    /// What its device does when the guest has completed it; without: the level the device drives is asserted again.
    on_resample: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The controller of one guest.
pub struct Chip {
    port: Box<dyn Port>,
    vharts: u16,
    /// By number; entry 0 is not used.
    sources: Vec<Source>,
    /// While set, lines only remember their level: their state in the controller is being restored.
    quiet: AtomicBool,
    /// What was done.
    pub counters: Counters,
}

impl Chip {
    /// A controller for `vharts` vCPUs without any source.
    pub fn new(port: Box<dyn Port>, vharts: u16) -> Self {
        let source = || Source {
            configured: OnceLock::new(),
            level: AtomicBool::new(false),
            on_resample: OnceLock::new(),
        };
        Self {
            port,
            vharts,
            sources: (0..=SOURCES).map(|_| source()).collect(),
            quiet: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    fn source(&self, number: u16) -> Option<(&Source, Configured)> {
        let source = self.sources.get(usize::from(number))?;
        Some((source, *source.configured.get()?))
    }

    /// Adds a source, routed to vhart 0.
    ///
    /// # Errors
    /// What KVM said.
    ///
    /// # Panics
    /// If the number is not in 1..=[`SOURCES`] or taken: the numbers are fixed, so this is a bug of the VMM.
    pub fn add(self: &Arc<Self>, number: u16, kind: Kind, way: Way) -> io::Result<SourceLine> {
        assert!((1..=SOURCES).contains(&number), "source {number}");
        let configured = Configured { kind, way };
        let fresh = self.sources[usize::from(number)].configured.set(configured);
        assert!(fresh.is_ok(), "source {number} is taken");
        self.port
            .set(uapi::GRP_SOURCE, number.into(), kind.entry(0))?;
        // Resample notifications need an irqfd even if it is never written.
        if way == Way::Irqfd || kind == Kind::Resample {
            self.port.add_irqfd(number, kind == Kind::Resample)?;
        }
        Ok(SourceLine {
            chip: Arc::clone(self),
            number,
        })
    }

    /// Numbers of all sources there are.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + '_ {
        (1..=SOURCES).filter(|&number| self.source(number).is_some())
    }

    /// Kind of a source, if there is one.
    pub fn kind(&self, number: u16) -> Option<Kind> {
        self.source(number).map(|(_, configured)| configured.kind)
    }

    /// Routes a source to a vhart; `false` if there is no such source or vhart, or KVM refuses.
    pub fn route(&self, source: u64, vhart: u64) -> bool {
        let known = u16::try_from(source)
            .ok()
            .and_then(|number| self.source(number));
        let (Some((_, configured)), Ok(vhart)) = (known, u16::try_from(vhart)) else {
            return false;
        };
        let entry = configured.kind.entry(vhart);
        let done = vhart < self.vharts && self.port.set(uapi::GRP_SOURCE, source, entry).is_ok();
        if done {
            count(&self.counters.routed);
        }
        done
    }

    /// One operation by the way of the source, or by `KVM_IRQ_LINE` if the thread lacks a grant.
    fn inject(&self, number: u16, way: Way, op: Op) {
        let done = match (way, op) {
            // An irqfd only raises; completion lowers the line.
            (Way::Irqfd, Op::Deassert) => Ok(()),
            (Way::Irqfd, _) => {
                count(&self.counters.irqfd);
                self.port.write_irqfd(number)
            }
            (Way::Ugenvsei, _) if self.port.granted() => {
                count(&self.counters.ugenvsei);
                self.port.ugenvsei(op.operand(number));
                Ok(())
            }
            (Way::Ugenvsei | Way::Ioctl, _) => {
                count(&self.counters.ioctl);
                self.port.irq_line(number, op != Op::Deassert)
            }
        };
        if done.is_err() {
            count(&self.counters.failed);
        }
    }

    /// Lets the calling thread inject without system calls until the result is dropped.
    pub fn grant(self: &Arc<Self>) -> Grant {
        if self.port.take_grant() {
            count(&self.counters.grants);
        }
        Grant {
            chip: Arc::clone(self),
            thread: PhantomData,
        }
    }

    /// Descriptor to watch for a [`Kind::Resample`] source.
    pub fn resample_fd(&self, number: u16) -> Option<RawFd> {
        self.port.resample_fd(number)
    }

    /// To be called when the descriptor of [`Chip::resample_fd`] is readable: the guest has completed the source,
    /// which lowered its line.
    pub fn resampled(&self, number: u16) {
        if !self.port.take_resample(number) {
            return;
        }
        count(&self.counters.resampled);
        self.ask_device(number);
    }

    /// The line is low: raises it again if the device wants it high.
    fn ask_device(&self, number: u16) {
        let Some((source, configured)) = self.source(number) else {
            return;
        };
        match source.on_resample.get() {
            Some(device) => device(),
            None if source.level.load(Ordering::SeqCst) => {
                self.inject(number, configured.way, Op::Assert);
            }
            None => {}
        }
    }
}

/// Words of a vCPU's file that are saved.
fn words() -> impl Iterator<Item = u64> {
    (0..uapi::VCPU_WORDS).chain([uapi::VCPU_SOFT, uapi::VCPU_THRESHOLD])
}

fn file_word(vhart: u16, word: u64) -> u64 {
    u64::from(vhart) << 16 | word
}

/// Save and restore. The vCPUs do not run, and nobody injects.
impl Chip {
    /// Lets devices handle completions that are under way, so that their state and the controller's belong together.
    ///
    /// # Errors
    /// What KVM said.
    pub fn settle(&self) -> io::Result<()> {
        self.port.set(uapi::GRP_CTRL, uapi::CTRL_SYNC, 0)?;
        self.numbers().for_each(|number| self.resampled(number));
        Ok(())
    }

    /// Appends the state of the controller.
    ///
    /// # Errors
    /// What KVM said.
    pub fn save(&self, to: &mut StateWriter) -> io::Result<()> {
        let numbers: Vec<u16> = self.numbers().collect();
        to.number(numbers.len() as u64);
        for number in numbers {
            to.number(number);
            to.number(self.port.get(uapi::GRP_SOURCE, number.into())?);
            to.number(self.port.get(uapi::GRP_LINE, number.into())?);
        }
        for vhart in 0..self.vharts {
            for word in words() {
                to.number(self.port.get(uapi::GRP_VCPU, file_word(vhart, word))?);
            }
        }
        Ok(())
    }

    /// From now on lines remember their level, but do not pass it on; until [`Chip::restore`].
    pub fn hush(&self) {
        self.quiet.store(true, Ordering::SeqCst);
    }

    /// Takes over a state, after the devices have driven their lines.
    ///
    /// # Errors
    /// A sentence.
    pub fn restore(&self, from: &mut StateReader<'_>) -> Result<(), String> {
        let bad = |e: StateError| format!("the saved interrupt controller {e}");
        let refused = |e: io::Error| format!("KVM refuses the saved interrupt controller: {e}");
        let set = |group, attribute, value| self.port.set(group, attribute, value).map_err(refused);
        let saved: usize = from.number().map_err(bad)?;
        if saved != self.numbers().count() {
            return Err("the saved guest has other interrupt sources; use the same options".into());
        }
        let mut lines = Vec::new();
        for _ in 0..saved {
            let number: u16 = from.number().map_err(bad)?;
            let entry: u64 = from.number().map_err(bad)?;
            let high = from.flag().map_err(bad)?;
            let kind = self.kind(number).ok_or_else(|| {
                "the saved guest has other interrupt sources; use the same options".to_string()
            })?;
            // The kind is what this VMM's way of injecting needs, the rest is what the guest chose.
            let vhart = (entry & xtrapless::source::ENTRY_VHART) as u16;
            if vhart >= self.vharts {
                return Err(bad(StateError("names a vCPU that does not exist")));
            }
            set(uapi::GRP_SOURCE, number.into(), kind.entry(vhart))?;
            if kind != Kind::Edge {
                set(uapi::GRP_LINE, number.into(), high.into())?;
                lines.push((number, high));
            }
        }
        // Last, because a line that goes high makes its source pending, which it was perhaps not.
        for vhart in 0..self.vharts {
            for word in words() {
                let value = from.number().map_err(bad)?;
                set(uapi::GRP_VCPU, file_word(vhart, word), value)?;
            }
        }
        self.quiet.store(false, Ordering::SeqCst);
        // An injection or the notification of a completion was under way: the device decides.
        for (number, high) in lines {
            let level = self
                .source(number)
                .is_some_and(|(source, _)| source.level.load(Ordering::SeqCst));
            match (level, high) {
                (true, false) => self.ask_device(number),
                (false, true) => self.inject(number, Way::Ioctl, Op::Deassert),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A thread's right to execute `ugenvsei`. Stays in its thread.
pub struct Grant {
    chip: Arc<Chip>,
    thread: PhantomData<*const ()>,
}

impl Drop for Grant {
    fn drop(&mut self) {
        let _ = self.thread;
        self.chip.port.return_grant();
    }
}

/// The wire of a device to its source. One device drives it, under the device's lock.
pub struct SourceLine {
    chip: Arc<Chip>,
    number: u16,
}

impl SourceLine {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.chip.kind(self.number).unwrap_or(Kind::Level)
    }

    /// Makes an edge source pending.
    pub fn pulse(&self) {
        if let Some((_, configured)) = self.chip.source(self.number) {
            self.chip.inject(self.number, configured.way, Op::Edge);
        }
    }

    /// Calls `device` when the guest has completed the source; its line is low then.
    pub fn on_resample(&self, device: Box<dyn Fn() + Send + Sync>) {
        if let Some((source, _)) = self.chip.source(self.number) {
            let _ = source.on_resample.set(device);
        }
    }

    /// Notes that the controller has lowered the line.
    pub fn lowered(&self) {
        if let Some((source, _)) = self.chip.source(self.number) {
            source.level.store(false, Ordering::SeqCst);
        }
    }

    /// Lowers the line in the controller even if its way cannot.
    pub fn force_low(&self) {
        self.lowered();
        self.chip.inject(self.number, Way::Ugenvsei, Op::Deassert);
    }
}

impl IrqLine for SourceLine {
    fn set(&self, high: bool) {
        let Some((source, configured)) = self.chip.source(self.number) else {
            return;
        };
        // Devices repeat levels; only changes are worth an instruction.
        let changed = source.level.swap(high, Ordering::SeqCst) != high;
        if changed && !self.chip.quiet.load(Ordering::SeqCst) {
            let op = if high { Op::Assert } else { Op::Deassert };
            self.chip.inject(self.number, configured.way, op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// KVM and the controller, as far as a chip sees them.
    #[derive(Default)]
    struct Model {
        granted: bool,
        /// Everything done, in order.
        log: Vec<String>,
        attributes: BTreeMap<(u32, u64), u64>,
        resample: Vec<u16>,
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
            self.model().attributes.insert((group, attribute), value);
            Ok(())
        }
        fn get(&self, group: u32, attribute: u64) -> io::Result<u64> {
            let model = self.model();
            Ok(*model.attributes.get(&(group, attribute)).unwrap_or(&0))
        }
    }

    fn chip() -> (Mock, Arc<Chip>) {
        let mock = Mock::default();
        let chip = Arc::new(Chip::new(Box::new(mock.clone()), 2));
        (mock, chip)
    }

    #[test]
    fn only_changes_are_injected_by_instruction_under_a_grant_else_by_ioctl() {
        let (mock, chip) = chip();
        let line = chip.add(10, Kind::Level, Way::Ugenvsei).unwrap();
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

    #[test]
    fn a_resampled_line_is_raised_again_while_its_device_wants_it() {
        let (mock, chip) = chip();
        let line = chip.add(1, Kind::Resample, Way::Irqfd).unwrap();
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

    #[test]
    fn a_guest_routes_only_what_exists() {
        let (mock, chip) = chip();
        let _line = chip.add(32, Kind::Edge, Way::Ugenvsei).unwrap();
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
            .map(|n| saved.add(n, Kind::Level, Way::Ugenvsei).unwrap())
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
            .map(|n| fresh.add(n, Kind::Resample, Way::Irqfd).unwrap())
            .into();
        mock.take_log();
        fresh.hush();
        // As the devices see it: source 2 was lowered after its completion was under way, source 3 was about to rise.
        lines[0].set(true);
        lines[2].set(true);
        assert!(mock.take_log().is_empty());
        fresh.restore(&mut StateReader::new(&state)).unwrap();
        let get = |group, attribute| mock.get(group, attribute).unwrap();
        assert_eq!(get(uapi::GRP_SOURCE, 2), Kind::Resample.entry(1));
        assert_eq!(get(uapi::GRP_VCPU, file_word(1, 0)), 1 << 2);
        assert_eq!(get(uapi::GRP_VCPU, file_word(1, uapi::VCPU_SOFT)), 1);
        assert_eq!(mock.take_log(), ["line 2 false", "irqfd 3"]);
        assert_eq!([1, 2, 3].map(|n| get(uapi::GRP_LINE, n)), [1, 0, 1]);
        lines[0].set(false);
        lines[0].set(true);
        assert_eq!(mock.take_log(), ["irqfd 1"]);

        // A device whose line was completed without its knowledge is asked, and does not want it high any more.
        let asked = Arc::new(AtomicBool::new(false));
        let hook = Arc::clone(&asked);
        lines[2].on_resample(Box::new(move || hook.store(true, Ordering::SeqCst)));
        fresh.hush();
        fresh.restore(&mut StateReader::new(&state)).unwrap();
        assert!(asked.load(Ordering::SeqCst));
        assert!(!mock.take_log().contains(&"irqfd 3".to_string()));

        for len in (0..state.len()).step_by(8) {
            let cut = fresh.restore(&mut StateReader::new(&state[..len]));
            assert!(cut.unwrap_err().contains("cut off"), "{len}");
        }
    }
}
