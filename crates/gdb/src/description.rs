//! Registers: numbers, names and gdb's target description.
//!
//! Numbers and feature names are those of gdb (`riscv-tdep.h`, manual section "RISC-V Features"),
//! so that `info registers csr`, the decoding of `mstatus` and convenience like `$sp` work.

use std::num::NonZeroUsize;

use gdbstub::arch::{Arch, RegId};
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;
use trapless_isa::csr;
use trapless_machine::Machine;

/// The register with the virtualization mode V; the first number that gdb does not use.
const V: usize = 4162;
/// Number of CSR 0.
const FIRST_CSR: usize = 65;
/// CSRs that belong to the floating-point feature.
const FLOAT_CSRS: [u16; 3] = [csr::FFLAGS, csr::FRM, csr::FCSR];

/// A register by gdb's number.
#[derive(Clone, Copy, Debug)]
pub enum Register {
    /// One that gdb knows.
    Standard(RiscvRegId<u64>),
    /// Virtualization mode V: 0 or 1.
    V,
}

impl RegId for Register {
    fn from_raw_id(id: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        if id == V {
            return Some((Self::V, NonZeroUsize::new(1)));
        }
        RiscvRegId::from_raw_id(id).map(|(id, size)| (Self::Standard(id), size))
    }
}

/// A 64-bit RISC-V hart with floating point and CSRs.
pub enum Riscv {}

impl Arch for Riscv {
    type Usize = u64;
    type Registers = RiscvCoreRegs<u64>;
    type RegId = Register;
    type BreakpointKind = usize;
}

/// CSRs of a machine's harts that a debugger can show.
fn csrs(machine: &Machine) -> impl Iterator<Item = u16> {
    let hart = machine.harts().first();
    let pmp = [csr::PMPCFG0, csr::PMPCFG0 + 2]
        .into_iter()
        .chain(csr::PMPADDR0..csr::PMPADDR0 + 16);
    let counters = (3..7).flat_map(|n| {
        [csr::MHPMEVENT3, csr::MHPMCOUNTER3, csr::HPMCOUNTER3].map(|first| first + n - 3)
    });
    csr::NAMES
        .iter()
        .map(|(addr, _)| *addr)
        .chain(pmp)
        .chain(counters)
        .filter(move |&addr| hart.is_some_and(|hart| hart.peek_csr_as_m(addr).is_some()))
}

/// Writes features and their registers.
struct Writer(String);

impl Writer {
    fn feature(&mut self, name: &str, registers: impl FnOnce(&mut Self)) {
        self.0.push_str(&format!("<feature name=\"{name}\">"));
        registers(self);
        self.0.push_str("</feature>");
    }

    fn reg(&mut self, name: &str, bits: u32, kind: &str, number: usize, group: &str) {
        self.0.push_str(&format!(
            "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\" regnum=\"{number}\" group=\"{group}\"/>"
        ));
    }

    fn csr(&mut self, addr: u16, bits: u32, group: &str) {
        let number = FIRST_CSR + usize::from(addr);
        self.reg(&csr::name(addr), bits, "int", number, group);
    }
}

/// The target description of `machine`.
pub fn xml(machine: &Machine) -> String {
    let mut out = Writer(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
         <architecture>riscv:rv64</architecture>"
            .into(),
    );
    out.feature("org.gnu.gdb.riscv.cpu", |out| {
        for i in 0..32 {
            let kind = match i {
                1 => "code_ptr",
                2..=4 | 8 => "data_ptr",
                _ => "int",
            };
            out.reg(&format!("x{i}"), 64, kind, i, "general");
        }
        out.reg("pc", 64, "code_ptr", 32, "general");
    });
    if machine.config().hart.extensions.fd {
        out.feature("org.gnu.gdb.riscv.fpu", |out| {
            for i in 0..32 {
                out.reg(&format!("f{i}"), 64, "ieee_double", 33 + i, "float");
            }
            for addr in FLOAT_CSRS {
                out.csr(addr, 32, "float");
            }
        });
    }
    out.feature("org.gnu.gdb.riscv.csr", |out| {
        for addr in csrs(machine).filter(|addr| !FLOAT_CSRS.contains(addr)) {
            out.csr(addr, 64, "csr");
        }
        // gdb shows registers that it does not know in this feature among the CSRs.
        out.reg("v", 8, "uint8", V, "csr");
    });
    out.feature("org.gnu.gdb.riscv.virtual", |out| {
        out.reg("priv", 8, "uint8", V - 1, "system");
    });
    out.0.push_str("</target>");
    out.0
}
