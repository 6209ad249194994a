//! A decoded signature: the trap log, final states, memory.

use crate::layout::{self, END_WORDS, SNAPSHOT, kind};
use crate::program::Program;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `layout::kind`.
    pub kind: u64,
    /// Step it belongs to.
    pub step: usize,
    /// The words after the kind.
    pub words: Vec<u64>,
}

impl Entry {
    /// Name of word `n`.
    pub fn field(&self, n: usize) -> String {
        const M: [&str; 6] = ["mcause", "mepc", "mtval", "mtval2", "mtinst", "mstatus"];
        const HS: [&str; 7] = [
            "scause", "sepc", "stval", "htval", "htinst", "sstatus", "hstatus",
        ];
        const VS: [&str; 4] = ["vscause", "vsepc", "vstval", "vsstatus"];
        match (self.kind, n) {
            (kind::M, n) => M[n].into(),
            (kind::HS, n) => HS[n].into(),
            (kind::VS, n) => VS[n].into(),
            (_, n @ 0..31) => format!("x{}", n + 1),
            (_, n @ 31..63) => format!("f{}", n - 31),
            (_, 63) => "fcsr".into(),
            (_, n) => trapless_isa::csr::name(SNAPSHOT[n - 64]),
        }
    }

    /// Mode of the handler, or other kind.
    pub fn title(&self) -> &'static str {
        match self.kind {
            kind::M => "trap to M",
            kind::HS => "trap to HS",
            kind::VS => "trap to VS",
            _ => "final state",
        }
    }

    /// One line about it.
    pub fn summary(&self) -> String {
        if self.kind == kind::END {
            return "end of the step".into();
        }
        let cause = self.words[0];
        let name = trapless_isa::cause::name(cause).unwrap_or("unknown cause");
        format!(
            "{} at {:#x}: {name} ({:#x}), tval {:#x}",
            self.title(),
            self.words[1],
            cause,
            self.words[2]
        )
    }
}

/// A decoded signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Log in order.
    pub log: Vec<Entry>,
    /// Accesses of the harness to CSRs that the model lacks.
    pub skipped: u64,
    /// Final data area.
    pub data: Vec<u64>,
    /// Final page tables.
    pub tables: Vec<u64>,
}

impl Outcome {
    /// Decodes the signature of `program`.
    pub fn decode(program: &Program, signature: &[u8]) -> Result<Self, String> {
        let words: Vec<u64> = signature
            .chunks_exact(8)
            .map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")))
            .collect();
        let sig = program.signature();
        let at = |addr: u64| ((addr - layout::DATA) / 8) as usize;
        if words.len() < at(sig.end) {
            return Err(format!(
                "the signature has {} words instead of {}",
                words.len(),
                at(sig.end)
            ));
        }
        let tables_end = at(layout::TABLES) + program.tables.len() / 8;
        let mut log = Vec::new();
        let mut pos = at(sig.log);
        let mut step = 0;
        loop {
            let kind = *words.get(pos).ok_or("the log has no end")?;
            let len = match kind {
                kind::M => 6,
                kind::HS => 7,
                kind::VS => 4,
                kind::END => END_WORDS - 1,
                0 => break,
                k => return Err(format!("the log has an entry of unknown kind {k:#x}")),
            };
            let body = words
                .get(pos + 1..pos + 1 + len)
                .ok_or("the log is cut off")?;
            log.push(Entry {
                kind,
                step,
                words: body.to_vec(),
            });
            if kind == kind::END {
                step += 1;
            }
            pos += 1 + len;
        }
        if step != program.steps.len() {
            return Err(format!("{step} of {} steps finished", program.steps.len()));
        }
        Ok(Self {
            log,
            skipped: words[pos + 1],
            data: words[..at(layout::TABLES)].to_vec(),
            tables: words[at(layout::TABLES)..tables_end].to_vec(),
        })
    }
}
