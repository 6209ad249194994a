//! The guest's access, decoded from `utinst`.

/// A transformed instruction (privileged specification, "Transformed Instruction or
/// Pseudoinstruction for mtinst or htinst").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Bytes of the access.
    pub len: u8,
    /// A load extends with zeroes.
    pub unsigned: bool,
    /// It is a store.
    pub store: bool,
    /// Register that is loaded or stored, 0..=31.
    pub register: usize,
    /// Bytes of the instruction.
    pub size: u64,
}

const LOAD: u32 = 0x03;
const STORE: u32 = 0x23;

impl Instruction {
    /// Decodes an integer load or store whose address is that of its first byte; `None` for
    /// everything else.
    pub fn decode(word: u64) -> Option<Self> {
        let word = u32::try_from(word).ok()?;
        // Bit 1 tells the length; bits 19:15 are the offset of a misaligned access's fault.
        let (opcode, funct3) = (word & 0x7D | 2, word >> 12 & 7);
        let store = opcode == STORE;
        if !store && opcode != LOAD || word >> 15 & 0x1F != 0 {
            return None;
        }
        if funct3 == 7 || store && funct3 > 3 {
            return None;
        }
        Some(Self {
            len: 1 << (funct3 & 3),
            unsigned: funct3 & 4 != 0,
            store,
            register: (if store { word >> 20 } else { word >> 7 } & 0x1F) as usize,
            size: if word & 2 != 0 { 4 } else { 2 },
        })
    }

    /// Result of a load of `value`.
    pub fn extended(&self, value: u64) -> u64 {
        let unused = 64 - 8 * u32::from(self.len);
        if self.unsigned {
            value << unused >> unused
        } else {
            ((value << unused) as i64 >> unused) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_stores_are_decoded() {
        // lbu a0; sd a2; c.lw a3 as lw with bit 1 clear
        let lbu = Instruction::decode(0x0000_4503).unwrap();
        assert_eq!((lbu.len, lbu.unsigned, lbu.register), (1, true, 10));
        assert!(!lbu.store && lbu.size == 4);
        let sd = Instruction::decode(0x00C0_3023).unwrap();
        assert_eq!((sd.len, sd.store, sd.register), (8, true, 12));
        let lw = Instruction::decode(0x0000_2681).unwrap();
        assert_eq!(
            (lw.len, lw.unsigned, lw.register, lw.size),
            (4, false, 13, 2)
        );
    }

    #[test]
    fn everything_else_is_left() {
        // amoadd.w, flw, a page fault's pseudoinstruction, an offset in rs1, reserved widths
        for word in [
            0x0000_202F,
            0x0000_2007,
            0x3000,
            0,
            0x0000_C503,
            0x7003,
            0x4023,
        ] {
            assert_eq!(Instruction::decode(word), None, "{word:#x}");
        }
        assert_eq!(Instruction::decode(1 << 40 | 0x4503), None);
    }

    #[test]
    fn loads_are_extended() {
        let load = |len, unsigned| Instruction {
            len,
            unsigned,
            store: false,
            register: 10,
            size: 4,
        };
        assert_eq!(load(1, true).extended(0x180), 0x80);
        assert_eq!(load(1, false).extended(0x80), !0x7F);
        assert_eq!(load(4, false).extended(0x8000_0000), 0xFFFF_FFFF_8000_0000);
        assert_eq!(load(8, false).extended(u64::MAX), u64::MAX);
    }
}
