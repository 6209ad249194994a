//! Disks and network cards whose queues another process serves (the vhost-user protocol of QEMU's
//! documentation, "Vhost-user Protocol").
//!
//! The driver's registers are emulated here. Once it is ready, the back end gets the guest's
//! memory, the addresses of the queue, and two eventfds: one that a notification signals
//! (KVM_IOEVENTFD), one that interrupts the guest.

use crate::devices::virtio::vhost::queues::{Events, ServedElsewhere, hand_over};
use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
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

/// Kind of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A disk, whose size comes from the back end.
    Block,
    /// A network card with this MAC address.
    Net([u8; 6]),
}

impl Kind {
    /// Name of the device in `trapless-backend`.
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

    /// Of the features of the device type that the back end offers, those of this device.
    /// Configuration of a network card is provided here.
    fn features(self, offered: u64) -> u64 {
        match self {
            Self::Block => offered & OWN_FEATURES,
            Self::Net(_) => net::FEATURES,
        }
    }
}

/// A connection to a back end, and its features.
pub struct Connection {
    frontend: Frontend,
    features: u64,
    /// Configuration space of a disk.
    config: Vec<u8>,
}

impl Connection {
    /// Connects a device of this kind to the back end that listens at `socket`. One that was just
    /// started, or that another guest has just left, may not listen yet: waits for `patience`.
    ///
    /// # Errors
    /// [`Error::User`] if the connection is refused, [`Error::Failed`] if the back end does not
    /// follow the protocol.
    pub fn open(kind: Kind, socket: &Path, patience: Duration) -> Result<Self> {
        let shown = socket.display();
        let end = Instant::now() + patience;
        let mut frontend = loop {
            match Frontend::connect(socket, kind.queue_sizes().len() as u64) {
                Ok(frontend) => break frontend,
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
                Err(e) => {
                    return Err(Error::user(format!(
                        "cannot connect to {shown} ({e}); start its back end first, for instance \
                         trapless-backend {} --socket {shown}; see its --help",
                        kind.name()
                    )));
                }
            }
        };
        let (features, config) = negotiate(kind, &mut frontend)
            .map_err(|e| Error::failed(&format!("the back end at {shown}"), e))?;
        Ok(Self {
            frontend,
            features,
            config,
        })
    }
}

impl AsRawFd for Connection {
    /// The socket, whose other side is closed when the back end ends.
    fn as_raw_fd(&self) -> RawFd {
        self.frontend.as_raw_fd()
    }
}

/// The device.
pub struct VhostUser {
    kind: Kind,
    connection: Connection,
    ram: Arc<GuestRam>,
    events: Events,
    /// Features that the driver has accepted.
    accepted: u64,
    /// The queues, while the back end serves them.
    queues: Vec<Queue>,
}

impl VhostUser {
    /// A device of this kind whose back end is at the other side of `connection`, for a guest with
    /// this memory.
    ///
    /// # Errors
    /// [`Error::Failed`] if there are no descriptors.
    pub fn new(kind: Kind, connection: Connection, ram: Arc<GuestRam>) -> Result<Self> {
        Ok(Self {
            kind,
            connection,
            ram,
            events: Events::new(kind.queue_sizes().len())?,
            accepted: 0,
            queues: Vec::new(),
        })
    }

    /// Continues with a new back end, which begins with the first request that is not used: the
    /// former must have used buffers in the order in which they were available.
    ///
    /// # Errors
    /// [`Error::Failed`] if it has another device, or rejects the queues.
    pub fn adopt(&mut self, connection: Connection) -> Result<()> {
        let failed = |what: &str| Err(Error::failed("the new back end", what));
        if connection.config != self.connection.config {
            return failed("serves another disk");
        }
        if self.connection.features & !connection.features != 0 {
            return failed("lacks features of the one before");
        }
        self.connection = connection;
        let mut queues = std::mem::take(&mut self.queues);
        for queue in &mut queues {
            match queue.used_idx(&*self.ram, Ordering::Acquire) {
                Ok(used) => queue.set_next_avail(used.0),
                Err(_) => return failed("finds no queue"),
            }
        }
        if !queues.is_empty() {
            self.hand_over(&queues)
                .map_err(|e| Error::failed("the new back end", e))?;
        }
        self.queues = queues;
        // The former may have used buffers without a signal.
        let _ = self.events.call.write(1);
        Ok(())
    }

    fn hand_over(&mut self, queues: &[Queue]) -> vhost::Result<()> {
        let (frontend, features) = (&mut self.connection.frontend, self.connection.features);
        frontend.set_features(self.accepted | features & PROTOCOL)?;
        let regions: vhost::Result<Vec<_>> = self
            .ram
            .iter()
            .map(VhostUserMemoryRegionInfo::from_guest_region)
            .collect();
        frontend.set_mem_table(&regions?)?;
        let address = |at: u64| {
            let host = self.ram.get_host_address(GuestAddress(at));
            host.map(|at| at as u64)
                .map_err(|_| vhost::Error::InvalidGuestMemory)
        };
        for (number, queue) in queues.iter().enumerate() {
            hand_over(frontend, (number, queue), address, &self.events)?;
            if features & PROTOCOL != 0 {
                frontend.set_vring_enable(number, true)?;
            }
        }
        // Buffers that the driver made available before.
        (0..queues.len()).for_each(|number| self.events.kick(number));
        Ok(())
    }
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
        return Err("it does not report the size of its disk".into());
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
        self.kind.features(self.connection.features)
    }

    fn queue_sizes(&self) -> &[u16] {
        self.kind.queue_sizes()
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        if let Kind::Net(mac) = self.kind {
            return net::read_config(mac, offset, data);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self.connection.config.get(from..).unwrap_or_default();
        let len = data.len().min(found.len());
        data[..len].copy_from_slice(&found[..len]);
    }

    fn activate(&mut self, features: u64) {
        self.accepted = features & self.connection.features;
    }

    fn start(&mut self, queues: &[Queue]) -> std::result::Result<(), DriverFault> {
        if !queues.iter().all(QueueT::ready) {
            return Err(DriverFault("a queue is missing"));
        }
        self.hand_over(queues).map_err(|e| {
            eprintln!("trapless-vmm: {}: {e}", self.name());
            DriverFault("the back end refuses the queues")
        })?;
        self.queues = queues
            .iter()
            .map(again)
            .collect::<Option<_>>()
            .unwrap_or_default();
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
        for number in 0..std::mem::take(&mut self.queues).len() {
            // It replies when it has stopped.
            let _ = self.connection.frontend.get_vring_base(number);
        }
    }
}

/// A copy of the queue.
fn again(queue: &Queue) -> Option<Queue> {
    queue.state().try_into().ok()
}
