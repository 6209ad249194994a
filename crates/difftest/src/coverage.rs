//! Coverage of a campaign: operations, traps by handler, mode and cause, instructions by name.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::layout::{self, kind};
use crate::outcome::Outcome;
use crate::program::Program;

/// Counts over the programs that ran.
#[derive(Default, Serialize)]
pub struct Coverage {
    /// Programs by family.
    pub programs: BTreeMap<&'static str, u64>,
    /// Steps by starting mode.
    pub steps: BTreeMap<String, u64>,
    /// Traps by handler and cause.
    pub traps: BTreeMap<String, u64>,
    /// Instructions generated, by name (not all of them are reached).
    pub instructions: BTreeMap<String, u64>,
}

impl Coverage {
    /// Adds one program and its outcome on the subject.
    pub fn add(&mut self, program: &Program, outcome: &Outcome) {
        *self.programs.entry(program.family).or_default() += 1;
        for s in &program.steps {
            *self.steps.entry(s.mode.name().into()).or_default() += 1;
            for (off, len) in &s.instructions {
                let at = *off as usize;
                let raw = word(&program.code, at, *len);
                let text = trapless_isa::disasm::disasm(
                    trapless_isa::decode::decode(raw),
                    layout::CODE + u64::from(*off),
                );
                let name = text.split_whitespace().next().unwrap_or("?").to_string();
                *self.instructions.entry(name).or_default() += 1;
            }
        }
        for e in outcome.log.iter().filter(|e| e.kind != kind::END) {
            let cause = e.words[0];
            let name = trapless_isa::cause::name(cause)
                .map_or_else(|| format!("cause {cause:#x}"), str::to_string);
            let handler = match e.kind {
                kind::M => "M",
                kind::HS => "HS",
                _ => "VS",
            };
            *self.traps.entry(format!("{handler}: {name}")).or_default() += 1;
        }
    }
}

/// The instruction of `len` bytes at offset `at`.
pub fn word(code: &[u8], at: usize, len: u8) -> u32 {
    let mut raw = [0; 4];
    raw[..usize::from(len)].copy_from_slice(&code[at..at + usize::from(len)]);
    u32::from_le_bytes(raw)
}
