//! A complete interrupt architecture in one page, to start your own from.
//!
//! Each hart has a doorbell, the machine-level custom CSR `mdoorbell` (0x7c0):
//!
//! * writing a hart number rings that hart: its machine software interrupt is raised;
//! * reading returns how often the own doorbell was rung and silences it.
//!
//! Device wires go straight to hart 0 as its machine external interrupt, high while any wire is
//! high; a page at [`STATUS`] shows which. There is no timer.
//!
//! `crates/machine/tests/third_party.rs` plugs it into a machine; nothing in the hart changes.

use serde::Deserialize;
use trapless_intc::{
    CsrAccess, CsrFault, CsrOp, Description, EXTERNAL_PHANDLE, Effects, InterruptArchitecture,
    Lines, MmioAccess, NoRegister, Snapshot, Window,
};
use trapless_isa::cause::interrupt::{MEI, MSI};
use vm_fdt::{Error, FdtWriter};

/// Address of `mdoorbell`: custom read/write CSRs of M-mode begin at 0x7c0.
pub const MDOORBELL: u16 = 0x7c0;
/// Eight read-only bytes: bit per device wire that is high.
pub const STATUS: u64 = 0xc00_0000;

/// The architecture: its state is a count per hart and a bit per wire.
pub struct Doorbell {
    rings: Vec<u64>,
    wires: u64,
}

impl Doorbell {
    /// Doorbells for `harts` harts.
    pub fn new(harts: usize) -> Self {
        Self {
            rings: vec![0; harts],
            wires: 0,
        }
    }

    fn ring(&mut self, target: u64, effects: &mut Effects) {
        // The number comes from the guest: harts that do not exist have no doorbell.
        if let Some(rings) = self.rings.get_mut(target as usize) {
            *rings += 1;
            effects.change(target as usize);
        }
    }
}

/// Its state, for checkpoints.
impl Snapshot for Doorbell {
    fn save(&self) -> serde_json::Value {
        serde_json::json!({ "rings": self.rings, "wires": self.wires })
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String> {
        let rings = Vec::deserialize(&state["rings"]).map_err(|e| e.to_string())?;
        let wires = state["wires"].as_u64().ok_or("it has no wires")?;
        if rings.len() != self.rings.len() {
            return Err("it is for other harts".into());
        }
        (self.rings, self.wires) = (rings, wires);
        Ok(())
    }
}

impl InterruptArchitecture for Doorbell {
    fn describe(&self) -> Description {
        Description {
            windows: vec![Window::new("doorbell-status", STATUS, 0x1000)],
            ..Description::default()
        }
    }

    fn load(&mut self, access: &MmioAccess, _: &mut Effects) -> Result<u64, NoRegister> {
        let is_status = access.addr == STATUS && access.size == 8;
        is_status.then_some(self.wires).ok_or(NoRegister)
    }

    fn csr(&mut self, access: &CsrAccess, effects: &mut Effects) -> Result<u64, CsrFault> {
        if access.csr != MDOORBELL {
            return Err(CsrFault::Illegal);
        }
        // A plain write must not have the side effect of a read.
        let old = match access.op {
            CsrOp::Write(_) => 0,
            _ => std::mem::take(&mut self.rings[access.hart]),
        };
        if let CsrOp::Write(target) | CsrOp::Swap(target) = access.op {
            self.ring(target, effects);
        }
        effects.change(access.hart);
        Ok(old)
    }

    fn set_source(&mut self, _now: u64, source: u32, level: bool, effects: &mut Effects) {
        if source < 64 {
            self.wires = self.wires & !(1 << source) | u64::from(level) << source;
            effects.change(0);
        }
    }

    fn lines(&mut self, hart: usize, _now: u64) -> Lines {
        let rung = u64::from(self.rings[hart] > 0) << MSI;
        let external = u64::from(hart == 0 && self.wires != 0) << MEI;
        Lines {
            level: rung | external,
            ..Lines::default()
        }
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
        let node = fdt.begin_node(&format!("doorbell@{STATUS:x}"))?;
        fdt.property_string("compatible", "example,doorbell")?;
        fdt.property_array_u64("reg", &[STATUS, 0x1000])?;
        fdt.property_array_u32("interrupts-extended", &[cpu_intc[0], MEI as u32])?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_phandle(EXTERNAL_PHANDLE)?;
        fdt.end_node(node)
    }
}

/// Rings hart 1 and prints its view.
#[allow(dead_code, reason = "tests include this file as a module")]
fn main() {
    let mut doorbell = Doorbell::new(2);
    let mut effects = Effects::default();
    let write = CsrAccess {
        hart: 0,
        csr: MDOORBELL,
        mode: trapless_isa::Mode::M,
        vmid: 0,
        now: 0,
        op: CsrOp::Write(1),
    };
    let answer = doorbell.csr(&write, &mut effects);
    println!("the write returns {answer:?} and causes {effects:?}");
    println!("hart 1 sees {:?}", doorbell.lines(1, 0));
    let read = CsrAccess {
        hart: 1,
        op: CsrOp::Read,
        ..write
    };
    let answer = doorbell.csr(&read, &mut effects);
    println!("hart 1 was rung {answer:?} time(s)");
    println!("hart 1 sees {:?}", doorbell.lines(1, 0));
}
