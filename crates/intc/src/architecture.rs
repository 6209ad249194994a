//! The traits between a machine and its interrupt architecture.

use std::sync::Arc;

use trapless_isa::port::{
    ContextAccess, CsrAccess, CsrFault, DoorbellAccess, DoorbellFault, Exchanged, FileAccess,
    Lines, MessageArrival, MmioAccess, NoFile,
};

use crate::effects::Effects;
use crate::inspect::Row;
use crate::mmio::{NoRegister, Window};

/// Phandle of the node that devices name as `interrupt-parent`. The machine numbers its own nodes
/// below it; an architecture may use any number from here on.
pub const EXTERNAL_PHANDLE: u32 = 0x1000;

/// Properties of an interrupt architecture from which a machine is built.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Description {
    /// Its MMIO windows.
    pub windows: Vec<Window>,
    /// Addresses of CSRs of HS-mode: a guest's access that is not permitted raises a
    /// virtual-instruction instead of an illegal-instruction exception.
    pub csrs: Vec<u16>,
    /// Whether its CSRs are custom state, which bit C of the state-enable registers controls
    /// (Smstateen).
    pub custom_csrs: bool,
    /// Interrupt numbers from 16 up (bits as in `mip`) that are always delegated to supervisor
    /// mode: read-only one in `mideleg`.
    pub supervisor_interrupts: u64,
    /// ISA extensions that it adds, named as in ISA strings.
    pub isa_extensions: &'static [&'static str],
    /// Cells that follow the number of a level-triggered source in a device's `interrupts`.
    pub trigger_cells: &'static [u32],
    /// Phandle of the node that devices name as `msi-parent`, if it takes their messages.
    pub msi_parent: Option<u32>,
}

/// One interrupt architecture of a machine.
///
/// All times are virtual time in cycles; ticks of `mtime` are derived from them by the
/// architecture's own configuration. Harts run ahead of each other by up to one quantum, so the
/// times of successive calls for *different* harts may go back a little. Implementations must be
/// deterministic: no host time, no iteration over hash maps.
///
/// An implementation has no access to a hart's registers. It reports changes for harts by
/// [`Effects`]; after reset the machine reads the lines of all harts in any case.
///
/// One hart rings another by `msip` of the ACLINT, as a machine does it; `examples/doorbell.rs`
/// implements an architecture of its own.
///
/// ```
/// use trapless_intc::aclint_plic::{ACLINT_BASE, AclintPlic, Config};
/// use trapless_intc::{Effects, InterruptArchitecture, MmioAccess};
/// use trapless_isa::{Mode, cause::interrupt::MSI};
///
/// let config = Config { harts: 2, cycles_per_tick: 100, sswi: true, edge_triggered: 0 };
/// let mut intc = AclintPlic::new(config);
/// let mut effects = Effects::default();
/// let msip_of_hart_1 = ACLINT_BASE + 4;
/// let access = MmioAccess { hart: 0, mode: Mode::M, now: 0, addr: msip_of_hart_1, size: 4 };
/// intc.store(&access, 1, &mut effects).unwrap();
/// assert_eq!(effects.changed, 1 << 1);
/// assert_ne!(intc.lines(1, 0).level & 1 << MSI, 0);
/// ```
pub trait InterruptArchitecture: Snapshot + Send {
    /// Its properties. The same at each call.
    fn describe(&self) -> Description;

