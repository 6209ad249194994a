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
//!
//! The CSRs of Smaia and Ssaia are in the hart; it comes here for the registers of its files.

pub mod aplic;
mod fdt;
pub mod file;
pub mod imsic;

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;
use vm_fdt::FdtWriter;

use crate::aclint::{MSWI_LEN, MTIMER_LEN, Mswi, Mtimer, mask};
use crate::aclint_plic::{ACLINT_BASE, ACLINT_LEN};
use crate::{
    CsrOp, EXTERNAL_PHANDLE, FileAccess, FileId, FileRegister, InterruptArchitecture, Lines,
    NoFile, NoRegister, StepKind, VirtualStep, Window,
};
use aplic::{Addressed, Aplic, Delivery, Level};
use imsic::{Destination, Imsics, MACHINE_BASE, SUPERVISOR_BASE};

/// Control region of the APLIC's machine-level domain.
pub const APLIC_MACHINE_BASE: u64 = 0xC00_0000;
/// Control region of its supervisor-level domain.
pub const APLIC_SUPERVISOR_BASE: u64 = 0xD00_0000;

// Bit positions in `mip` (privileged specification, section 3.1.9) = local interrupt numbers.
const MSI: u32 = 3;
const MTI: u32 = 7;
const SEI: u32 = 9;
const MEI: u32 = 11;

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
    changed: u64,
    /// Steps since they were last taken, if anybody wants them.
    steps: Option<Vec<VirtualStep>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct State {
    mswi: Mswi,
    mtimer: Mtimer,
    aplic: Aplic,
    imsics: Option<Imsics>,
}

/// The device an address belongs to, with the offset in it.
enum Place {
    Mswi(u64),
    Mtimer(u64),
    Aplic(Level, u64),
    Imsic,
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
        let state = State {
            mswi: Mswi::new(config.harts),
            mtimer: Mtimer::new(config.harts, config.cycles_per_tick),
            aplic: Aplic::new(delivery, config.harts),
            imsics: config
                .guests
                .map(|guests| Imsics::new(config.harts, guests)),
        };
        Self {
            config,
            state,
            changed: mask(config.harts),
            steps: None,
        }
    }

    fn place(&self, addr: u64) -> Result<Place, NoRegister> {
        let within = |base: u64, len: u64| addr.checked_sub(base).filter(|offset| *offset < len);
        if let Some(offset) = within(ACLINT_BASE, MSWI_LEN) {
            Ok(Place::Mswi(offset))
        } else if let Some(offset) = within(ACLINT_BASE + MSWI_LEN, MTIMER_LEN) {
            Ok(Place::Mtimer(offset))
        } else if let Some(offset) = within(APLIC_MACHINE_BASE, aplic::LEN) {
            Ok(Place::Aplic(Level::Machine, offset))
        } else if let Some(offset) = within(APLIC_SUPERVISOR_BASE, aplic::LEN) {
            Ok(Place::Aplic(Level::Supervisor, offset))
        } else {
            Ok(Place::Imsic)
        }
    }

    /// Delivers a message; tells whether it was pending already.
    fn post(&mut self, to: Destination, identity: u32) -> bool {
        let Some(imsics) = &mut self.state.imsics else {
            return false;
        };
        self.changed |= 1 << to.hart;
        imsics.post(to, identity)
    }

    /// Records what `hart` did. The mode is that of the access, which only the caller knows.
    fn step(&mut self, hart: usize, time: u64, mode: Mode, kind: StepKind) {
        if let Some(steps) = &mut self.steps {
            steps.push(VirtualStep {
                time,
                hart,
                mode,
                domain: 0,
                kind,
                memory: 0,
            });
        }
    }

    /// Writes a message of the APLIC. Outside the IMSICs' pages nothing takes it.
    fn send(&mut self, (addr, message): Addressed) {
        let Some(imsics) = &self.state.imsics else {
            return;
        };
        if let Ok(Some((to, identity))) = imsics.message(addr, 4, message.identity) {
            self.post(to, identity);
        }
    }

    /// Runs `access` on the APLIC; in direct mode all harts may be concerned.
    fn with_aplic<T>(&mut self, access: impl FnOnce(&mut Aplic) -> T) -> T {
        if self.state.imsics.is_none() {
            self.changed |= mask(self.config.harts);
        }
        access(&mut self.state.aplic)
    }
}

