//! Disks and network cards whose queues another process serves (the vhost-user protocol of QEMU's
//! documentation, "Vhost-user Protocol").
//!
//! The driver's registers stay here. Once it is ready, the back end gets the guest's memory, the
//! addresses of the queue, and two eventfds: one that a notification signals (KVM_IOEVENTFD), one
//! that interrupts the guest.

use crate::devices::virtio::vhost::queues::{Events, ServedElsewhere, hand_over};
use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trapless_devices::GuestRam;
use trapless_devices::virtio::net;
use trapless_devices::virtio::{DriverFault, QueueIo, VirtioDevice};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemoryBackend};

/// Device type of block devices (virtio 1.2, section 5.2).
const BLOCK: u32 = 2;
/// Bytes of its configuration space that every version has.
const BLOCK_CONFIG: u32 = 60;
/// Feature bits that belong to the device type.
const OWN_FEATURES: u64 = 0xff_ffff;
const PROTOCOL: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// Which device it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A disk; the back end tells its size.
    Block,
    /// A network card with this MAC address.
    Net([u8; 6]),
}

impl Kind {
    /// The device as `trapless-backend` calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Block => "blk",
            Self::Net(_) => "net",
        }
    }

    fn queue_sizes(self) -> &'static [u16] {
        match self {
            Self::Block => &[256],
            Self::Net(_) => &net::QUEUE_SIZES,
        }
    }

    /// Of the features of the device type that the back end offers, those of this device. What a
    /// card says of itself is ours.
    fn features(self, offered: u64) -> u64 {
        match self {
            Self::Block => offered & OWN_FEATURES,
            Self::Net(_) => net::FEATURES,
        }
    }
}

/// The device.
pub struct VhostUser {
    kind: Kind,
    frontend: Frontend,
    ram: Arc<GuestRam>,
    features: u64,
    /// Configuration space of a disk.
    config: Vec<u8>,
    events: Events,
    /// Features that the driver has accepted.
    accepted: u64,
    running: bool,
}

impl VhostUser {
    /// Connects a device of this kind to the back end that listens at `socket`, for a guest with
    /// this memory.
    ///
    /// # Errors
    /// [`Error::User`] if nobody listens, [`Error::Failed`] if it does not speak the protocol.
    pub fn connect(kind: Kind, socket: &Path, ram: Arc<GuestRam>) -> Result<Self> {
        let shown = socket.display();
        let queues = kind.queue_sizes().len();
        let mut frontend = connect(socket, queues as u64).map_err(|e| {
            Error::user(format!(
                "cannot connect to {shown} ({e}); start its back end first, for instance \
                 trapless-backend {} --socket {shown}; see its --help",
                kind.name()
            ))
        })?;
        let (features, config) = negotiate(kind, &mut frontend)
            .map_err(|e| Error::failed(&format!("the back end at {shown}"), e))?;
        Ok(Self {
            kind,
            frontend,
            ram,
            features,
            config,
            events: Events::new(queues)?,
            accepted: 0,
            running: false,
        })
    }

    /// The connection, of which a back end that ends closes its side.
    pub fn socket(&self) -> RawFd {
        self.frontend.as_raw_fd()
    }

    fn hand_over(&mut self, queues: &[Queue]) -> vhost::Result<()> {
        let accepted = self.accepted | self.features & PROTOCOL;
        self.frontend.set_features(accepted)?;
        let regions: vhost::Result<Vec<_>> = self
            .ram
            .iter()
            .map(VhostUserMemoryRegionInfo::from_guest_region)
            .collect();
        self.frontend.set_mem_table(&regions?)?;
        let address = |at: u64| {
            let host = self.ram.get_host_address(GuestAddress(at));
            host.map(|at| at as u64)
                .map_err(|_| vhost::Error::InvalidGuestMemory)
        };
        for (number, queue) in queues.iter().enumerate() {
            hand_over(&self.frontend, (number, queue), address, &self.events)?;
            if self.features & PROTOCOL != 0 {
                self.frontend.set_vring_enable(number, true)?;
            }
        }
        // What the driver made available before.
        (0..queues.len()).for_each(|number| self.events.kick(number));
        Ok(())
    }
}

/// A back end that was just started, or that another guest has just left, may not listen yet.
fn connect(socket: &Path, queues: u64) -> vhost::Result<Frontend> {
    const TRIES: u32 = 50;
    for _ in 1..TRIES {
        if let Ok(frontend) = Frontend::connect(socket, queues) {
            return Ok(frontend);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Frontend::connect(socket, queues)
}

/// Features of the back end, and the configuration space of a disk.
fn negotiate(kind: Kind, frontend: &mut Frontend) -> std::result::Result<(u64, Vec<u8>), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    frontend.set_owner().map_err(|e| text(&e))?;
    let features = frontend.get_features().map_err(|e| text(&e))?;
    if features & PROTOCOL == 0 {
        return Err("it has no protocol features".into());
    }
    let protocol = frontend.get_protocol_features().map_err(|e| text(&e))?;
    if kind != Kind::Block {
        frontend
            .set_protocol_features(VhostUserProtocolFeatures::empty())
            .map_err(|e| text(&e))?;
        return Ok((features, Vec::new()));
    }
    if !protocol.contains(VhostUserProtocolFeatures::CONFIG) {
        return Err("it does not tell the size of its disk".into());
    }
    frontend
        .set_protocol_features(VhostUserProtocolFeatures::CONFIG)
        .map_err(|e| text(&e))?;
    let space = vec![0; BLOCK_CONFIG as usize];
    let (_, config) = frontend
        .get_config(0, BLOCK_CONFIG, VhostUserConfigFlags::empty(), &space)
        .map_err(|e| text(&e))?;
    Ok((features, config))
}

impl ServedElsewhere for VhostUser {
    fn events(&self) -> &Events {
        &self.events
    }
}

impl VirtioDevice for VhostUser {
    fn device_id(&self) -> u32 {
        match self.kind {
            Kind::Block => BLOCK,
            Kind::Net(_) => net::DEVICE,
        }
    }

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Block => "vhost-user-blk",
            Kind::Net(_) => "vhost-user-net",
        }
    }

    fn features(&self) -> u64 {
        self.kind.features(self.features)
    }

    fn queue_sizes(&self) -> &[u16] {
        self.kind.queue_sizes()
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        if let Kind::Net(mac) = self.kind {
            return net::read_config(mac, offset, data);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self.config.get(from..).unwrap_or_default();
        let len = data.len().min(found.len());
        data[..len].copy_from_slice(&found[..len]);
    }

    fn activate(&mut self, features: u64) {
        self.accepted = features & self.features;
    }

    fn start(&mut self, queues: &[Queue]) -> std::result::Result<(), DriverFault> {
        if !queues.iter().all(QueueT::ready) {
            return Err(DriverFault("a queue is missing"));
        }
        self.hand_over(queues).map_err(|e| {
            eprintln!("trapless-vmm: {}: {e}", self.name());
            DriverFault("the back end refuses the queues")
        })?;
        self.running = true;
        Ok(())
    }

    fn notify(
        &mut self,
        queue: usize,
        _: &mut QueueIo<'_>,
    ) -> std::result::Result<(), DriverFault> {
        self.events.kick(queue);
        Ok(())
    }

    fn reset(&mut self) {
        if std::mem::take(&mut self.running) {
            // It answers when it has stopped.
            for number in 0..self.events.kicks.len() {
                let _ = self.frontend.get_vring_base(number);
            }
        }
    }
}
