//! The test device: numbers its interrupts in a page that it shares with the guest, which counts what arrives.
//!
//! ```text
//! device thread: for each source: sent += 1, then interrupt      (a source runs ahead of `handled` by BURST at most)
//! guest handler: sent > handled? else a duplicate; handled += 1; LEVEL: write the source to ACK
//! ```
//! A source of kind EDGE sends again when the guest has handled the last one. A line of kind LEVEL is high while
//! `sent > handled`, evaluated after each send and each ACK. One of kind RESAMPLE goes low by the completion itself, and
//! the notification of it makes the device evaluate the level.
//!
//! Registers, 32 bits each: ID, SOURCES, PAGE (low, high half), COUNT (interrupts per source, 0: no end), INTERVAL
//! (microseconds between two rounds), BURST, CONTROL (1 starts, 0 stops; reads 1 while the thread sends), ACK, ERRORS, MASK (sources that
//! send, all after reset).
//! The page has an entry of 64 bytes for each source: `sent` at 0, `handled` at 8.

use crate::devices::{BusDevice, Stateful, fill, value};
use crate::irqchip::aia;
use crate::irqchip::trapless::{Chip, Grant, Kind, SourceLine};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use trapless_devices::{GuestRam, IrqLine, StateError, StateReader, StateWriter};
use vm_memory::{Bytes, GuestAddress, GuestMemory, Permissions};

const ID: u64 = 0x00;
const SOURCES: u64 = 0x04;
const PAGE_LOW: u64 = 0x08;
const PAGE_HIGH: u64 = 0x0c;
const COUNT: u64 = 0x10;
const INTERVAL: u64 = 0x14;
const BURST: u64 = 0x18;
const CONTROL: u64 = 0x1c;
const ACK: u64 = 0x20;
const ERRORS: u64 = 0x24;
const MASK: u64 = 0x28;

const ID_VALUE: u32 = 0x5453_5154;
const ENTRY: u64 = 64;
const HANDLED: u64 = 8;
const PAGE_SIZE: u64 = 4096;
const MAX_BURST: u32 = 8;

/// The wire of one source.
pub enum Wire {
    /// A level-triggered wire of any controller.
    Level(Box<dyn IrqLine>),
    /// A source of Xtrapless, of any kind.
    Source(SourceLine),
    /// A source of an APLIC, edge- or level-triggered.
    Aia(aia::Line),
}

impl Wire {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Level(_) => Kind::Level,
            Self::Source(line) => line.kind(),
            Self::Aia(line) => line.kind(),
        }
    }

    fn set(&self, high: bool) {
        match self {
            Self::Level(line) => line.set(high),
            Self::Source(line) => line.set(high),
            Self::Aia(line) => line.set(high),
        }
    }
}

struct Source {
    wire: Wire,
    kind: Kind,
    sent: u64,
    high: bool,
    /// Started and not stopped since: the line may go high.
    active: bool,
    /// Sends no more: all were sent, or the guest's counter is impossible.
    finished: bool,
}

impl Source {
    fn set(&mut self, high: bool) {
        self.high = high;
        self.wire.set(high);
    }
}

/// What the guest set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Setup {
    page: u64,
    count: u32,
    interval: u32,
    burst: u32,
    mask: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            page: 0,
            count: 0,
            interval: 0,
            burst: 0,
            mask: u32::MAX,
        }
    }
}

#[derive(Default)]
struct Control {
    setup: Setup,
    /// The thread has rounds to do.
    running: bool,
    /// Rounds wait until the guest is resumed.
    paused: bool,
    /// The thread is in a round.
    busy: bool,
    quit: bool,
}

/// The device.
pub struct TestDevice {
    ram: Arc<GuestRam>,
    sources: Vec<Mutex<Source>>,
    control: Mutex<Control>,
    changed: Condvar,
    errors: AtomicU32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TestDevice {
    /// A stopped and paused device with these wires. Its thread injects under a grant of `chip`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        ram: &Arc<GuestRam>,
        wires: Vec<Wire>,
        chip: Option<&Arc<Chip>>,
    ) -> std::io::Result<Arc<Self>> {
        let source = |wire: Wire| {
            Mutex::new(Source {
                kind: wire.kind(),
                wire,
                sent: 0,
                high: false,
                active: false,
                finished: true,
            })
        };
        let device = Arc::new(Self {
            ram: Arc::clone(ram),
            sources: wires.into_iter().map(source).collect(),
            // Until the guest runs.
            control: Mutex::new(Control {
                paused: true,
                ..Control::default()
            }),
            changed: Condvar::new(),
            errors: AtomicU32::new(0),
            thread: Mutex::default(),
        });
        for (index, source) in device.sources.iter().enumerate() {
            if let Wire::Source(line) = &lock(source).wire {
                let device: Weak<Self> = Arc::downgrade(&device);
                line.on_resample(Box::new(move || {
                    if let Some(device) = device.upgrade() {
                        device.completed(index);
                    }
                }));
            }
        }
        let (inner, chip) = (Arc::clone(&device), chip.cloned());
        let thread = std::thread::Builder::new()
            .name("test-device".into())
            .spawn(move || {
                let _grant: Option<Grant> = chip.as_ref().map(Chip::grant);
                inner.serve();
            })?;
        *lock(&device.thread) = Some(thread);
        Ok(device)
    }

