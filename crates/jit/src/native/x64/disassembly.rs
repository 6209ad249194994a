//! Text of the host's instructions.

use std::collections::BTreeMap;

use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, OpKind, Register,
    SymbolResolver, SymbolResult,
};

use super::regs::BIAS;
use crate::native::listing::{Symbols, field};

/// Passes the address and the text of each instruction of `code`, which is at `start`, to `line`.
pub fn disassemble(
    code: &[u8],
    start: u64,
    symbols: &Symbols<'_>,
    mut line: impl FnMut(u64, &str),
) {
    let instructions = || Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    // The formatter keeps its symbols: those that this code uses.
    let mut used = Used::default();
    for instruction in &mut instructions() {
        used.note(&instruction, symbols);
    }
    let mut formatter = IntelFormatter::with_options(Some(Box::new(used)), None);
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(true);
    options.set_show_branch_size(false);
    options.set_signed_immediate_operands(true);
    options.set_space_after_operand_separator(true);
    for instruction in &mut instructions() {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        line(instruction.ip(), &text);
    }
}

/// Names of the addresses that some code uses.
#[derive(Default)]
struct Used {
    targets: BTreeMap<u64, String>,
    memory: BTreeMap<u64, String>,
}

impl Used {
    fn note(&mut self, instruction: &Instruction, symbols: &Symbols<'_>) {
        let target = instruction.near_branch_target();
        if target != 0 {
            self.targets.insert(target, symbols.target(target));
        }
        let memory = instruction.memory_displacement64();
        if let Some(name) = symbols.slot(memory) {
            self.memory.insert(memory, name);
        } else if instruction.is_ip_rel_memory_operand() {
            self.memory.insert(memory, symbols.target(memory));
        }
    }
}

impl SymbolResolver for Used {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _: u32,
        operand: Option<u32>,
        address: u64,
        _: u32,
    ) -> Option<SymbolResult<'_>> {
        let kind = operand.map(|operand| instruction.op_kind(operand));
        let name = match kind? {
            OpKind::NearBranch64 => self.targets.get(&address)?.clone(),
            OpKind::Memory if self.memory.contains_key(&address) => self.memory[&address].clone(),
            OpKind::Memory if instruction.memory_base() == Register::RBX => {
                field(address.wrapping_add(BIAS as u64) as usize)?
            }
            _ => return None,
        };
        Some(SymbolResult::with_string(address, name))
    }
}
