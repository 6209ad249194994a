//! A guest: its parts, put together and run.

use crate::cli::{Cli, Console, InjectChoice, IrqchipChoice, Wfi};
use crate::devices::sbi_console::SbiConsole;
use crate::devices::test_device::TestDevice;
use crate::devices::virtio::{Filled, Parts, QUEUE_NOTIFY, SharedTap, Slot, Slots};
use crate::devices::{Bus, ClaimWindow, HostClock, InputSink, Locked, SerialPort};
use crate::error::{Error, Result};
use crate::guest::boot::{self, Input, Layout};
use crate::guest::fdt::{self, Description, Irqchip};
use crate::guest::ram;
use crate::irqchip::plic::{Controller, Interrupts};
use crate::irqchip::trapless::{Chip, Kind, Way};
use crate::irqchip::{aia, trapless};
use crate::kvm::exit::{Counts, Outcome, Stats};
use crate::map;
use crate::run::control::Control;
use crate::run::events::{EventLoop, Signals, Stop};
use crate::run::mover::cpu_set;
use crate::run::operate::{Fresh, Running, Shape, States};
use crate::run::vcpu::{self, Context, Kicker, KvmLine};
use crate::session::create;
use crate::terminal::Output;
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Cap, IoEventAddress, Kvm, VcpuFd, VmFd};
use std::cell::RefCell;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use trapless_devices::{GoldfishRtc, Uart};
use trapless_isa::xtrapless;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

/// What a guest begins with.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    /// This kernel, and the initial RAM disk and device tree of the command line.
    Kernel(&'a Path),
    /// This saved guest.
    Saved(&'a Path),
}

/// What a run of a guest uses of the host.
pub struct Host<'a> {
    /// The command line.
    pub cli: &'a Cli,
    /// Signals to this process.
    pub signals: &'a Signals,
    /// Whether standard input is a terminal, where Ctrl-A is special.
    pub is_terminal: bool,
    /// The control socket.
    pub control: Option<&'a Arc<Control>>,
}

/// A guest ready to run.
pub struct Machine {
    vcpus: Vec<VcpuFd>,
    memory: GuestMemoryMmap,
    controller: Controller,
    bus: Arc<Bus>,
    sbi: Arc<SbiConsole>,
    input: Arc<dyn InputSink>,
    test_device: Option<Arc<TestDevice>>,
    slots: Vec<Arc<dyn Slot>>,
    states: States,
    shape: Shape,
    restored: bool,
    events: EventLoop,
    stop: Arc<Stop>,
    /// Closed last: the vCPUs belong to it.
    vm: Arc<VmFd>,
}

