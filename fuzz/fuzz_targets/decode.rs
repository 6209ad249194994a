//! Instruction words in, decoded instructions and text out: nothing panics, and what comes out is
//! consistent with what went in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trapless_isa::disasm::{Style, disasm_with};
use trapless_isa::{Op, decode};

fuzz_target!(|data: &[u8]| {
    for bytes in data.chunks_exact(4) {
        let word = u32::from_le_bytes(bytes.try_into().unwrap());
        let inst = decode(word);

        let compressed = word & 3 != 3;
        assert_eq!(inst.len, if compressed { 2 } else { 4 });
        assert_eq!(inst.raw, if compressed { word & 0xffff } else { word });
        assert_eq!(
            decode(inst.raw),
            inst,
            "decoding what was decoded changes it"
        );

        assert!(
            [inst.rd, inst.rs1, inst.rs2, inst.rs3]
                .iter()
                .all(|r| *r < 32)
                && inst.rm < 8
        );
        if !compressed && inst.op != Op::Illegal {
            let (bits, mask) = inst.op.encoding();
            assert_eq!(word & mask, bits);
        }
        for style in [Style::Abi, Style::Numeric] {
            let text = disasm_with(inst, u64::from(word) << 32, style);
            assert!(!text.is_empty() && text.is_ascii());
        }
    }
});
