//! A guest from its files to its end.

use crate::boot::{self, Input};
use crate::cli::{Cli, Console, IrqchipChoice, Wfi};
use crate::console::{Output, RawTerminal};
use crate::devices::{Bus, ClaimWindow, HostClock, InputSink, Locked, SerialPort};
use crate::error::{Error, Result};
use crate::events::{EventLoop, Signals, Stop};
use crate::exit::{Counts, Outcome, Stats};
use crate::fdt::{self, Description, Irqchip};
use crate::irq::{Controller, Interrupts};
use crate::map;
use crate::sbi::SbiConsole;
use crate::testdev::TestDevice;
use crate::trapless::Chip;
use crate::trapless_kvm;
use crate::vcpu::{self, Context, Kicker, KvmLine};
use crate::virtio::{Filled, Parts, QUEUE_NOTIFY, SharedTap, Slot, Slots};
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Cap, IoEventAddress, Kvm, VcpuFd, VmFd};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use trapless_devices::{GoldfishRtc, Uart};
use trapless_isa::xtrapless;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

/// Starts the guest and stays until it ends; starts it again after a reboot unless told otherwise.
///
/// # Errors
/// [`Error::User`] for what the user can put right, [`Error::Failed`] for what the system refused.
pub fn run(cli: &Cli) -> Result<Outcome> {
    cli.check()?;
    check_pins(&cli.pin)?;
    check_memory(cli.memory)?;
    let stats_file = cli
        .stats
        .as_ref()
        .map(|path| create("statistics", path))
        .transpose()?;
    let kvm = open_kvm(cli.cpus)?;
    let signals = Signals::receive()?;
    register_signal_handler(SIGRTMIN(), ignore)
        .map_err(|e| Error::failed("cannot set a signal handler", e))?;

    let mut stats = Stats::default();
    let tap = cli.tap.as_deref().map(SharedTap::open).transpose()?;
    let mut first = Some(Machine::new(cli, &kvm, tap.clone())?);
    // Only now, so that errors until here are printed to an ordinary terminal.
    let terminal =
        RawTerminal::enter().map_err(|e| Error::failed("cannot set up the terminal", e))?;
    let outcome = loop {
        let machine = match first.take() {
            Some(machine) => machine,
            None => Machine::new(cli, &kvm, tap.clone())?,
        };
        let outcome = machine.run(cli, &signals, terminal.is_terminal(), &mut stats)?;
        if outcome != Outcome::Reboot || cli.no_reboot {
            break outcome;
        }
        stats.reboots += 1;
    };
    drop(terminal);
    if let Some(mut file) = stats_file {
        file.write_all(stats.json().as_bytes())
            .map_err(|e| Error::failed("cannot write the statistics", e))?;
    }
    Ok(outcome)
}

extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

fn create(what: &str, path: &std::path::Path) -> Result<File> {
    File::create(path).map_err(|e| {
        Error::user(format!(
            "cannot create the {what} file {}: {e}",
            path.display()
        ))
    })
}

fn open_kvm(cpus: u16) -> Result<Kvm> {
    let kvm = Kvm::new().map_err(|e| {
        Error::user(match e.errno() {
            libc::ENOENT => "there is no /dev/kvm; the host needs the H extension and the kvm module (modprobe kvm)".into(),
            libc::EACCES => "no permission for /dev/kvm; run as root or join the group kvm".into(),
            _ => format!("cannot open /dev/kvm: {e}"),
        })
    })?;
    if kvm.get_api_version() != 12 {
        return Err(Error::user(
            "this KVM has an API version other than 12, the only stable one",
        ));
    }
    let most = kvm.get_max_vcpus();
    if usize::from(cpus) > most {
        return Err(Error::user(format!(
            "this host allows at most {most} vCPUs; use a smaller --cpus"
        )));
    }
    Ok(kvm)
}

fn cpu_set(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: a cpu_set_t of zeroes is the empty set; CPU_SET ignores numbers beyond its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    }
}

fn check_pins(pins: &[u16]) -> Result<()> {
    let mut set = cpu_set(&[]);
    // SAFETY: `set` has the size given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } < 0 {
        return Err(Error::failed(
            "cannot read the CPU affinity",
            std::io::Error::last_os_error(),
        ));
    }
    for &cpu in pins {
        // SAFETY: CPU_ISSET only reads, and the number is checked first.
        if usize::from(cpu) >= 8 * size_of_val(&set)
            || !unsafe { libc::CPU_ISSET(usize::from(cpu), &set) }
        {
            return Err(Error::user(format!(
                "--pin {cpu}: this process may not run on host CPU {cpu}"
            )));
        }
    }
    Ok(())
}

