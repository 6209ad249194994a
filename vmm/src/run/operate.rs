//! A running guest as a whole: pause, resume, save, restore, statistics.

use crate::devices::Stateful;
use crate::devices::test_device::TestDevice;
use crate::error::{Error, Result};
use crate::irqchip::plic::Controller;
use crate::kvm::exit::{Counts, Outcome, Stats};
use crate::run::control::{Command, Control};
use crate::run::events::{Operator, Stop};
use crate::run::gate::Gate;
use crate::run::mover::Mover;
use crate::run::snapshot::{self, Sections};
use crate::run::vcpu::{self, Kicker, Part};
use kvm_ioctls::VcpuFd;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trapless_devices::{StateError, StateReader, StateWriter};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::signal::SIGRTMIN;

/// What a saved guest and the VMM that restores it must have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of vCPUs.
    pub cpus: u16,
    /// Bytes of RAM.
    pub memory: u64,
    /// Its interrupt controller, as `--irqchip` names it.
    pub irqchip: &'static str,
    /// Names of the devices, in order.
    pub devices: Vec<String>,
}

impl Shape {
    fn json(&self) -> Value {
        json!({
            "--cpus": self.cpus,
            "--memory": self.memory,
            "--irqchip": self.irqchip,
            "devices": self.devices,
        })
    }

    /// Compares with the shape in a saved guest.
    fn check(&self, saved: &[u8]) -> Result<()> {
        let saved: Value = serde_json::from_slice(saved)
            .map_err(|_| Error::user("the saved guest does not say what it consists of"))?;
        let own = self.json();
        for (what, value) in own.as_object().into_iter().flatten() {
            if saved.get(what) != Some(value) {
                return Err(Error::user(format!(
                    "the saved guest has {what} {}, this one {value}; use the options it was saved with",
                    saved.get(what).unwrap_or(&Value::Null)
                )));
            }
        }
        Ok(())
    }
}

/// Devices by name.
pub type States = Vec<(String, Arc<dyn Stateful>)>;

/// A guest that runs, as the event loop sees it.
pub struct Running {
    /// Second handles on the vCPUs, whose threads hold the first.
    pub vcpus: Vec<VcpuFd>,
    /// To get the threads out of `KVM_RUN`.
    pub threads: Vec<(Kicker, libc::pthread_t)>,
    /// Where they wait.
    pub gate: Arc<Gate>,
    /// Guest RAM.
    pub memory: GuestMemoryMmap,
    /// The interrupt controller.
    pub controller: Controller,
    /// All devices with state.
    pub states: States,
    /// The test device, which has a thread of its own.
    pub test_device: Option<Arc<TestDevice>>,
    /// What the guest consists of.
    pub shape: Shape,
    /// Ends the run.
    pub stop: Arc<Stop>,
    /// The control socket.
    pub control: Option<Arc<Control>>,
    /// `--save`.
    pub save_to: Option<PathBuf>,
    /// Statistics of earlier runs of the guest, and names.
    pub stats: RefCell<Stats>,
    /// Exits of each vCPU in this run.
    pub counts: Vec<Arc<Mutex<Counts>>>,
    /// The last `move`; to be dropped before the threads end.
    pub mover: RefCell<Option<Mover>>,
}

/// vCPUs leave `KVM_RUN` within microseconds; a host that does not get to it for so long has another problem.
const PATIENCE: Duration = Duration::from_secs(60);