impl Machine {
    /// Builds a guest.
    ///
    /// # Errors
    /// [`Error::User`] for files that cannot be used, [`Error::Failed`] for what the system refused.
    pub fn new(cli: &Cli, kvm: &Kvm, tap: Option<SharedTap>, start: Start<'_>) -> Result<Self> {
        let boot = match start {
            Start::Kernel(path) => Some(Boot::open(cli, path)?),
            Start::Saved(_) => None,
        };
        let vm = kvm
            .create_vm()
            .map_err(|e| Error::failed("KVM cannot create a VM", e))?;
        let vm = Arc::new(vm);
        let memory = guest_memory(&vm, cli.memory, cli.hugepages)?;
        let vcpus = (0..u64::from(cli.cpus))
            .map(|index| {
                vm.create_vcpu(index)
                    .map_err(|e| Error::failed("KVM cannot create a vCPU", e))
            })
            .collect::<Result<Vec<_>>>()?;

        let controller = controller(cli, &vm, &vcpus)?;
        let mut hidden = cli.disable_ext.clone();
        if !matches!(controller, Controller::Aia(_)) {
            // A guest that sees Ssaia would look for the AIA's interrupts.
            hidden.push("ssaia".into());
        }
        for (index, fd) in vcpus.iter().enumerate() {
            vcpu::disable_extensions(fd, &hidden);
            vcpu::enable_debug_console(fd);
            if let Some(boot) = &boot {
                vcpu::set_start(fd, index as u32, boot.layout.entry, boot.layout.fdt)?;
            }
        }
        let mut isa = vcpu::probe_isa(&vcpus[0], &hidden)?;
        if controller.chip().is_some() {
            isa.extensions.push(xtrapless::ISA_NAME.into());
        }
        let wake = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
            .map_err(|e| Error::failed("eventfd", e))?;
        let wake = Arc::new(wake);
        let mut events = EventLoop::new(&wake)?;
        let stop = Arc::new(Stop::new(&wake));
        let sbi = Arc::new(SbiConsole::default());

        let mut bus = Bus::default();
        let mut states: States = vec![("sbi-console".into(), sbi.clone())];
        match &controller {
            Controller::Plic(plic) => add_plic(&mut bus, plic),
            Controller::Aia(aia) => {
                if let Some(aplic) = aia.aplic() {
                    bus.add("aplic", map::APLIC_BASE, map::APLIC_LEN, aplic.clone());
                }
            }
            Controller::Trapless(..) => {}
        }
        let mut input: Arc<dyn InputSink> = sbi.clone();
        if cli.console == Console::Uart {
            let uart = Uart::new(Box::new(Output), controller.line(map::UART_IRQ)?);
            let port = Arc::new(SerialPort::new(uart));
            bus.add("uart", map::UART_BASE, map::UART_LEN, port.clone());
            states.push(("uart".into(), port.clone()));
            input = port;
        }
        let clock = HostClock::start();
        let epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        let rtc = GoldfishRtc::new(Box::new(clock), epoch, controller.line(map::RTC_IRQ)?);
        let rtc = Arc::new(Locked::new(rtc, &wake, clock));
        bus.add("rtc", map::RTC_BASE, map::RTC_LEN, rtc.clone());
        states.push(("rtc".into(), rtc.clone()));
        events.serve(rtc);

        let ram = Arc::new(memory.clone());
        let parts = Parts {
            cli,
            ram: &ram,
            controller: &controller,
            wake: &wake,
            clock,
        };
        let Filled {
            slots,
            input: console,
            states: more,
        } = Slots::fill(parts, tap, &mut bus, &mut events)?;
        states.extend(more);
        input = console.unwrap_or(input);
        let test_device = cli
            .test_device
            .map(|options| -> Result<_> {
                let wires = controller.test_wires(options)?;
                let device = TestDevice::start(&ram, wires, controller.chip())
                    .map_err(|e| Error::failed("cannot start the test device's thread", e))?;
                bus.add("test-device", map::TEST_BASE, map::TEST_LEN, device.clone());
                states.push(("test-device".into(), device.clone()));
                Ok(device)
            })
            .transpose()?;
        if let Some(chip) = controller.chip() {
            watch_resamples(chip, &mut events)?;
        }
        if cli.ioeventfd {
            notify_by_eventfd(&vm, &slots, &mut events)?;
        }

        let shape = Shape {
            cpus: cli.cpus,
            memory: cli.memory,
            irqchip: controller.name(),
            devices: states.iter().map(|(name, _)| name.clone()).collect(),
        };
        match (boot, start) {
            (Some(boot), _) => {
                let description = Description {
                    isa,
                    cpus: cli.cpus.into(),
                    memory: cli.memory,
                    command_line: cli.command_line(controller.chip().is_some()),
                    initrd: boot.layout.initrd,
                    uart: cli.console == Console::Uart,
                    virtio: slots.len(),
                    virtio_edges: matches!(&controller, Controller::Aia(aia) if aia.virtio_kind() == Kind::Edge),
                    rtc: true,
                    irqchip: match &controller {
                        Controller::Plic(_) => Irqchip::Plic,
                        Controller::Trapless(..) => Irqchip::Trapless,
                        Controller::Aia(aia) => Irqchip::Aia { ids: aia.ids() },
                    },
                    test_device: test_device.as_ref().map_or(Vec::new(), |d| d.kinds()),
                };
                boot.load(cli, &description, &memory)?;
            }
            (None, Start::Saved(path)) => {
                let fresh = Fresh {
                    vcpus: &vcpus,
                    memory: &memory,
                    controller: &controller,
                    states: &states,
                    shape: &shape,
                };
                fresh.restore(path)?;
            }
            (None, Start::Kernel(_)) => {}
        }

        Ok(Self {
            vcpus,
            memory,
            controller,
            bus: Arc::new(bus),
            sbi,
            input,
            test_device,
            slots,
            states,
            shape,
            restored: matches!(start, Start::Saved(_)),
            events,
            stop,
            vm,
        })
    }

