//! ACLINT + PLIC: the interrupt architecture of 2020, as on QEMU's `virt` machine.
//!
//! Timer and IPIs reach supervisor mode through firmware (or through Sstc in the hart), device
//! interrupts through two PLIC contexts for each hart: `2 * hart` for M-mode, `2 * hart + 1` for
//! S-mode.
//!
//! Known limit: the `time` CSR of the harts counts elapsed ticks and does not follow a write of
//! `mtime`. Firmware that sets the clock (OpenSBI does not) sees the two differ.

use serde::{Deserialize, Serialize};
use trapless_isa::cause::interrupt;
use trapless_isa::port::{Lines, MmioAccess};
use vm_fdt::{Error, FdtWriter};

use crate::aclint::{Clint, SSWI_LEN, Sswi};
use crate::architecture::{Description, EXTERNAL_PHANDLE, InterruptArchitecture, Snapshot};
use crate::effects::Effects;
use crate::fdt::{clint, interrupts_extended};
use crate::inspect::Row;
use crate::mmio::{NoRegister, Window};
use crate::plic::Plic;

/// Base of the CLINT-compatible window with MSWI (+0) and MTIMER (+0x4000).
pub const ACLINT_BASE: u64 = 0x200_0000;
/// Length of that window: 16 KiB MSWI, 32 KiB MTIMER, the remainder reserved.
pub const ACLINT_LEN: u64 = 0x1_0000;
/// Base of the optional SSWI.
pub const SSWI_BASE: u64 = 0x2f0_0000;
/// Base of the PLIC.
pub const PLIC_BASE: u64 = 0xc00_0000;
/// Length of the PLIC window, as on QEMU's `virt`.
pub const PLIC_LEN: u64 = 0x60_0000;
/// Device sources, as on QEMU's `virt`.
pub const SOURCES: u32 = 95;

/// The CLINT-compatible window.
pub(crate) const ACLINT: Window = Window::new("aclint", ACLINT_BASE, ACLINT_LEN);
const PLIC: Window = Window::new("plic", PLIC_BASE, PLIC_LEN);
const SSWI: Window = Window::new("sswi", SSWI_BASE, SSWI_LEN);

/// Configuration of [`AclintPlic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of harts, 1..=64.
    pub harts: usize,
    /// Cycles of virtual time for each tick of `mtime`, at least 1.
    pub cycles_per_tick: u64,
    /// Whether there is an SSWI.
    pub sswi: bool,
    /// PLIC sources with edge-triggered gateways, bit per source (1..=63).
    pub edge_triggered: u64,
}

/// See the [module](self).
pub struct AclintPlic {
    config: Config,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    aclint: Clint,
    sswi: Sswi,
    plic: Plic,
}

/// The device an address belongs to, with the offset in it.
enum Place {
    Aclint(u64),
    Sswi(u64),
    Plic(u64),
}

impl AclintPlic {
    /// The architecture after reset.
    ///
    /// # Panics
    /// If `config` is out of its ranges.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!((1..=64).contains(&config.harts), "1..=64 harts");
        let mut plic = Plic::new(SOURCES, 2 * config.harts);
        (1..64)
            .filter(|source| config.edge_triggered >> source & 1 != 0)
            .for_each(|source| plic.set_edge_triggered(source));
        let state = State {
            aclint: Clint::new(config.harts, config.cycles_per_tick),
            sswi: Sswi::new(config.harts),
            plic,
        };
        Self { config, state }
    }

    /// The PLIC, for inspection.
    #[must_use]
    pub fn plic(&self) -> &Plic {
        &self.state.plic
    }

    /// Whether the gateway of a source is edge-triggered.
    pub(crate) fn is_edge_triggered(&self, source: u32) -> bool {
        source < 64 && self.config.edge_triggered >> source & 1 != 0
    }

    /// Takes the wire of a source away from the PLIC.
    pub(crate) fn detach_source(&mut self, source: u32, effects: &mut Effects) {
        self.with_plic(effects, |plic| plic.detach(source));
    }

    /// Gives it back at this level.
    pub(crate) fn attach_source(&mut self, source: u32, level: bool, effects: &mut Effects) {
        self.with_plic(effects, |plic| plic.attach(source, level));
    }

    /// External interrupts of all harts: M-mode and S-mode, bit per hart.
    fn external(&self) -> (u64, u64) {
        let set = |mode: usize| {
            (0..self.config.harts)
                .filter(|hart| self.state.plic.context_pending(2 * hart + mode))
                .fold(0, |set, hart| set | 1 << hart)
        };
        (set(0), set(1))
    }

    /// Runs `access` on the PLIC and records the harts whose external interrupts it changed.
    fn with_plic<T>(&mut self, effects: &mut Effects, access: impl FnOnce(&mut Plic) -> T) -> T {
        let before = self.external();
        let result = access(&mut self.state.plic);
        let after = self.external();
        effects.changed |= (before.0 ^ after.0) | (before.1 ^ after.1);
        result
    }

    fn place(&self, addr: u64) -> Result<Place, NoRegister> {
        let sswi = || SSWI.offset(addr).filter(|_| self.config.sswi);
        let plic = PLIC.offset(addr).map(Place::Plic);
        plic.or_else(|| ACLINT.offset(addr).map(Place::Aclint))
            .or_else(|| sswi().map(Place::Sswi))
            .ok_or(NoRegister)
    }
}

