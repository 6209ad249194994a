//! The AIA of a guest: APLIC and IMSICs in KVM (`KVM_DEV_TYPE_RISCV_AIA`), or the IMSICs alone and an APLIC in the VMM.
//!
//! ```text
//! device -- wire --> KVM_IRQ_LINE --> APLIC (KVM) ---- MSI --> interrupt file of a vCPU (guest file of a hart, or memory)
//! device -- wire --> APLIC (VMM) -- irqfd with route -- MSI --> ...
//! ```
//! The second way makes each interrupt one write of an eventfd, and the guest's device tree calls its virtio devices
//! edge-triggered, so that no access to the APLIC ends an interrupt.
//!
//! A vCPU's interrupt file is a guest interrupt file of the hart it runs on while one is free there, else memory that
//! KVM emulates. Names and numbers: Linux UAPI `asm/kvm.h`; registers: RISC-V Advanced Interrupt Architecture.

pub mod aplic;
#[cfg(target_arch = "riscv64")]
pub mod kvm;

use crate::irqchip::aia::aplic::UserAplic;
use crate::irqchip::trapless::Kind;
use crate::kvm::exit::Injections;
use crate::map;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trapless_devices::{IrqLine, StateError, StateReader, StateWriter};
use trapless_intc::aia::aplic::Message;

/// Numbers of the KVM device.
pub mod uapi {
    /// Configuration: [`MODE`] and what follows.
    pub const GRP_CONFIG: u32 = 0;
    /// How interrupt files are provided.
    pub const MODE: u64 = 0;
    /// Number of interrupt identities of a file.
    pub const IDS: u64 = 1;
    /// Number of wired sources.
    pub const SOURCES: u64 = 2;
    /// Bits of the hart index in the address of an interrupt file.
    pub const HART_BITS: u64 = 5;
    /// Guest physical addresses: 0 is the APLIC, 1 + n the interrupt file of vCPU n.
    pub const GRP_ADDR: u32 = 1;
    /// Control; attribute 0 takes the configuration into use.
    pub const GRP_CTRL: u32 = 2;
    /// Registers of the APLIC, by their offset.
    pub const GRP_APLIC: u32 = 3;
    /// Registers of interrupt files: vCPU << 12 | number for `siselect`.
    pub const GRP_IMSIC: u32 = 4;
}

/// Offsets of the APLIC's registers (AIA specification, chapter 4).
mod aplic_register {
    pub const DOMAINCFG: u64 = 0;
    pub const SOURCECFG: u64 = 0x0004;
    pub const SETIP: u64 = 0x1c00;
    pub const IN_CLRIP: u64 = 0x1d00;
    pub const SETIE: u64 = 0x1e00;
    pub const CLRIE: u64 = 0x1f00;
    pub const TARGET: u64 = 0x3004;
}

/// Indirectly accessed registers of an interrupt file (AIA specification, chapter 3).
mod imsic_register {
    pub const EIDELIVERY: u64 = 0x70;
    pub const EITHRESHOLD: u64 = 0x72;
    pub const EIP: u64 = 0x80;
    pub const EIE: u64 = 0xc0;
}

/// Wired sources of the APLIC, enough for all devices and 32 of the test device. KVM offers at least as many identities.
pub const SOURCES: u32 = 63;

/// How KVM provides the interrupt files of vCPUs.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Guest interrupt files of the harts while there are free ones, else memory
    Auto,
    /// Guest interrupt files only; a vCPU that finds none ends the guest
    Hwaccel,
    /// Memory only: each access traps
    Emul,
}

impl Mode {
    /// `KVM_DEV_RISCV_AIA_MODE_*`.
    pub fn number(self) -> u64 {
        match self {
            Self::Emul => 0,
            Self::Hwaccel => 1,
            Self::Auto => 2,
        }
    }
}

/// Bits that the hart index of `cpus` vCPUs takes.
pub fn hart_bits(cpus: u16) -> u32 {
    u16::BITS - cpus.saturating_sub(1).leading_zeros()
}