/// The host provides pages as the guest touches them and would kill the VMM when there are no more.
fn check_memory(bytes: u64) -> Result<()> {
    // SAFETY: sysinfo is plain old data, for which zeroes are a valid value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` outlives the call, which writes one sysinfo.
    if unsafe { libc::sysinfo(&mut info) } < 0 {
        return Err(Error::failed(
            "cannot read the host's memory size",
            std::io::Error::last_os_error(),
        ));
    }
    let unit = u64::from(info.mem_unit);
    let host = (info.totalram as u64 + info.totalswap as u64).saturating_mul(unit);
    if bytes > host {
        return Err(Error::user(format!(
            "the host has only {} MiB of memory; use a smaller --memory",
            host >> 20
        )));
    }
    Ok(())
}

/// A guest ready to run.
struct Machine {
    vcpus: Vec<VcpuFd>,
    memory: GuestMemoryMmap,
    controller: Controller,
    bus: Arc<Bus>,
    sbi: Arc<SbiConsole>,
    input: Arc<dyn InputSink>,
    test_device: Option<Arc<TestDevice>>,
    events: EventLoop,
    stop: Arc<Stop>,
    /// Closed last: the vCPUs belong to it.
    _vm: Arc<VmFd>,
}

impl Machine {
    fn new(cli: &Cli, kvm: &Kvm, tap: Option<SharedTap>) -> Result<Self> {
        let mut kernel = Input::open("kernel", &cli.kernel)?;
        let header = kernel.kernel_header()?;
        let initrd = cli
            .initrd
            .as_ref()
            .map(|path| Input::open("initrd", path))
            .transpose()?;
        let layout = boot::layout(cli.memory, header, initrd.as_ref().map(Input::len))
            .map_err(Error::User)?;

        let vm = kvm
            .create_vm()
            .map_err(|e| Error::failed("KVM cannot create a VM", e))?;
        let vm = Arc::new(vm);
        let memory = guest_memory(&vm, cli.memory)?;
        let vcpus = (0..u64::from(cli.cpus))
            .map(|index| {
                vm.create_vcpu(index)
                    .map_err(|e| Error::failed("KVM cannot create a vCPU", e))
            })
            .collect::<Result<Vec<_>>>()?;

        // A guest that sees Ssaia would look for the AIA's interrupts instead of the PLIC's.
        let mut hidden = cli.disable_ext.clone();
        hidden.push("ssaia".into());
        for (index, fd) in vcpus.iter().enumerate() {
            vcpu::disable_extensions(fd, &hidden);
            vcpu::enable_debug_console(fd);
            vcpu::set_start(fd, index as u32, layout.entry, layout.fdt)?;
        }
        let mut isa = vcpu::probe_isa(&vcpus[0], &hidden)?;
        let controller = controller(cli, &vm, &vcpus)?;
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
        if let Controller::Plic(plic) = &controller {
            add_plic(&mut bus, plic);
        }
        let mut input: Arc<dyn InputSink> = sbi.clone();
        if cli.console == Console::Uart {
            let uart = Uart::new(Box::new(Output), controller.line(map::UART_IRQ)?);
            let port = Arc::new(SerialPort::new(uart));
            bus.add("uart", map::UART_BASE, map::UART_LEN, port.clone());
            input = port;
        }
        let clock = HostClock::start();
        let epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        let rtc = GoldfishRtc::new(Box::new(clock), epoch, controller.line(map::RTC_IRQ)?);
        let rtc = Arc::new(Locked::new(rtc, &wake, clock));
        bus.add("rtc", map::RTC_BASE, map::RTC_LEN, rtc.clone());
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
        } = Slots::fill(parts, tap, &mut bus, &mut events)?;
        input = console.unwrap_or(input);
        let test_device = cli
            .test_device
            .map(|options| -> Result<_> {
                let wires = controller.test_wires(options)?;
                let device = TestDevice::start(&ram, wires, controller.chip())
                    .map_err(|e| Error::failed("cannot start the test device's thread", e))?;
                bus.add("test-device", map::TEST_BASE, map::TEST_LEN, device.clone());
                Ok(device)
            })
            .transpose()?;
        if let Some(chip) = controller.chip() {
            watch_resamples(chip, &mut events)?;
        }
        if cli.ioeventfd {
            notify_by_eventfd(&vm, &slots, &mut events)?;
        }

        let blob = match &cli.dtb {
            Some(path) => boot::read_dtb(path)?,
            None => fdt::build(&Description {
                isa,
                cpus: cli.cpus.into(),
                memory: cli.memory,
                command_line: cli.command_line(controller.chip().is_some()),
                initrd: layout.initrd,
                uart: cli.console == Console::Uart,
                virtio: slots.len(),
                rtc: true,
                irqchip: match controller {
                    Controller::Plic(_) => Irqchip::Plic,
                    Controller::Trapless(..) => Irqchip::Trapless,
                },
                test_device: test_device.as_ref().map_or(Vec::new(), |d| d.kinds()),
            })
            .map_err(|e| Error::user(format!("cannot build the device tree: {e}")))?,
        };
        if let Some(path) = &cli.dump_dtb {
            create("device tree", path)?
                .write_all(&blob)
                .map_err(|e| Error::failed("cannot write the device tree", e))?;
        }

