//! Operating a guest that runs: pause, resume, save, statistics.

use crate::devices::state::States;
use crate::devices::test_device::device::TestDevice;
use crate::error::{Error, Result};
use crate::irqchip::controller::InterruptController;
use crate::kvm::exit::Counts;
use crate::kvm::kicker::Kicker;
use crate::run::control::{Command, Control};
use crate::run::events::Operator;
use crate::run::gate::Gate;
use crate::run::mover::Mover;
use crate::run::outcome::Outcome;
use crate::run::saved::{Shape, Whole};
use crate::run::stats::Stats;
use crate::run::stop::Stop;
use kvm_ioctls::VcpuFd;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::signal::SIGRTMIN;

/// A running guest, for the event loop.
pub struct Running {
    /// Second handles on the vCPUs, whose threads hold the first.
    pub vcpus: Vec<VcpuFd>,
    /// To get the threads out of `KVM_RUN`.
    pub threads: Vec<(Kicker, libc::pthread_t)>,
    /// The gate at which they wait.
    pub gate: Arc<Gate>,
    /// Guest RAM.
    pub memory: GuestMemoryMmap,
    /// The interrupt controller.
    pub controller: Arc<dyn InterruptController>,
    /// All devices with state.
    pub states: States,
    /// The test device, which has a thread of its own.
    pub test_device: Option<Arc<TestDevice>>,
    /// Parts of the guest, for saved files.
    pub shape: Shape,
    /// Ends the run.
    pub stop: Arc<Stop>,
    /// The control socket.
    pub control: Option<Arc<Control>>,
    /// `--save`.
    pub save_to: Option<PathBuf>,
    /// Why the guest cannot be saved, if it cannot.
    pub obstacle: Option<&'static str>,
    /// Statistics of earlier runs of the guest, and names.
    pub stats: RefCell<Stats>,
    /// Exits of each vCPU in this run.
    pub counts: Vec<Arc<Mutex<Counts>>>,
    /// The last `move`; to be dropped before the threads end.
    pub mover: RefCell<Option<Mover>>,
}

/// How long to wait for vCPUs to leave `KVM_RUN`; unless the host is stuck, it takes microseconds.
const PATIENCE: Duration = Duration::from_secs(60);

impl Running {
    /// Makes vCPUs leave `KVM_RUN`. They check for requests only then, and `immediate_exit` makes
    /// `KVM_RUN` return even if the signal arrives just before it.
    pub fn kick(&self) {
        for (kicker, thread) in &self.threads {
            kicker.request_exit();
            // SAFETY: threads are joined only after this value is gone, so the id is that of our
            // thread.
            unsafe { libc::pthread_kill(*thread, SIGRTMIN()) };
        }
    }

    fn pause(&self) -> Result<()> {
        let begin = Instant::now();
        self.gate.close();
        loop {
            self.kick();
            if self.gate.all_wait(Duration::from_millis(100)) {
                break;
            }
            if begin.elapsed() > PATIENCE {
                self.gate.open();
                return Err(Error::Failed("a vCPU does not stop".into()));
            }
        }
        if let Some(device) = &self.test_device {
            device.pause();
        }
        Ok(())
    }

    fn resume(&self) {
        if let Some(device) = &self.test_device {
            device.resume();
        }
        self.gate.open();
    }

    fn save(&self, path: &Path) -> Result<()> {
        if let Some(why) = self.obstacle {
            return Err(Error::user(why));
        }
        self.pause()?;
        let whole = Whole {
            vcpus: &self.vcpus,
            memory: &self.memory,
            controller: &*self.controller,
            states: &self.states,
            shape: &self.shape,
        };
        whole.save(path)
    }

    /// The statistics, with the numbers of this run so far.
    pub fn statistics(&self) -> Stats {
        let mut stats = self.stats.borrow().clone();
        let vcpus = self.counts.len().max(stats.vcpus.len());
        stats.vcpus.resize(vcpus, Counts::default());
        for (sum, counts) in stats.vcpus.iter_mut().zip(&self.counts) {
            sum.merge(&counts.lock().unwrap_or_else(PoisonError::into_inner));
        }
        stats.injections.add(&self.controller.injections());
        stats
    }

    fn execute(&self, command: Command) -> std::result::Result<String, String> {
        let text = |e: Error| e.to_string();
        match command {
            Command::Pause => self.pause().map_err(text)?,
            Command::Resume => self.resume(),
            Command::Status if self.gate.is_closed() => return Ok("paused".into()),
            Command::Status => return Ok("running".into()),
            Command::Save(path) => self.save(&path).map_err(text)?,
            Command::Stats => return Ok(self.statistics().value().to_string()),
            Command::Move(moves) => {
                let Some(&(_, thread)) = self.threads.first() else {
                    return Err("there is no vCPU".into());
                };
                let mover = Mover::start(thread, moves).map_err(|e| e.to_string())?;
                self.mover.replace(Some(mover));
            }
            Command::Moved => {
                let done = self.mover.borrow().as_ref().map_or(0, Mover::done);
                return Ok(done.to_string());
            }
            Command::Quit => self.stop.request(Outcome::Quit),
        }
        Ok(String::new())
    }
}

impl Operator for Running {
    fn toggle(&self) {
        if self.gate.is_closed() {
            self.resume();
        } else if let Err(e) = self.pause() {
            eprintln!("trapless-vmm: {e}");
        }
    }

    fn save_and_end(&self) {
        let Some(path) = &self.save_to else {
            eprintln!("trapless-vmm: SIGUSR2 saves the guest only with --save");
            return;
        };
        match self.save(path) {
            Ok(()) => self.stop.request(Outcome::Quit),
            Err(e) => {
                eprintln!("trapless-vmm: {e}");
                self.resume();
            }
        }
    }

    fn commands(&self) {
        if let Some(control) = &self.control {
            control.serve(|command| self.execute(command));
        }
    }
}
