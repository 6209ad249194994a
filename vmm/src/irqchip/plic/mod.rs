//! The interrupt controller of a guest, and the user-space PLIC with its way into the vCPUs.
//!
//! With `--irqchip trapless` devices hang on [`crate::irqchip::trapless`] instead of the PLIC, with `--irqchip aia` on [`crate::irqchip::aia`].
//!
//! ```text
//! device thread or vCPU thread -- set_source --> [ Mutex: Plic, line levels ] -- KVM_INTERRUPT --> vCPU
//! vCPU thread (MMIO exit)      -- claim, ... --> [                          ]
//! ```
//! A change of a context's output is passed on to KVM while the mutex is held. Two threads that change
//! the PLIC at once therefore tell KVM in the same order, and the line KVM holds is the line the PLIC drives.

use crate::cli::{TestDevice, TestInject};
use crate::devices::test_device;
use crate::error::{Error, Result};
use crate::irqchip::aia::Aia;
use crate::irqchip::trapless::{Chip, Kind, SourceLine, Way};
use crate::map;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trapless_devices::{IrqLine, StateError, StateReader, StateWriter};
use trapless_intc::plic::Plic;

/// What the devices of a guest hang on.
#[derive(Clone)]
pub enum Controller {
    /// PLIC in user space.
    Plic(Arc<Interrupts>),
    /// Xtrapless, with the way that interrupts of devices take.
    Trapless(Arc<Chip>, Way),
    /// AIA in KVM.
    Aia(Arc<Aia>),
}

impl Controller {
    /// Xtrapless, if that is what the guest has.
    pub fn chip(&self) -> Option<&Arc<Chip>> {
        match self {
            Self::Plic(_) | Self::Aia(_) => None,
            Self::Trapless(chip, _) => Some(chip),
        }
    }

    /// Its value of `--irqchip`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plic(_) => "plic",
            Self::Trapless(..) => "trapless",
            Self::Aia(_) => "aia",
        }
    }

    /// The wires of the test device: of all kinds with Xtrapless, edge- and level-triggered ones with AIA, level-triggered
    /// ones with a PLIC.
    ///
    /// # Errors
    /// [`Error::Failed`] if KVM refuses a source.
    pub fn test_wires(&self, device: TestDevice) -> Result<Vec<test_device::Wire>> {
        let wire = |index: u8| {
            let number = map::TEST_IRQ + u32::from(index);
            let (chip, way) = match self {
                Self::Plic(_) => return self.line(number).map(test_device::Wire::Level),
                Self::Aia(aia) => {
                    let kind = [Kind::Edge, Kind::Level][usize::from(index) % 2];
                    return Ok(test_device::Wire::Aia(aia.line(number, kind)));
                }
                Self::Trapless(chip, way) => (chip, way),
            };
            let kind = [Kind::Edge, Kind::Level, Kind::Resample][usize::from(index) % 3];
            let way = match (device.inject, index / 3 % 3) {
                (TestInject::AsOthers, _) => *way,
                (TestInject::All(way), _) => way,
                (TestInject::Mixed, 0) => Way::Ugenvsei,
                (TestInject::Mixed, 1) => Way::Irqfd,
                (TestInject::Mixed, _) => Way::Ioctl,
            };
            let way = match (kind, way) {
                // Nothing would lower the line.
                (Kind::Level, Way::Irqfd) => Way::Ioctl,
                _ => way,
            };
            add(chip, number, kind, way).map(test_device::Wire::Source)
        };
        (0..device.sources).map(wire).collect()
    }

    /// The wire of a virtio device to `source`.
    ///
    /// # Errors
    /// [`Error::Failed`] if KVM refuses the source.
    pub fn virtio_line(&self, source: u32) -> Result<Box<dyn IrqLine>> {
        match self {
            Self::Aia(aia) => Ok(Box::new(aia.line(source, aia.virtio_kind()))),
            Self::Plic(_) | Self::Trapless(..) => self.line(source),
        }
    }

    /// The level-triggered wire of a device to `source`.
    ///
    /// # Errors
    /// [`Error::Failed`] if KVM refuses the source.
    pub fn line(&self, source: u32) -> Result<Box<dyn IrqLine>> {
        match self {
            Self::Plic(interrupts) => Ok(Box::new(Wire::new(interrupts, source))),
            Self::Aia(aia) => Ok(Box::new(aia.line(source, Kind::Level))),
            Self::Trapless(chip, way) => {
                let kind = match way {
                    Way::Ugenvsei | Way::Ioctl => Kind::Level,
                    // An irqfd cannot lower the line: completion has to.
                    Way::Irqfd => Kind::Resample,
                };
                Ok(Box::new(add(chip, source, kind, *way)?))
            }
        }
    }
}

fn add(chip: &Arc<Chip>, source: u32, kind: Kind, way: Way) -> Result<SourceLine> {
    chip.add(source as u16, kind, way)
        .map_err(|e| Error::failed("KVM refuses an interrupt source", e))
}

/// The external-interrupt input of one vCPU.
pub trait ExternalLine: Send {
    /// Drives the line high or low; may be called from any thread.
    fn set(&self, high: bool);
}

/// Longest saved state in bytes: that of 512 contexts takes about 60 KiB.
const STATE_LIMIT: usize = 1 << 20;

