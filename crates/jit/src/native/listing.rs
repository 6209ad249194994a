//! Text of compiled blocks: guest instructions, and their host code.
//!
//! Addresses of the host are shown relative to the batch, or by name, so that the text of a program
//! is the same in every run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem::offset_of;
use std::ops::Range;

use trapless_isa::disasm;
use trapless_isa::disasm::{f_name, x_name};
use trapless_isa::inst::{Inst, NO_REG};

use super::host::disassembly::disassemble;
use crate::{CodeListener, Context, REGION_BASES, Source};

/// Ranges of a block's code in its batch, in bytes.
pub(super) struct Parts {
    /// Hot code.
    pub hot: Range<usize>,
    /// Cold code.
    pub cold: Range<usize>,
}

/// Blocks that were compiled together.
pub(super) struct Batch<'a> {
    pub sources: &'a [Source<'a>],
    /// By source.
    pub parts: &'a [Parts],
    pub code: &'a [u8],
    /// Address of the code.
    pub start: u64,
}

/// Writes the text of compiled blocks.
pub(super) struct Listing {
    out: CodeListener,
    /// Physical address of page 0 of the guest.
    base: u64,
    /// Names of code outside a batch by address: trampolines and blocks.
    names: BTreeMap<u64, String>,
    /// Addresses of jumps' targets.
    slots: Range<u64>,
}

impl Listing {
    /// For a guest whose page 0 is at physical address `base`; `slots` are the addresses of jumps'
    /// targets.
    pub fn new(out: CodeListener, base: u64, slots: Range<u64>) -> Self {
        Self {
            out,
            base,
            names: BTreeMap::new(),
            slots,
        }
    }

    /// Names code.
    pub fn name(&mut self, address: u64, name: impl Into<String>) {
        self.names.insert(address, name.into());
    }

    /// Drops names of code from `from` on.
    pub fn forget_from(&mut self, from: u64) {
        self.names.split_off(&from);
    }

    /// Name of a block.
    fn block(&self, source: &Source<'_>) -> String {
        match source.crossing {
            Some(bits) => format!("crossing {bits:08x}"),
            None => format!("block {:#x}", self.address(source)),
        }
    }

    /// Physical address of a block in one page; offset in the page of one across pages.
    fn address(&self, source: &Source<'_>) -> u64 {
        let page = match source.crossing {
            Some(_) => 0,
            None => self.base + u64::from(source.page) * 4096,
        };
        page + u64::from(source.offset)
    }

    /// Writes a batch.
    pub fn batch(&mut self, batch: &Batch<'_>) {
        for (source, parts) in batch.sources.iter().zip(batch.parts) {
            let name = self.block(source);
            self.name(batch.start + parts.hot.start as u64, name);
        }
        for (source, parts) in batch.sources.iter().zip(batch.parts) {
            let text = self.text(batch, source, parts);
            (self.out)(&text);
        }
    }

    /// Writes a region with the ways to its heads, and copies of these.
    pub fn region(&mut self, batch: &Batch<'_>, entered: &[Range<usize>]) {
        let heads = batch.sources.iter().rev().take(entered.len()).rev();
        let heads: Vec<_> = heads.zip(entered).collect();
        for (source, entered) in &heads {
            let name = format!("region at {:#x}", self.address(source));
            self.name(batch.start + entered.start as u64, name);
        }
        for (source, entered) in heads {
            let mut text = format!("region at {:#x}\n", self.address(source));
            self.host(&mut text, batch, entered);
            (self.out)(&text);
        }
        for (source, parts) in batch.sources.iter().zip(batch.parts) {
            let text = self.text(batch, source, parts);
            (self.out)(&text);
        }
    }

    fn text(&self, batch: &Batch<'_>, source: &Source<'_>, parts: &Parts) -> String {
        let mut text = format!("{}, {} cycles\n", self.block(source), source.cost);
        let mut pc = self.address(source);
        for inst in source.insts {
            let named = Inst {
                rd: if inst.rd == NO_REG { 0 } else { inst.rd },
                ..*inst
            };
            let _ = writeln!(text, "  {pc:#x}: {}", disasm(named, pc));
            pc += u64::from(inst.len);
        }
        text.push_str("hot\n");
        self.host(&mut text, batch, &parts.hot);
        text.push_str("cold\n");
        self.host(&mut text, batch, &parts.cold);
        text
    }

    fn host(&self, text: &mut String, batch: &Batch<'_>, part: &Range<usize>) {
        let symbols = Symbols {
            names: &self.names,
            slots: self.slots.clone(),
            batch: batch.start..batch.start + batch.code.len() as u64,
        };
        let (code, start) = (&batch.code[part.clone()], batch.start + part.start as u64);
        disassemble(code, start, &symbols, |address, line| {
            let _ = writeln!(text, "  +{:#06x}: {line}", address - batch.start);
        });
    }
}

/// Names of host addresses.
pub(super) struct Symbols<'a> {
    /// Code outside the batch, and blocks.
    names: &'a BTreeMap<u64, String>,
    slots: Range<u64>,
    batch: Range<u64>,
}

impl Symbols<'_> {
    /// Name of the target of a jump.
    pub fn target(&self, address: u64) -> String {
        match self.names.get(&address) {
            Some(name) => name.clone(),
            None if self.batch.contains(&address) => {
                format!("+{:#06x}", address - self.batch.start)
            }
            None => "elsewhere".into(),
        }
    }

    /// Name of a jump's target in memory.
    pub fn slot(&self, address: u64) -> Option<String> {
        let site = (address.checked_sub(self.slots.start)?) / 8;
        self.slots
            .contains(&address)
            .then(|| format!("site {site}"))
    }
}

/// Name of the field of [`Context`] at an offset.
pub(super) fn field(offset: usize) -> Option<String> {
    let register = |start: usize, count: usize| {
        let index = offset.checked_sub(start)? / 8;
        (index < count && (offset - start) % 8 == 0).then_some(index as u8)
    };
    if let Some(x) = register(offset_of!(Context, x), 32) {
        return Some(x_name(x).into());
    }
    if let Some(f) = register(offset_of!(Context, f), 32) {
        return Some(f_name(f).into());
    }
    if let Some(base) = register(offset_of!(Context, region_hosts), REGION_BASES) {
        return Some(format!("host of base {base}"));
    }
    let named = FIELDS.iter().find(|(at, _)| *at == offset);
    named.map(|(_, name)| (*name).into())
}

macro_rules! fields {
    ($($($field:ident).+,)*) => {
        /// Names of other fields of [`Context`] that code uses, by offset; others are shown as
        /// numbers.
        const FIELDS: &[(usize, &str)] = &[
            $((offset_of!(Context, $($field).+), stringify!($($field).+)),)*
        ];
    };
}

fields! {
    pc, cycles, instret, limit, base, data_tlb, fetch_tlb, twin_tlb, sum_changes, stack, stack_floor,
    csr.bank, csr.status, csr.vsie_from, csr.vsie_shown, csr.time_delta, csr.hs, csr.machine,
    csr.time_readable, csr.zero_block,
    float.frm, float.fflags, float.state, float.ready, float.used, float.clean, float.host_flags,
    interrupts.mip, interrupts.mie, interrupts.vsip, interrupts.vsie,
    counters.count, counters.zero,
    timer.compare, timer.floor, timer.ceiling, timer.writes, timer.armed, timer.first, timer.last,
    reservation.host, reservation.size, reservation.value,
}