        kernel.load(&memory, layout.entry)?;
        if let (Some(mut initrd), Some((start, _))) = (initrd, layout.initrd) {
            initrd.load(&memory, start)?;
        }
        memory
            .write_slice(&blob, GuestAddress(layout.fdt))
            .map_err(|e| Error::failed("cannot place the device tree", e))?;

        Ok(Self {
            vcpus,
            memory,
            controller,
            bus: Arc::new(bus),
            sbi,
            input,
            test_device,
            events,
            stop,
            _vm: vm,
        })
    }

    /// Runs the guest to its end and adds to `stats`.
    fn run(
        self,
        cli: &Cli,
        signals: &Signals,
        commands: bool,
        stats: &mut Stats,
    ) -> Result<Outcome> {
        let Self {
            vcpus,
            memory,
            controller,
            bus,
            sbi,
            input,
            test_device,
            mut events,
            stop,
            _vm,
        } = self;
        events.read_stdin(input, commands);
        stats.slots = bus.names();
        let mut threads = Vec::new();
        for (index, fd) in vcpus.into_iter().enumerate() {
            let kicker = Kicker::new(&fd)?;
            let context = Context {
                index: index as u32,
                bus: Arc::clone(&bus),
                memory: memory.clone(),
                sbi: Arc::clone(&sbi),
                chip: controller.chip().cloned(),
                stopping: Arc::clone(&stop.stopping),
            };
            let pin = (!cli.pin.is_empty()).then(|| usize::from(cli.pin[index % cli.pin.len()]));
            let thread = spawn(context, fd, pin, Arc::clone(&stop));
            match thread {
                Ok(thread) => threads.push((kicker, thread)),
                Err(e) => {
                    stop.request(Outcome::Failure(format!(
                        "cannot start the thread of vCPU {index}: {e}"
                    )));
                    break;
                }
            }
        }
        let grant = controller.chip().map(Chip::grant);
        let outcome = events.run(&stop, signals);
        drop(grant);
        if let Err(e) = &outcome {
            stop.request(Outcome::Failure(e.to_string()));
        }
        // vCPUs look at `stopping` only after KVM_RUN returned, and `immediate_exit` makes it return even if the
        // signal arrives just before.
        for (kicker, thread) in &threads {
            kicker.request_exit();
            let _ = thread.kill(SIGRTMIN());
        }
        stats
            .vcpus
            .resize(threads.len().max(stats.vcpus.len()), Counts::default());
        for (counts, (_, thread)) in stats.vcpus.iter_mut().zip(threads) {
            if let Ok(more) = thread.join() {
                counts.merge(&more);
            }
        }
        if let Some(device) = test_device {
            device.quit();
        }
        match &controller {
            Controller::Plic(plic) => {
                let (raised, lowered) = plic.line_changes();
                stats.lines = (stats.lines.0 + raised, stats.lines.1 + lowered);
            }
            Controller::Trapless(chip, _) => stats.injections.add(&chip.counters.totals()),
        }
        outcome
    }
}

/// The interrupt controller that the user chose, or the best there is.
fn controller(cli: &Cli, vm: &Arc<VmFd>, vcpus: &[VcpuFd]) -> Result<Controller> {
    let trapless = match cli.irqchip {
        IrqchipChoice::Plic => false,
        IrqchipChoice::Trapless => true,
        IrqchipChoice::Auto => trapless_kvm::supported(vm),
    };
    if trapless {
        let options = trapless_kvm::Options {
            vcpus: cli.cpus,
            native_wfi: cli.wfi == Wfi::Native,
        };
        let chip = trapless_kvm::create(vm, options)?;
        return Ok(Controller::Trapless(chip, cli.inject));
    }
    if cli.wfi == Wfi::Native {
        return Err(Error::user(
            "--wfi native needs Xtrapless, which this guest does not have",
        ));
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
) -> std::io::Result<JoinHandle<Counts>> {
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
            let mut counts = Counts::default();
            if let Some(outcome) = context.run(&mut fd, &mut counts) {
                guard.0.request(outcome);
            }
            counts
        })
}

/// RAM in one piece from [`map::RAM_BASE`]; the host provides pages as the guest touches them.
fn guest_memory(vm: &VmFd, bytes: u64) -> Result<GuestMemoryMmap> {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(map::RAM_BASE), bytes as usize)])
        .map_err(|e| {
            Error::user(format!(
                "cannot get {} MiB of guest RAM ({e}); use a smaller --memory",
                bytes >> 20
            ))
        })?;
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
