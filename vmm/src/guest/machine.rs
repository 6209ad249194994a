//! A guest: builds it from its parts and runs it.

use crate::bus::Bus;
use crate::devices::doorbell::Shadows;
use crate::devices::ioeventfd::{notify_by_eventfd, notify_elsewhere};
use crate::devices::sbi_console::SbiConsole;
use crate::devices::vfio::device::Device;
use crate::devices::vfio::host::SharedSpace;
use crate::devices::vfio::pin::Pin;
use crate::devices::vfio::platform::Places;
use crate::devices::virtio::slots::Backends;
use crate::devices::virtio::slots::virtio_kind;
use crate::error::{Error, Result};
use crate::guest::boot::{Boot, device_tree};
use crate::guest::config::{Config, Console, Wfi};
use crate::guest::fdt::{Description, SEED};
use crate::guest::layout::Layout;
use crate::guest::peripherals::Peripherals;
use crate::guest::ram;
use crate::irqchip::controller::InterruptController;
use crate::irqchip::create::create;
use crate::kvm::exit::Counts;
use crate::kvm::handle::second_handle;
use crate::kvm::isa::{Isa, KVM_EXTENSIONS};
use crate::kvm::kicker::Kicker;
use crate::kvm::{setup, vm};
use crate::map;
use crate::run::control::Control;
use crate::run::events::EventLoop;
use crate::run::operate::Running;
use crate::run::outcome::Outcome;
use crate::run::saved::{Shape, Whole};
use crate::run::signals::Signals;
use crate::run::stats::Stats;
use crate::run::stop::Stop;
use crate::run::vcpu::{self, Context};
use crate::terminal::EscapeKey;
use crate::uer::setup::Redirection;
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use trapless_devices::virtio::rng::{Entropy, HostEntropy};
use trapless_pci::Windows;
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::eventfd::EventFd;

/// Initial state of a guest.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    /// This kernel, and the initial RAM disk and device tree of the options.
    Kernel(&'a Path),
    /// This saved guest.
    Saved(&'a Path),
}

/// Host resources of a run of a guest.
pub struct Host<'a> {
    /// Signals to this process.
    pub signals: &'a Signals,
    /// The key that precedes commands, if standard input is a terminal.
    pub escape: Option<EscapeKey>,
    /// The control socket.
    pub control: Option<&'a Arc<Control>>,
}

/// A guest ready to run.
pub struct Machine {
    vcpus: Vec<VcpuFd>,
    memory: GuestMemoryMmap,
    controller: Arc<dyn InterruptController>,
    peripherals: Peripherals,
    redirection: Option<Arc<Redirection>>,
    shape: Shape,
    restored: bool,
    events: EventLoop,
    stop: Arc<Stop>,
    /// Windows of the PCI host, if there is one.
    pci: Option<Windows>,
    /// Closed last: the vCPUs belong to it.
    vm: Arc<VmFd>,
}

