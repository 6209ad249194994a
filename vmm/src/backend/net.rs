//! A link between two guests: the vhost-user devices of a network card at each end.
//!
//! Frames are moved while both ends are connected. Each direction has a worker of its own; with
//! handlers, a kick of the sender runs the handler of its direction, which interrupts the receiver.

use crate::backend::cli::{Net, Waiting};
use crate::backend::daemon::{self, Device, Memory};
use crate::backend::direction::{Direction, End};
use crate::backend::service::{Wires, Worker};
use crate::backend::worker;
use crate::error::Result;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VringRwLock, VringT};
use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddressSpace, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;

const QUEUE_SIZE: usize = 256;
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
const QUEUES: usize = 2;
const F_INDIRECT_DESC: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;

/// Serves the link between the VMMs that connect to the two sockets, and between later ones.
///
/// # Errors
/// [`Error::User`](crate::error::Error::User) if a socket cannot be created and for handlers that
/// this host does not support, [`Error::Failed`](crate::error::Error::Failed) for failed system
/// calls.
pub fn serve(options: &Net) -> Result<()> {
    let [a, b] = options.ends()?;
    worker::check(options.waiting)?;
    let cable = Arc::new(Cable {
        waiting: options.waiting,
        state: Mutex::default(),
    });
    let (ended, first) = mpsc::channel();
    for (end, socket) in [a, b].into_iter().enumerate() {
        let (cable, ended, socket) = (Arc::clone(&cable), ended.clone(), socket.to_path_buf());
        std::thread::spawn(move || {
            let result = daemon::serve(&socket, "vhost-user-net", |memory| {
                Ok(Card {
                    cable: Arc::clone(&cable),
                    end,
                    memory,
                    legacy: Mutex::new(false),
                })
            });
            let _ = ended.send(result);
        });
    }
    drop(ended);
    // A link needs both ends.
    first.recv().unwrap_or(Ok(()))
}

/// A guest that is ready: its memory and its queues.
struct Guest {
    memory: Arc<GuestMemoryMmap>,
    vrings: [VringRwLock; QUEUES],
}

impl Guest {
    fn queue(&self, number: usize) -> io::Result<End> {
        let state = self.vrings[number].get_ref().get_queue().state();
        let queue: Queue = state
            .try_into()
            .map_err(|_| io::Error::other("the VMM has set up a broken queue"))?;
        Ok(End::new(Arc::clone(&self.memory), queue))
    }

    /// Keeps the present index of the queue.
    fn remember(&self, number: usize, end: &End) {
        let vring = &self.vrings[number];
        vring.set_queue_next_avail(end.queue.next_avail());
        vring.set_queue_next_used(end.queue.next_used());
    }
}

#[derive(Default)]
struct State {
    /// The guest at each end.
    guests: [Option<Guest>; 2],
    /// The worker that moves frames from each end.
    workers: [Option<Box<dyn Worker<Direction>>>; 2],
}

/// The link.
struct Cable {
    waiting: Waiting,
    state: Mutex<State>,
}

impl Cable {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to move frames if both ends are ready.
    fn start(&self, state: &mut State) -> io::Result<()> {
        let [Some(a), Some(b)] = &state.guests else {
            return Ok(());
        };
        for (place, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
            if state.workers[place].is_some() {
                continue;
            }
            let direction = Direction::new(from.queue(TRANSMIT)?, to.queue(RECEIVE)?);
            let (sender, receiver) = (&from.vrings[TRANSMIT], &to.vrings[RECEIVE]);
            let wires = Wires {
                kicks: vec![sender.clone(), receiver.clone()],
                calls: vec![receiver.clone(), sender.clone()],
            };
            state.workers[place] = Some(worker::start(self.waiting, direction, wires)?);
        }
        Ok(())
    }

    /// Moves frames from an end.
    fn kick(&self, from: usize) {
        let mut state = self.lock();
        while state.workers[from]
            .as_mut()
            .is_some_and(|worker| worker.kicked())
        {
            // The other end's turn.
            drop(state);
            std::thread::yield_now();
            state = self.lock();
        }
    }

    /// Stops both directions and removes the guest at `end`.
    fn leave(&self, end: usize) {
        let mut state = self.lock();
        if state.guests[end].is_none() {
            return;
        }
        for place in 0..2 {
            let Some(direction) = state.workers[place].take().and_then(Worker::stop) else {
                continue;
            };
            if let Some(sender) = &state.guests[place] {
                sender.remember(TRANSMIT, &direction.from);
            }
            if let Some(receiver) = &state.guests[1 - place] {
                receiver.remember(RECEIVE, &direction.to);
            }
        }
        state.guests[end] = None;
    }
}

/// A network card at one end.
struct Card {
    cable: Arc<Cable>,
    end: usize,
    memory: Memory,
    /// Whether the driver lacks `VIRTIO_F_VERSION_1`, so that its headers are shorter.
    legacy: Mutex<bool>,
}

impl Device for Card {
    fn stop(&self) {
        self.cable.leave(self.end);
    }
}

impl VhostUserBackend for Card {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    /// No offloads.
    fn features(&self) -> u64 {
        F_INDIRECT_DESC
            | F_EVENT_IDX
            | F_VERSION_1
            | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn acked_features(&self, features: u64) {
        let mut legacy = self.legacy.lock().unwrap_or_else(PoisonError::into_inner);
        *legacy = features & F_VERSION_1 == 0;
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::empty()
    }

    fn set_event_idx(&self, _: bool) {}

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        // The workers have the old memory.
        self.stop();
        self.cable.waiting.prepare(&memory.memory());
        Ok(())
    }

    fn stop_vring(&self, _: u32) -> io::Result<()> {
        self.stop();
        Ok(())
    }

    fn handle_event(
        &self,
        queue: u16,
        _: EventSet,
        vrings: &[VringRwLock],
        _: usize,
    ) -> io::Result<()> {
        let [receive, transmit] = vrings else {
            return Ok(());
        };
        if *self.legacy.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(io::Error::other("the driver is older than virtio 1.0"));
        }
        let mut state = self.cable.lock();
        if state.guests[self.end].is_none() {
            // Both queues are started together; the first kick may arrive in between.
            if [receive, transmit]
                .iter()
                .any(|vring| !vring.get_ref().get_queue().ready())
            {
                return Ok(());
            }
            state.guests[self.end] = Some(Guest {
                memory: self.memory.memory().into_inner(),
                vrings: [receive.clone(), transmit.clone()],
            });
            self.cable.start(&mut state)?;
            drop(state);
            // Frames that were sent before.
            self.cable.kick(0);
            self.cable.kick(1);
            return Ok(());
        }
        drop(state);
        // Frames of this guest, or buffers for those of the other.
        let from = if usize::from(queue) == TRANSMIT {
            self.end
        } else {
            1 - self.end
        };
        self.cable.kick(from);
        Ok(())
    }
}
