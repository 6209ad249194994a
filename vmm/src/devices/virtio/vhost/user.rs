//! A block device whose queue another process serves (the vhost-user protocol of QEMU's
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
const CONFIG: u32 = 60;
const SIZES: [u16; 1] = [256];
/// Feature bits that belong to the device type.
const OWN_FEATURES: u64 = 0xff_ffff;
const PROTOCOL: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// The device.
pub struct VhostUser {
    frontend: Frontend,
    ram: Arc<GuestRam>,
    features: u64,
    config: Vec<u8>,
    events: Events,
    /// Features that the driver has accepted.
    accepted: u64,
    running: bool,
}

impl VhostUser {
    /// Connects to the back end that listens at `socket`, for a guest with this memory.
    ///
    /// # Errors
    /// [`Error::User`] if nobody listens, [`Error::Failed`] if it does not speak the protocol.
    pub fn connect(socket: &Path, ram: Arc<GuestRam>) -> Result<Self> {
        let shown = socket.display();
        let mut frontend = connect(socket).map_err(|e| {
            Error::user(format!(
                "cannot connect to {shown} ({e}); start its back end first, for instance \
                 trapless-backend blk --socket {shown} --disk FILE"
            ))
        })?;
        let (features, config) = negotiate(&mut frontend)
            .map_err(|e| Error::failed(&format!("the back end at {shown}"), e))?;
        Ok(Self {
            frontend,
            ram,
            features,
            config,
            events: Events::new(SIZES.len())?,
            accepted: 0,
            running: false,
        })
    }

    /// The connection, of which a back end that ends closes its side.
    pub fn socket(&self) -> RawFd {
        self.frontend.as_raw_fd()
    }

    fn hand_over(&mut self, queue: &Queue) -> vhost::Result<()> {
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
        hand_over(&self.frontend, (0, queue), address, &self.events)?;
        if self.features & PROTOCOL != 0 {
            self.frontend.set_vring_enable(0, true)?;
        }
        // What the driver made available before.
        self.events.kick(0);
        Ok(())
    }
}

/// A back end that was just started, or that another guest has just left, may not listen yet.
fn connect(socket: &Path) -> vhost::Result<Frontend> {
    const TRIES: u32 = 50;
    for _ in 1..TRIES {
        if let Ok(frontend) = Frontend::connect(socket, 1) {
            return Ok(frontend);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Frontend::connect(socket, 1)
}

/// Features and configuration space of the back end.
fn negotiate(frontend: &mut Frontend) -> std::result::Result<(u64, Vec<u8>), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    frontend.set_owner().map_err(|e| text(&e))?;
    let features = frontend.get_features().map_err(|e| text(&e))?;
    if features & PROTOCOL == 0 {
        return Err("it has no protocol features".into());
    }
    let protocol = frontend.get_protocol_features().map_err(|e| text(&e))?;
    if !protocol.contains(VhostUserProtocolFeatures::CONFIG) {
        return Err("it does not tell the size of its disk".into());
    }
    frontend
        .set_protocol_features(VhostUserProtocolFeatures::CONFIG)
        .map_err(|e| text(&e))?;
    let space = vec![0; CONFIG as usize];
    let (_, config) = frontend
        .get_config(0, CONFIG, VhostUserConfigFlags::empty(), &space)
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
        BLOCK
    }

    fn name(&self) -> &'static str {
        "vhost-user-blk"
    }

    fn features(&self) -> u64 {
        self.features & OWN_FEATURES
    }

    fn queue_sizes(&self) -> &[u16] {
        &SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self.config.get(from..).unwrap_or_default();
        let len = data.len().min(found.len());
        data[..len].copy_from_slice(&found[..len]);
    }

    fn activate(&mut self, features: u64) {
        self.accepted = features & self.features;
    }

    fn start(&mut self, queues: &[Queue]) -> std::result::Result<(), DriverFault> {
        let Some(queue) = queues.first().filter(|queue| queue.ready()) else {
            return Err(DriverFault("no queue"));
        };
        self.hand_over(queue).map_err(|e| {
            eprintln!("trapless-vmm: the back end of a disk: {e}");
            DriverFault("the back end refuses the queue")
        })?;
        self.running = true;
        Ok(())
    }

    fn notify(&mut self, _: usize, _: &mut QueueIo<'_>) -> std::result::Result<(), DriverFault> {
        self.events.kick(0);
        Ok(())
    }

    fn reset(&mut self) {
        if std::mem::take(&mut self.running) {
            // It answers when it has stopped.
            let _ = self.frontend.get_vring_base(0);
        }
    }
}
