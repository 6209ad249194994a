//! The PLIC of a guest in user space, shared by all threads, with its outputs to the vCPUs.
//!
//! ```text
//! device or vCPU thread   -- set_source --> [ Mutex: Plic, line levels ] -- KVM_INTERRUPT --> vCPU
//! vCPU thread (MMIO exit) -- claim, ... --> [                          ]
//! ```
//! A change of a context's output is passed to KVM while the mutex is held. Concurrent changes by
//! two threads therefore reach KVM in the same order, and the line's level in KVM is the one the
//! PLIC drives.

use crate::irqchip::injections::Injections;
use crate::irqchip::wire::{Kind, Wire};
use crate::map;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use trapless_devices::{IrqLine, StateError, StateReader, StateWriter};
use trapless_intc::plic::Plic;

/// The external-interrupt input of one vCPU.
pub trait ExternalLine: Send {
    /// Drives the line high or low; may be called from any thread.
    fn set(&self, high: bool);
}

/// Offset of the register for claim and completion in the page of a context.
const COMPLETE: u64 = 4;
const PAGE: u64 = 0xfff;

/// Maximum length of a saved state in bytes: that of 512 contexts takes about 60 KiB.
const STATE_LIMIT: usize = 1 << 20;

struct State {
    plic: Plic,
    /// Per context: its vCPU's input and the level last driven.
    lines: Vec<(Box<dyn ExternalLine>, bool)>,
    raised: u64,
    lowered: u64,
    /// Sources that completion lowers, and the devices that hear of it.
    resampled: BTreeMap<u32, Completed>,
}

/// Callback of a device when the guest has completed its source.
type Completed = Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>;

impl State {
    fn propagate(&mut self) {
        for (context, (line, level)) in self.lines.iter_mut().enumerate() {
            let now = self.plic.context_pending(context);
            if now != *level {
                *level = now;
                line.set(now);
                if now {
                    self.raised += 1;
                } else {
                    self.lowered += 1;
                }
            }
        }
    }
}

/// PLIC with one S-mode context per vCPU, shared by all threads.
pub struct SharedPlic(Mutex<State>);

impl SharedPlic {
    /// A PLIC after reset whose context `n` drives `lines[n]`.
    pub fn new(sources: u32, lines: Vec<Box<dyn ExternalLine>>) -> Self {
        let plic = Plic::new(sources, lines.len());
        let lines = lines.into_iter().map(|line| (line, false)).collect();
        Self(Mutex::new(State {
            plic,
            lines,
            raised: 0,
            lowered: 0,
            resampled: BTreeMap::new(),
        }))
    }

    /// A poisoned mutex still holds a usable PLIC: no method of it leaves a half-done change
    /// behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives the wire of `source` high or low.
    pub fn set_source(&self, source: u32, high: bool) {
        let mut state = self.state();
        state.plic.set_level(source, high);
        state.propagate();
    }

    /// Guest load of a register; anything but an aligned word reads as zero.
    pub fn load(&self, offset: u64, size: u8) -> u32 {
        let mut state = self.state();
        let value = state.plic.load(offset, size).unwrap_or(0);
        state.propagate();
        value
    }

    /// Guest store to a register; anything but an aligned word is ignored.
    pub fn store(&self, offset: u64, size: u8, value: u32) {
        let mut state = self.state();
        let completes = size == 4 && offset >= map::PLIC_CONTEXTS && offset & PAGE == COMPLETE;
        let completed = state.resampled.get(&value).filter(|_| completes).cloned();
        if completed.is_some() {
            state.plic.set_level(value, false);
        }
        let _ = state.plic.store(offset, size, value);
        state.propagate();
        drop(state);
        if let Some(device) = completed.as_ref().and_then(|device| device.get()) {
            device();
        }
    }

    /// The PLIC's state.
    pub fn save(&self, to: &mut StateWriter) {
        // Serializing numbers and lists of them cannot fail.
        to.bytes(&serde_json::to_vec(&self.state().plic).unwrap_or_default());
    }

    /// Restores the state and drives every line to its level. Call it before the devices are
    /// restored, which drive their wires as they were.
    ///
    /// # Errors
    /// [`StateError`] if it is not the state of such a PLIC.
    pub fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let state = serde_json::from_slice(from.bytes(STATE_LIMIT)?)
            .map_err(|_| StateError("is not a PLIC"))?;
        let mut guard = self.state();
        let all = &mut *guard;
        all.plic
            .restore(state)
            .map_err(|_| StateError("has another number of sources or vCPUs"))?;
        for (context, (line, level)) in all.lines.iter_mut().enumerate() {
            *level = all.plic.context_pending(context);
            line.set(*level);
        }
        Ok(())
    }

    /// Counts since the guest's start.
    pub fn injections(&self) -> Injections {
        let state = self.state();
        Injections {
            raised: state.raised,
            lowered: state.lowered,
            ..Injections::default()
        }
    }
}

/// A device's wire into the PLIC.
pub struct Line {
    plic: Arc<SharedPlic>,
    source: u32,
    kind: Kind,
    /// Of [`Kind::Resample`]: whom to tell of completions.
    completed: Completed,
}

impl Line {
    /// The wire to `source`.
    pub fn new(plic: &Arc<SharedPlic>, source: u32, kind: Kind) -> Self {
        let completed = Completed::default();
        match kind {
            Kind::Edge => plic.state().plic.set_edge_triggered(source),
            Kind::Level => {}
            Kind::Resample => {
                let completed = Arc::clone(&completed);
                plic.state().resampled.insert(source, completed);
            }
        }
        Self {
            plic: Arc::clone(plic),
            source,
            kind,
            completed,
        }
    }
}

