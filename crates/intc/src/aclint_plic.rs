//! ACLINT + PLIC: the interrupt architecture of 2020, as on QEMU's `virt` machine.
//!
//! Timer and IPIs reach supervisor mode through firmware (or through Sstc in the hart), device
//! interrupts through two PLIC contexts for each hart: `2 * hart` for M-mode, `2 * hart + 1` for
//! S-mode.
//!
//! Known limit: the `time` CSR of the harts counts elapsed ticks and does not follow a write of
//! `mtime`. Firmware that sets the clock (OpenSBI does not) sees the two differ.

use serde::{Deserialize, Serialize};
use vm_fdt::FdtWriter;

use crate::aclint::{MSWI_LEN, MTIMER_LEN, Mswi, Mtimer, SSWI_LEN, Sswi, mask};
use crate::plic::Plic;
use crate::{EXTERNAL_PHANDLE, InterruptArchitecture, Lines, NoRegister, Window};

/// Base of the CLINT-compatible window with MSWI (+0) and MTIMER (+0x4000).
pub const ACLINT_BASE: u64 = 0x200_0000;
/// Length of that window: 16 KiB MSWI, 32 KiB MTIMER, the rest reserved.
pub const ACLINT_LEN: u64 = 0x1_0000;
/// Base of the optional SSWI.
pub const SSWI_BASE: u64 = 0x2f0_0000;
/// Base of the PLIC.
pub const PLIC_BASE: u64 = 0xc00_0000;
/// Length of the PLIC window, as on QEMU's `virt`.
pub const PLIC_LEN: u64 = 0x60_0000;
/// Device sources, as on QEMU's `virt`.
pub const SOURCES: u32 = 95;

// Bit positions in `mip` (privileged specification, section 3.1.9) = local interrupt numbers.
const SSI: u32 = 1;
const MSI: u32 = 3;
const MTI: u32 = 7;
const SEI: u32 = 9;
const MEI: u32 = 11;

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
    changed: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    mswi: Mswi,
    mtimer: Mtimer,
    sswi: Sswi,
    plic: Plic,
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
            mswi: Mswi::new(config.harts),
            mtimer: Mtimer::new(config.harts, config.cycles_per_tick),
            sswi: Sswi::new(config.harts),
            plic,
        };
        Self {
            config,
            state,
            changed: mask(config.harts),
        }
    }

    /// The PLIC, for inspection.
    #[must_use]
    pub fn plic(&self) -> &Plic {
        &self.state.plic
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

    /// Runs `access` on the PLIC and notes the harts whose external interrupts it changed.
    fn with_plic<T>(&mut self, access: impl FnOnce(&mut Plic) -> T) -> T {
        let before = self.external();
        let result = access(&mut self.state.plic);
        let after = self.external();
        self.changed |= (before.0 ^ after.0) | (before.1 ^ after.1);
        result
    }
}

/// The device an address belongs to, with the offset in it.
enum Place {
    Mswi(u64),
    Mtimer(u64),
    Sswi(u64),
    Plic(u64),
}

impl AclintPlic {
    fn place(&self, addr: u64) -> Result<Place, NoRegister> {
        let within = |base: u64, len: u64| addr.checked_sub(base).filter(|offset| *offset < len);
        if let Some(offset) = within(PLIC_BASE, PLIC_LEN) {
            Ok(Place::Plic(offset))
        } else if let Some(offset) = within(ACLINT_BASE, MSWI_LEN) {
            Ok(Place::Mswi(offset))
        } else if let Some(offset) = within(ACLINT_BASE + MSWI_LEN, MTIMER_LEN) {
            Ok(Place::Mtimer(offset))
        } else {
            let sswi = within(SSWI_BASE, SSWI_LEN).filter(|_| self.config.sswi);
            sswi.map(Place::Sswi).ok_or(NoRegister)
        }
    }
}