struct State {
    plic: Plic,
    /// Per context: its vCPU's input and the level last driven.
    lines: Vec<(Box<dyn ExternalLine>, bool)>,
    raised: u64,
    lowered: u64,
}

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
pub struct Interrupts(Mutex<State>);

impl Interrupts {
    /// A PLIC after reset whose context `n` drives `lines[n]`.
    pub fn new(sources: u32, lines: Vec<Box<dyn ExternalLine>>) -> Self {
        let plic = Plic::new(sources, lines.len());
        let lines = lines.into_iter().map(|line| (line, false)).collect();
        Self(Mutex::new(State {
            plic,
            lines,
            raised: 0,
            lowered: 0,
        }))
    }

    /// A poisoned mutex still holds a usable PLIC: no method of it leaves a half-done change behind.
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
        let _ = state.plic.store(offset, size, value);
        state.propagate();
    }

    /// The PLIC's state.
    pub fn save(&self, to: &mut StateWriter) {
        // Serializing numbers and lists of them cannot fail.
        to.bytes(&serde_json::to_vec(&self.state().plic).unwrap_or_default());
    }

    /// Takes over a state and drives every line to its level. To be done before the devices are restored, which drive
    /// their wires as they were.
    ///
    /// # Errors
    /// [`StateError`] if it is not the state of such a PLIC.
    pub fn restore(&self, from: &mut StateReader<'_>) -> std::result::Result<(), StateError> {
        let state = serde_json::from_slice(from.bytes(STATE_LIMIT)?)
            .map_err(|_| StateError("is no PLIC"))?;
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

    /// How often external-interrupt lines were raised and lowered.
    pub fn line_changes(&self) -> (u64, u64) {
        let state = self.state();
        (state.raised, state.lowered)
    }
}

/// A device's wire into the PLIC.
#[derive(Clone)]
pub struct Wire {
    interrupts: Arc<Interrupts>,
    source: u32,
}

impl Wire {
    /// The wire to `source`.
    pub fn new(interrupts: &Arc<Interrupts>, source: u32) -> Self {
        Self {
            interrupts: Arc::clone(interrupts),
            source,
        }
    }

    /// Drives it.
    pub fn set(&self, high: bool) {
        self.interrupts.set_source(self.source, high);
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

    fn two_contexts() -> (Arc<Interrupts>, [Arc<AtomicBool>; 2]) {
        let probes = [
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        ];
        let lines: Vec<Box<dyn ExternalLine>> = probes
            .iter()
            .map(|probe| Box::new(Probe(Arc::clone(probe))) as _)
            .collect();
        (Arc::new(Interrupts::new(95, lines)), probes)
    }

    #[test]
    fn a_source_reaches_the_context_that_enables_it() {
        let (interrupts, probes) = two_contexts();
        interrupts.store(4 * 10, 4, 1);
        interrupts.store(0x2080, 4, 1 << 10);
        Wire::new(&interrupts, 10).set(true);
        assert!(!probes[0].load(Ordering::SeqCst) && probes[1].load(Ordering::SeqCst));
        assert_eq!(interrupts.load(0x20_1004, 4), 10);
        assert!(!probes[1].load(Ordering::SeqCst), "claimed");
        interrupts.store(0x20_1004, 4, 10);
        assert!(
            probes[1].load(Ordering::SeqCst),
            "still high after completion"
        );
        assert_eq!(interrupts.line_changes(), (2, 1));
    }

    #[test]
    fn a_restored_plic_drives_the_lines_it_drove() {
        let (interrupts, _) = two_contexts();
        interrupts.store(4 * 10, 4, 1);
        interrupts.store(0x2080, 4, 1 << 10);
        Wire::new(&interrupts, 10).set(true);
        let mut writer = StateWriter::default();
        interrupts.save(&mut writer);
        let state = writer.into_bytes();
        let restored: [Arc<Mutex<Vec<bool>>>; 2] = Default::default();
        struct Log(Arc<Mutex<Vec<bool>>>);
        impl ExternalLine for Log {
            fn set(&self, high: bool) {
                self.0.lock().unwrap().push(high);
            }
        }
        let lines = restored.iter().map(|log| Box::new(Log(log.clone())) as _);
        let again = Arc::new(Interrupts::new(95, lines.collect()));
        again.restore(&mut StateReader::new(&state)).unwrap();
        Wire::new(&again, 10).set(true);
        assert_eq!(*restored[0].lock().unwrap(), [false]);
        assert_eq!(*restored[1].lock().unwrap(), [true]);
        assert_eq!(again.load(0x20_1004, 4), 10);
        let other = Interrupts::new(95, Vec::new());
        assert!(other.restore(&mut StateReader::new(&state)).is_err());
    }

    #[test]
    fn line_and_plic_agree_after_racing_threads() {
        let (interrupts, probes) = two_contexts();
        for source in 1..=4u32 {
            interrupts.store(u64::from(source) * 4, 4, 1);
        }
        interrupts.store(0x2000, 4, 0b11110);
        std::thread::scope(|scope| {
            for source in 1..=4 {
                let wire = Wire::new(&interrupts, source);
                scope.spawn(move || (0..2000).for_each(|i| wire.set(i % 2 == 0)));
            }
            for _ in 0..2000 {
                let claimed = interrupts.load(0x20_0004, 4);
                interrupts.store(0x20_0004, 4, claimed);
            }
        });
        while interrupts.load(0x20_0004, 4) != 0 {}
        assert!(!probes[0].load(Ordering::SeqCst));
    }
}
