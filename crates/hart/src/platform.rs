//! The interface of a hart to the machine around it.

use trapless_isa::Mode;
use trapless_isa::port::{
    ContextAccess, CsrAccess, CsrFault, DoorbellAccess, DoorbellFault, Exchanged, FileAccess,
    Lines, NoFile,
};
use trapless_ledger::event::{Event, TimerSets};

use crate::Pmp;

/// The bus reports that nothing answers at an address, or not with that width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusFault;

/// The rest of the machine, seen from one hart while it runs.
///
/// The trait does *not* cover RAM: RAM is one host mapping ([`crate::Ram`]) that the hart reads and
/// writes directly. Every method is on a slow path. Calls carry the hart's local virtual time in
/// cycles because harts of one machine run ahead of each other by up to one quantum.
pub trait Platform {
    /// Loads `size` (1, 2, 4 or 8) bytes from a physical address outside RAM.
    ///
    /// # Errors
    /// [`BusFault`] becomes a load (or instruction) access fault.
    fn load(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        mode: Mode,
    ) -> Result<u64, BusFault>;

    /// Stores the low `size` bytes of `value` to a physical address outside RAM.
    ///
    /// # Errors
    /// [`BusFault`] becomes a store/AMO access fault.
    fn store(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        value: u64,
        mode: Mode,
    ) -> Result<(), BusFault>;

    /// Accesses a CSR that the hart does not implement itself.
    ///
    /// # Errors
    /// [`CsrFault`] becomes an illegal-instruction or virtual-instruction exception.
    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        let _ = access;
        Err(CsrFault::Illegal)
    }

    /// Cycles that the last [`load`](Self::load), [`store`](Self::store), [`csr`](Self::csr) or
    /// [`doorbell`](Self::doorbell) took beyond its price.
    fn take_delay(&mut self) -> u32 {
        0
    }

    /// Whether [`csr`](Self::csr) would permit HS-mode's access at this address: decides between
    /// illegal- and virtual-instruction exceptions for V=1.
    fn has_csr(&self, csr: u16) -> bool {
        let _ = csr;
        false
    }

    /// Accesses an interrupt file of the hart's IMSIC. Reading has no side effects.
    ///
    /// # Errors
    /// [`NoFile`] if there is none.
    fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let _ = access;
        Err(NoFile)
    }

    /// A guest's access to a doorbell page (Xvei). Returns the value of a load; 0 for a store.
    ///
    /// # Errors
    /// [`DoorbellFault`] becomes a guest-page fault.
    fn doorbell(&mut self, access: &DoorbellAccess) -> Result<u64, DoorbellFault> {
        let _ = access;
        Err(DoorbellFault { mmio: false })
    }

    /// The handler of a user context interrupts the guest of a hart whose [`Lines::context`] is set
    /// (Xhcs). Saves `registers`, which are the guest's, and replaces them by the handler's.
    /// Returns the handler's pending events; `None` if nothing is pending any more.
    fn enter_context(&mut self, access: &ContextAccess, registers: &mut Exchanged) -> Option<u64> {
        let _ = (access, registers);
        None
    }

    /// Ends that handler. Replaces `registers` by the guest's; `false`, without an effect, if there
    /// are none.
    fn leave_context(&mut self, access: &ContextAccess, registers: &mut Exchanged) -> bool {
        let _ = (access, registers);
        false
    }

    /// Interrupt inputs of `hart` at time `now`. The hart calls this at the start of a run, after
    /// each of its own [`store`](Self::store), [`load`](Self::load) and [`csr`](Self::csr) calls
    /// and when `now` reaches the last returned deadline. `pulse` bits are returned once.
    fn lines(&mut self, hart: usize, now: u64) -> Lines;

    /// Whether [`lines`](Self::lines) may have changed since the last call although its deadline
    /// has not been reached, because of another hart or a device. Called at the start of a run.
    fn lines_changed(&self, hart: usize) -> bool {
        let _ = hart;
        true
    }

    /// Called after M-mode has written PMP registers of `hart`. For parts of the platform that
    /// access memory on behalf of lower modes, which may access nothing after reset.
    fn protection_changed(&mut self, hart: usize, pmp: &Pmp) {
        let _ = (hart, pmp);
    }

    /// Whether the hart must stop at the end of the current block (power-off, Ctrl-C).
    fn stop_requested(&self) -> bool {
        false
    }

    /// Whether the platform accepts [`record_timer_sets`](Self::record_timer_sets) in place of
    /// single events. Called at the start of a run.
    fn sums_timer_sets(&self) -> bool {
        false
    }

    /// Receives several writes of a guest's timer at once.
    fn record_timer_sets(&mut self, sets: &TimerSets) {
        let _ = sets;
    }

    /// Records an event in the ledger.
    fn record(&mut self, event: &Event);
}