    /// Loads from a physical address inside one of its windows.
    ///
    /// # Errors
    /// [`NoRegister`] becomes an access fault of the hart.
    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        let _ = (access, effects);
        Err(NoRegister)
    }

    /// Stores the low bytes of `value` to a physical address inside one of its windows.
    ///
    /// # Errors
    /// [`NoRegister`] becomes an access fault of the hart.
    fn store(
        &mut self,
        access: &MmioAccess,
        value: u64,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        let _ = (access, value, effects);
        Err(NoRegister)
    }

    /// Accesses a CSR that the hart does not implement itself.
    ///
    /// # Errors
    /// See [`CsrFault`].
    fn csr(&mut self, access: &CsrAccess, effects: &mut Effects) -> Result<u64, CsrFault> {
        let _ = (access, effects);
        Err(CsrFault::Illegal)
    }

    /// A guest accesses a page whose G-stage leaf names a doorbell page (Xvei). Returns the value
    /// of a load; 0 for a store.
    ///
    /// # Errors
    /// [`DoorbellFault`] becomes a guest-page fault.
    fn doorbell(
        &mut self,
        access: &DoorbellAccess,
        effects: &mut Effects,
    ) -> Result<u64, DoorbellFault> {
        let _ = (access, effects);
        Err(DoorbellFault { mmio: false })
    }

    /// The handler of a user context interrupts the guest of a hart whose [`Lines::context`] is set
    /// (Xhcs). Saves `registers`, which are the guest's, and replaces them by the handler's.
    /// Returns the handler's pending events; `None`, without an exchange, if nothing is pending any
    /// more.
    fn enter_context(
        &mut self,
        access: &ContextAccess,
        registers: &mut Exchanged,
        effects: &mut Effects,
    ) -> Option<u64> {
        let _ = (access, registers, effects);
        None
    }

    /// Ends that handler. Replaces `registers` by the guest's; `false`, without an effect, if no
    /// handler of a context runs on the hart or its guest's registers cannot be read (`HCS-15`).
    fn leave_context(
        &mut self,
        access: &ContextAccess,
        registers: &mut Exchanged,
        effects: &mut Effects,
    ) -> bool {
        let _ = (access, registers, effects);
        false
    }

    /// A device drives its wire (`source` >= 1) high or low at time `now`. Asserting a high wire
    /// again signals another event, which only affects edge-triggered sources.
    fn set_source(&mut self, now: u64, source: u32, level: bool, effects: &mut Effects);

    /// A device writes the word `data` to `addr`, outside RAM, at time `now`: a message signalled
    /// interrupt. Answers where it has arrived; `None`: nothing takes it.
    fn message(
        &mut self,
        now: u64,
        addr: u64,
        data: u32,
        effects: &mut Effects,
    ) -> Option<MessageArrival> {
        let _ = (now, addr, data, effects);
        None
    }

    /// The interrupt inputs of `hart` at time `now`: a function of the present state and `now`,
    /// except that `pulse` and `arrived` are returned once.
    ///
    /// The machine delays effects of one hart on another until the other has reached that time; an
    /// architecture need not.
    fn lines(&mut self, hart: usize, now: u64) -> Lines;

    /// Its interrupt files, if the harts have Smaia and Ssaia.
    fn interrupt_files(&mut self) -> Option<&mut dyn InterruptFiles> {
        None
    }

    /// Gives the architecture access to memory, once, before any other call.
    fn attach_memory(&mut self, memory: Arc<dyn Memory>) {
        let _ = memory;
    }

    /// Describes its state at time `now` as text, without side effects.
    fn inspect(&self, now: u64) -> Vec<Row> {
        let _ = now;
        Vec::new()
    }

    /// Describes the doorbell page at physical address `page` as text, without side effects. It is
    /// at guest physical address `gpa` of the guest that a hart runs or ran last.
    fn inspect_doorbells(&self, hart: usize, gpa: u64, page: u64) -> Vec<Row> {
        let _ = (hart, gpa, page);
        Vec::new()
    }

    /// Adds the architecture's nodes below `/soc` (two address cells, two size cells) of the
    /// machine's device tree. The node that devices name as `interrupt-parent` has the phandle
    /// [`EXTERNAL_PHANDLE`]; `cpu_intc` holds the phandle of each hart's local interrupt
    /// controller.
    ///
    /// # Errors
    /// Those of the writer.
    fn fdt(&self, fdt: &mut vm_fdt::FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error>;
}

/// The interrupt files of harts with Smaia and Ssaia. The CSRs of these extensions are in the hart,
/// which accesses the registers of its files here.
pub trait InterruptFiles {
    /// GEILEN, the number of guest interrupt files of each hart, 0..=63.
    fn guest_files(&self) -> u8;

    /// Accesses a register of an interrupt file; returns its old value.
    ///
    /// # Errors
    /// [`NoFile`] if the hart has no such file or the file no such register.
    fn access(&mut self, access: &FileAccess, effects: &mut Effects) -> Result<u64, NoFile>;
}

/// Physical memory, for architectures that keep tables in it. Accesses are naturally aligned words
/// of 8 bytes; as harts and architecture take turns, each is atomic. `hart` causes the access:
/// memory that its HS-mode must not access, the architecture must not access either.
pub trait Memory: Send + Sync {
    /// Loads a word; `None` outside RAM and where the hart must not read.
    fn load(&self, hart: usize, addr: u64) -> Option<u64>;

    /// Stores a word; `None` outside RAM and where the hart must not write.
    fn store(&self, hart: usize, addr: u64, value: u64) -> Option<()>;
}

/// An architecture whose state can be saved, and restored into another one of the same
/// configuration, which then behaves the same.
pub trait Snapshot {
    /// The complete state.
    fn save(&self) -> serde_json::Value;

    /// Restores what [`save`](Self::save) returned. The lines of all harts may have changed.
    ///
    /// # Errors
    /// If the state does not fit; nothing has changed then.
    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String>;
}
