//! F and D: operands and rounding here, arithmetic in [`crate::fpu`].

use trapless_isa::inst::{Format, Inst, Op};

use crate::fpu::{self, Rounding};
use crate::hart::Hart;
use crate::platform::Platform;
use crate::syndrome::Fault;

/// Upper half of a NaN-boxed single.
const BOX: u64 = 0xFFFF_FFFF_0000_0000;

impl Hart {
    pub(super) fn exec_float(&mut self, inst: &Inst, plat: &mut dyn Platform) -> Result<(), Fault> {
        if !self.fp_enabled() {
            return self.illegal(inst);
        }
        let va = || self.state.x[usize::from(inst.rs1 & 63)].wrapping_add(inst.imm as i64 as u64);
        let rd = usize::from(inst.rd & 31);
        match inst.op {
            Op::Flw | Op::Fld => {
                let (size, boxed) = if inst.op == Op::Flw { (4, BOX) } else { (8, 0) };
                self.state.f[rd] = self.load(va(), size, plat)? | boxed;
                self.fp_dirty();
                return Ok(());
            }
            Op::Fsw => {
                let (va, value) = (va(), self.state.f[usize::from(inst.rs2 & 31)]);
                return self.store(va, 4, value, plat);
            }
            Op::Fsd => {
                let (va, value) = (va(), self.state.f[usize::from(inst.rs2 & 31)]);
                return self.store(va, 8, value, plat);
            }
            _ => {}
        }
        let mut rounding = Rounding::Rne;
        if inst.op.has_rm() {
            let rm = if inst.rm == 7 {
                self.state.float.frm
            } else {
                inst.rm
            };
            match Rounding::from_bits(rm) {
                Some(r) => rounding = r,
                None => return self.illegal(inst),
            }
        }
        let format = inst.op.format();
        let from_x = matches!(format, Format::XToF | Format::XToFRm);
        let a = if from_x {
            self.state.x[usize::from(inst.rs1 & 63)]
        } else {
            self.state.f[usize::from(inst.rs1 & 31)]
        };
        let b = self.state.f[usize::from(inst.rs2 & 31)];
        let c = self.state.f[usize::from(inst.rs3 & 31)];
        let (result, flags) = fpu::execute(inst.op, a, b, c, rounding);
        if matches!(format, Format::FToX | Format::FToXRm | Format::FCompare) {
            self.state.x[usize::from(inst.rd & 63)] = result;
            if flags & !self.state.float.fflags != 0 {
                self.fp_dirty();
            }
        } else {
            self.state.f[rd] = result;
            self.fp_dirty();
        }
        self.state.float.fflags |= flags;
        Ok(())
    }
}