impl Running {
    /// Makes vCPUs leave `KVM_RUN`. They look at what is wanted of them only then, and `immediate_exit` makes
    /// `KVM_RUN` return even if the signal arrives just before it.
    pub fn kick(&self) {
        for (kicker, thread) in &self.threads {
            kicker.request_exit();
            // SAFETY: threads are joined only after this value is gone, so the id is that of our thread.
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
        self.pause()?;
        let mut sections = Sections::new();
        let mut add = |name: &str, bytes: Vec<u8>| sections.insert(name.into(), bytes);
        add("shape", self.shape.json().to_string().into_bytes());
        // vCPUs first: leaving `KVM_RUN` was the last thing that changed them, whatever devices do meanwhile.
        for (index, fd) in self.vcpus.iter().enumerate() {
            let mut writer = StateWriter::default();
            vcpu::save(fd, &mut writer)?;
            add(&format!("vcpu{index}"), writer.into_bytes());
        }
        let failed =
            |e| Error::failed("KVM does not tell the state of the interrupt controller", e);
        let mut writer = StateWriter::default();
        match &self.controller {
            Controller::Plic(plic) => plic.save(&mut writer),
            Controller::Aia(aia) => aia.save(&mut writer).map_err(failed)?,
            Controller::Trapless(chip, _) => {
                chip.settle().map_err(failed)?;
                chip.save(&mut writer).map_err(failed)?;
            }
        }
        add("interrupts", writer.into_bytes());
        for (name, device) in &self.states {
            let mut writer = StateWriter::default();
            device.save(&mut writer);
            add(&format!("device {name}"), writer.into_bytes());
        }
        snapshot::write(path, &sections, &self.memory)
    }

    /// The statistics, with the numbers of this run so far.
    pub fn statistics(&self) -> Stats {
        let mut stats = self.stats.borrow().clone();
        let vcpus = self.counts.len().max(stats.vcpus.len());
        stats.vcpus.resize(vcpus, Counts::default());
        for (sum, counts) in stats.vcpus.iter_mut().zip(&self.counts) {
            sum.merge(&counts.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match &self.controller {
            Controller::Plic(plic) => {
                let (raised, lowered) = plic.line_changes();
                stats.lines = (stats.lines.0 + raised, stats.lines.1 + lowered);
            }
            Controller::Trapless(chip, _) => stats.injections.add(&chip.counters.totals()),
            Controller::Aia(aia) => stats.injections.add(&aia.counters.totals()),
        }
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

/// A guest that was built as it was at its start, to be filled with a saved one.
pub struct Fresh<'a> {
    /// vCPUs that have not run.
    pub vcpus: &'a [VcpuFd],
    /// Guest RAM, all zeroes.
    pub memory: &'a GuestMemoryMmap,
    /// The interrupt controller.
    pub controller: &'a Controller,
    /// All devices with state.
    pub states: &'a States,
    /// What the guest consists of.
    pub shape: &'a Shape,
}

impl Fresh<'_> {
    /// Fills it.
    ///
    /// # Errors
    /// [`Error::User`] if the file is damaged or of another guest or host.
    pub fn restore(&self, path: &Path) -> Result<()> {
        let (reader, mut sections) = snapshot::Reader::open(path)?;
        let mut take = |name: &str| {
            sections.remove(name).ok_or_else(|| {
                Error::user(format!("the saved guest {} has no {name}", path.display()))
            })
        };
        self.shape.check(&take("shape")?)?;
        let trapless = self.controller.chip().is_some();
        let vcpus = (0..self.vcpus.len())
            .map(|index| take(&format!("vcpu{index}")))
            .collect::<Result<Vec<_>>>()?;
        for (fd, state) in self.vcpus.iter().zip(&vcpus) {
            vcpu::restore(fd, StateReader::new(state), Part::State { trapless })?;
        }
        let interrupts = take("interrupts")?;
        let mut interrupts = StateReader::new(&interrupts);
        match self.controller {
            Controller::Plic(plic) => plic
                .restore(&mut interrupts)
                .map_err(|e| Error::user(format!("the saved interrupt controller {e}")))?,
            Controller::Trapless(chip, _) => chip.hush(),
            Controller::Aia(_) => {}
        }
        reader.read_ram(self.memory)?;
        for (name, device) in self.states {
            let bad = |e: StateError| Error::user(format!("the saved {name} {e}"));
            let state = take(&format!("device {name}"))?;
            let mut state = StateReader::new(&state);
            device.restore(&mut state).map_err(bad)?;
            state.end().map_err(bad)?;
        }
        match self.controller {
            Controller::Plic(_) => {}
            Controller::Trapless(chip, _) => {
                chip.restore(&mut interrupts).map_err(Error::User)?;
            }
            Controller::Aia(aia) => aia.restore(&mut interrupts).map_err(Error::User)?,
        }
        // Last, because the guest's time goes on from here.
        for (index, (fd, state)) in self.vcpus.iter().zip(&vcpus).enumerate() {
            let part = Part::Timer { time: index == 0 };
            vcpu::restore(fd, StateReader::new(state), part)?;
        }
        Ok(())
    }
}