    /// Kinds of the sources.
    pub fn kinds(&self) -> Vec<Kind> {
        self.sources
            .iter()
            .map(|source| lock(source).kind)
            .collect()
    }

    /// Ends the thread.
    pub fn quit(&self) {
        lock(&self.control).quit = true;
        self.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }

    /// Stops sending and returns when the thread is not sending any more.
    pub fn pause(&self) {
        let mut control = lock(&self.control);
        control.paused = true;
        drop(self.idle(control));
    }

    /// Goes on after [`TestDevice::pause`].
    pub fn resume(&self) {
        lock(&self.control).paused = false;
        self.changed.notify_all();
    }

    /// Waits until the thread is between two rounds.
    fn idle<'a>(&self, mut control: MutexGuard<'a, Control>) -> MutexGuard<'a, Control> {
        self.changed.notify_all();
        while control.busy {
            control = self
                .changed
                .wait(control)
                .unwrap_or_else(PoisonError::into_inner);
        }
        control
    }

    fn serve(&self) {
        let mut control = lock(&self.control);
        while !control.quit {
            if !control.running || control.paused {
                control = self
                    .changed
                    .wait(control)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            control.busy = true;
            let setup = control.setup;
            drop(control);
            let more = self.round(setup);
            control = lock(&self.control);
            control.busy = false;
            control.running &= more;
            self.changed.notify_all();
            if control.running && setup.interval > 0 {
                let interval = Duration::from_micros(setup.interval.into());
                // Ends early if something changed, for which a longer round trip is no loss.
                control = self
                    .changed
                    .wait_timeout(control, interval)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            } else {
                drop(control);
                std::thread::yield_now();
                control = lock(&self.control);
            }
        }
    }

    /// One interrupt of each source that may send; `false` if none will send any more.
    fn round(&self, setup: Setup) -> bool {
        let mut more = false;
        for (index, source) in self.sources.iter().enumerate() {
            let source = &mut *lock(source);
            if !source.finished {
                self.step(setup, index, source);
                more |= !source.finished;
            }
        }
        more
    }

    fn step(&self, setup: Setup, index: usize, source: &mut Source) {
        let ahead = match source.kind {
            Kind::Edge => 1,
            Kind::Level | Kind::Resample => setup.burst.max(1),
        };
        let handled = self.handled(setup, index);
        if handled > source.sent {
            source.finished = true;
            self.errors.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if source.sent - handled >= u64::from(ahead) {
            return;
        }
        source.sent = source.sent.wrapping_add(1);
        let at = entry(setup, index);
        let _ = self.ram.store(source.sent, at, Ordering::SeqCst);
        match &source.wire {
            Wire::Source(line) if source.kind == Kind::Edge => line.pulse(),
            Wire::Aia(line) if source.kind == Kind::Edge => line.pulse(),
            _ if source.high => {}
            _ => source.set(true),
        }
        source.finished = setup.count != 0 && source.sent >= setup.count.into();
    }

    /// The guest's counter. The page was checked at the start, and RAM does not go away.
    fn handled(&self, setup: Setup, index: usize) -> u64 {
        let at = GuestAddress(entry(setup, index).0.wrapping_add(HANDLED));
        self.ram.load(at, Ordering::Acquire).unwrap_or(0)
    }

    /// The guest has handled interrupts of a LEVEL source.
    fn acknowledge(&self, index: usize) {
        let setup = lock(&self.control).setup;
        let Some(source) = self.sources.get(index) else {
            return;
        };
        let source = &mut *lock(source);
        let done = source.sent == self.handled(setup, index);
        if source.kind == Kind::Level && source.high && done {
            source.set(false);
        }
    }

    /// The guest has completed a RESAMPLE source, so that its line is low.
    fn completed(&self, index: usize) {
        let setup = lock(&self.control).setup;
        let source = &mut *lock(&self.sources[index]);
        source.high = false;
        if let Wire::Source(line) = &source.wire {
            line.lowered();
        }
        if source.active && source.sent > self.handled(setup, index) {
            source.set(true);
        }
    }

    /// CONTROL = 1.
    fn begin(&self) {
        let mut control = self.end();
        let page = control.setup.page;
        let fits = page % PAGE_SIZE == 0
            && self.ram.check_range(
                GuestAddress(page),
                PAGE_SIZE as usize,
                Permissions::ReadWrite,
            );
        if !fits {
            return;
        }
        for (index, source) in self.sources.iter().enumerate() {
            let mut source = lock(source);
            let sends = control.setup.mask & 1 << index != 0;
            (source.sent, source.active, source.finished) = (0, sends, !sends);
        }
        control.running = true;
        self.changed.notify_all();
    }

    /// CONTROL = 0: no interrupt is raised after this.
    fn end(&self) -> MutexGuard<'_, Control> {
        let mut control = lock(&self.control);
        control.running = false;
        let control = self.idle(control);
        for source in &self.sources {
            let mut source = lock(source);
            (source.active, source.finished) = (false, true);
            if source.high {
                source.set(false);
                if let Wire::Source(line) = &source.wire {
                    line.force_low();
                }
            }
        }
        control
    }

    fn read_register(&self, offset: u64) -> u32 {
        let control = lock(&self.control);
        let setup = control.setup;
        match offset {
            ID => ID_VALUE,
            SOURCES => self.sources.len() as u32,
            PAGE_LOW => setup.page as u32,
            PAGE_HIGH => (setup.page >> 32) as u32,
            COUNT => setup.count,
            INTERVAL => setup.interval,
            BURST => setup.burst,
            CONTROL => control.running.into(),
            ERRORS => self.errors.load(Ordering::Relaxed),
            MASK => setup.mask,
            _ => 0,
        }
    }

    fn write_register(&self, offset: u64, value: u32) {
        match offset {
            CONTROL if value & 1 != 0 => return self.begin(),
            CONTROL => return drop(self.end()),
            ACK => return self.acknowledge(value as usize),
            _ => {}
        }
        let mut control = lock(&self.control);
        let running = control.running;
        let setup = &mut control.setup;
        match offset {
            // A page that moves while the thread uses it would not have been checked.
            PAGE_LOW | PAGE_HIGH if running => {}
            PAGE_LOW => setup.page = setup.page & !0xffff_ffff | u64::from(value),
            PAGE_HIGH => setup.page = setup.page & 0xffff_ffff | u64::from(value) << 32,
            COUNT => setup.count = value,
            INTERVAL => setup.interval = value,
            BURST => setup.burst = value.clamp(1, MAX_BURST),
            MASK => setup.mask = value,
            _ => {}
        }
    }
}

