//! An interrupt architecture of one's own: ACLINT and PLIC, and a CSR that counts device
//! interrupts. Replace it by yours; `trapless_intc::InterruptArchitecture` says what each method is
//! for.
//!
//! `swires` (0x5c0, for S-mode) counts how often devices have raised their wires. Each write sets
//! it.

use serde_json::{Value, json};
use trapless_intc::aclint_plic::{AclintPlic, Config};
use trapless_intc::{
    CsrAccess, CsrFault, CsrOp, Description, Effects, InterruptArchitecture, Lines, MmioAccess,
    NoRegister, Snapshot,
};
use trapless_machine::{MachineConfig, map};
use vm_fdt::{Error, FdtWriter};

/// Address of `swires`: custom read/write CSRs of S-mode begin at 0x5c0.
pub const SWIRES: u16 = 0x5c0;

/// The architecture.
pub struct Mine {
    plain: AclintPlic,
    wires: u64,
}

impl Mine {
    /// The one of a machine.
    pub fn new(config: &MachineConfig) -> Self {
        let plain = Config {
            harts: config.harts,
            cycles_per_tick: config.hart.cycles_per_tick,
            sswi: config.sswi,
            edge_triggered: 1 << map::UART_IRQ,
        };
        Self {
            plain: AclintPlic::new(plain),
            wires: 0,
        }
    }
}

/// Its state, for checkpoints.
impl Snapshot for Mine {
    fn save(&self) -> Value {
        json!({ "plain": self.plain.save(), "wires": self.wires })
    }

    fn restore(&mut self, state: &Value) -> Result<(), String> {
        let wires = state["wires"].as_u64().ok_or("it has no wires")?;
        self.plain.restore(&state["plain"])?;
        self.wires = wires;
        Ok(())
    }
}

impl InterruptArchitecture for Mine {
    fn describe(&self) -> Description {
        Description {
            csrs: vec![SWIRES],
            ..self.plain.describe()
        }
    }

    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        self.plain.load(access, effects)
    }

    fn store(
        &mut self,
        access: &MmioAccess,
        value: u64,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        self.plain.store(access, value, effects)
    }

    fn csr(&mut self, access: &CsrAccess, effects: &mut Effects) -> Result<u64, CsrFault> {
        if access.csr != SWIRES {
            return self.plain.csr(access, effects);
        }
        if access.mode.v() {
            return Err(CsrFault::Virtual);
        }
        let old = self.wires;
        self.wires = match access.op {
            CsrOp::Read => old,
            CsrOp::Write(new) | CsrOp::Swap(new) => new,
            CsrOp::Set(bits) => old | bits,
            CsrOp::Clear(bits) => old & !bits,
        };
        Ok(old)
    }

    fn set_source(&mut self, now: u64, source: u32, level: bool, effects: &mut Effects) {
        self.wires += u64::from(level);
        self.plain.set_source(now, source, level, effects);
    }

    /// To add interrupts of its own, an architecture sets their bits in `level`, by the numbers of
    /// [`trapless_isa::cause::interrupt`], beside those of what it is built on; `deadline` is then
    /// the earlier one of both, or the hart would sleep through the other.
    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        self.plain.lines(hart, now)
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
        self.plain.fdt(fdt, cpu_intc)
    }
}
