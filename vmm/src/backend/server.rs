//! What the VMM says to a disk's back end.

use crate::backend::cli::{Blk, Loop};
use crate::backend::disk::Disk;
use crate::backend::requests::{Requests, SEGMENTS};
use crate::backend::worker::{Epoll, Poll, Worker};
use crate::error::{Error, Result};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VhostUserDaemon, VringRwLock, VringT};
use virtio_queue::QueueT;
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
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
/// [`Error::User`] for files that cannot be used, [`Error::Failed`] for what the system refused.
pub fn serve(options: &Blk) -> Result<()> {
    Disk::open(&options.disk, options.read_only)?;
    if options.event_loop == Loop::Handler {
        handlers(options.cpu)?;
    }
    loop {
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let backend = Arc::new(Backend::new(options, memory.clone())?);
        let mut daemon = VhostUserDaemon::new("vhost-user-blk".into(), backend.clone(), memory)
            .map_err(|e| Error::failed("vhost-user", e))?;
        // A VMM that goes away without a word is no mistake of ours.
        if let Err(e) = daemon.serve(&options.socket) {
            match e {
                vhost_user_backend::Error::HandleRequest(e) => {
                    eprintln!("trapless-backend: the VMM's connection: {e}");
                }
                e => {
                    let shown = options.socket.display();
                    return Err(Error::user(format!("cannot listen at {shown}: {e}")));
                }
            }
        }
        backend.stop();
    }
}

/// Can there be handlers? Better said before a guest waits for one.
#[cfg(target_arch = "riscv64")]
fn handlers(cpu: crate::backend::cli::Cpu) -> Result<()> {
    crate::backend::context::device(cpu).map_err(|e| Error::user(e.to_string()))?;
    Ok(())
}

#[cfg(not(target_arch = "riscv64"))]
fn handlers(_: crate::backend::cli::Cpu) -> Result<()> {
    Err(Error::user("there are no handlers on this machine"))
}

struct Backend {
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    path: PathBuf,
    read_only: bool,
    sectors: u64,
    event_loop: Loop,
    #[cfg(target_arch = "riscv64")]
    cpu: crate::backend::cli::Cpu,
    /// Who serves the queue, while it is started.
    worker: Mutex<Option<(Box<dyn Worker>, VringRwLock)>>,
}

impl Backend {
    fn new(options: &Blk, memory: GuestMemoryAtomic<GuestMemoryMmap>) -> Result<Self> {
        let disk = Disk::open(&options.disk, options.read_only)?;
        Ok(Self {
            memory,
            path: options.disk.clone(),
            read_only: options.read_only,
            sectors: disk.sectors(),
            event_loop: options.event_loop,
            #[cfg(target_arch = "riscv64")]
            cpu: options.cpu,
            worker: Mutex::new(None),
        })
    }

    fn worker(&self) -> MutexGuard<'_, Option<(Box<dyn Worker>, VringRwLock)>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, vring: &VringRwLock) -> io::Result<Box<dyn Worker>> {
        let disk = Disk::open(&self.path, self.read_only).map_err(io::Error::other)?;
        let state = vring.get_ref().get_queue().state();
        let queue = state
            .try_into()
            .map_err(|_| io::Error::other("the VMM has set up a broken queue"))?;
        let requests = Requests::new(self.memory.memory().into_inner(), queue, disk);
        let vring = vring.clone();
        Ok(match self.event_loop {
            Loop::Epoll => Box::new(Epoll { requests, vring }),
            Loop::Poll => Box::new(Poll::start(requests, vring)?),
            #[cfg(target_arch = "riscv64")]
            Loop::Handler => Box::new(crate::backend::context::Context::start(
                requests, vring, self.cpu,
            )?),
            #[cfg(not(target_arch = "riscv64"))]
            Loop::Handler => return Err(io::Error::other("there are no handlers on this machine")),
        })
    }

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

    fn update_memory(&self, _: GuestMemoryAtomic<GuestMemoryMmap>) -> io::Result<()> {
        // Who serves has the old one.
        self.stop();
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
        if let Some((worker, _)) = worker.as_mut() {
            worker.kicked();
        }
        Ok(())
    }
}