fn entry(setup: Setup, index: usize) -> GuestAddress {
    // A page that the guest changed after the start is not checked, only refused by each access.
    GuestAddress(setup.page.wrapping_add(ENTRY * index as u64))
}

impl Stateful for TestDevice {
    fn save(&self, to: &mut StateWriter) {
        let control = lock(&self.control);
        let setup = control.setup;
        to.number(setup.page);
        to.number(setup.count);
        to.number(setup.interval);
        to.number(setup.burst);
        to.number(setup.mask);
        to.number(control.running);
        to.number(self.errors.load(Ordering::Relaxed));
        for source in &self.sources {
            let source = lock(source);
            to.number(source.sent);
            to.number(source.high);
            to.number(source.active);
            to.number(source.finished);
        }
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut control = lock(&self.control);
        control.setup = Setup {
            page: from.number()?,
            count: from.number()?,
            interval: from.number()?,
            burst: from.number::<u32>()?.min(MAX_BURST),
            mask: from.number()?,
        };
        control.running = from.flag()?;
        self.errors.store(from.number()?, Ordering::Relaxed);
        for source in &self.sources {
            let source = &mut *lock(source);
            source.sent = from.number()?;
            let high = from.flag()?;
            source.set(high);
            source.active = from.flag()?;
            source.finished = from.flag()?;
        }
        Ok(())
    }
}

impl BusDevice for TestDevice {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if data.len() == 4 && offset % 4 == 0 {
            fill(data, self.read_register(offset).into());
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if data.len() == 4 && offset % 4 == 0 {
            self.write_register(offset, value(data) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::Instant;
    use vm_memory::GuestMemoryMmap;

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

    fn device(sources: usize) -> (Arc<TestDevice>, Vec<Probe>, Arc<GuestRam>) {
        let range = [(GuestAddress(map::RAM_BASE), 1 << 20)];
        let ram = Arc::new(GuestMemoryMmap::from_ranges(&range).unwrap());
        let probes = vec![Probe::default(); sources]
            .iter()
            .map(|_| Probe::default())
            .collect::<Vec<_>>();
        let wires = probes.iter().map(|p| Wire::Level(Box::new(p.clone())));
        let device = TestDevice::start(&ram, wires.collect(), None).unwrap();
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
}
