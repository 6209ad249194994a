//! Creation of a guest's devices.

use crate::devices::input::InputSink;
use crate::devices::locked::{HostClock, Locked};
use crate::devices::pci::function::Function;
use crate::devices::pci::root::Root;
use crate::devices::registry::{Registered, Registry};
use crate::devices::sbi_console::SbiConsole;
use crate::devices::serial::{Redirected, SerialPort};
use crate::devices::test_device::device::TestDevice;
use crate::devices::test_device::wires::{self, Sources};
use crate::devices::transmit::{PortEnd, Transmit};
use crate::devices::vfio::device::Device;
use crate::devices::vfio::function::{Passed, Ways};
use crate::devices::vfio::pin::{Intx, Pin};
use crate::devices::vfio::platform::{self, Places, Platform};
use crate::devices::virtio::slot::ShadowSource;
use crate::devices::virtio::slots::{self, Backends, Host, Wanted};
use crate::error::{Error, Result};
use crate::guest::config::{Config, Console};
use crate::irqchip::controller::InterruptController;
use crate::map;
use crate::terminal::Output;
use crate::uer::device::RedirectedDevice;
use crate::uer::line::{DeferredLine, DeviceEnd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use trapless_devices::{GoldfishRtc, GuestRam, IrqLine, Uart};
use trapless_pci::{PINS, Windows};
use vmm_sys_util::eventfd::EventFd;

/// All devices of a guest.
pub struct Peripherals {
    /// The registered devices.
    pub registry: Registry,
    /// The console of SBI calls, which is always there.
    pub sbi: Arc<SbiConsole>,
    /// Receiver of typed bytes.
    pub input: Arc<dyn InputSink>,
    /// The device that tests delivery.
    pub test_device: Option<Arc<TestDevice>>,
    /// Platform devices of the host that the guest has for itself.
    pub passed: Vec<platform::Passed>,
    /// Devices that are accessed in user mode: first address, length in bytes.
    pub redirected: Vec<(u64, u64, Arc<dyn RedirectedDevice>)>,
}

impl Peripherals {
    /// Creates the devices of `config`, with interrupts to `controller`. `wake` is the event
    /// loop's.
    ///
    /// # Errors
    /// [`Error::User`] for files that cannot be used, [`Error::Failed`] for what the system
    /// refused.
    pub fn new(
        config: &Config,
        backends: &Backends,
        ram: &Arc<GuestRam>,
        controller: &Arc<dyn InterruptController>,
        wake: &Arc<EventFd>,
        shadows: Option<&dyn ShadowSource>,
    ) -> Result<Self> {
        let sbi = Arc::new(SbiConsole::default());
        let mut all = Self {
            registry: Registry::default(),
            input: sbi.clone(),
            sbi: sbi.clone(),
            test_device: None,
            passed: Vec::new(),
            redirected: Vec::new(),
        };
        all.registry.add(Registered::new("sbi-console").saved(sbi));
        let host = Host {
            ram,
            controller,
            wake,
            clock: HostClock::start(),
        };
        for window in controller.windows() {
            let device = Registered::new(window.name);
            let device = device.at(window.base, window.len, window.device);
            all.registry.add(device);
        }
        if config.console == Console::Uart {
            all.add_uart(host, config.uer)?;
        }
        all.add_rtc(host)?;
        let wanted = Wanted {
            disks: &config.disks,
            vhost_user_blk: &config.vhost_user_blk,
            vhost_user_net: &config.vhost_user_net,
            reconnect: config.reconnect,
            backends,
            console: config.console == Console::Virtio,
            shadows,
        };
        all.add_virtio(wanted, host)?;
        if let Some(sources) = config.test_device {
            all.add_test_device(sources, host)?;
        }
        all.registry.watches.extend(controller.watches());
        Ok(all)
    }

    fn add_uart(&mut self, host: Host<'_>, redirect: bool) -> Result<()> {
        let port = if redirect {
            self.redirected_port(host)?
        } else {
            let uart = Uart::new(Box::new(Output), line(host, map::UART_IRQ)?);
            Arc::new(SerialPort::new(uart, None))
        };
        let uart = Registered::new("uart")
            .at(map::UART_BASE, map::UART_LEN, port.clone())
            .saved(port.clone());
        self.registry.add(uart);
        self.input = port;
        Ok(())
    }

    /// A serial port that is accessed in user mode.
    fn redirected_port(&mut self, host: Host<'_>) -> Result<Arc<SerialPort>> {
        let kind = host.controller.features().device_kind;
        let wire = host.controller.connect(map::UART_IRQ, kind, None)?;
        let silent = wire.silent();
        let line = DeferredLine::new(wire.into_line(), silent);
        let transmit = Transmit::new(Box::new(Output), host.clock);
        let uart = Uart::new(
            Box::new(PortEnd(Arc::clone(&transmit))),
            Box::new(DeviceEnd(Arc::clone(&line))),
        );
        self.registry
            .add(Registered::new("uart transmitter").served(transmit.clone()));
        let redirected = Redirected {
            transmit,
            line,
            wake: Arc::clone(host.wake),
        };
        let port = Arc::new(SerialPort::new(uart, Some(redirected)));
        self.redirected
            .push((map::UART_BASE, map::UART_LEN, port.clone()));
        Ok(port)
    }

    fn add_rtc(&mut self, host: Host<'_>) -> Result<()> {
        let epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        let rtc = GoldfishRtc::new(Box::new(host.clock), epoch, line(host, map::RTC_IRQ)?);
        let rtc = Arc::new(Locked::new(rtc, host.wake, host.clock));
        let rtc = Registered::new("rtc")
            .at(map::RTC_BASE, map::RTC_LEN, rtc.clone())
            .saved(rtc.clone())
            .served(rtc);
        self.registry.add(rtc);
        Ok(())
    }

    fn add_virtio(&mut self, wanted: Wanted<'_>, host: Host<'_>) -> Result<()> {
        if let Some(console) = slots::fill(wanted, host, &mut self.registry)? {
            self.input = console;
        }
        Ok(())
    }

    /// Adds a PCI host with `devices`, at `windows`. Of these, as many have a pin as there are
    /// wires, for each its own: completions are those of one device then.
    ///
    /// # Errors
    /// [`Error::User`] for devices that cannot be passed, [`Error::Failed`] for what the system
    /// refused.
    pub fn add_pci(
        &mut self,
        devices: Vec<Arc<dyn Device>>,
        windows: &Windows,
        controller: &dyn InterruptController,
    ) -> Result<()> {
        let mut functions: Vec<Arc<dyn Function>> = Vec::new();
        for (number, device) in (1..).zip(devices) {
            let pin = device.has_intx() && number <= PINS;
            let source = map::PCI_IRQ + (number % PINS) as u32;
            let connect = || Pin::connect(Arc::new(Intx(device.clone())), source, controller);
            let intx = pin.then(connect).transpose()?;
            if let Some(intx) = &intx {
                self.serve_pin(device.name(), intx);
            }
            let ways = Ways {
                intx,
                messages: controller.messages().map(|parent| parent.messages),
                windows: windows.clone(),
            };
            functions.push(Arc::new(Passed::new(device, ways)?));
        }
        Root::new(functions).register(windows, &mut self.registry);
        Ok(())
    }

    /// Adds a platform device of the host, at `places`.
    ///
    /// # Errors
    /// [`Error::User`] if it cannot be passed, [`Error::Failed`] for what the system refused.
    pub fn add_platform(
        &mut self,
        device: &Arc<impl Platform + 'static>,
        places: &mut Places,
        controller: &dyn InterruptController,
    ) -> Result<()> {
        let passed = platform::Passed::new(device, places, controller)?;
        for pin in passed.relayed() {
            self.serve_pin(device.name(), pin);
        }
        self.passed.push(passed);
        Ok(())
    }

    /// Has the event loop do what a relayed wire needs.
    fn serve_pin(&mut self, name: &str, pin: &Arc<Pin>) {
        let mut registered = Registered::new(name).served(pin.clone());
        if let Some(watch) = pin.watch() {
            registered = registered.watched(watch);
        }
        self.registry.add(registered);
    }

    fn add_test_device(&mut self, sources: Sources, host: Host<'_>) -> Result<()> {
        let wires = wires::connect(sources, &**host.controller)?;
        let device = TestDevice::start(host.ram, wires, host.controller)
            .map_err(|e| Error::failed("cannot start the test device's thread", e))?;
        let registered = Registered::new("test-device")
            .at(map::TEST_BASE, map::TEST_LEN, device.clone())
            .saved(device.clone());
        self.registry.add(registered);
        self.test_device = Some(device);
        Ok(())
    }
}

/// The wire of a device that is level-triggered by nature.
fn line(host: Host<'_>, source: u32) -> Result<Box<dyn IrqLine>> {
    let kind = host.controller.features().device_kind;
    Ok(host.controller.connect(source, kind, None)?.into_line())
}
