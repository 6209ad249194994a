//! From instruction bits to what the engines execute, for harts with certain extensions.

use trapless_isa::decode::decode;
use trapless_isa::inst::{Ext, Format, Inst, NO_REG, Op};

use crate::config::Extensions;

/// Instructions that no block holds which are kept decoded.
const SINGLES: usize = 1024;

/// Decodes instructions.
pub(crate) struct Decoder {
    extensions: Extensions,
    /// Instructions that no block holds, as decoded last, by a hash of their bits.
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

    /// Decodes an instruction that no block holds.
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

    /// Decodes for execution: absent extensions become illegal, `x0` as destination a scratch slot.
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
        match inst.op.extension() {
            Ext::F | Ext::D => e.fd,
            Ext::Zba | Ext::Zbb | Ext::Zbs => e.b,
            Ext::Zicbom | Ext::Zicboz => e.zicbo,
            Ext::Zicond => e.zicond,
            Ext::Zawrs => e.zawrs,
            Ext::Svinval => {
                e.svinval && (e.h || !matches!(inst.op, Op::HinvalVvma | Op::HinvalGvma))
            }
            Ext::H => e.h,
            _ => true,
        }
    }
}