impl InterruptArchitecture for AclintPlic {
    fn name(&self) -> &'static str {
        "aclint-plic"
    }

    fn windows(&self) -> Vec<Window> {
        let mut windows = vec![
            Window {
                name: "aclint",
                base: ACLINT_BASE,
                len: ACLINT_LEN,
            },
            Window {
                name: "plic",
                base: PLIC_BASE,
                len: PLIC_LEN,
            },
        ];
        if self.config.sswi {
            windows.push(Window {
                name: "sswi",
                base: SSWI_BASE,
                len: SSWI_LEN,
            });
        }
        windows
    }

    fn load(&mut self, _hart: usize, now: u64, addr: u64, size: u8) -> Result<u64, NoRegister> {
        match self.place(addr)? {
            Place::Plic(offset) => self
                .with_plic(|plic| plic.load(offset, size))
                .map(u64::from),
            Place::Mswi(offset) => self.state.mswi.load(offset, size),
            Place::Mtimer(offset) => self.state.mtimer.load(offset, size, now),
            Place::Sswi(offset) => self.state.sswi.load(offset, size),
        }
    }

    fn store(
        &mut self,
        _hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), NoRegister> {
        let one = |hart: Option<usize>| hart.map_or(0, |hart| 1 << hart);
        self.changed |= match self.place(addr)? {
            Place::Plic(offset) => {
                return self.with_plic(|plic| plic.store(offset, size, value as u32));
            }
            Place::Mswi(offset) => one(self.state.mswi.store(offset, size, value)?),
            Place::Mtimer(offset) => self.state.mtimer.store(offset, size, value, now)?,
            Place::Sswi(offset) => one(self.state.sswi.store(offset, size, value)?),
        };
        Ok(())
    }

    fn set_source(&mut self, _now: u64, source: u32, level: bool) {
        self.with_plic(|plic| plic.set_level(source, level));
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let (timer, deadline) = self.state.mtimer.pending(hart, now);
        let plic = &self.state.plic;
        let level = u64::from(self.state.mswi.pending(hart)) << MSI
            | u64::from(timer) << MTI
            | u64::from(plic.context_pending(2 * hart)) << MEI
            | u64::from(plic.context_pending(2 * hart + 1)) << SEI;
        let pulse = u64::from(self.state.sswi.take(hart)) << SSI;
        Lines {
            level,
            pulse,
            deadline,
            ..Lines::default()
        }
    }

    fn take_changed(&mut self) -> u64 {
        std::mem::take(&mut self.changed)
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error> {
        let wires = |irqs: &[u32]| -> Vec<u32> {
            cpu_intc
                .iter()
                .flat_map(|&cpu| irqs.iter().flat_map(move |&irq| [cpu, irq]))
                .collect()
        };
        let node = fdt.begin_node(&format!("clint@{ACLINT_BASE:x}"))?;
        fdt.property_string_list(
            "compatible",
            vec!["sifive,clint0".into(), "riscv,clint0".into()],
        )?;
        fdt.property_array_u64("reg", &[ACLINT_BASE, ACLINT_LEN])?;
        fdt.property_array_u32("interrupts-extended", &wires(&[MSI, MTI]))?;
        fdt.end_node(node)?;

        if self.config.sswi {
            let node = fdt.begin_node(&format!("sswi@{SSWI_BASE:x}"))?;
            fdt.property_string("compatible", "riscv,aclint-sswi")?;
            fdt.property_array_u64("reg", &[SSWI_BASE, SSWI_LEN])?;
            fdt.property_array_u32("interrupts-extended", &wires(&[SSI]))?;
            fdt.property_null("interrupt-controller")?;
            fdt.property_u32("#interrupt-cells", 0)?;
            fdt.end_node(node)?;
        }

        let node = fdt.begin_node(&format!("plic@{PLIC_BASE:x}"))?;
        fdt.property_string_list(
            "compatible",
            vec!["sifive,plic-1.0.0".into(), "riscv,plic0".into()],
        )?;
        fdt.property_array_u64("reg", &[PLIC_BASE, PLIC_LEN])?;
        fdt.property_array_u32("interrupts-extended", &wires(&[MEI, SEI]))?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_u32("riscv,ndev", SOURCES)?;
        fdt.property_phandle(EXTERNAL_PHANDLE)?;
        fdt.end_node(node)
    }

    fn external_phandle(&self) -> u32 {
        EXTERNAL_PHANDLE
    }

    fn save(&self) -> serde_json::Value {
        serde_json::to_value(&self.state).unwrap_or_default()
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String> {
        let mut state: State = serde_json::from_value(state.clone())
            .map_err(|e| format!("the saved ACLINT and PLIC cannot be read: {e}"))?;
        if !self.state.mtimer.fits(&state.mtimer) {
            return Err("the saved ACLINT has another number of harts or tick length".into());
        }
        let mut plic = self.state.plic.clone();
        plic.restore(state.plic)?;
        state.plic = plic;
        self.state = state;
        self.changed = mask(self.config.harts);
        Ok(())
    }
}
