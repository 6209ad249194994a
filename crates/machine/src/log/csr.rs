//! `csr` lines: what CSR instructions, traps and returns do.

use trapless_hart::Hart;
use trapless_isa::csr;
use trapless_isa::inst::{Inst, Op};

/// A CSR instruction about to execute.
pub(super) struct CsrAccess {
    /// The register that is accessed, after VS aliases.
    addr: u16,
    /// Its value; `None` for a register of the interrupt architecture.
    old: Option<u64>,
    /// Whether it writes the register.
    pub writes: bool,
    /// The register or immediate operand.
    operand: u64,
}

impl CsrAccess {
    /// The access that `inst` of `hart` is about to make.
    pub fn new(hart: &Hart, inst: &Inst) -> Self {
        let addr = hart.csr_alias((inst.imm & 0xfff) as u16);
        let operand = match inst.op {
            Op::Csrrwi | Op::Csrrsi | Op::Csrrci => inst.rs1.into(),
            _ => hart.x(inst.rs1.into()),
        };
        Self {
            addr,
            old: hart.peek_csr_as_m(addr),
            writes: matches!(inst.op, Op::Csrrw | Op::Csrrwi) || inst.rs1 != 0,
            operand,
        }
    }

    /// Text of the access, once `hart` has executed it.
    pub fn text(&self, hart: &Hart, inst: &Inst) -> String {
        let name = csr::name(self.addr);
        match (self.writes, self.old) {
            (false, _) if inst.rd != 0 => format!("read  {name} {:#x}", hart.x(inst.rd.into())),
            (false, old) => format!("read  {name} {:#x}", old.unwrap_or(0)),
            (true, Some(old)) => {
                let new = hart.peek_csr_as_m(self.addr).unwrap_or(0);
                format!("write {name} {old:#x} -> {new:#x}")
            }
            (true, None) => format!("write {name} {} {:#x}", inst.op.mnemonic(), self.operand),
        }
    }
}

/// Registers that traps and returns change.
const TRAP: [u16; 16] = [
    csr::MSTATUS,
    csr::MEPC,
    csr::MCAUSE,
    csr::MTVAL,
    csr::MTVAL2,
    csr::MTINST,
    csr::SEPC,
    csr::SCAUSE,
    csr::STVAL,
    csr::HSTATUS,
    csr::HTVAL,
    csr::HTINST,
    csr::VSSTATUS,
    csr::VSEPC,
    csr::VSCAUSE,
    csr::VSTVAL,
];

/// The last known values of [`TRAP`].
pub(super) struct Shadow([u64; TRAP.len()]);

impl Shadow {
    /// The present values.
    pub fn of(hart: &Hart) -> Self {
        Self(TRAP.map(|addr| hart.peek_csr_as_m(addr).unwrap_or(0)))
    }

    /// Updates the values and reports each change: name, old, new.
    pub fn update(&mut self, hart: &Hart, mut report: impl FnMut(String, u64, u64)) {
        let now = Self::of(hart);
        for (i, &addr) in TRAP.iter().enumerate() {
            if self.0[i] != now.0[i] {
                report(csr::name(addr), self.0[i], now.0[i]);
            }
        }
        *self = now;
    }
}