impl Machine {
    /// Builds a guest.
    ///
    /// # Errors
    /// [`Error::User`] for files that cannot be used, [`Error::Failed`] for what the system
    /// refused.
    pub fn new(config: &Config, kvm: &Kvm, backends: &Backends, start: Start<'_>) -> Result<Self> {
        if let (Start::Saved(_), Some(why)) = (start, config.obstacle()) {
            return Err(Error::user(why));
        }
        let boot = match start {
            Start::Kernel(path) => {
                let initrd = config.initrd.as_deref();
                Some(Boot::open(path, initrd, config.memory)?)
            }
            Start::Saved(_) => None,
        };
        let vm = kvm
            .create_vm()
            .map_err(|e| Error::failed("KVM cannot create a VM", e))?;
        let vm = Arc::new(vm);
        if config.user_contexts {
            vm::allow_user_contexts(&vm)?;
        }
        if config.wfi == Wfi::Native {
            vm::let_wfi_wait(&vm)?;
        }
        let kind = match (config.hugepages, config.shares_ram()) {
            (true, _) => ram::Kind::Huge,
            (false, true) => ram::Kind::Shared,
            (false, false) => ram::Kind::Private,
        };
        let memory = ram::allocate(config.memory, kind)?;
        // SAFETY: `Machine` holds the memory and the vCPUs, and ends their threads before it is
        // dropped.
        unsafe { vm::set_ram(&vm, &memory, config.memory) }?;
        let vcpus = vm::create_vcpus(&vm, config.cpus)?;
        let controller = create(&config.irqchip, &vm, &vcpus, !config.vfio.is_empty())?;
        let layout = boot.as_ref().map(|boot| &boot.layout);
        let isa = set_up(&vcpus, &*controller, &config.hidden, layout)?;

        let wake = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
            .map_err(|e| Error::failed("eventfd", e))?;
        let wake = Arc::new(wake);
        let ram = Arc::new(memory.clone());
        let shadows = match config.doorbells {
            true => Some(Shadows::new(&vm)?),
            false => None,
        };
        let mut peripherals = Peripherals::new(
            config,
            backends,
            &ram,
            &controller,
            &wake,
            shadows.as_ref().map(|s| s as _),
        )?;
        let redirected = std::mem::take(&mut peripherals.redirected);
        let redirection = match redirected.is_empty() {
            true => None,
            false => Some(Arc::new(Redirection::new(&vm, redirected)?)),
        };
        let stop = Arc::new(Stop::new(&wake));
        let pci = match config.vfio.is_empty() {
            true => None,
            false => pass_devices(config, &vm, &memory, &*controller, &stop, &mut peripherals)?,
        };
        notify_elsewhere(&vm, &peripherals.registry.slots)?;
        if config.ioeventfd || config.doorbells {
            let notifications = notify_by_eventfd(&vm, &peripherals.registry.slots)?;
            peripherals.registry.watches.extend(notifications);
        }
        let shape = Shape {
            cpus: config.cpus,
            memory: config.memory,
            irqchip: controller.features().name,
            devices: peripherals
                .registry
                .states
                .iter()
                .map(|(name, _)| name.clone())
                .collect(),
        };
        let machine = Self {
            events: event_loop(&wake, &mut peripherals)?,
            stop,
            pci,
            restored: matches!(start, Start::Saved(_)),
            vcpus,
            memory,
            controller,
            peripherals,
            redirection,
            shape,
            vm,
        };
        match (boot, start) {
            (Some(boot), _) => machine.load(boot, config, isa)?,
            (None, Start::Saved(path)) => machine.whole().restore(path)?,
            (None, Start::Kernel(_)) => {}
        }
        Ok(machine)
    }

    /// Loads what the guest starts with, and its device tree.
    fn load(&self, boot: Boot, config: &Config, isa: Isa) -> Result<()> {
        let devices = &self.peripherals;
        let description = Description {
            isa,
            cpus: config.cpus.into(),
            memory: config.memory,
            rng_seed: rng_seed()?,
            command_line: config.command_line(self.controller.features().late_driver),
            initrd: boot.layout.initrd,
            uart: config.console == Console::Uart,
            virtio: devices.registry.slots.len(),
            virtio_kind: virtio_kind(&*self.controller, config.doorbells),
            controller: &*self.controller,
            test_device: devices
                .test_device
                .as_ref()
                .map_or(Vec::new(), |device| device.kinds()),
            pci: self
                .pci
                .clone()
                .map(|windows| (windows, Pin::kind(&*self.controller))),
            passed: &devices
                .passed
                .iter()
                .map(|device| device.node.clone())
                .collect::<Vec<_>>(),
        };
        let (given, dump) = (config.dtb.as_deref(), config.dump_dtb.as_deref());
        let tree = device_tree(&description, given, dump)?;
        boot.load(&tree, &self.memory)
    }

