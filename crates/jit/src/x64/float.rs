//! F and D by SSE.
//!
//! Exception flags accrue in `mxcsr`, and are merged into `fflags` when compiled code is left. The
//! slow path is taken for results that are NaN, whose payloads differ from RISC-V's; for rounding
//! modes other than to nearest; and while FS is not dirty. Computing a result twice raises the same
//! flags.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Ext, Inst, Op};

use super::block::{BlockCompiler, Slow};
use super::regs::{RAX, at, f_at};
use crate::{FLOAT_DIRTY, FLOAT_NEAREST, Position};

/// Rounding modes in instructions.
mod rm {
    pub const NEAREST: u8 = 0;
    pub const ZERO: u8 = 1;
    pub const DYNAMIC: u8 = 7;
}

impl BlockCompiler<'_> {
    /// Whether a block needs clean exception flags at its start.
    pub fn uses_float(insts: &[Inst]) -> bool {
        insts.iter().any(|inst| inst.op.is_fp())
    }

    /// Loads a clean `mxcsr`, once after compiled code is entered.
    pub fn begin_float(&mut self) {
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + at!(float.used)], 0
            ; jne >ready
            ; mov BYTE [rbx + at!(float.used)], 1
            ; ldmxcsr [rbx + at!(float.clean)]
            ; ready:
        );
    }

    /// Emits an instruction of F or D; `false` if it has no template.
    pub fn float(&mut self, inst: &Inst, at: Position) -> bool {
        if !inst.op.is_fp() {
            return false;
        }
        let single = inst.op.extension() == Ext::F;
        let mut slow = self.slow_path(at);
        let done = self.float_memory(inst, &mut slow)
            || self.float_move(inst, &slow)
            || self.float_compare(inst, single, &slow)
            || self.float_convert(inst, &slow)
            || self.float_arithmetic(inst, single, &slow);
        if done {
            self.end_probe(slow);
        }
        done
    }

    /// Takes the slow path unless FS is dirty.
    fn require_dirty(&mut self, slow: &Slow) {
        dynasm!(self.ops
            ; .arch x64
            ; test BYTE [rbx + at!(float.state)], FLOAT_DIRTY as i8
            ; jz =>slow.out
        );
    }

    /// Takes the slow path unless FS is dirty and the rounding mode is to nearest.
    fn require_nearest(&mut self, rounding: u8, slow: &Slow) {
        if rounding != rm::DYNAMIC {
            return self.require_dirty(slow);
        }
        dynasm!(self.ops
            ; .arch x64
            ; test BYTE [rbx + at!(float.state)], FLOAT_NEAREST as i8
            ; jz =>slow.out
        );
    }

    /// Takes the slow path unless register `f` holds a NaN-boxed single.
    fn require_boxed(&mut self, f: u8, slow: &Slow) {
        let at = f_at(f);
        dynasm!(self.ops
            ; .arch x64
            ; cmp DWORD [rbx + at + 4], -1
            ; jne =>slow.out
        );
    }

    fn float_memory(&mut self, inst: &Inst, slow: &mut Slow) -> bool {
        let (size, store) = match inst.op {
            Op::Flw => (4, false),
            Op::Fld => (8, false),
            Op::Fsw => (4, true),
            Op::Fsd => (8, true),
            _ => return false,
        };
        self.require_dirty(slow);
        self.probe(inst.rs1, inst.imm, size, store, slow);
        let register = f_at(if store { inst.rs2 } else { inst.rd });
        match inst.op {
            Op::Flw => dynasm!(self.ops
                ; .arch x64
                ; mov edx, [rax]
                ; mov [rbx + register], edx
                ; mov DWORD [rbx + register + 4], -1
            ),
            Op::Fld => dynasm!(self.ops; .arch x64; mov rdx, [rax]; mov [rbx + register], rdx),
            Op::Fsw => dynasm!(self.ops; .arch x64; mov edx, [rbx + register]; mov [rax], edx),
            _ => dynasm!(self.ops; .arch x64; mov rdx, [rbx + register]; mov [rax], rdx),
        }
        true
    }

    /// Emits moves between register files and sign injection.
    fn float_move(&mut self, inst: &Inst, slow: &Slow) -> bool {
        let (a, b, d) = (f_at(inst.rs1), f_at(inst.rs2), f_at(inst.rd));
        match inst.op {
            Op::FmvXD | Op::FmvXW => {
                self.require_dirty(slow);
                let to = self.target(inst.rd);
                if inst.op == Op::FmvXD {
                    dynasm!(self.ops; .arch x64; mov Rq(to), [rbx + a]);
                } else {
                    dynasm!(self.ops; .arch x64; movsxd Rq(to), DWORD [rbx + a]);
                }
                self.put(inst.rd, to);
            }
            Op::FmvDX => {
                self.require_dirty(slow);
                let from = self.value(inst.rs1, RAX);
                dynasm!(self.ops; .arch x64; mov [rbx + d], Rq(from));
            }
            Op::FmvWX => {
                self.require_dirty(slow);
                let from = self.value(inst.rs1, RAX);
                dynasm!(self.ops; .arch x64; mov [rbx + d], Rd(from));
                dynasm!(self.ops; .arch x64; mov DWORD [rbx + d + 4], -1);
            }
            Op::FsgnjD | Op::FsgnjnD | Op::FsgnjxD => {
                self.require_dirty(slow);
                dynasm!(self.ops; .arch x64; mov rax, [rbx + a]; mov rcx, [rbx + b]);
                match inst.op {
                    Op::FsgnjD => dynasm!(self.ops; .arch x64; shr rcx, 63; btr rax, BYTE 63),
                    Op::FsgnjnD => {
                        dynasm!(self.ops; .arch x64; not rcx; shr rcx, 63; btr rax, BYTE 63);
                    }
                    _ => dynasm!(self.ops; .arch x64; shr rcx, 63),
                }
                dynasm!(self.ops
                    ; .arch x64
                    ; shl rcx, 63
                    ; xor rax, rcx
                    ; mov [rbx + d], rax
                );
            }
            Op::FsgnjS | Op::FsgnjnS | Op::FsgnjxS => {
                self.require_dirty(slow);
                self.require_boxed(inst.rs1, slow);
                self.require_boxed(inst.rs2, slow);
                dynasm!(self.ops; .arch x64; mov eax, [rbx + a]; mov ecx, [rbx + b]);
                match inst.op {
                    Op::FsgnjS => dynasm!(self.ops; .arch x64; btr eax, BYTE 31),
                    Op::FsgnjnS => dynasm!(self.ops; .arch x64; not ecx; btr eax, BYTE 31),
                    _ => {}
                }
                dynasm!(self.ops
                    ; .arch x64
                    ; and ecx, i32::MIN
                    ; xor eax, ecx
                    ; mov [rbx + d], eax
                    ; mov DWORD [rbx + d + 4], -1
                );
            }
            _ => return false,
        }
        true
    }

    fn float_compare(&mut self, inst: &Inst, single: bool, slow: &Slow) -> bool {
        let equal = matches!(inst.op, Op::FeqS | Op::FeqD);
        let less = matches!(inst.op, Op::FltS | Op::FltD);
        if !(equal || less || matches!(inst.op, Op::FleS | Op::FleD)) {
            return false;
        }
        self.require_dirty(slow);
        if single {
            self.require_boxed(inst.rs1, slow);
            self.require_boxed(inst.rs2, slow);
        }
        let (a, b) = (f_at(inst.rs1), f_at(inst.rs2));
        match (equal, single) {
            (true, true) => dynasm!(self.ops
                ; .arch x64
                ; movss xmm0, [rbx + a]
                ; ucomiss xmm0, [rbx + b]
            ),
            (true, false) => dynasm!(self.ops
                ; .arch x64
                ; movsd xmm0, [rbx + a]
                ; ucomisd xmm0, [rbx + b]
            ),
            // Operands are exchanged: unordered ones set the carry, which must read as false.
            (false, true) => dynasm!(self.ops
                ; .arch x64
                ; movss xmm0, [rbx + b]
                ; comiss xmm0, [rbx + a]
            ),
            (false, false) => dynasm!(self.ops
                ; .arch x64
                ; movsd xmm0, [rbx + b]
                ; comisd xmm0, [rbx + a]
            ),
        }
        if equal {
            dynasm!(self.ops; .arch x64; sete al; setnp cl; and al, cl);
        } else if less {
            dynasm!(self.ops; .arch x64; seta al);
        } else {
            dynasm!(self.ops; .arch x64; setae al);
        }
        dynasm!(self.ops; .arch x64; movzx eax, al);
        self.put(inst.rd, RAX);
        true
    }

    /// Emits conversions. SSE converts signed integers only: unsigned values outside their range
    /// take the slow path before any flag is raised.
    fn float_convert(&mut self, inst: &Inst, slow: &Slow) -> bool {
        let (a, d) = (f_at(inst.rs1), f_at(inst.rd));
        match inst.op {
            Op::FcvtWS | Op::FcvtWD | Op::FcvtLS | Op::FcvtLD | Op::FcvtLuS | Op::FcvtLuD => {
                if !self.float_to_integer(inst, slow) {
                    return false;
                }
            }
            Op::FcvtDW | Op::FcvtDWu => {
                // Exact in every rounding mode, but the mode must be valid.
                if inst.rm != rm::NEAREST && inst.rm != rm::DYNAMIC {
                    return false;
                }
                self.require_nearest(inst.rm, slow);
                let from = self.value(inst.rs1, RAX);
                dynasm!(self.ops; .arch x64; pxor xmm0, xmm0);
                if inst.op == Op::FcvtDW {
                    dynasm!(self.ops; .arch x64; cvtsi2sd xmm0, Rd(from));
                } else {
                    dynasm!(self.ops; .arch x64; mov eax, Rd(from); cvtsi2sd xmm0, rax);
                }
                dynasm!(self.ops; .arch x64; movsd [rbx + d], xmm0);
            }
            Op::FcvtDL | Op::FcvtDLu | Op::FcvtSW | Op::FcvtSWu | Op::FcvtSL | Op::FcvtSLu => {
                if inst.rm != rm::NEAREST && inst.rm != rm::DYNAMIC {
                    return false;
                }
                self.require_nearest(inst.rm, slow);
                let from = self.value(inst.rs1, RAX);
                dynasm!(self.ops; .arch x64; pxor xmm0, xmm0);
                if matches!(inst.op, Op::FcvtDLu | Op::FcvtSLu) {
                    dynasm!(self.ops; .arch x64; test Rq(from), Rq(from); js =>slow.out);
                }
                match inst.op {
                    Op::FcvtDL | Op::FcvtDLu => dynasm!(self.ops
                        ; .arch x64
                        ; cvtsi2sd xmm0, Rq(from)
                        ; movsd [rbx + d], xmm0
                    ),
                    Op::FcvtSW => dynasm!(self.ops; .arch x64; cvtsi2ss xmm0, Rd(from)),
                    Op::FcvtSWu => {
                        dynasm!(self.ops; .arch x64; mov eax, Rd(from); cvtsi2ss xmm0, rax);
                    }
                    _ => dynasm!(self.ops; .arch x64; cvtsi2ss xmm0, Rq(from)),
                }
                if !matches!(inst.op, Op::FcvtDL | Op::FcvtDLu) {
                    self.put_single(d);
                }
            }
            Op::FcvtSD => {
                if inst.rm != rm::NEAREST && inst.rm != rm::DYNAMIC {
                    return false;
                }
                self.require_nearest(inst.rm, slow);
                dynasm!(self.ops
                    ; .arch x64
                    ; cvtsd2ss xmm0, [rbx + a]
                    ; ucomiss xmm0, xmm0
                    ; jp =>slow.out
                );
                self.put_single(d);
            }
            Op::FcvtDS => {
                if inst.rm != rm::NEAREST && inst.rm != rm::DYNAMIC {
                    return false;
                }
                self.require_nearest(inst.rm, slow);
                self.require_boxed(inst.rs1, slow);
                dynasm!(self.ops
                    ; .arch x64
                    ; cvtss2sd xmm0, [rbx + a]
                    ; ucomisd xmm0, xmm0
                    ; jp =>slow.out
                    ; movsd [rbx + d], xmm0
                );
            }
            _ => return false,
        }
        true
    }

    /// Emits a conversion to an integer. Values out of range become the least integer, which takes
    /// the slow path; both architectures raise the invalid flag.
    fn float_to_integer(&mut self, inst: &Inst, slow: &Slow) -> bool {
        let truncate = match inst.rm {
            rm::ZERO => {
                self.require_dirty(slow);
                true
            }
            rm::NEAREST | rm::DYNAMIC => {
                self.require_nearest(inst.rm, slow);
                false
            }
            _ => return false,
        };
        if matches!(inst.op, Op::FcvtWS | Op::FcvtLS | Op::FcvtLuS) {
            self.require_boxed(inst.rs1, slow);
        }
        let a = f_at(inst.rs1);
        // Negative numbers, -0 included, and numbers from 2^63 up: as unsigned integers, their bits
        // compare at or above those of 2^63.
        if inst.op == Op::FcvtLuS {
            dynasm!(self.ops; .arch x64; cmp DWORD [rbx + a], 0x5F00_0000; jae =>slow.out);
        } else if inst.op == Op::FcvtLuD {
            dynasm!(self.ops
                ; .arch x64
                ; mov rcx, QWORD 0x43E0_0000_0000_0000
                ; cmp [rbx + a], rcx
                ; jae =>slow.out
            );
        }
        match (inst.op, truncate) {
            (Op::FcvtWS, true) => dynasm!(self.ops; .arch x64; cvttss2si eax, [rbx + a]),
            (Op::FcvtWS, false) => dynasm!(self.ops; .arch x64; cvtss2si eax, [rbx + a]),
            (Op::FcvtWD, true) => dynasm!(self.ops; .arch x64; cvttsd2si eax, [rbx + a]),
            (Op::FcvtWD, false) => dynasm!(self.ops; .arch x64; cvtsd2si eax, [rbx + a]),
            (Op::FcvtLS | Op::FcvtLuS, true) => {
                dynasm!(self.ops; .arch x64; cvttss2si rax, [rbx + a])
            }
            (Op::FcvtLS | Op::FcvtLuS, false) => {
                dynasm!(self.ops; .arch x64; cvtss2si rax, [rbx + a])
            }
            (_, true) => dynasm!(self.ops; .arch x64; cvttsd2si rax, [rbx + a]),
            (_, false) => dynasm!(self.ops; .arch x64; cvtsd2si rax, [rbx + a]),
        }
        if matches!(inst.op, Op::FcvtWS | Op::FcvtWD) {
            dynasm!(self.ops; .arch x64; cmp eax, i32::MIN; je =>slow.out; cdqe);
        } else {
            dynasm!(self.ops
                ; .arch x64
                ; mov rcx, QWORD i64::MIN
                ; cmp rax, rcx
                ; je =>slow.out
            );
        }
        self.put(inst.rd, RAX);
        true
    }

    fn float_arithmetic(&mut self, inst: &Inst, single: bool, slow: &Slow) -> bool {
        let known = matches!(
            inst.op,
            Op::FaddS
                | Op::FsubS
                | Op::FmulS
                | Op::FdivS
                | Op::FsqrtS
                | Op::FmaddS
                | Op::FmsubS
                | Op::FnmsubS
                | Op::FnmaddS
                | Op::FaddD
                | Op::FsubD
                | Op::FmulD
                | Op::FdivD
                | Op::FsqrtD
                | Op::FmaddD
                | Op::FmsubD
                | Op::FnmsubD
                | Op::FnmaddD
        );
        if !known || (inst.rm != rm::NEAREST && inst.rm != rm::DYNAMIC) {
            return false;
        }
        self.require_nearest(inst.rm, slow);
        let (a, b, c, d) = (
            f_at(inst.rs1),
            f_at(inst.rs2),
            f_at(inst.rs3),
            f_at(inst.rd),
        );
        if single {
            self.require_boxed(inst.rs1, slow);
            if inst.op != Op::FsqrtS {
                self.require_boxed(inst.rs2, slow);
            }
            let fused = matches!(inst.op, Op::FmaddS | Op::FmsubS | Op::FnmsubS | Op::FnmaddS);
            if fused {
                self.require_boxed(inst.rs3, slow);
                dynasm!(self.ops; .arch x64; movss xmm1, [rbx + b]; movss xmm2, [rbx + c]);
            }
            dynasm!(self.ops; .arch x64; movss xmm0, [rbx + a]);
            match inst.op {
                Op::FaddS => dynasm!(self.ops; .arch x64; addss xmm0, [rbx + b]),
                Op::FsubS => dynasm!(self.ops; .arch x64; subss xmm0, [rbx + b]),
                Op::FmulS => dynasm!(self.ops; .arch x64; mulss xmm0, [rbx + b]),
                Op::FdivS => dynasm!(self.ops; .arch x64; divss xmm0, [rbx + b]),
                Op::FsqrtS => dynasm!(self.ops; .arch x64; sqrtss xmm0, xmm0),
                Op::FmaddS => dynasm!(self.ops; .arch x64; vfmadd213ss xmm0, xmm1, xmm2),
                Op::FmsubS => dynasm!(self.ops; .arch x64; vfmsub213ss xmm0, xmm1, xmm2),
                Op::FnmsubS => dynasm!(self.ops; .arch x64; vfnmadd213ss xmm0, xmm1, xmm2),
                _ => dynasm!(self.ops; .arch x64; vfnmsub213ss xmm0, xmm1, xmm2),
            }
            dynasm!(self.ops; .arch x64; ucomiss xmm0, xmm0; jp =>slow.out);
            self.put_single(d);
            return true;
        }
        dynasm!(self.ops; .arch x64; movsd xmm0, [rbx + a]);
        match inst.op {
            Op::FaddD => dynasm!(self.ops; .arch x64; addsd xmm0, [rbx + b]),
            Op::FsubD => dynasm!(self.ops; .arch x64; subsd xmm0, [rbx + b]),
            Op::FmulD => dynasm!(self.ops; .arch x64; mulsd xmm0, [rbx + b]),
            Op::FdivD => dynasm!(self.ops; .arch x64; divsd xmm0, [rbx + b]),
            Op::FsqrtD => dynasm!(self.ops; .arch x64; sqrtsd xmm0, xmm0),
            _ => {
                dynasm!(self.ops; .arch x64; movsd xmm1, [rbx + b]; movsd xmm2, [rbx + c]);
                match inst.op {
                    Op::FmaddD => dynasm!(self.ops; .arch x64; vfmadd213sd xmm0, xmm1, xmm2),
                    Op::FmsubD => dynasm!(self.ops; .arch x64; vfmsub213sd xmm0, xmm1, xmm2),
                    Op::FnmsubD => dynasm!(self.ops; .arch x64; vfnmadd213sd xmm0, xmm1, xmm2),
                    _ => dynasm!(self.ops; .arch x64; vfnmsub213sd xmm0, xmm1, xmm2),
                }
            }
        }
        dynasm!(self.ops
            ; .arch x64
            ; ucomisd xmm0, xmm0
            ; jp =>slow.out
            ; movsd [rbx + d], xmm0
        );
        true
    }

    /// Boxes the single in `xmm0`.
    fn put_single(&mut self, d: i32) {
        dynasm!(self.ops
            ; .arch x64
            ; movss [rbx + d], xmm0
            ; mov DWORD [rbx + d + 4], -1
        );
    }
}
