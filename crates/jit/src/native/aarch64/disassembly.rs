//! Text of the host's instructions.

use crate::native::listing::Symbols;

/// Passes the address and the text of each instruction of `code`, which is at `start`, to `line`.
pub fn disassemble(code: &[u8], start: u64, _: &Symbols<'_>, mut line: impl FnMut(u64, &str)) {
    for (word, at) in code.chunks_exact(4).zip((start..).step_by(4)) {
        let bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        line(at, &format!(".inst {bits:#010x}"));
    }
}
