//! Groups: consecutive loads, or stores, with the same base register share one TLB probe, as when
//! registers are saved and restored.
//!
//! The shared probe is taken only if every access would hit in the first way. Such hits have no
//! side effects, so results are those of single accesses.

use trapless_isa::{Inst, Op};

/// Maximum range of addresses of a group in bytes.
const SPAN: i32 = 2048;

/// A run of accesses that can share a probe.
pub(super) struct Group {
    /// Instructions.
    pub len: usize,
    pub store: bool,
    /// Smallest immediate.
    pub low: i32,
    /// Bytes from the lowest address accessed to the end of the highest access.
    pub span: i32,
    /// Largest access in bytes.
    pub align: i32,
}

/// The group that `insts` begin with. `access_of` returns the size in bytes of a load or store, and
/// whether it is a store; `None` for any other instruction, which ends the group.
pub(super) fn find(insts: &[Inst], access_of: impl Fn(Op) -> Option<(i32, bool)>) -> Option<Group> {
    let (size, store) = access_of(insts.first()?.op)?;
    let base = insts[0].rs1;
    let (mut low, mut high, mut align) = (insts[0].imm, insts[0].imm + size, size);
    let mut len = 0;
    for inst in insts {
        let Some((size, stores)) = access_of(inst.op) else {
            break;
        };
        let (new_low, new_high) = (low.min(inst.imm), high.max(inst.imm + size));
        let changed = len != 0 && {
            let [writes, ..] = insts[len - 1].op.format().integers();
            writes && insts[len - 1].rd == base
        };
        // If the lowest address is aligned to the largest access, all accesses are aligned.
        let apart = (inst.imm - insts[0].imm) % size.min(align) != 0;
        if stores != store || inst.rs1 != base || changed || apart || new_high - new_low > SPAN {
            break;
        }
        (low, high, align) = (new_low, new_high, align.max(size));
        len += 1;
    }
    let aligned = |inst: &Inst| {
        let size = access_of(inst.op).map_or(1, |(size, _)| size);
        (inst.imm - low) % size == 0
    };
    let group = Group {
        len,
        store,
        low,
        span: high - low,
        align,
    };
    (len > 1 && insts[..len].iter().all(aligned)).then_some(group)
}
