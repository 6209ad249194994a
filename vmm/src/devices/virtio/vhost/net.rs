//! A network card whose frames the host's kernel moves (vhost-net): between the queues and a tap
//! interface, in a thread of its own.

use crate::devices::virtio::tap::SharedTap;
use crate::devices::virtio::vhost::queues::{Events, ServedElsewhere, hand_over};
use crate::error::{Error, Result};
use std::fs::File;
use std::sync::Arc;
use trapless_devices::GuestRam;
use trapless_devices::virtio::net;
use trapless_devices::virtio::{DriverFault, QueueIo, VirtioDevice};
use vhost::net::VhostNet as _;
use vhost::vhost_kern::net::Net;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use virtio_queue::{Queue, QueueT};
use vm_memory::{Address, GuestMemoryBackend, GuestMemoryRegion};

/// Frames of the tap interface have no virtio header: the kernel makes and drops it
/// (`VHOST_NET_F_VIRTIO_NET_HDR` of linux/vhost_types.h).
const MAKES_HEADER: u64 = 1 << 27;

/// The device. It has the features of the one that this process serves, so that a guest sees no
/// difference.
pub struct VhostNet {
    kernel: Net<Arc<GuestRam>>,
    ram: Arc<GuestRam>,
    tap: SharedTap,
    /// Features of the kernel.
    known: u64,
    events: Events,
    /// Features that the driver has accepted.
    accepted: u64,
    running: bool,
}

impl VhostNet {
    /// A card that is connected to `tap`, for a guest with this memory.
    ///
    /// # Errors
    /// [`Error::User`] if the host has no vhost-net, [`Error::Failed`] if it refuses.
    pub fn new(tap: SharedTap, ram: Arc<GuestRam>) -> Result<Self> {
        let kernel = Net::new(Arc::clone(&ram)).map_err(|e| {
            Error::user(format!(
                "cannot open /dev/vhost-net ({e}); load the module vhost_net, or leave out --vhost"
            ))
        })?;
        let failed = |e: vhost::Error| Error::failed("vhost-net", e);
        kernel.set_owner().map_err(failed)?;
        let known = kernel.get_features().map_err(failed)?;
        if known & MAKES_HEADER == 0 {
            return Err(Error::user(
                "vhost-net of this host makes no headers of frames; leave out --vhost",
            ));
        }
        Ok(Self {
            kernel,
            ram,
            tap,
            known,
            events: Events::new(net::QUEUE_SIZES.len())?,
            accepted: 0,
            running: false,
        })
    }

    fn hand_over(&self, queues: &[Queue], tap: &File) -> vhost::Result<()> {
        self.kernel
            .set_features(self.accepted & self.known | MAKES_HEADER)?;
        let regions: Vec<_> = self
            .ram
            .iter()
            .map(|region| VhostUserMemoryRegionInfo {
                guest_phys_addr: region.start_addr().raw_value(),
                memory_size: region.len(),
                userspace_addr: region.as_ptr() as u64,
                ..VhostUserMemoryRegionInfo::default()
            })
            .collect();
        self.kernel.set_mem_table(&regions)?;
        for (number, queue) in queues.iter().enumerate() {
            hand_over(&self.kernel, (number, queue), Ok, &self.events)?;
        }
        (0..queues.len()).try_for_each(|number| self.kernel.set_backend(number, Some(tap)))
    }
}

impl ServedElsewhere for VhostNet {
    fn events(&self) -> &Events {
        &self.events
    }
}

impl VirtioDevice for VhostNet {
    fn device_id(&self) -> u32 {
        net::DEVICE
    }

    fn name(&self) -> &'static str {
        "vhost-net"
    }

    fn features(&self) -> u64 {
        net::FEATURES
    }

    fn queue_sizes(&self) -> &[u16] {
        &net::QUEUE_SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        net::read_config(self.tap.mac(), offset, data);
    }

    fn activate(&mut self, features: u64) {
        self.accepted = features;
    }

    fn start(&mut self, queues: &[Queue]) -> std::result::Result<(), DriverFault> {
        if !queues.iter().all(|queue| queue.ready()) {
            return Err(DriverFault("a queue is missing"));
        }
        let tap = self.tap.file();
        tap.map_err(vhost::Error::VhostOpen)
            .and_then(|tap| self.hand_over(queues, &tap))
            .map_err(|e| {
                eprintln!("trapless-vmm: vhost-net: {e}");
                DriverFault("vhost-net refuses the queues")
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
            for number in 0..net::QUEUE_SIZES.len() {
                // It returns when the kernel does not access the queue any more.
                let _ = self.kernel.set_backend(number, None);
            }
        }
    }
}
