//! A passed device as a platform device of the guest: a node of its device tree, registers that the
//! guest accesses without exits, and wires.

use crate::devices::vfio::pin::{Level, Pin};
use crate::error::{Error, Result};
use crate::irqchip::controller::InterruptController;
use crate::irqchip::wire::Kind;
use crate::map;
use std::any::Any;
use std::io;
use std::sync::Arc;
use trapless_isa::page::PAGE_SIZE;
use vmm_sys_util::eventfd::EventFd;

/// The device as VFIO gives it to this process.
pub trait Platform: Send + Sync {
    /// What the user calls it.
    fn name(&self) -> &str;

    /// What its node says that it is compatible with; empty if it has no node.
    fn compatible(&self) -> Vec<String>;

    /// Lengths of its regions in bytes, and whether all of a region can be mapped.
    fn regions(&self) -> Vec<(u64, bool)>;

    /// Lets the guest access a region at guest physical address `guest` without exits, until the
    /// result is dropped.
    ///
    /// # Errors
    /// The error that the system returned.
    fn map(&self, region: u32, guest: u64) -> io::Result<Box<dyn Any + Send>>;

    /// Its interrupts: the level-triggered ones, `None` for others.
    fn interrupts(self: Arc<Self>) -> Vec<Option<Arc<dyn Level>>>;

    /// Whether the host's kernel is to relay interrupts, even if hardware could drive the guest's.
    fn is_relayed(&self) -> bool;
}

/// What a guest's device tree says of a platform device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name, without the address.
    pub name: String,
    /// What it is compatible with.
    pub compatible: Vec<String>,
    /// First address and length of its regions.
    pub regions: Vec<(u64, u64)>,
    /// Its sources.
    pub interrupts: Vec<(u32, Kind)>,
}

/// Addresses and sources that are free for platform devices.
pub struct Places {
    address: u64,
    source: u32,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            address: map::PASSED_BASE,
            source: map::PASSED_IRQ,
        }
    }
}

impl Places {
    /// An address for `len` bytes, aligned as they are, in whole pages.
    fn region(&mut self, len: u64) -> Option<u64> {
        let len = len.checked_next_power_of_two()?.max(PAGE_SIZE);
        let address = self.address.checked_next_multiple_of(len)?;
        let end = address.checked_add(len)?;
        let fits = end <= map::PASSED_BASE + map::PASSED_LEN;
        self.address = if fits { end } else { self.address };
        fits.then_some(address)
    }

    fn source(&mut self) -> Option<u32> {
        let source = self.source;
        let fits = source < map::PASSED_IRQ + map::PASSED_SOURCES;
        self.source += u32::from(fits);
        fits.then_some(source)
    }
}

/// A wire of the device.
enum Way {
    /// Hardware drives the source, as long as VFIO has the event that names the wire.
    Direct(Arc<dyn Level>),
    /// The host takes the interrupt.
    Relayed(Arc<Pin>),
}

/// The device.
pub struct Passed {
    /// What the guest is told of it.
    pub node: Node,
    ways: Vec<Way>,
    _mapped: Vec<Box<dyn Any + Send>>,
}

impl Passed {
    /// Passes `device`, at `places`.
    ///
    /// # Errors
    /// [`Error::User`] if it cannot be passed, [`Error::Failed`] if the system refuses something.
    pub fn new(
        device: &Arc<impl Platform + 'static>,
        places: &mut Places,
        controller: &dyn InterruptController,
    ) -> Result<Self> {
        let refuse = |why: &str| Error::user(format!("--vfio {}: the device {why}", device.name()));
        let mut passed = Self {
            node: Node {
                name: node_name(device.name()),
                compatible: device.compatible(),
                regions: Vec::new(),
                interrupts: Vec::new(),
            },
            ways: Vec::new(),
            _mapped: Vec::new(),
        };
        if passed.node.compatible.is_empty() {
            return Err(refuse(
                "has no device tree node, which the guest would need",
            ));
        }
        if device.regions().is_empty() {
            return Err(refuse("has no registers, by which the guest would name it"));
        }
        for (region, (len, whole)) in (0..).zip(device.regions()) {
            if !whole {
                return Err(refuse(
                    "has registers that share a page with others, so that the guest cannot have them for itself",
                ));
            }
            let address = places
                .region(len)
                .ok_or_else(|| refuse("has more registers than a guest has room for"))?;
            let mapped = device
                .map(region, address)
                .map_err(|e| Error::failed("KVM refuses the registers of a passed device", e))?;
            passed.node.regions.push((address, len));
            passed._mapped.push(mapped);
        }
        for level in Arc::clone(device).interrupts() {
            let level = level.ok_or_else(|| {
                refuse("has an edge-triggered interrupt; only level-triggered ones can be passed")
            })?;
            let source = places
                .source()
                .ok_or_else(|| refuse("has more interrupts than a guest has sources left"))?;
            let (way, kind) = connect(level, source, controller, device.is_relayed())?;
            passed.node.interrupts.push((source, kind));
            passed.ways.push(way);
        }
        Ok(passed)
    }

    /// Wires whose interrupts the host takes.
    pub fn relayed(&self) -> impl Iterator<Item = &Arc<Pin>> {
        self.ways.iter().filter_map(|way| match way {
            Way::Relayed(pin) => Some(pin),
            Way::Direct(_) => None,
        })
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        for way in &self.ways {
            match way {
                Way::Direct(level) => level.disable(),
                Way::Relayed(pin) => pin.disable(),
            }
        }
    }
}

/// Connects a wire to `source`: by hardware, or by the host.
fn connect(
    level: Arc<dyn Level>,
    source: u32,
    controller: &dyn InterruptController,
    relayed: bool,
) -> Result<(Way, Kind)> {
    let refused = |e| Error::failed("VFIO refuses an interrupt of a passed device", e);
    if !relayed {
        let trigger = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
            .map_err(|e| Error::failed("eventfd", e))?;
        // KVM hands over what VFIO has enabled.
        level.enable(&trigger, None).map_err(refused)?;
        let driven = controller
            .drive_by(source, &trigger)
            .map_err(|e| Error::failed("KVM refuses the source of a passed device", e))?;
        if driven {
            return Ok((Way::Direct(level), Kind::Level));
        }
        level.disable();
    }
    let pin = Pin::connect(level, source, controller)?;
    pin.enable().map_err(refused)?;
    Ok((Way::Relayed(pin), Pin::kind(controller)))
}

/// Linux calls a platform device of the device tree by address and name of its node.
fn node_name(name: &str) -> String {
    let name = name.split_once('.').map_or(name, |(_, name)| name);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => name.into(),
        false => "device".into(),
    }
}
