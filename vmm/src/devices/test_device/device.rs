//! The device and its thread.

use crate::irqchip::controller::InterruptController;
use crate::irqchip::wire::{Kind, Wire};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use trapless_devices::GuestRam;
use trapless_isa::page::PAGE_SIZE;
use vm_memory::{Bytes, GuestAddress, GuestMemory, Permissions};

const ENTRY: u64 = 64;
const HANDLED: u64 = 8;
/// Maximum value of BURST.
pub(super) const MAX_BURST: u32 = 8;

pub(super) struct Source {
    wire: Box<dyn Wire>,
    kind: Kind,
    pub(super) sent: u64,
    pub(super) high: bool,
    /// Whether it has been started and not stopped since, so that the line may go high.
    pub(super) active: bool,
    /// Whether it sends no more: all were sent, or the guest's counter is impossible.
    pub(super) finished: bool,
}

impl Source {
    pub(super) fn set(&mut self, high: bool) {
        self.high = high;
        self.wire.set(high);
    }
}

/// Settings of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setup {
    /// Guest physical address of the shared page.
    pub(super) page: u64,
    /// Interrupts per source; 0: no end.
    pub(super) count: u32,
    /// Microseconds between two rounds.
    pub(super) interval: u32,
    /// How far a source other than EDGE runs ahead.
    pub(super) burst: u32,
    /// Sources that send.
    pub(super) mask: u32,
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
pub(super) struct Control {
    pub(super) setup: Setup,
    /// Whether the thread has rounds to do.
    pub(super) running: bool,
    /// Whether rounds wait until the guest is resumed.
    paused: bool,
    /// Whether the thread is in a round.
    busy: bool,
    quit: bool,
}

/// The device.
pub struct TestDevice {
    ram: Arc<GuestRam>,
    pub(super) sources: Vec<Mutex<Source>>,
    pub(super) control: Mutex<Control>,
    changed: Condvar,
    pub(super) errors: AtomicU32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TestDevice {
    /// A stopped and paused device with these wires. Its thread holds a permit of
    /// `controller`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        ram: &Arc<GuestRam>,
        wires: Vec<Box<dyn Wire>>,
        controller: &Arc<dyn InterruptController>,
    ) -> std::io::Result<Arc<Self>> {
        let source = |wire: Box<dyn Wire>| {
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
            let device: Weak<Self> = Arc::downgrade(&device);
            lock(source).wire.on_completion(Box::new(move || {
                if let Some(device) = device.upgrade() {
                    device.completed(index);
                }
            }));
        }
        let (inner, controller) = (Arc::clone(&device), Arc::clone(controller));
        let thread = std::thread::Builder::new()
            .name("test-device".into())
            .spawn(move || {
                let _permit = controller.permit();
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

    /// Resumes after [`TestDevice::pause`].
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
                // Wakes early after any change, which only shortens the interval.
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
        match source.kind {
            Kind::Edge => source.wire.pulse(),
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
    pub(super) fn acknowledge(&self, index: usize) {
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
        source.wire.lowered();
        if source.active && source.sent > self.handled(setup, index) {
            source.set(true);
        }
    }

    /// CONTROL = 1.
    pub(super) fn begin(&self) {
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
            let sends = control.setup.mask & (1 << index) != 0;
            (source.sent, source.active, source.finished) = (0, sends, !sends);
        }
        control.running = true;
        self.changed.notify_all();
    }

    /// CONTROL = 0: no interrupt is raised after this.
    pub(super) fn end(&self) -> MutexGuard<'_, Control> {
        let mut control = lock(&self.control);
        control.running = false;
        let control = self.idle(control);
        for source in &self.sources {
            let mut source = lock(source);
            (source.active, source.finished) = (false, true);
            if source.high {
                source.set(false);
                source.wire.force_low();
            }
        }
        control
    }
}

fn entry(setup: Setup, index: usize) -> GuestAddress {
    // PAGE is checked at the start only. Accesses outside RAM fail and are ignored.
    GuestAddress(setup.page.wrapping_add(ENTRY * index as u64))
}
