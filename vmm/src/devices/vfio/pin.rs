//! Wires of passed devices: INTx of a PCI function, interrupts of a platform device. Hardware
//! drives the guest's source, or VFIO masks the wire when it is asserted, until it is told that
//! the guest has completed the interrupt: by KVM if that knows, by the controller of this process,
//! or after a look at the device.

use crate::devices::locked::Served;
use crate::devices::vfio::device::{Device, Region};
use crate::error::{Error, Result};
use crate::irqchip::controller::{InterruptController, Watch};
use crate::irqchip::wire::{Kind, Wire};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vmm_sys_util::eventfd::EventFd;

/// How long an edge has to bring the guest's driver to serve the device, before another one.
const LOOK: Duration = Duration::from_millis(1);

/// A level-triggered wire as VFIO has it.
pub trait Level: Send + Sync {
    /// Writes `trigger` when the wire is asserted, which masks it; a write of `resample`, if given,
    /// unmasks it.
    ///
    /// # Errors
    /// The error that the system returned.
    fn enable(&self, trigger: &EventFd, resample: Option<&EventFd>) -> io::Result<()>;

    /// Unmasks it: `trigger` is written again if it is still asserted.
    fn unmask(&self);

    /// Ends [`enable`](Self::enable).
    fn disable(&self);

    /// Whether the device is known to assert it, masked or not.
    fn is_asserted(&self) -> bool {
        false
    }
}

/// INTx of a PCI function.
pub struct Intx(pub Arc<dyn Device>);

/// Status register of the configuration space, and its bit that shows the level of INTx.
const STATUS: u64 = 6;
const ASSERTED: u8 = 1 << 3;

impl Level for Intx {
    fn enable(&self, trigger: &EventFd, resample: Option<&EventFd>) -> io::Result<()> {
        self.0.enable_intx(trigger, resample)
    }

    fn unmask(&self) {
        self.0.unmask_intx();
    }

    fn disable(&self) {
        self.0.disable_intx();
    }

    fn is_asserted(&self) -> bool {
        let mut status = [0];
        self.0.read(Region::Config, STATUS, &mut status);
        status[0] & ASSERTED != 0
    }
}

/// The wire, connected to a source of the guest.
pub struct Pin {
    level: Arc<dyn Level>,
    trigger: EventFd,
    /// KVM asserts the source, and tells VFIO of completions by this event.
    resample: Option<EventFd>,
    state: Mutex<State>,
}

struct State {
    /// Where KVM does not do so: the wire that this process drives.
    wire: Option<Box<dyn Wire>>,
    enabled: bool,
    /// When to look whether the device still asserts it, where nothing tells of completions.
    look: Option<Instant>,
}

fn event() -> Result<EventFd> {
    EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC).map_err(|e| Error::failed("eventfd", e))
}

impl Pin {
    /// Connects `level` to `source`.
    ///
    /// # Errors
    /// [`Error::Failed`] if KVM refuses the source.
    pub fn connect(
        level: Arc<dyn Level>,
        source: u32,
        controller: &dyn InterruptController,
    ) -> Result<Arc<Self>> {
        let (trigger, resample) = (event()?, event()?);
        let by_kvm = controller
            .resample_by(source, &trigger, &resample)
            .map_err(|e| Error::failed("KVM refuses the interrupt source of a passed device", e))?;
        let wire = match by_kvm {
            true => None,
            false => Some(controller.connect(source, Self::kind(controller), None)?),
        };
        if let Some(wire) = &wire {
            let level = Arc::clone(&level);
            wire.on_completion(Box::new(move || level.unmask()));
        }
        Ok(Arc::new(Self {
            level,
            trigger,
            resample: by_kvm.then_some(resample),
            state: Mutex::new(State {
                wire,
                enabled: false,
                look: None,
            }),
        }))
    }

    /// Kind of the sources of pins.
    pub fn kind(controller: &dyn InterruptController) -> Kind {
        match controller.features().completions {
            true => Kind::Resample,
            false => Kind::Edge,
        }
    }

    /// Lets the device interrupt by it.
    ///
    /// # Errors
    /// The error that the system returned.
    pub fn enable(&self) -> io::Result<()> {
        self.state().enabled = true;
        let resample = self.resample.as_ref();
        self.level.enable(&self.trigger, resample)
    }

    /// Ends that.
    pub fn disable(&self) {
        self.level.disable();
        // Nothing that came before may raise the wire later.
        let mut state = self.state();
        state.enabled = false;
        state.look = None;
        let _ = self.trigger.read();
        if let Some(wire) = &state.wire {
            wire.set(false);
        }
    }

    /// What the event loop watches, unless KVM does everything.
    pub fn watch(self: &Arc<Self>) -> Option<Watch> {
        let pin = Arc::clone(self);
        let watch = (
            self.trigger.as_raw_fd(),
            Box::new(move || pin.asserted()) as _,
        );
        self.resample.is_none().then_some(watch)
    }

    /// VFIO says that the device asserts it, and has masked it.
    fn asserted(&self) {
        let mut state = self.state();
        if self.trigger.read().is_ok() && state.enabled {
            state.raise();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn raise(&mut self) {
        let Some(wire) = &self.wire else { return };
        wire.set(true);
        if wire.kind() == Kind::Edge {
            self.look = Some(Instant::now() + LOOK);
        }
    }
}

/// For controllers that do not tell of completions.
impl Served for Pin {
    fn poll(&self) {
        let mut state = self.state();
        if state.look.take().is_none() {
            return;
        }
        if self.level.is_asserted() {
            // Still, or again: the driver has to look once more.
            state.raise();
        } else {
            self.level.unmask();
        }
    }

    fn due_in(&self) -> Option<u64> {
        let left = self.state().look?.saturating_duration_since(Instant::now());
        Some(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }
}