/// KVM's side of an [`Aia`].
pub trait Port: Send + Sync {
    /// `KVM_IRQ_LINE`.
    fn irq_line(&self, source: u32, high: bool) -> io::Result<()>;
    /// Routes GSI n to message n, an address and data (`KVM_SET_GSI_ROUTING`), and gives the last GSI, a new one, an irqfd.
    fn add_route(&self, messages: &[(u64, u32)]) -> io::Result<()>;
    /// Writes the irqfd of a GSI.
    fn write_irqfd(&self, gsi: usize) -> io::Result<()>;
    /// `KVM_SIGNAL_MSI`.
    fn signal(&self, address: u64, data: u32) -> io::Result<()>;
    /// Sets an attribute of the KVM device.
    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()>;
    /// Reads an attribute of the KVM device.
    fn get(&self, group: u32, attribute: u64) -> io::Result<u64>;
}

/// What the VMM did for interrupts, since the guest's start.
#[derive(Default, Debug)]
pub struct Counters {
    /// Calls of `KVM_IRQ_LINE` and `KVM_SIGNAL_MSI`.
    pub ioctl: AtomicU64,
    /// Writes of irqfds.
    pub irqfd: AtomicU64,
    /// Changes of the routes of irqfds.
    pub routed: AtomicU64,
    /// Injections that KVM refused.
    pub failed: AtomicU64,
}

impl Counters {
    /// The numbers now.
    pub fn totals(&self) -> Injections {
        Injections {
            ioctl: self.ioctl.load(Ordering::Relaxed),
            irqfd: self.irqfd.load(Ordering::Relaxed),
            routed: self.routed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            ..Injections::default()
        }
    }
}

/// Messages that have an irqfd; a guest that programs more of them is served by a system call with the whole message.
const ROUTES: usize = 1024;

/// The way of messages to interrupt files, by irqfd.
struct Messages {
    port: Arc<dyn Port>,
    vcpus: u16,
    counters: Arc<Counters>,
    /// Address and data by GSI.
    routes: Mutex<Vec<(u64, u32)>>,
}

