//! The A extension.
//!
//! Harts of a machine run on one host thread, so a read-modify-write is atomic by itself. SC
//! compares memory with the value LR saw: a store by another hart that changed it makes SC fail.

use trapless_isa::inst::{Inst, Op};

use trapless_jit::Reservation;

use crate::hart::Hart;
use crate::memory::ram;
use crate::syndrome::Fault;

/// Sign-extends a loaded word; doublewords stay as they are.
fn extend(value: u64, size: u8) -> u64 {
    if size == 4 {
        value as i32 as u64
    } else {
        value
    }
}

impl Hart {
    pub(super) fn exec_atomic(&mut self, inst: &Inst) -> Result<(), Fault> {
        let size = if inst.raw >> 12 & 7 == 2 { 4 } else { 8 };
        let va = self.state.x[usize::from(inst.rs1 & 63)];
        let operand = self.state.x[usize::from(inst.rs2 & 63)];
        let rd = usize::from(inst.rd & 63);
        match inst.op {
            Op::LrW | Op::LrD => {
                let host = self.atomic(va, size, true, false)?;
                // SAFETY: `atomic` found `size` aligned bytes in RAM.
                let value = unsafe { ram::load(host, size) };
                self.state.reservation = Reservation {
                    host: host.get() as u64,
                    size: size.into(),
                    value,
                };
                self.state.x[rd] = extend(value, size);
            }
            Op::ScW | Op::ScD => {
                let host = self.atomic(va, size, false, true)?;
                let now = Reservation {
                    host: host.get() as u64,
                    size: size.into(),
                    // SAFETY: `atomic` found `size` aligned bytes in RAM.
                    value: unsafe { ram::load(host, size) },
                };
                let held = std::mem::replace(&mut self.state.reservation, Reservation::NONE) == now;
                if held {
                    // SAFETY: as above.
                    unsafe { ram::store(host, size, operand) };
                }
                self.state.x[rd] = u64::from(!held);
            }
            op => {
                let host = self.atomic(va, size, true, true)?;
                // SAFETY: `atomic` found `size` aligned bytes in RAM.
                let old = extend(unsafe { ram::load(host, size) }, size);
                let new = combine(op, old, extend(operand, size));
                // SAFETY: as above.
                unsafe { ram::store(host, size, new) };
                self.state.x[rd] = old;
            }
        }
        Ok(())
    }
}

/// Both operands are sign-extended, which preserves the order of unsigned words too.
fn combine(op: Op, old: u64, operand: u64) -> u64 {
    match op {
        Op::AmoswapW | Op::AmoswapD => operand,
        Op::AmoaddW | Op::AmoaddD => old.wrapping_add(operand),
        Op::AmoxorW | Op::AmoxorD => old ^ operand,
        Op::AmoandW | Op::AmoandD => old & operand,
        Op::AmoorW | Op::AmoorD => old | operand,
        Op::AmominW | Op::AmominD => (old as i64).min(operand as i64) as u64,
        Op::AmomaxW | Op::AmomaxD => (old as i64).max(operand as i64) as u64,
        Op::AmominuW | Op::AmominuD => old.min(operand),
        Op::AmomaxuW | Op::AmomaxuD => old.max(operand),
        other => unreachable!("{other:?} is no AMO"),
    }
}