    fn whole(&self) -> Whole<'_> {
        Whole {
            vcpus: &self.vcpus,
            memory: &self.memory,
            controller: &*self.controller,
            states: &self.peripherals.registry.states,
            shape: &self.shape,
        }
    }

    /// Runs the guest to its end and adds to `stats`.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refused something.
    pub fn run(self, config: &Config, host: Host<'_>, stats: &mut Stats) -> Result<Outcome> {
        let devices = self.peripherals;
        let mut events = self.events;
        events.read_stdin(devices.input, host.escape);
        if let Some(control) = host.control {
            events.control(control.fd())?;
        }
        stats.slots = devices.registry.bus.names();
        stats.irqchip = self.controller.features().name;
        let mut running = Running {
            vcpus: Vec::new(),
            threads: Vec::new(),
            gate: Arc::default(),
            memory: self.memory,
            controller: Arc::clone(&self.controller),
            states: devices.registry.states,
            test_device: devices.test_device,
            shape: self.shape,
            stop: Arc::clone(&self.stop),
            control: host.control.cloned(),
            save_to: config.save.clone(),
            obstacle: config.obstacle(),
            stats: stats.clone().into(),
            counts: Vec::new(),
            mover: RefCell::default(),
        };
        let vcpus = Vcpus {
            vm: &self.vm,
            bus: Arc::new(devices.registry.bus),
            sbi: devices.sbi,
            redirection: self.redirection.clone(),
            pin: &config.pin,
            delays: match config.stagger {
                Some(stagger) => stagger.vcpus(self.vcpus.len()),
                None => vec![Duration::ZERO; self.vcpus.len()],
            },
        };
        let threads = vcpus.start(self.vcpus, &mut running)?;
        let permit = self.controller.permit();
        if self.restored {
            devices
                .registry
                .slots
                .iter()
                .for_each(|slot| slot.notify_all());
        }
        if let Some(device) = &running.test_device {
            device.resume();
        }
        let outcome = events.run(&self.stop, host.signals, &running);
        drop(permit);
        if let Err(e) = &outcome {
            self.stop.request(Outcome::Failure(e.to_string()));
        }
        running.mover.take();
        running.kick();
        running.gate.open();
        if let Some(device) = &running.test_device {
            device.quit();
        }
        for thread in threads {
            // A panic has been reported as the outcome.
            let _ = thread.join();
        }
        *stats = running.statistics();
        outcome
    }
}

/// Gives the guest the devices of the options, and a PCI host with these windows if there are PCI
/// devices. The run ends if the host wants one back.
fn pass_devices(
    config: &Config,
    vm: &Arc<VmFd>,
    memory: &GuestMemoryMmap,
    controller: &dyn InterruptController,
    stop: &Arc<Stop>,
    peripherals: &mut Peripherals,
) -> Result<Option<Windows>> {
    // SAFETY: this program accesses guest RAM as the guest does: by volatile accesses only.
    let space = unsafe { SharedSpace::new(vm, memory, config.memory) }?;
    let mut functions: Vec<Arc<dyn Device>> = Vec::new();
    let mut places = Places::default();
    for chosen in &config.vfio {
        let device = space.open(chosen)?;
        let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
            .map_err(|e| Error::failed("eventfd", e))?;
        // Devices and kernels that do not tell are passed, too.
        if device.tell_of_request(&event).is_ok() {
            let (stop, fd) = (Arc::clone(stop), event.as_raw_fd());
            let text = format!("the host takes device {} back", device.name());
            let end = move || {
                let _ = event.read();
                stop.request(Outcome::Failure(text.clone()));
            };
            peripherals.registry.watches.push((fd, Box::new(end)));
        }
        if device.is_pci() {
            functions.push(device);
        } else {
            peripherals.add_platform(&device, &mut places, controller)?;
        }
    }
    if functions.is_empty() {
        return Ok(None);
    }
    let windows = Windows::virt(map::RAM_BASE + config.memory);
    peripherals.add_pci(functions, &windows, controller)?;
    Ok(Some(windows))
}

