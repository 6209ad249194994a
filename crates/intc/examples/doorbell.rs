//! A complete interrupt architecture in one page, to start an own one from.
//!
//! Each hart has a doorbell, the machine-level custom CSR `mdoorbell` (0x7c0):
//!
//! * writing a hart number rings that hart: its machine software interrupt is raised;
//! * reading returns how often the own doorbell was rung and silences it.
//!
//! Device wires go straight to hart 0 as its machine external interrupt, high while any wire is
//! high; a page at [`STATUS`] tells which. There is no timer.
//!
//! `crates/machine/tests/third_party.rs` plugs it into a machine; nothing in the hart changes.

use trapless_intc::{
    CsrAccess, CsrFault, CsrOp, EXTERNAL_PHANDLE, InterruptArchitecture, Lines, NoRegister, Window,
};
use vm_fdt::{Error, FdtWriter};

/// Address of `mdoorbell`: custom read/write CSRs of M-mode begin at 0x7c0.
pub const MDOORBELL: u16 = 0x7c0;
/// Eight read-only bytes: bit per device wire that is high.
pub const STATUS: u64 = 0xc00_0000;

const MSI: u32 = 3;
const MEI: u32 = 11;

/// The architecture: all it needs to know is a count per hart and a bit per wire.
pub struct Doorbell {
    rings: Vec<u64>,
    wires: u64,
    changed: u64,
}

impl Doorbell {
    /// Doorbells for `harts` harts.
    pub fn new(harts: usize) -> Self {
        Self {
            rings: vec![0; harts],
            wires: 0,
            changed: 0,
        }
    }

    fn ring(&mut self, target: u64) {
        // The number comes from the guest: harts that do not exist are nobody's doorbell.
        if let Some(rings) = self.rings.get_mut(target as usize) {
            *rings += 1;
            self.changed |= 1 << target;
        }
    }
}

impl InterruptArchitecture for Doorbell {
    fn name(&self) -> &'static str {
        "doorbell"
    }

    fn windows(&self) -> Vec<Window> {
        vec![Window {
            name: "doorbell-status",
            base: STATUS,
            len: 0x1000,
        }]
    }

    fn load(&mut self, _hart: usize, _now: u64, addr: u64, size: u8) -> Result<u64, NoRegister> {
        if addr == STATUS && size == 8 {
            Ok(self.wires)
        } else {
            Err(NoRegister)
        }
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64) -> Result<(), NoRegister> {
        Err(NoRegister)
    }

    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        if access.csr != MDOORBELL {
            return Err(CsrFault::Illegal);
        }
        // A plain write must not have the side effect of a read.
        let old = match access.op {
            CsrOp::Write(_) => 0,
            _ => std::mem::take(&mut self.rings[access.hart]),
        };
        match access.op {
            CsrOp::Write(target) | CsrOp::Swap(target) => self.ring(target),
            CsrOp::Read | CsrOp::Set(_) | CsrOp::Clear(_) => {}
        }
        self.changed |= 1 << access.hart;
        Ok(old)
    }

    fn set_source(&mut self, _now: u64, source: u32, level: bool) {
        if source < 64 {
            self.wires = self.wires & !(1 << source) | u64::from(level) << source;
            self.changed |= 1;
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

    fn take_changed(&mut self) -> u64 {
        std::mem::take(&mut self.changed)
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
        let node = fdt.begin_node(&format!("doorbell@{STATUS:x}"))?;
        fdt.property_string("compatible", "example,doorbell")?;
        fdt.property_array_u64("reg", &[STATUS, 0x1000])?;
        fdt.property_array_u32("interrupts-extended", &[cpu_intc[0], MEI])?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_phandle(EXTERNAL_PHANDLE)?;
        fdt.end_node(node)
    }

    fn external_phandle(&self) -> u32 {
        EXTERNAL_PHANDLE
    }

    fn save(&self) -> serde_json::Value {
        serde_json::json!({ "rings": self.rings, "wires": self.wires })
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String> {
        let rings: Vec<u64> = serde_json::from_value(state["rings"].clone())
            .map_err(|e| format!("the saved doorbells cannot be read: {e}"))?;
        if rings.len() != self.rings.len() {
            return Err("the saved doorbells are for another number of harts".into());
        }
        self.rings = rings;
        self.wires = state["wires"].as_u64().unwrap_or(0);
        Ok(())
    }
}

/// Rings hart 1 and shows what it sees.
#[allow(dead_code, reason = "tests include this file as a module")]
fn main() {
    let mut doorbell = Doorbell::new(2);
    let write = CsrAccess {
        hart: 0,
        csr: MDOORBELL,
        mode: trapless_isa::Mode::M,
        vmid: 0,
        now: 0,
        op: CsrOp::Write(1),
    };
    doorbell.csr(&write).expect("mdoorbell exists");
    println!("hart 1 sees {:?}", doorbell.lines(1, 0));
    let read = CsrAccess {
        hart: 1,
        op: CsrOp::Read,
        ..write
    };
    println!("hart 1 was rung {:?} time(s)", doorbell.csr(&read));
    println!("hart 1 sees {:?}", doorbell.lines(1, 0));
}