    /// Runs the guest to its end and adds to `stats`.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refused something.
    pub fn run(self, host: Host<'_>, stats: &mut Stats) -> Result<Outcome> {
        let (cli, chip) = (host.cli, self.controller.chip().cloned());
        let mut events = self.events;
        events.read_stdin(self.input, host.is_terminal);
        if let Some(control) = host.control {
            events.control(control.fd())?;
        }
        stats.slots = self.bus.names();
        stats.irqchip = self.controller.name();
        let mut running = Running {
            vcpus: Vec::new(),
            threads: Vec::new(),
            gate: Arc::default(),
            memory: self.memory.clone(),
            controller: self.controller,
            states: self.states,
            test_device: self.test_device,
            shape: self.shape,
            stop: Arc::clone(&self.stop),
            control: host.control.cloned(),
            save_to: cli.save.clone(),
            stats: stats.clone().into(),
            counts: Vec::new(),
            mover: RefCell::default(),
        };
        let mut threads = Vec::new();
        for (index, fd) in self.vcpus.into_iter().enumerate() {
            running.vcpus.push(vcpu::second_handle(&self.vm, &fd)?);
            let kicker = Kicker::new(&fd)?;
            let counts = Arc::<Mutex<Counts>>::default();
            running.counts.push(Arc::clone(&counts));
            let context = Context {
                index: index as u32,
                bus: Arc::clone(&self.bus),
                memory: self.memory.clone(),
                sbi: Arc::clone(&self.sbi),
                chip: chip.clone(),
                stopping: Arc::clone(&self.stop.stopping),
                ticket: running.gate.ticket(),
                counts,
            };
            let pin = (!cli.pin.is_empty()).then(|| usize::from(cli.pin[index % cli.pin.len()]));
            match spawn(context, fd, pin, Arc::clone(&self.stop)) {
                Ok(thread) => {
                    running.threads.push((kicker, thread.as_pthread_t()));
                    threads.push(thread);
                }
                Err(e) => {
                    self.stop.request(Outcome::Failure(format!(
                        "cannot start the thread of vCPU {index}: {e}"
                    )));
                    break;
                }
            }
        }
        let grant = chip.as_ref().map(Chip::grant);
        if self.restored {
            self.slots.iter().for_each(|slot| slot.notify_all());
        }
        if let Some(device) = &running.test_device {
            device.resume();
        }
        let outcome = events.run(&self.stop, host.signals, &running);
        drop(grant);
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

/// Kernel, initial RAM disk and where they go.
struct Boot {
    kernel: Input,
    initrd: Option<Input>,
    layout: Layout,
}

impl Boot {
    fn open(cli: &Cli, kernel: &Path) -> Result<Self> {
        let mut kernel = Input::open("kernel", kernel)?;
        let header = kernel.kernel_header()?;
        let initrd = cli
            .initrd
            .as_ref()
            .map(|path| Input::open("initrd", path))
            .transpose()?;
        let layout = boot::layout(cli.memory, header, initrd.as_ref().map(Input::len))
            .map_err(Error::User)?;
        Ok(Self {
            kernel,
            initrd,
            layout,
        })
    }

    fn load(mut self, cli: &Cli, machine: &Description, memory: &GuestMemoryMmap) -> Result<()> {
        let blob = match &cli.dtb {
            Some(path) => boot::read_dtb(path)?,
            None => fdt::build(machine)
                .map_err(|e| Error::user(format!("cannot build the device tree: {e}")))?,
        };
        if let Some(path) = &cli.dump_dtb {
            create("device tree", path)?
                .write_all(&blob)
                .map_err(|e| Error::failed("cannot write the device tree", e))?;
        }
        self.kernel.load(memory, self.layout.entry)?;
        if let (Some(mut initrd), Some((start, _))) = (self.initrd, self.layout.initrd) {
            initrd.load(memory, start)?;
        }
        memory
            .write_slice(&blob, GuestAddress(self.layout.fdt))
            .map_err(|e| Error::failed("cannot place the device tree", e))
    }
}

/// The interrupt controller that the user chose, or the best there is.
fn controller(cli: &Cli, vm: &Arc<VmFd>, vcpus: &[VcpuFd]) -> Result<Controller> {
    let choice = match cli.irqchip {
        IrqchipChoice::Auto if trapless::kvm::supported(vm) => IrqchipChoice::Trapless,
        IrqchipChoice::Auto if aia::kvm::supported(vm) => IrqchipChoice::Aia,
        choice => choice,
    };
    if choice == IrqchipChoice::Trapless {
        let options = trapless::kvm::Options {
            vcpus: cli.cpus,
            native_wfi: cli.wfi == Wfi::Native,
        };
        let chip = trapless::kvm::create(vm, options)?;
        let way = match cli.inject {
            InjectChoice::Auto | InjectChoice::Ugenvsei => Way::Ugenvsei,
            InjectChoice::Irqfd => Way::Irqfd,
            InjectChoice::Ioctl => Way::Ioctl,
        };
        return Ok(Controller::Trapless(chip, way));
    }
    if cli.wfi == Wfi::Native {
        return Err(Error::user(
            "--wfi native needs Xtrapless, which this guest does not have",
        ));
    }
    if choice == IrqchipChoice::Aia {
        let split = match cli.inject {
            InjectChoice::Auto | InjectChoice::Ioctl => false,
            InjectChoice::Irqfd => true,
            InjectChoice::Ugenvsei => {
                return Err(Error::user(
                    "this guest has AIA, whose devices interrupt by --inject ioctl or irqfd",
                ));
            }
        };
        return aia::kvm::create(vm, cli.cpus, cli.aia_mode, split).map(Controller::Aia);
    }
    let lines = vcpus
        .iter()
        .map(|fd| Ok(Box::new(KvmLine::new(fd)?) as _))
        .collect::<Result<Vec<_>>>()?;
    let plic = Interrupts::new(map::PLIC_SOURCES, lines);
    Ok(Controller::Plic(Arc::new(plic)))
}

fn add_plic(bus: &mut Bus, plic: &Arc<Interrupts>) {
    let contexts = map::PLIC_CONTEXTS;
    bus.add("plic-setup", map::PLIC_BASE, contexts, plic.clone());
    bus.add(
        "plic-claim",
        map::PLIC_BASE + contexts,
        map::PLIC_LEN - contexts,
        Arc::new(ClaimWindow(Arc::clone(plic))),
    );
}

/// Has the event loop ask devices for the level of their line when the guest has completed a resampled source.
fn watch_resamples(chip: &Arc<Chip>, events: &mut EventLoop) -> Result<()> {
    for number in chip.numbers() {
        if let Some(fd) = chip.resample_fd(number) {
            let chip = Arc::clone(chip);
            events.add(fd, Box::new(move || chip.resampled(number)))?;
        }
    }
    Ok(())
}

fn spawn(
    context: Context,
    mut fd: VcpuFd,
    pin: Option<usize>,
    stop: Arc<Stop>,
) -> std::io::Result<JoinHandle<()>> {
    /// Ends the run if the thread panics.
    struct Guard(Arc<Stop>, u32);
    impl Drop for Guard {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.request(Outcome::Failure(format!(
                    "the thread of vCPU {} panicked: a bug of the VMM",
                    self.1
                )));
            }
        }
    }
    std::thread::Builder::new()
        .name(format!("vcpu{}", context.index))
        .spawn(move || {
            let guard = Guard(stop, context.index);
            if let Some(cpu) = pin {
                let set = cpu_set(&[cpu]);
                // SAFETY: `set` has the size given. The CPU was checked; if it went away since, any other will do.
                unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
            }
            if let Some(outcome) = context.run(&mut fd) {
                guard.0.request(outcome);
            }
        })
}

