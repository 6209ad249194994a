//! Decodes instructions for execution, for harts with given extensions.

use trapless_isa::Extensions;
use trapless_isa::decode::decode;
use trapless_isa::inst::{Format, Inst, NO_REG, Op};

/// Decoded instructions outside blocks that are cached.
const SINGLES: usize = 1024;

/// Decodes instructions.
pub(crate) struct Decoder {
    extensions: Extensions,
    /// Cache of decoded instructions outside blocks, by a hash of their bits.
    singles: Vec<Inst>,
}

impl Decoder {
    /// For harts with these extensions.
    pub fn new(extensions: Extensions) -> Self {
        Self {
            extensions,
            singles: Vec::new(),
        }
    }

    /// Whether harts have compressed instructions.
    pub fn compressed(&self) -> bool {
        self.extensions.c
    }

    /// Decodes an instruction outside blocks.
    pub fn single(&mut self, raw: u32) -> Inst {
        if self.singles.is_empty() {
            self.singles = vec![self.decode(0); SINGLES];
        }
        let slot = (raw ^ raw >> 12) as usize % SINGLES;
        if self.singles[slot].raw != raw {
            self.singles[slot] = self.decode(raw);
        }
        self.singles[slot]
    }

    /// Decodes for execution: instructions of absent extensions become illegal, and a destination
    /// `x0` becomes [`NO_REG`].
    pub fn decode(&self, raw: u32) -> Inst {
        let mut inst = decode(raw);
        if !self.present(&inst) {
            inst.op = Op::Illegal;
        }
        let to_f = matches!(
            inst.op.format(),
            Format::FLoad
                | Format::F
                | Format::FRm
                | Format::F4Rm
                | Format::FUnaryRm
                | Format::XToF
                | Format::XToFRm
        );
        if inst.rd == 0 && !to_f {
            inst.rd = NO_REG;
        }
        inst
    }

    fn present(&self, inst: &Inst) -> bool {
        let e = &self.extensions;
        if inst.len == 2 && !e.c {
            return false;
        }
        // Of Svinval's instructions, these invalidate what only H has.
        let of_h = matches!(inst.op, Op::HinvalVvma | Op::HinvalGvma);
        e.has(inst.op.extension()) && (e.h || !of_h)
    }
}
