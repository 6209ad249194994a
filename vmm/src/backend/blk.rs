//! The vhost-user device of a disk.

use crate::backend::cli::{Blk, Waiting};
use crate::backend::daemon::{self, Device, Memory};
use crate::backend::disk::Disk;
use crate::backend::requests::{Requests, SEGMENTS};
use crate::backend::service::{Wires, Worker};
use crate::backend::worker;
use crate::error::Result;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VringRwLock, VringT};
use virtio_queue::QueueT;
use vm_memory::{GuestAddressSpace, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;

const QUEUE_SIZE: usize = 256;
const F_SEG_MAX: u64 = 1 << 2;
const F_RO: u64 = 1 << 5;
const F_INDIRECT_DESC: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;
/// Bytes of the configuration space; only capacity and number of segments are not zero.
const CONFIG: usize = 60;

/// Serves a disk to one VMM after another, as `options` say.
///
/// # Errors
/// [`Error::User`](crate::error::Error::User) for files that cannot be used and for handlers that
/// this host does not support, [`Error::Failed`](crate::error::Error::Failed) for failed system
/// calls.
pub fn serve(options: &Blk) -> Result<()> {
    Disk::open(&options.disk, options.read_only)?;
    worker::check(options.waiting)?;
    daemon::serve(&options.socket, "vhost-user-blk", |memory| {
        Backend::new(options, memory)
    })
}

type DiskRequests = Requests<Arc<GuestMemoryMmap>>;
type DiskWorker = (Box<dyn Worker<DiskRequests>>, VringRwLock);

struct Backend {
    memory: Memory,
    path: PathBuf,
    read_only: bool,
    sectors: u64,
    waiting: Waiting,
    /// The worker that serves the queue, while it is started.
    worker: Mutex<Option<DiskWorker>>,
}

impl Backend {
    fn new(options: &Blk, memory: Memory) -> Result<Self> {
        let disk = Disk::open(&options.disk, options.read_only)?;
        Ok(Self {
            memory,
            path: options.disk.clone(),
            read_only: options.read_only,
            sectors: disk.sectors(),
            waiting: options.waiting,
            worker: Mutex::new(None),
        })
    }

    fn worker(&self) -> MutexGuard<'_, Option<DiskWorker>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, vring: &VringRwLock) -> io::Result<Box<dyn Worker<DiskRequests>>> {
        let disk = Disk::open(&self.path, self.read_only).map_err(io::Error::other)?;
        let state = vring.get_ref().get_queue().state();
        let queue = state
            .try_into()
            .map_err(|_| io::Error::other("the VMM has set up a broken queue"))?;
        let requests = Requests::new(self.memory.memory().into_inner(), queue, disk);
        let wires = Wires {
            kicks: vec![vring.clone()],
            calls: vec![vring.clone()],
        };
        worker::start(self.waiting, requests, wires)
    }
}

impl Device for Backend {
    fn stop(&self) {
        let Some((worker, vring)) = self.worker().take() else {
            return;
        };
        if let Some(requests) = worker.stop() {
            vring.set_queue_next_avail(requests.queue().next_avail());
            vring.set_queue_next_used(requests.queue().next_used());
        }
    }
}

impl VhostUserBackend for Backend {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        1
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        let own = if self.read_only { F_RO } else { 0 };
        own | F_SEG_MAX
            | F_INDIRECT_DESC
            | F_EVENT_IDX
            | F_VERSION_1
            | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
    }

    fn set_event_idx(&self, _: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let mut space = [0; CONFIG];
        space[..8].copy_from_slice(&self.sectors.to_le_bytes());
        space[12..16].copy_from_slice(&SEGMENTS.to_le_bytes());
        let from = (offset as usize).min(CONFIG);
        let to = from.saturating_add(size as usize).min(CONFIG);
        space[from..to].to_vec()
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        // The worker has the old memory.
        self.stop();
        self.waiting.prepare(&memory.memory());
        Ok(())
    }

    fn stop_vring(&self, _: u32) -> io::Result<()> {
        self.stop();
        Ok(())
    }

    fn handle_event(
        &self,
        _: u16,
        _: EventSet,
        vrings: &[VringRwLock],
        _: usize,
    ) -> io::Result<()> {
        let Some(vring) = vrings.first() else {
            return Ok(());
        };
        let mut worker = self.worker();
        if worker.is_none() {
            *worker = Some((self.start(vring)?, vring.clone()));
        }
        while worker.as_mut().is_some_and(|(worker, _)| worker.kicked()) {
            // Released between two calls, so that the worker can be stopped.
            drop(worker);
            std::thread::yield_now();
            worker = self.worker();
        }
        Ok(())
    }
}