impl InterruptArchitecture for Aia {
    fn name(&self) -> &'static str {
        "aia"
    }

    fn windows(&self) -> Vec<Window> {
        let window = |name, base, len| Window { name, base, len };
        let mut windows = vec![
            window("aclint", ACLINT_BASE, ACLINT_LEN),
            window("aplic-m", APLIC_MACHINE_BASE, aplic::LEN),
            window("aplic-s", APLIC_SUPERVISOR_BASE, aplic::LEN),
        ];
        if let Some(imsics) = &self.state.imsics {
            windows.push(window("imsic-m", MACHINE_BASE, imsics.machine_len()));
            windows.push(window("imsic-s", SUPERVISOR_BASE, imsics.supervisor_len()));
        }
        windows
    }

    fn load(&mut self, _hart: usize, now: u64, addr: u64, size: u8) -> Result<u64, NoRegister> {
        match self.place(addr)? {
            Place::Mswi(offset) => self.state.mswi.load(offset, size),
            Place::Mtimer(offset) => self.state.mtimer.load(offset, size, now),
            Place::Aplic(level, offset) => self
                .with_aplic(|aplic| aplic.load(level, offset, size))
                .map(u64::from),
            Place::Imsic => Imsics::load(addr, size),
        }
    }

    fn store(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), NoRegister> {
        match self.place(addr)? {
            Place::Mswi(offset) => {
                let target = self.state.mswi.store(offset, size, value)?;
                self.changed |= target.map_or(0, |hart| 1 << hart);
            }
            Place::Mtimer(offset) => {
                self.changed |= self.state.mtimer.store(offset, size, value, now)?;
            }
            Place::Aplic(level, offset) => {
                let messages =
                    self.with_aplic(|aplic| aplic.store(level, offset, size, value as u32))?;
                for message in messages {
                    self.send(message);
                }
            }
            Place::Imsic => {
                let imsics = self.state.imsics.as_ref().ok_or(NoRegister)?;
                if let Some((to, identity)) = imsics.message(addr, size, value as u32)? {
                    let merged = self.post(to, identity);
                    let file = match to.file {
                        FileId::Machine => return Ok(()),
                        FileId::Supervisor => 0,
                        FileId::Guest(guest) => guest,
                    };
                    let message = StepKind::Message {
                        on: to.hart,
                        file,
                        identity: u16::try_from(identity).unwrap_or(0),
                        merged,
                    };
                    self.step(hart, now, Mode::M, message);
                }
            }
        }
        Ok(())
    }

    fn has_csr(&self, csr: u16) -> bool {
        use trapless_isa::csr as c;
        match csr {
            c::SIREG | c::VSIREG | c::STOPI | c::VSTOPI | c::MIREG | c::MTOPI => true,
            c::STOPEI | c::VSTOPEI | c::MTOPEI => self.state.imsics.is_some(),
            _ => false,
        }
    }

    fn guest_files(&self) -> Option<u8> {
        Some(self.config.guests.unwrap_or(0))
    }

    fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let imsics = self.state.imsics.as_mut().ok_or(NoFile)?;
        if access.op != CsrOp::Read {
            self.changed |= 1 << access.hart;
        }
        let old = imsics.access(access)?;
        let file = match access.file {
            FileId::Machine => None,
            FileId::Supervisor => Some(0),
            FileId::Guest(guest) => Some(guest),
        };
        let claims = access.register == FileRegister::Top && access.op != CsrOp::Read;
        if let (true, Some(file)) = (claims, file) {
            let identity = (old & 0x7FF) as u16;
            let kind = StepKind::FileClaimed { file, identity };
            self.step(access.hart, access.now, access.mode, kind);
        }
        Ok(old)
    }

    fn record_steps(&mut self, on: bool) {
        self.steps = on.then(Vec::new);
    }

    fn take_steps(&mut self) -> Vec<VirtualStep> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn set_source(&mut self, _now: u64, source: u32, level: bool) {
        if let Some(message) = self.with_aplic(|aplic| aplic.set_level(source, level)) {
            self.send(message);
        }
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let (timer, deadline) = self.state.mtimer.pending(hart, now);
        let (machine, supervisor, hgeip) = match &self.state.imsics {
            Some(imsics) => (
                imsics.machine(hart),
                imsics.supervisor(hart),
                imsics.hgeip(hart),
            ),
            None => (
                self.state.aplic.raised(Level::Machine, hart),
                self.state.aplic.raised(Level::Supervisor, hart),
                0,
            ),
        };
        Lines {
            level: u64::from(self.state.mswi.pending(hart)) << MSI
                | u64::from(timer) << MTI
                | u64::from(machine) << MEI
                | u64::from(supervisor) << SEI,
            hgeip,
            deadline,
            ..Lines::default()
        }
    }

    fn take_changed(&mut self) -> u64 {
        std::mem::take(&mut self.changed)
    }

    fn isa_extensions(&self) -> &'static [&'static str] {
        match self.config.guests {
            Some(_) => &["smaia", "ssaia"],
            None => &[],
        }
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error> {
        fdt::nodes(fdt, cpu_intc, self.state.imsics.as_ref())
    }

    fn interrupt_cells(&self, source: u32) -> Vec<u32> {
        vec![source, fdt::LEVEL_HIGH]
    }

    fn external_phandle(&self) -> u32 {
        EXTERNAL_PHANDLE
    }

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
        let harts = self.config.harts;
        let aclint = self.state.mtimer.fits(&state.mtimer);
        if !(imsics && aclint && self.state.aplic.fits(&state.aplic)) {
            return Err("the saved AIA state is for another machine".into());
        }
        self.state = state;
        self.changed = mask(harts);
        Ok(())
    }
}