impl IrqLine for Line {
    fn set(&self, high: bool) {
        // Devices drive the line high at each event; a low level would withdraw the pending
        // interrupt.
        if high || self.kind != Kind::Edge {
            self.plic.set_source(self.source, high);
        }
    }
}

impl Wire for Line {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn on_completion(&self, device: Box<dyn Fn() + Send + Sync>) {
        let _ = self.completed.set(device);
    }

    fn into_line(self: Box<Self>) -> Box<dyn IrqLine> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Probe(Arc<AtomicBool>);

    impl ExternalLine for Probe {
        fn set(&self, high: bool) {
            let before = self.0.swap(high, Ordering::SeqCst);
            assert_ne!(before, high, "only changes are passed on");
        }
    }

    fn two_contexts() -> (Arc<SharedPlic>, [Arc<AtomicBool>; 2]) {
        let probes = [
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        ];
        let lines: Vec<Box<dyn ExternalLine>> = probes
            .iter()
            .map(|probe| Box::new(Probe(Arc::clone(probe))) as _)
            .collect();
        (Arc::new(SharedPlic::new(95, lines)), probes)
    }

    #[test]
    fn a_source_reaches_the_context_that_enables_it() {
        let (plic, probes) = two_contexts();
        plic.store(4 * 10, 4, 1);
        plic.store(0x2080, 4, 1 << 10);
        Line::new(&plic, 10, Kind::Level).set(true);
        assert!(!probes[0].load(Ordering::SeqCst) && probes[1].load(Ordering::SeqCst));
        assert_eq!(plic.load(0x20_1004, 4), 10);
        assert!(!probes[1].load(Ordering::SeqCst), "claimed");
        plic.store(0x20_1004, 4, 10);
        assert!(
            probes[1].load(Ordering::SeqCst),
            "still high after completion"
        );
        let done = plic.injections();
        assert_eq!((done.raised, done.lowered), (2, 1));
    }

    #[test]
    fn an_edge_triggered_wire_makes_each_event_pending() {
        let (plic, probes) = two_contexts();
        plic.store(4 * 10, 4, 1);
        plic.store(0x2000, 4, 1 << 10);
        let wire = Line::new(&plic, 10, Kind::Edge);
        for _ in 0..2 {
            wire.set(true);
            wire.set(false);
            assert!(probes[0].load(Ordering::SeqCst));
            assert_eq!(plic.load(0x20_0004, 4), 10);
            plic.store(0x20_0004, 4, 10);
            assert!(
                !probes[0].load(Ordering::SeqCst),
                "one event, one interrupt"
            );
        }
    }

    /// Promise: a completion lowers the line and asks the device, which raises it again if it
    /// wants to; nothing else does.
    #[test]
    fn the_completion_of_a_resampled_source_asks_its_device() {
        let (plic, probes) = two_contexts();
        plic.store(4 * 10, 4, 1);
        plic.store(0x2000, 4, 1 << 10);
        let wire = Arc::new(Line::new(&plic, 10, Kind::Resample));
        let asked = Arc::new(Mutex::new(0));
        let (device, count) = (Arc::downgrade(&wire), Arc::clone(&asked));
        wire.on_completion(Box::new(move || {
            let mut count = count.lock().unwrap();
            *count += 1;
            device.upgrade().unwrap().set(*count < 2);
        }));
        wire.set(true);
        for times in [1, 2] {
            assert_eq!(plic.load(0x20_0004, 4), 10);
            plic.store(4 * 10, 4, 1);
            plic.store(0x20_0004, 4, 11);
            assert_eq!(*asked.lock().unwrap(), times - 1);
            plic.store(0x20_0004, 4, 10);
            assert_eq!(*asked.lock().unwrap(), times);
        }
        assert!(!probes[0].load(Ordering::SeqCst));
    }

    #[test]
    fn a_restored_plic_drives_the_lines_it_drove() {
        let (plic, _) = two_contexts();
        plic.store(4 * 10, 4, 1);
        plic.store(0x2080, 4, 1 << 10);
        Line::new(&plic, 10, Kind::Level).set(true);
        let mut writer = StateWriter::default();
        plic.save(&mut writer);
        let state = writer.into_bytes();
        let restored: [Arc<Mutex<Vec<bool>>>; 2] = Default::default();
        struct Log(Arc<Mutex<Vec<bool>>>);
        impl ExternalLine for Log {
            fn set(&self, high: bool) {
                self.0.lock().unwrap().push(high);
            }
        }
        let lines = restored.iter().map(|log| Box::new(Log(log.clone())) as _);
        let again = Arc::new(SharedPlic::new(95, lines.collect()));
        again.restore(&mut StateReader::new(&state)).unwrap();
        Line::new(&again, 10, Kind::Level).set(true);
        assert_eq!(*restored[0].lock().unwrap(), [false]);
        assert_eq!(*restored[1].lock().unwrap(), [true]);
        assert_eq!(again.load(0x20_1004, 4), 10);
        let other = SharedPlic::new(95, Vec::new());
        assert!(other.restore(&mut StateReader::new(&state)).is_err());
    }

    #[test]
    fn line_and_plic_agree_after_racing_threads() {
        let (plic, probes) = two_contexts();
        for source in 1..=4u32 {
            plic.store(u64::from(source) * 4, 4, 1);
        }
        plic.store(0x2000, 4, 0b11110);
        std::thread::scope(|scope| {
            for source in 1..=4 {
                let wire = Line::new(&plic, source, Kind::Level);
                scope.spawn(move || (0..2000).for_each(|i| wire.set(i % 2 == 0)));
            }
            for _ in 0..2000 {
                let claimed = plic.load(0x20_0004, 4);
                plic.store(0x20_0004, 4, claimed);
            }
        });
        while plic.load(0x20_0004, 4) != 0 {}
        assert!(!probes[0].load(Ordering::SeqCst));
    }
}
