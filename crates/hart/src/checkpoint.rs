//! The state of a hart in a checkpoint: everything that determines its further execution and
//! timing. Decoded and compiled code and statistics of engines are not part of it: a state has the
//! same bytes with every engine.

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;
use trapless_isa::csr::status;
use trapless_jit::Reservation;

use crate::csr::registers::Csrs;
use crate::csr::timers::Timers;
use crate::engine::trigger_state::TriggerState;
use crate::engine::turn::Turn;
use crate::hart::Hart;
use crate::inputs::Inputs;
use crate::memory::pmp::Pmp;
use crate::memory::tlb::SavedTlb;

/// State saved by [`Hart::save`] from a hart that is not running.
#[derive(Clone, Serialize, Deserialize)]
pub struct HartState {
    context: ContextState,
    csr: Csrs,
    mode: Mode,
    tlb: SavedTlb,
    inputs: Inputs,
    timers: Timers,
    turn: Turn,
    hfences: u64,
    thread: u64,
}

/// State that compiled code shares with the hart, without fields that are derived at each entry to
/// it.
#[derive(Clone, Serialize, Deserialize)]
struct ContextState {
    x: [u64; 32],
    f: [u64; 32],
    pc: u64,
    cycles: u64,
    instret: u64,
    frm: u8,
    fflags: u8,
    status_changed: u32,
    /// `mip`, `mie`, `vsip`, `vsie`.
    interrupts: [u64; 4],
    compare: [u64; 2],
    /// Offset in RAM, bytes and value of the reservation.
    reservation: Option<(u64, u64, u64)>,
}

impl Hart {
    /// Physical memory protection.
    #[must_use]
    pub fn pmp(&self) -> &Pmp {
        &self.csr.pmp
    }

    /// Its state. It must not be running.
    #[must_use]
    pub fn save(&self) -> HartState {
        let s = &self.state;
        let mut x = [0; 32];
        x.copy_from_slice(&s.x[..32]);
        let Reservation { host, size, value } = s.reservation;
        let offset = host.wrapping_sub(self.ram.host_base().get() as u64);
        HartState {
            context: ContextState {
                x,
                f: s.f,
                pc: s.pc,
                cycles: s.cycles,
                instret: s.instret,
                frm: s.float.frm,
                fflags: s.float.fflags,
                // Other bits, and those of guests, are updated more or less often depending on the
                // engine, and are not used.
                status_changed: match self.mode.v() {
                    true => 0,
                    false => s.csr.status_changed & status::SIE as u32,
                },
                interrupts: [
                    s.interrupts.mip,
                    s.interrupts.mie,
                    s.interrupts.vsip,
                    s.interrupts.vsie,
                ],
                compare: s.timer.compare,
                reservation: (host != 0).then_some((offset, size, value)),
            },
            csr: self.csr.clone(),
            mode: self.mode,
            tlb: self.tlb.save(&self.ram),
            inputs: self.inputs.clone(),
            timers: self.timers.clone(),
            turn: self.turn.clone(),
            hfences: self.watch.hfences,
            thread: self.watch.thread,
        }
    }

    /// Restores the state of a hart with the same configuration. Its RAM must have the content of
    /// that of the saved one.
    ///
    /// # Errors
    /// If no such hart can have had this state; the hart must not run any more then.
    pub fn restore(&mut self, saved: HartState) -> Result<(), &'static str> {
        let reservation = match saved.context.reservation {
            None => Reservation::NONE,
            Some((offset, size, value)) => {
                let host = self.ram.host_at(offset).filter(|_| matches!(size, 4 | 8));
                let host = host.filter(|_| offset.is_multiple_of(size));
                let host = host.ok_or("a reservation is outside RAM")?.get() as u64;
                Reservation { host, size, value }
            }
        };
        let table = |page| self.code.table(page);
        let restored = self.tlb.restore(saved.tlb, &self.ram, table);
        restored.ok_or("a TLB entry leads outside RAM")?;
        let from = saved.context;
        let pc_mask = self.pc_mask();
        let s = &mut self.state;
        s.x[..32].copy_from_slice(&from.x);
        s.f = from.f;
        s.pc = from.pc & pc_mask;
        s.cycles = from.cycles;
        s.instret = from.instret;
        s.float.frm = from.frm;
        s.float.fflags = from.fflags;
        s.csr.status_changed = from.status_changed;
        let [mip, mie, vsip, vsie] = from.interrupts;
        s.interrupts = trapless_jit::Interrupts {
            mip,
            mie,
            vsip,
            vsie,
        };
        s.timer.compare = from.compare;
        s.reservation = reservation;
        self.csr = saved.csr;
        let c = &mut self.csr;
        // Compiled code finds no block at an odd address.
        for epc in [&mut c.mepc, &mut c.user.epc, &mut c.hs.epc, &mut c.vs.epc] {
            *epc &= pc_mask;
        }
        self.mode = saved.mode;
        self.data_mode = self.explicit_mode();
        // This one has no marks.
        self.triggers = TriggerState::default();
        self.inputs = saved.inputs;
        self.timers = saved.timers;
        self.turn = saved.turn;
        self.watch.hfences = saved.hfences;
        self.watch.thread = saved.thread;
        self.attention();
        Ok(())
    }
}
