//! The interface between the VMM and its interrupt controller.

use crate::bus::BusDevice;
use crate::error::Result;
use crate::irqchip::injections::Injections;
use crate::irqchip::messages::MessageController;
use crate::irqchip::options::Injection;
use crate::irqchip::wire::{Kind, Wire};
use std::any::Any;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use trapless_devices::{StateReader, StateWriter};
use vm_fdt::FdtWriter;
use vmm_sys_util::eventfd::EventFd;

/// Properties of an interrupt controller that other parts of the VMM depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Name in `--irqchip`.
    pub name: &'static str,
    /// ISA extension that a guest with this controller must see, and no other guest.
    pub isa_extension: Option<&'static str>,
    /// Its Linux driver is a module: devices cannot interrupt before the guest has loaded it.
    pub late_driver: bool,
    /// Pending VS-level interrupts are part of its own state and not of that of the vCPUs.
    pub holds_pending: bool,
    /// `interrupts` has a second cell: the trigger.
    pub trigger_cell: bool,
    /// Kind of the wires of devices that are level-triggered by nature.
    pub device_kind: Kind,
    /// Kind of the wires of virtio devices.
    pub virtio_kind: Kind,
    /// Whether virtio devices whose registers are shadowed can have edge-triggered wires.
    pub edges: bool,
    /// Whether devices can be told of completions: there are wires of [`Kind::Resample`].
    pub completions: bool,
    /// Kinds that the sources of the test device have in turn.
    pub test_kinds: &'static [Kind],
}

impl Features {
    /// `interrupts` of a device at `source`.
    pub fn interrupt_cells(&self, source: u32, kind: Kind) -> Vec<u32> {
        let trigger = self.trigger_cell.then(|| kind.trigger_cell());
        [source].into_iter().chain(trigger).collect()
    }
}

/// A window of guest physical addresses with registers.
pub struct Window {
    /// Name for statistics.
    pub name: &'static str,
    /// First address.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
    /// The registers.
    pub device: Arc<dyn BusDevice>,
}

/// A descriptor to watch, and the action when it becomes readable.
pub type Watch = (RawFd, Box<dyn Fn() + Send>);

/// Permits the thread that holds it to interrupt the guest without system calls, if the controller
/// supports that. Not sent to other threads.
pub type Permit = Option<Box<dyn Any>>;

/// Phandle of the node that is every device's `interrupt-parent`. Those of the harts' local
/// interrupt controllers follow, and any others of an interrupt controller after them.
pub const PHANDLE: u32 = 1;

/// The interrupt controller of one guest.
///
/// Does not cover how a vCPU takes an interrupt: KVM and the hart do that.
pub trait InterruptController: Send + Sync {
    /// Its properties.
    fn features(&self) -> Features;

    /// Connects a device to `source`, by `way` if the controller has a choice of ways for each
    /// source.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::error::Error::Failed) if KVM refuses the source.
    fn connect(&self, source: u32, kind: Kind, way: Option<Injection>) -> Result<Box<dyn Wire>>;

    /// Makes KVM interrupt by the edge-triggered `source` whenever `event` is written, by any
    /// process; `false` if the controller is not KVM's.
    ///
    /// # Errors
    /// The error that KVM returned.
    fn interrupt_by(&self, source: u32, event: &EventFd) -> io::Result<bool> {
        let _ = (source, event);
        Ok(false)
    }

    /// Makes KVM assert the level-triggered `source` whenever `trigger` is written, and write
    /// `resample` when the guest has completed it, which lowers it; `false` if the controller is
    /// not KVM's.
    ///
    /// # Errors
    /// The error that KVM returned.
    fn resample_by(&self, source: u32, trigger: &EventFd, resample: &EventFd) -> io::Result<bool> {
        let _ = (source, trigger, resample);
        Ok(false)
    }

    /// Lets the host's hardware drive `source` as the level-triggered wire that VFIO has and for
    /// which it writes `trigger`, so that nobody does; `false` if it cannot.
    ///
    /// # Errors
    /// The error that KVM returned, if the source cannot be.
    fn drive_by(&self, source: u32, trigger: &EventFd) -> io::Result<bool> {
        let _ = (source, trigger);
        Ok(false)
    }

    /// Where the guest's PCI functions send messages; `None`: they interrupt by wires only.
    fn messages(&self) -> Option<MessageController> {
        None
    }

    /// Registers that the VMM emulates.
    fn windows(&self) -> Vec<Window> {
        Vec::new()
    }

    /// Writes its nodes into `/soc` of the device tree; the main one has [`PHANDLE`]. `cpu_intc`
    /// holds the phandles of the harts' local interrupt controllers.
    ///
    /// # Errors
    /// Those of the writer.
    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> std::result::Result<(), vm_fdt::Error>;

    /// Appends the state. The vCPUs do not run.
    ///
    /// # Errors
    /// The error that KVM returned.
    fn save(&self, to: &mut StateWriter) -> io::Result<()>;

    /// Prepares for a restore, before the devices drive their wires; `from` is read here or in
    /// [`InterruptController::restore`].
    ///
    /// # Errors
    /// If the state cannot be restored.
    fn begin_restore(&self, from: &mut StateReader<'_>) -> std::result::Result<(), String> {
        let _ = from;
        Ok(())
    }

    /// Restores the state, after the devices have driven their wires.
    ///
    /// # Errors
    /// If the state cannot be restored.
    fn restore(&self, from: &mut StateReader<'_>) -> std::result::Result<(), String>;

    /// Counts since the guest's start.
    fn injections(&self) -> Injections;

    /// Held by a thread that runs device models.
    fn permit(&self) -> Permit {
        None
    }

    /// Descriptors that the event loop watches for the controller, once all devices are connected.
    fn watches(&self) -> Vec<Watch> {
        Vec::new()
    }

    /// Executes an SBI call of the guest to the controller; returns `a0` and `a1`, `None` for all
    /// other calls.
    fn sbi_call(&self, extension: u64, function: u64, args: &[u64; 6]) -> Option<(i64, u64)> {
        let _ = (extension, function, args);
        None
    }
}

/// `interrupts-extended` for the supervisor external interrupt of every hart. A guest has no
/// M-mode.
pub fn external_interrupts(cpu_intc: &[u32]) -> Vec<u32> {
    const S_EXTERNAL: u32 = 9;
    cpu_intc
        .iter()
        .flat_map(|&intc| [intc, S_EXTERNAL])
        .collect()
}
