//! Interrupt architectures behind one trait.
//!
//! An interrupt architecture owns MMIO windows and CSRs, takes device wires in and drives the
//! interrupt inputs ([`Lines`]) of every hart. It never sees a hart's registers.
//!
//! | module | subject |
//! |---|---|
//! | [`plic`] | register model of the PLIC, usable on its own by a VMM |
//! | [`aclint`] | MSWI, MTIMER, SSWI |
//! | [`aclint_plic`] | both together as an [`InterruptArchitecture`] |
//! | [`aia`] | IMSICs and an APLIC: the Advanced Interrupt Architecture |
//! | [`trapless`] | the same with Xtrapless: interrupts reach vCPUs without traps |
//!
//! `examples/doorbell.rs` is a small complete controller to start an own one from.

pub mod aclint;
pub mod aclint_plic;
pub mod aia;
pub mod plic;
pub mod trapless;

use trapless_isa::Mode;
pub use trapless_isa::port::{
    CsrAccess, CsrFault, CsrOp, FileAccess, FileId, FileRegister, Lines, NoFile, StepKind,
    VirtualStep,
};

/// Phandle for the node that devices name as `interrupt-parent`. The machine numbers its own nodes
/// below it, an architecture may use any number from here on.
pub const EXTERNAL_PHANDLE: u32 = 0x1000;

/// A range of physical addresses that an interrupt architecture answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Name for ledgers and logs, for instance `"plic"`.
    pub name: &'static str,
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A MMIO access no register answers (wrong address, width or alignment).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRegister;

/// Physical memory, for architectures that keep tables in it. Accesses are naturally aligned words
/// of 8 bytes; as harts and architecture take turns, each is atomic.
pub trait Memory: Send {
    /// The accesses that follow are caused by `hart`: what its HS-mode must not access, they must
    /// not either.
    fn act_for(&mut self, hart: usize) {
        let _ = hart;
    }

    /// Loads a word; `None` outside RAM and where the hart must not read.
    fn load(&self, addr: u64) -> Option<u64>;

    /// Stores a word; `None` outside RAM and where the hart must not write.
    fn store(&self, addr: u64, value: u64) -> Option<()>;
}

/// One interrupt architecture of a machine.
///
/// All times are virtual time in cycles; `ticks` of `mtime` are derived from them by the
/// architecture's own configuration. Harts run ahead of each other by up to one quantum, so the
/// times of successive calls for *different* harts may go back a little. Implementations must be
/// deterministic: no host time, no iteration over hash maps.
pub trait InterruptArchitecture: Send {
    /// Short name, for instance `"aclint-plic"`.
    fn name(&self) -> &'static str;

    /// MMIO windows it answers.
    fn windows(&self) -> Vec<Window>;

    /// Loads `size` bytes (1, 2, 4, 8) at physical address `addr` inside one of its windows.
    ///
    /// # Errors
    /// [`NoRegister`] becomes an access fault of the hart.
    fn load(&mut self, hart: usize, now: u64, addr: u64, size: u8) -> Result<u64, NoRegister>;

    /// Stores `size` bytes at physical address `addr` inside one of its windows.
    ///
    /// # Errors
    /// [`NoRegister`] becomes an access fault of the hart.
    fn store(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), NoRegister>;

    /// Accesses a CSR the hart does not implement itself; the default knows none.
    ///
    /// # Errors
    /// See [`CsrFault`].
    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        let _ = access;
        Err(CsrFault::Illegal)
    }

    /// Whether [`csr`](Self::csr) answers HS-mode at this address.
    fn has_csr(&self, csr: u16) -> bool {
        let _ = csr;
        false
    }

    /// GEILEN, the number of guest interrupt files of each hart, if the harts have Smaia and Ssaia.
    fn guest_files(&self) -> Option<u8> {
        None
    }

    /// Accesses an interrupt file of an IMSIC.
    ///
    /// # Errors
    /// [`NoFile`] if there is none.
    fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let _ = access;
        Err(NoFile)
    }

    /// A device drives its wire (`source` >= 1) high or low at time `now`. High when it is high
    /// already: the device has a new reason, which only edge-triggered sources notice.
    fn set_source(&mut self, now: u64, source: u32, level: bool);

    /// The interrupt inputs of `hart` at time `now`: a function of the present state and `now`,
    /// except that `pulse` bits are handed over once.
    ///
    /// The machine delays what one hart does to another until the other has reached that time;
    /// an architecture does not have to.
    fn lines(&mut self, hart: usize, now: u64) -> Lines;

    /// Set of harts (bit per hart) whose [`lines`](Self::lines) may have changed since the last
    /// call of this function other than by time alone; the machine then asks for their lines.
    fn take_changed(&mut self) -> u64;

    /// Whether [`mode_changed`](Self::mode_changed) should be called.
    fn wants_mode_changes(&self) -> bool {
        false
    }

    /// `hart` entered `mode` with `hgatp.VMID` = `vmid`.
    fn mode_changed(&mut self, hart: usize, now: u64, mode: Mode, vmid: u16) {
        let _ = (hart, now, mode, vmid);
    }

    /// Gives the architecture its way to memory, once, before anything else is called.
    fn attach_memory(&mut self, memory: Box<dyn Memory>) {
        let _ = memory;
    }

    /// Interrupt numbers from 16 up (bits as in `mip`) that belong to supervisor mode without
    /// firmware's help: read-only one in `mideleg`.
    fn supervisor_interrupts(&self) -> u64 {
        0
    }

    /// Whether the CSRs of the architecture are custom state, which bit C of the state-enable
    /// registers controls (Smstateen).
    fn custom_csrs(&self) -> bool {
        false
    }

    /// Names of ISA extensions that the architecture brings, as in ISA strings.
    fn isa_extensions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Set of harts that run another vCPU since the last call: changes of VS-level inputs that are
    /// still on their way to them were meant for the previous one and are forgotten.
    fn take_switched(&mut self) -> u64 {
        0
    }

    /// Whether steps are to be kept for [`take_steps`](Self::take_steps); at first they are not.
    fn record_steps(&mut self, on: bool) {
        let _ = on;
    }

    /// Steps since the last call, in the order they happened.
    fn take_steps(&mut self) -> Vec<VirtualStep> {
        Vec::new()
    }

    /// Adds the architecture's nodes below `/soc` (two address cells, two size cells) of the
    /// machine's device tree. `cpu_intc` holds the phandle of each hart's local interrupt
    /// controller.
    ///
    /// # Errors
    /// Passes on errors of the writer.
    fn fdt(&self, fdt: &mut vm_fdt::FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error>;

    /// Cells of a device's `interrupts` property for a level-triggered `source`.
    fn interrupt_cells(&self, source: u32) -> Vec<u32> {
        vec![source]
    }

    /// Phandle that devices use as `interrupt-parent`; known before [`fdt`](Self::fdt) is called.
    /// Normally
    /// [`EXTERNAL_PHANDLE`].
    fn external_phandle(&self) -> u32;

    /// All state, for snapshots.
    fn save(&self) -> serde_json::Value;

    /// Restores what [`save`](Self::save) returned.
    ///
    /// # Errors
    /// A sentence that says what does not fit.
    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String>;
}
