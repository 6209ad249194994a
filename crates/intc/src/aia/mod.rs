//! The Advanced Interrupt Architecture as QEMU's `virt` machine has it with `aia=aplic-imsic`: an
//! IMSIC with guest interrupt files at each hart, an APLIC that turns wires into messages, and an
//! ACLINT.
//!
//! ```text
//!  wires --> APLIC --message--+
//!                             v
//!  harts' stores (IPIs) --> IMSIC of a hart --> MEIP, SEIP, hgeip
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `file` | one interrupt file |
//! | `imsic` | all files and their pages |
//! | `aplic` | the APLIC with its domains |
//! | `fdt` | device tree nodes |
//! | `inspect` | state as rows; also below `imsic` and `aplic` |
//!
//! The CSRs of Smaia and Ssaia are in the hart, which accesses the registers of its files here.

pub mod aplic;
mod fdt;
pub mod file;
pub mod imsic;
mod inspect;

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;
use trapless_isa::cause::interrupt;
use trapless_isa::csr;
use trapless_isa::port::{
    CsrOp, FileAccess, FileId, FileRegister, Lines, MessageArrival, MmioAccess, NoFile, StepKind,
    VirtualStep,
};
use vm_fdt::FdtWriter;

use crate::aclint::Clint;
use crate::aclint_plic::ACLINT;
use crate::architecture::{Description, InterruptArchitecture, InterruptFiles, Snapshot};
use crate::effects::{Effects, all_harts};
use crate::inspect::Row;
use crate::mmio::NoRegister;
use aplic::{APLIC_MACHINE, APLIC_SUPERVISOR, Addressed, Aplic, Delivery, Level};
pub use aplic::{APLIC_MACHINE_BASE, APLIC_SUPERVISOR_BASE};
use imsic::{Destination, Imsics};

/// CSRs of Smaia and Ssaia that access interrupt files or depend on them, with those of the
/// machine's IMSICs first.
const CSRS: &[u16] = &[
    csr::STOPEI,
    csr::VSTOPEI,
    csr::MTOPEI,
    csr::SIREG,
    csr::VSIREG,
    csr::STOPI,
    csr::VSTOPI,
    csr::MIREG,
    csr::MTOPI,
];
/// Number of [`CSRS`] that exist only with IMSICs.
const IMSIC_CSRS: usize = 3;

/// Configuration of [`Aia`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of harts, 1..=64.
    pub harts: usize,
    /// Cycles of virtual time for each tick of `mtime`, at least 1.
    pub cycles_per_tick: u64,
    /// Guest interrupt files of each hart, at most [`imsic::MAX_GUESTS`]; `None`: no IMSICs, the
    /// APLIC delivers directly.
    pub guests: Option<u8>,
}

/// See the [module](self).
pub struct Aia {
    config: Config,
    state: State,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    aclint: Clint,
    aplic: Aplic,
    imsics: Option<Imsics>,
}

/// The device an address belongs to, with the offset in it.
enum Place {
    Aclint(u64),
    Aplic(Level, u64),
    Imsic,
}

impl Place {
    /// The machine accesses only addresses inside the windows: the remaining ones are IMSICs.
    fn of(addr: u64) -> Self {
        let machine = APLIC_MACHINE.offset(addr);
        let supervisor = || APLIC_SUPERVISOR.offset(addr);
        ACLINT
            .offset(addr)
            .map(Self::Aclint)
            .or_else(|| machine.map(|offset| Self::Aplic(Level::Machine, offset)))
            .or_else(|| supervisor().map(|offset| Self::Aplic(Level::Supervisor, offset)))
            .unwrap_or(Self::Imsic)
    }
}

impl Aia {
    /// The architecture after reset.
    ///
    /// # Panics
    /// If `config` is out of its ranges.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!((1..=64).contains(&config.harts), "1..=64 harts");
        let delivery = match config.guests {
            Some(_) => Delivery::Msi,
            None => Delivery::Direct,
        };
        let imsics = |guests| Imsics::new(config.harts, guests);
        let state = State {
            aclint: Clint::new(config.harts, config.cycles_per_tick),
            aplic: Aplic::new(delivery, config.harts),
            imsics: config.guests.map(imsics),
        };
        Self { config, state }
    }

    /// Delivers a message and records whether it was pending already.
    fn post(&mut self, to: Destination, identity: u32, effects: &mut Effects) -> bool {
        let Some(imsics) = &mut self.state.imsics else {
            return false;
        };
        effects.change(to.hart);
        imsics.post(to, identity)
    }

    /// Writes a message of the APLIC. Outside the IMSICs' pages it has no effect.
    fn send(&mut self, (addr, message): Addressed, effects: &mut Effects) {
        let Some(imsics) = &self.state.imsics else {
            return;
        };
        if let Ok(Some((to, identity))) = imsics.message(addr, 4, message.identity) {
            self.post(to, identity, effects);
        }
    }

    /// A store of a hart to a page of an interrupt file.
    fn store_message(
        &mut self,
        access: &MmioAccess,
        value: u32,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        let imsics = self.state.imsics.as_ref().ok_or(NoRegister)?;
        let Some((to, identity)) = imsics.message(access.addr, access.size, value)? else {
            return Ok(());
        };
        let merged = self.post(to, identity, effects);
        if let Some(file) = file_number(to.file) {
            let kind = StepKind::Message {
                on: to.hart,
                file,
                identity: u16::try_from(identity).unwrap_or(0),
                merged,
            };
            effects
                .steps
                .push(step(access.hart, access.mode, access.now, kind));
        }
        Ok(())
    }

    /// Runs `access` on the APLIC; in direct mode all harts may be affected.
    fn with_aplic<T>(&mut self, effects: &mut Effects, access: impl FnOnce(&mut Aplic) -> T) -> T {
        if self.state.imsics.is_none() {
            effects.changed |= all_harts(self.config.harts);
        }
        access(&mut self.state.aplic)
    }
}