/// RAM that KVM knows.
fn guest_memory(vm: &VmFd, bytes: u64, huge: bool) -> Result<GuestMemoryMmap> {
    let memory = ram::allocate(bytes, huge)?;
    let host = memory
        .get_host_address(GuestAddress(map::RAM_BASE))
        .map_err(|e| Error::failed("guest RAM has no host address", e))?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: map::RAM_BASE,
        memory_size: bytes,
        userspace_addr: host as u64,
    };
    // SAFETY: the mapping is `bytes` long and lives in `Machine`, which holds the VM's vCPUs and outlives their threads.
    unsafe { vm.set_user_memory_region(region) }.map_err(|e| {
        Error::user(format!(
            "KVM refuses {} MiB of guest RAM ({e}); use a smaller --memory",
            bytes >> 20
        ))
    })?;
    Ok(memory)
}

/// Has KVM turn writes to QueueNotify into events for the event loop, without an exit to user space.
fn notify_by_eventfd(vm: &VmFd, slots: &[Arc<dyn Slot>], events: &mut EventLoop) -> Result<()> {
    if !vm.check_extension(Cap::Ioeventfd) {
        return Err(Error::user(
            "this KVM has no ioeventfd; leave out --ioeventfd",
        ));
    }
    for (number, slot) in slots.iter().enumerate() {
        let address = IoEventAddress::Mmio(map::virtio_slot(number).0 + QUEUE_NOTIFY);
        for queue in 0..slot.queues() as u32 {
            let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
                .map_err(|e| Error::failed("eventfd", e))?;
            vm.register_ioevent(&event, &address, queue)
                .map_err(|e| Error::failed("KVM refuses an ioeventfd", e))?;
            let slot = Arc::clone(slot);
            let fd = event.as_raw_fd();
            events.add(
                fd,
                Box::new(move || {
                    let _ = event.read();
                    slot.notify(queue);
                }),
            )?;
        }
    }
    Ok(())
}