impl Messages {
    fn send(&self, hart: u32, identity: u32) {
        // Nobody is there.
        if hart >= u32::from(self.vcpus) || identity == 0 {
            return;
        }
        let message = (map::imsic(hart.into()), identity);
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = routes.iter().position(|route| *route == message);
        let gsi = known.or_else(|| {
            if routes.len() >= ROUTES {
                return None;
            }
            routes.push(message);
            self.counters.routed.fetch_add(1, Ordering::Relaxed);
            if self.port.add_route(&routes).is_err() {
                routes.pop();
                return None;
            }
            Some(routes.len() - 1)
        });
        drop(routes);
        let done = match gsi {
            Some(gsi) => {
                self.counters.irqfd.fetch_add(1, Ordering::Relaxed);
                self.port.write_irqfd(gsi)
            }
            None => {
                self.counters.ioctl.fetch_add(1, Ordering::Relaxed);
                self.port.signal(message.0, message.1)
            }
        };
        if done.is_err() {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The AIA of one guest.
pub struct Aia {
    port: Arc<dyn Port>,
    vcpus: u16,
    ids: u32,
    /// The APLIC, unless KVM has it.
    aplic: Option<Arc<UserAplic>>,
    /// What was done.
    pub counters: Arc<Counters>,
}

impl Aia {
    /// Wraps an AIA that KVM has for `vcpus` vCPUs, with `ids` identities in each interrupt file; with an APLIC of
    /// the VMM if `split`, for which KVM's has no sources.
    pub fn new(port: Arc<dyn Port>, vcpus: u16, ids: u32, split: bool) -> Self {
        let counters = Arc::<Counters>::default();
        let messages = Messages {
            port: Arc::clone(&port),
            vcpus,
            counters: Arc::clone(&counters),
            routes: Mutex::default(),
        };
        let send = move |message: Message| messages.send(message.hart, message.identity);
        Self {
            port,
            vcpus,
            ids,
            aplic: split.then(|| Arc::new(UserAplic::new(vcpus, Box::new(send)))),
            counters,
        }
    }

    /// The APLIC, unless KVM has it.
    pub fn aplic(&self) -> Option<&Arc<UserAplic>> {
        self.aplic.as_ref()
    }

    /// Kind of the wires of virtio devices.
    pub fn virtio_kind(&self) -> Kind {
        match self.aplic {
            Some(_) => Kind::Edge,
            None => Kind::Level,
        }
    }

    /// Identities of each interrupt file.
    pub fn ids(&self) -> u32 {
        self.ids
    }

    /// The wire to `source`.
    pub fn line(self: &Arc<Self>, source: u32, kind: Kind) -> Line {
        Line {
            aia: Arc::clone(self),
            source,
            kind,
            level: AtomicBool::new(false),
        }
    }

    fn drive(&self, source: u32, high: bool) {
        if let Some(aplic) = &self.aplic {
            return aplic.drive(source, high);
        }
        self.counters.ioctl.fetch_add(1, Ordering::Relaxed);
        if self.port.irq_line(source, high).is_err() {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn pulse(&self, source: u32) {
        match &self.aplic {
            Some(aplic) => aplic.pulse(source),
            None => {
                self.drive(source, true);
                self.drive(source, false);
            }
        }
    }

    /// Registers of the APLIC that are saved, in the order in which they can be restored: what makes it send comes last.
    /// Bits of `setip` are cleared first, because a wire that a device drives has made its source pending.
    fn aplic_registers() -> impl Iterator<Item = u64> {
        let per_source = |base: u64| (0..u64::from(SOURCES)).map(move |n| base + 4 * n);
        let per_word = |base: u64| (0..u64::from(SOURCES + 1) / 32).map(move |n| base + 4 * n);
        per_source(aplic_register::SOURCECFG)
            .chain(per_source(aplic_register::TARGET))
            .chain(per_word(aplic_register::SETIP))
            .chain(per_word(aplic_register::SETIE))
            .chain([aplic_register::DOMAINCFG])
    }

    /// Registers of an interrupt file that are saved, delivery last.
    fn imsic_registers(&self) -> impl Iterator<Item = u64> + use<> {
        // Registers with even numbers have 64 bits each.
        let words = u64::from(self.ids + 1).div_ceil(64);
        let array = move |base: u64| (0..words).map(move |n| base + 2 * n);
        array(imsic_register::EIP)
            .chain(array(imsic_register::EIE))
            .chain([imsic_register::EITHRESHOLD, imsic_register::EIDELIVERY])
    }

    fn imsic_attributes(&self) -> impl Iterator<Item = u64> + '_ {
        (0..u64::from(self.vcpus)).flat_map(|vcpu| {
            self.imsic_registers()
                .map(move |register| vcpu << 12 | register)
        })
    }

    /// Appends the state. The vCPUs do not run, and no device interrupts.
    ///
    /// # Errors
    /// What KVM said.
    pub fn save(&self, to: &mut StateWriter) -> io::Result<()> {
        to.number(self.ids);
        to.number(self.aplic.is_some());
        if let Some(aplic) = &self.aplic {
            aplic.save(to);
        } else {
            for offset in Self::aplic_registers() {
                to.number(self.port.get(uapi::GRP_APLIC, offset)? as u32);
            }
        }
        for attribute in self.imsic_attributes() {
            to.number(self.port.get(uapi::GRP_IMSIC, attribute)?);
        }
        Ok(())
    }

    /// Takes over a state, after the devices have driven their wires: nothing was enabled until now.
    ///
    /// # Errors
    /// A sentence.
    pub fn restore(&self, from: &mut StateReader<'_>) -> Result<(), String> {
        let bad = |e: StateError| format!("the saved interrupt controller {e}");
        let set = |group, attribute, value| {
            self.port
                .set(group, attribute, value)
                .map_err(|e| format!("KVM refuses the saved interrupt controller: {e}"))
        };
        let ids: u32 = from.number().map_err(bad)?;
        if ids != self.ids {
            return Err(format!(
                "the saved guest has interrupt files of {ids} identities, this host offers {}; use a host like the one it was saved on",
                self.ids
            ));
        }
        if from.flag().map_err(bad)? != self.aplic.is_some() {
            return Err(
                "the saved guest has its APLIC elsewhere; use the --inject it was saved with"
                    .into(),
            );
        }
        if let Some(aplic) = &self.aplic {
            aplic.restore(from).map_err(bad)?;
        } else {
            self.restore_aplic(from)?;
        }
        for attribute in self.imsic_attributes() {
            let value = from.number().map_err(bad)?;
            set(uapi::GRP_IMSIC, attribute, value)?;
        }
        Ok(())
    }

    fn restore_aplic(&self, from: &mut StateReader<'_>) -> Result<(), String> {
        let set = |offset, value| {
            self.port
                .set(uapi::GRP_APLIC, offset, value)
                .map_err(|e| format!("KVM refuses the saved APLIC: {e}"))
        };
        for offset in Self::aplic_registers() {
            let value: u32 = from
                .number()
                .map_err(|e: StateError| format!("the saved APLIC {e}"))?;
            // Writing ones to these sets or clears, zeroes do nothing.
            let clear = match offset & 0xff00 {
                aplic_register::SETIP => {
                    Some(offset - aplic_register::SETIP + aplic_register::IN_CLRIP)
                }
                aplic_register::SETIE => {
                    Some(offset - aplic_register::SETIE + aplic_register::CLRIE)
                }
                _ => None,
            };
            if let Some(clear) = clear {
                set(clear, u32::MAX.into())?;
            }
            set(offset, value.into())?;
        }
        Ok(())
    }
}

/// The wire of a device to its source. One device drives it, under the device's lock.
pub struct Line {
    aia: Arc<Aia>,
    source: u32,
    kind: Kind,
    level: AtomicBool,
}

impl Line {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Makes an edge-triggered source pending.
    pub fn pulse(&self) {
        self.aia.pulse(self.source);
    }
}

impl IrqLine for Line {
    fn set(&self, high: bool) {
        if self.kind == Kind::Edge {
            // A device says so at each of its events, and when its driver has acknowledged one of two.
            if high {
                self.pulse();
            }
            return;
        }
        // Devices repeat levels; only changes are worth a system call.
        if self.level.swap(high, Ordering::SeqCst) != high {
            self.aia.drive(self.source, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// KVM's AIA as far as attributes and level-triggered wires go.
    #[derive(Default)]
    struct Model {
        attributes: BTreeMap<(u32, u64), u64>,
        calls: Vec<(u32, bool)>,
        routes: Vec<(u64, u32)>,
        written: Vec<usize>,
        signalled: Vec<(u64, u32)>,
    }

    #[derive(Clone, Default)]
    struct Probe(Arc<Mutex<Model>>);

    impl Port for Probe {
        fn irq_line(&self, source: u32, high: bool) -> io::Result<()> {
            let model = &mut *self.0.lock().unwrap();
            model.calls.push((source, high));
            let at = (
                uapi::GRP_APLIC,
                aplic_register::SETIP + u64::from(source / 32) * 4,
            );
            if high {
                *model.attributes.entry(at).or_default() |= 1 << (source % 32);
            }
            Ok(())
        }

        fn add_route(&self, messages: &[(u64, u32)]) -> io::Result<()> {
            let routes = &mut self.0.lock().unwrap().routes;
            assert_eq!(messages.len(), routes.len() + 1);
            *routes = messages.to_vec();
            Ok(())
        }

        fn write_irqfd(&self, gsi: usize) -> io::Result<()> {
            self.0.lock().unwrap().written.push(gsi);
            Ok(())
        }

        fn signal(&self, address: u64, data: u32) -> io::Result<()> {
            self.0.lock().unwrap().signalled.push((address, data));
            Ok(())
        }

        fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()> {
            let model = &mut *self.0.lock().unwrap();
            let (target, clears) = match (group, attribute & 0xff00) {
                (uapi::GRP_APLIC, aplic_register::IN_CLRIP) => (
                    attribute - aplic_register::IN_CLRIP + aplic_register::SETIP,
                    true,
                ),
                (uapi::GRP_APLIC, aplic_register::CLRIE) => (
                    attribute - aplic_register::CLRIE + aplic_register::SETIE,
                    true,
                ),
                _ => (attribute, false),
            };
            let entry = model.attributes.entry((group, target)).or_default();
            match (group, target & 0xff00) {
                _ if clears => *entry &= !value,
                (uapi::GRP_APLIC, aplic_register::SETIP | aplic_register::SETIE) => *entry |= value,
                _ => *entry = value,
            }
            Ok(())
        }

        fn get(&self, group: u32, attribute: u64) -> io::Result<u64> {
            let model = self.0.lock().unwrap();
            Ok(model
                .attributes
                .get(&(group, attribute))
                .copied()
                .unwrap_or(0))
        }
    }

    fn aia() -> (Arc<Aia>, Probe) {
        let probe = Probe::default();
        (
            Arc::new(Aia::new(Arc::new(probe.clone()), 2, 255, false)),
            probe,
        )
    }

    #[test]
    fn only_changes_of_a_level_reach_kvm_and_a_pulse_ends_low() {
        let (aia, probe) = aia();
        let level = aia.line(3, Kind::Level);
        for high in [true, true, false, false] {
            level.set(high);
        }
        aia.line(4, Kind::Edge).pulse();
        let calls = &probe.0.lock().unwrap().calls;
        assert_eq!(*calls, [(3, true), (3, false), (4, true), (4, false)]);
    }

    #[test]
    fn a_restored_aia_is_as_it_was_saved_whatever_wires_did_meanwhile() {
        let (aia, probe) = aia();
        let registers = [
            (uapi::GRP_APLIC, aplic_register::SOURCECFG + 8, 6),
            (uapi::GRP_APLIC, aplic_register::TARGET + 8, 1 << 18 | 7),
            (uapi::GRP_APLIC, aplic_register::SETIP + 4, 1 << 5),
            (uapi::GRP_APLIC, aplic_register::SETIE, 1 << 3),
            (uapi::GRP_APLIC, aplic_register::DOMAINCFG, 0x8000_0104),
            (
                uapi::GRP_IMSIC,
                (1 << 12) + imsic_register::EIE + 6,
                1 << 63,
            ),
            (uapi::GRP_IMSIC, imsic_register::EIP, 2),
            (uapi::GRP_IMSIC, imsic_register::EIDELIVERY, 1),
        ];
        for (group, register, value) in registers {
            aia.port.set(group, register, value).unwrap();
        }
        let mut writer = StateWriter::default();
        aia.save(&mut writer).unwrap();
        let bytes = writer.into_bytes();

        let (again, other) = self::aia();
        again.line(3, Kind::Level).set(true);
        let mut reader = StateReader::new(&bytes);
        again.restore(&mut reader).unwrap();
        reader.end().unwrap();
        let nonzero = |probe: &Probe| {
            let mut attributes = probe.0.lock().unwrap().attributes.clone();
            attributes.retain(|_, value| *value != 0);
            attributes
        };
        assert_eq!(nonzero(&other), nonzero(&probe));

        let fewer = Aia::new(Arc::new(Probe::default()), 2, 63, false);
        let error = fewer.restore(&mut StateReader::new(&bytes)).unwrap_err();
        assert!(error.contains("255 identities"), "{error}");
    }

    #[test]
    fn each_message_has_a_route_until_a_guest_wants_too_many() {
        let probe = Probe::default();
        let messages = Messages {
            port: Arc::new(probe.clone()),
            vcpus: 8,
            counters: Arc::default(),
            routes: Mutex::default(),
        };
        for (hart, identity) in [(0, 9), (1, 9), (0, 9), (8, 9), (0, 0)] {
            messages.send(hart, identity);
        }
        {
            let model = probe.0.lock().unwrap();
            assert_eq!(model.routes, [(0x2800_0000, 9), (0x2800_1000, 9)]);
            assert_eq!(
                model.written,
                [0, 1, 0],
                "and nothing for those that name nobody"
            );
        }
        for identity in 1..=2 * ROUTES as u32 {
            messages.send(2, identity);
        }
        let model = probe.0.lock().unwrap();
        assert_eq!(model.routes.len(), ROUTES);
        assert_eq!(model.written.len() + model.signalled.len(), 3 + 2 * ROUTES);
        assert_eq!(
            model.signalled.last(),
            Some(&(0x2800_2000, 2 * ROUTES as u32))
        );
    }

    #[test]
    fn hart_index_has_as_many_bits_as_the_last_vcpu_needs() {
        assert_eq!([1, 2, 3, 4, 5, 512].map(hart_bits), [0, 1, 2, 2, 3, 9]);
    }
}