impl InterruptArchitecture for AclintPlic {
    fn describe(&self) -> Description {
        let mut windows = vec![ACLINT, PLIC];
        windows.extend(self.config.sswi.then_some(SSWI));
        Description {
            windows,
            ..Description::default()
        }
    }

    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        match self.place(access.addr)? {
            Place::Plic(offset) => {
                let load = |plic: &mut Plic| plic.load(offset, access.size);
                self.with_plic(effects, load).map(u64::from)
            }
            Place::Aclint(offset) => self.state.aclint.load(offset, access.size, access.now),
            Place::Sswi(offset) => self.state.sswi.load(offset, access.size),
        }
    }

    fn store(
        &mut self,
        access: &MmioAccess,
        value: u64,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        let (size, now) = (access.size, access.now);
        effects.changed |= match self.place(access.addr)? {
            Place::Plic(offset) => {
                let store = |plic: &mut Plic| plic.store(offset, size, value as u32);
                return self.with_plic(effects, store);
            }
            Place::Aclint(offset) => self.state.aclint.store(offset, size, value, now)?,
            Place::Sswi(offset) => self.state.sswi.store(offset, size, value)?,
        };
        Ok(())
    }

    fn set_source(&mut self, _now: u64, source: u32, level: bool, effects: &mut Effects) {
        self.with_plic(effects, |plic| plic.set_level(source, level));
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let mut lines = self.state.aclint.lines(hart, now);
        let plic = &self.state.plic;
        lines.level |= u64::from(plic.context_pending(2 * hart)) << interrupt::MEI
            | u64::from(plic.context_pending(2 * hart + 1)) << interrupt::SEI;
        lines.pulse = u64::from(self.state.sswi.take(hart)) << interrupt::SSI;
        lines
    }

    fn inspect(&self, now: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        self.state.aclint.inspect(now, &mut rows);
        if self.config.sswi {
            self.state.sswi.inspect(&mut rows);
        }
        let mode = |context| if context % 2 == 0 { "plic M" } else { "plic S" };
        let context = |context| (context / 2, mode(context));
        self.state.plic.inspect(context, &mut rows);
        rows
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
        clint(fdt, ACLINT, cpu_intc)?;
        if self.config.sswi {
            sswi_node(fdt, cpu_intc)?;
        }
        plic_node(fdt, cpu_intc)
    }
}

fn sswi_node(fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
    let wires = interrupts_extended(cpu_intc, &[interrupt::SSI]);
    let node = fdt.begin_node(&format!("sswi@{SSWI_BASE:x}"))?;
    fdt.property_string("compatible", "riscv,aclint-sswi")?;
    fdt.property_array_u64("reg", &[SSWI_BASE, SSWI_LEN])?;
    fdt.property_array_u32("interrupts-extended", &wires)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 0)?;
    fdt.end_node(node)
}

fn plic_node(fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
    let wires = interrupts_extended(cpu_intc, &[interrupt::MEI, interrupt::SEI]);
    let node = fdt.begin_node(&format!("plic@{PLIC_BASE:x}"))?;
    fdt.property_string_list(
        "compatible",
        vec!["sifive,plic-1.0.0".into(), "riscv,plic0".into()],
    )?;
    fdt.property_array_u64("reg", &[PLIC_BASE, PLIC_LEN])?;
    fdt.property_array_u32("interrupts-extended", &wires)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_u32("riscv,ndev", SOURCES)?;
    fdt.property_phandle(EXTERNAL_PHANDLE)?;
    fdt.end_node(node)
}

impl Snapshot for AclintPlic {
    fn save(&self) -> serde_json::Value {
        serde_json::to_value(&self.state).unwrap_or_default()
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String> {
        let mut state = State::deserialize(state)
            .map_err(|e| format!("the saved ACLINT and PLIC cannot be read: {e}"))?;
        if !self.state.aclint.fits(&state.aclint) || !self.state.sswi.fits(&state.sswi) {
            return Err("the saved ACLINT has another number of harts or tick length".into());
        }
        let mut plic = self.state.plic.clone();
        plic.restore(state.plic)?;
        state.plic = plic;
        self.state = state;
        Ok(())
    }
}