/// Prepares vCPUs that have not run, for a start at `layout` unless they are to be restored.
/// Returns the ISA that the guest sees.
fn set_up(
    vcpus: &[VcpuFd],
    controller: &dyn InterruptController,
    hidden: &[String],
    layout: Option<&Layout>,
) -> Result<Isa> {
    const SSAIA: &str = "ssaia";
    let extension = controller.features().isa_extension;
    let mut hidden = hidden.to_vec();
    if extension != Some(SSAIA) {
        // A guest with Ssaia would use the AIA's interrupts.
        hidden.push(SSAIA.into());
    }
    for (index, fd) in vcpus.iter().enumerate() {
        setup::disable_extensions(fd, &hidden);
        setup::enable_debug_console(fd);
        if let Some(layout) = layout {
            setup::set_start(fd, index as u32, layout.entry, layout.fdt)?;
        }
    }
    let mut isa = setup::probe_isa(&vcpus[0], &hidden)?;
    // KVM has reported the extensions that it knows.
    let unknown = extension.filter(|name| !KVM_EXTENSIONS.iter().any(|(_, known)| known == name));
    isa.extensions.extend(unknown.map(String::from));
    Ok(isa)
}

/// An event loop for devices.
fn event_loop(wake: &Arc<EventFd>, devices: &mut Peripherals) -> Result<EventLoop> {
    let mut events = EventLoop::new(wake)?;
    for device in devices.registry.served.drain(..) {
        events.serve(device);
    }
    for (fd, action) in devices.registry.watches.drain(..) {
        events.add(fd, action)?;
    }
    Ok(events)
}

/// State shared by the threads of all vCPUs.
struct Vcpus<'a> {
    vm: &'a VmFd,
    bus: Arc<Bus>,
    sbi: Arc<SbiConsole>,
    redirection: Option<Arc<Redirection>>,
    pin: &'a [u16],
    /// How long each waits before it runs.
    delays: Vec<Duration>,
}

impl Vcpus<'_> {
    /// Starts the threads and adds them to `running`. If one cannot be started, the run is ended.
    fn start(&self, vcpus: Vec<VcpuFd>, running: &mut Running) -> Result<Vec<JoinHandle<()>>> {
        let mut threads = Vec::new();
        for (index, fd) in vcpus.into_iter().enumerate() {
            running.vcpus.push(second_handle(self.vm, &fd)?);
            let kicker = Kicker::new(&fd)?;
            let counts = Arc::<Mutex<Counts>>::default();
            running.counts.push(Arc::clone(&counts));
            let context = Context {
                index: index as u32,
                bus: Arc::clone(&self.bus),
                memory: running.memory.clone(),
                sbi: Arc::clone(&self.sbi),
                redirection: self.redirection.clone(),
                controller: Arc::clone(&running.controller),
                stopping: Arc::clone(&running.stop.stopping),
                ticket: running.gate.ticket(),
                counts,
                delay: self.delays[index],
            };
            let pin = (!self.pin.is_empty()).then(|| usize::from(self.pin[index % self.pin.len()]));
            match vcpu::spawn(context, fd, pin, Arc::clone(&running.stop)) {
                Ok(thread) => {
                    running.threads.push((kicker, thread.as_pthread_t()));
                    threads.push(thread);
                }
                Err(e) => {
                    running.stop.request(Outcome::Failure(format!(
                        "cannot start the thread of vCPU {index}: {e}"
                    )));
                    break;
                }
            }
        }
        Ok(threads)
    }
}

/// Random bytes of the host.
fn rng_seed() -> Result<[u8; SEED]> {
    let mut seed = [0; SEED];
    HostEntropy::open()
        .and_then(|mut entropy| entropy.fill(&mut seed))
        .map_err(|e| Error::failed("cannot read /dev/urandom", e))?;
    Ok(seed)
}