/// Number of a file in steps: 0 for the supervisor-level one; machine-level files are not recorded.
fn file_number(file: FileId) -> Option<u8> {
    match file {
        FileId::Machine => None,
        FileId::Supervisor => Some(0),
        FileId::Guest(guest) => Some(guest),
    }
}

fn step(hart: usize, mode: Mode, time: u64, kind: StepKind) -> VirtualStep {
    VirtualStep {
        time,
        hart,
        mode,
        by_device: false,
        domain: 0,
        kind,
        memory: 0,
    }
}

impl InterruptArchitecture for Aia {
    fn describe(&self) -> Description {
        let mut windows = vec![ACLINT, APLIC_MACHINE, APLIC_SUPERVISOR];
        if let Some(imsics) = &self.state.imsics {
            windows.extend([imsics.machine_window(), imsics.supervisor_window()]);
        }
        let with_imsics = self.state.imsics.is_some();
        Description {
            windows,
            csrs: CSRS[if with_imsics { 0 } else { IMSIC_CSRS }..].to_vec(),
            isa_extensions: if with_imsics {
                &["smaia", "ssaia"]
            } else {
                &[]
            },
            trigger_cells: &[fdt::LEVEL_HIGH],
            msi_parent: with_imsics.then_some(fdt::IMSIC_S),
            ..Description::default()
        }
    }

    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        match Place::of(access.addr) {
            Place::Aclint(offset) => self.state.aclint.load(offset, access.size, access.now),
            Place::Aplic(level, offset) => {
                let load = |aplic: &mut Aplic| aplic.load(level, offset, access.size);
                self.with_aplic(effects, load).map(u64::from)
            }
            Place::Imsic => Imsics::load(access.addr, access.size),
        }
    }

    fn store(
        &mut self,
        access: &MmioAccess,
        value: u64,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        let (size, now) = (access.size, access.now);
        match Place::of(access.addr) {
            Place::Aclint(offset) => {
                effects.changed |= self.state.aclint.store(offset, size, value, now)?;
            }
            Place::Aplic(level, offset) => {
                let store = |aplic: &mut Aplic| aplic.store(level, offset, size, value as u32);
                for message in self.with_aplic(effects, store)? {
                    self.send(message, effects);
                }
            }
            Place::Imsic => self.store_message(access, value as u32, effects)?,
        }
        Ok(())
    }

    fn set_source(&mut self, _now: u64, source: u32, level: bool, effects: &mut Effects) {
        let message = self.with_aplic(effects, |aplic| aplic.set_level(source, level));
        if let Some(message) = message {
            self.send(message, effects);
        }
    }

    fn message(
        &mut self,
        _now: u64,
        addr: u64,
        data: u32,
        effects: &mut Effects,
    ) -> Option<MessageArrival> {
        let imsics = self.state.imsics.as_ref()?;
        let (to, identity) = imsics.message(addr, 4, data).ok()??;
        Some(MessageArrival::File {
            hart: to.hart,
            file: to.file,
            merged: self.post(to, identity, effects),
        })
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let mut lines = self.state.aclint.lines(hart, now);
        let (machine, supervisor) = match &self.state.imsics {
            Some(imsics) => {
                lines.hgeip = imsics.hgeip(hart);
                (imsics.machine(hart), imsics.supervisor(hart))
            }
            None => (
                self.state.aplic.raised(Level::Machine, hart),
                self.state.aplic.raised(Level::Supervisor, hart),
            ),
        };
        lines.level |=
            u64::from(machine) << interrupt::MEI | u64::from(supervisor) << interrupt::SEI;
        lines
    }

    fn interrupt_files(&mut self) -> Option<&mut dyn InterruptFiles> {
        Some(self)
    }

    fn inspect(&self, now: u64) -> Vec<Row> {
        self.rows(now)
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error> {
        fdt::nodes(fdt, cpu_intc, self.state.imsics.as_ref())
    }
}

impl InterruptFiles for Aia {
    fn guest_files(&self) -> u8 {
        self.config.guests.unwrap_or(0)
    }

    fn access(&mut self, access: &FileAccess, effects: &mut Effects) -> Result<u64, NoFile> {
        let imsics = self.state.imsics.as_mut().ok_or(NoFile)?;
        if access.op != CsrOp::Read {
            effects.change(access.hart);
        }
        let old = imsics.access(access)?;
        let claims = access.register == FileRegister::Top && access.op != CsrOp::Read;
        if let Some(file) = file_number(access.file).filter(|_| claims) {
            let identity = (old & 0x7FF) as u16;
            let kind = StepKind::FileClaimed { file, identity };
            effects
                .steps
                .push(step(access.hart, access.mode, access.now, kind));
        }
        Ok(old)
    }
}

impl Snapshot for Aia {
    fn save(&self) -> serde_json::Value {
        // All maps have string keys, so this cannot fail.
        serde_json::to_value(&self.state).unwrap_or_default()
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String> {
        let state = State::deserialize(state)
            .map_err(|e| format!("the saved AIA state cannot be read: {e}"))?;
        let imsics = match (&self.state.imsics, &state.imsics) {
            (Some(own), Some(saved)) => own.fits(saved),
            (None, None) => true,
            _ => false,
        };
        let aclint = self.state.aclint.fits(&state.aclint);
        if !(imsics && aclint && self.state.aplic.fits(&state.aplic)) {
            return Err("the saved AIA state is for another machine".into());
        }
        self.state = state;
        Ok(())
    }
}
