//! Text of the host's instructions.

use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Operand};

use super::regs::CONTEXT;
use crate::native::listing::{Symbols, field};

/// Passes the address and the text of each instruction of `code`, which is at `start`, to `line`.
pub fn disassemble(
    code: &[u8],
    start: u64,
    symbols: &Symbols<'_>,
    mut line: impl FnMut(u64, &str),
) {
    // The page that the instruction before has loaded.
    let mut page = None;
    for (word, at) in code.chunks_exact(4).zip((start..).step_by(4)) {
        let bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if let Some(text) = access_of_fpsr(bits) {
            line(at, &text);
            continue;
        }
        let mut text = match InstDecoder::default().decode(&mut U8Reader::new(word)) {
            Ok(instruction) => {
                let distance = instruction
                    .operands
                    .iter()
                    .find_map(|operand| match operand {
                        Operand::PCOffset(distance) => Some(*distance),
                        _ => None,
                    });
                let text = instruction.to_string();
                match distance {
                    // adrp, whose distance depends on where code is in its page.
                    Some(distance) if bits & 0x9F00_0000 == 0x9000_0000 => {
                        page = Some((at & !0xFFF).wrapping_add_signed(distance));
                        before_last(&text, "page of the site")
                    }
                    Some(distance) => {
                        before_last(&text, &symbols.target(at.wrapping_add_signed(distance)))
                    }
                    None => text,
                }
            }
            Err(_) => format!(".inst {bits:#010x}"),
        };
        if let Some((base, offset)) = unsigned_offset(bits) {
            let site = page.take().and_then(|page| symbols.slot(page + offset));
            let name = site.or_else(|| {
                let context = base == u32::from(CONTEXT.0);
                context.then(|| field(offset as usize)).flatten()
            });
            if let Some(name) = name {
                text = before_last(&text, &format!("[{name}]"));
            }
        }
        line(at, &text);
    }
}

/// A move from or to FPSR, of which the decoder knows neither the name nor the zero register.
fn access_of_fpsr(bits: u32) -> Option<String> {
    let register = match bits & 31 {
        31 => "xzr".into(),
        x => format!("x{x}"),
    };
    match bits & !31 {
        0xD53B_4420 => Some(format!("mrs {register}, fpsr")),
        0xD51B_4420 => Some(format!("msr fpsr, {register}")),
        _ => None,
    }
}

/// The text with another last operand.
fn before_last(text: &str, operand: &str) -> String {
    // That of memory contains a comma.
    let end = text
        .find('[')
        .or_else(|| text.rfind([' ']).map(|at| at + 1));
    format!("{}{operand}", &text[..end.unwrap_or(text.len())])
}

/// The base register and the offset in bytes of a load or store with an unsigned offset.
fn unsigned_offset(bits: u32) -> Option<(u32, u64)> {
    let size = bits >> 30;
    let offset = u64::from(bits >> 10 & 0xFFF) << size;
    (bits & 0x3B00_0000 == 0x3900_0000).then_some((bits >> 5 & 31, offset))
}
