//! A machine: harts, memory, devices and the state of its clock.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use trapless_devices::PowerLatch;
use trapless_hart::{AiaConfig, CodeCache, Hart, Ram};
use trapless_intc::InterruptArchitecture;
use trapless_intc::aclint_plic::{self, AclintPlic};
use trapless_intc::aia::{self, Aia};
use trapless_intc::trapless::{self, Trapless};
use trapless_ledger::event::Sink;
use vm_memory::{Bytes, GuestAddress};

use crate::boot::dtb::Tree;
use crate::boot::elf::Symbols;
use crate::boot::{self, Payload, Placement, reset};
use crate::bus::{Bus, Parts, VirtualClock, Wires};
use crate::htif::Htif;
use crate::peripherals::{ConsoleInput, Peripherals, Wiring};
use crate::preset::{Engine, Interrupts, MachineConfig};
use crate::protection::Tables;
use crate::{Error, fdt, map};

/// Largest signature of a program, in bytes; those of riscv-arch-test have some KiB.
const MAX_SIGNATURE: u64 = 16 << 20;

/// A machine with everything in it.
pub struct Machine {
    pub(crate) config: MachineConfig,
    pub(crate) harts: Vec<Hart>,
    pub(crate) code: CodeCache,
    pub(crate) ram: Ram,
    pub(crate) bus: Bus,
    pub(crate) htif: Option<Htif>,
    pub(crate) clock: crate::schedule::Progress,
    /// Console input to come, by time and order of arrival.
    pub(crate) inputs: BTreeMap<(u64, u64), Vec<u8>>,
    pub(crate) console: ConsoleInput,
    /// Device that console input goes to.
    pub(crate) console_slot: usize,
    input_count: u64,
    /// What runs along and must do the same.
    pub(crate) twin: Option<Box<crate::lockstep::Twin>>,
    symbols: Symbols,
    placement: Placement,
    fdt: Vec<u8>,
}

impl Machine {
    /// A machine that is about to boot `payload`.
    ///
    /// # Errors
    /// A sentence about the configuration or the file that cannot be used.
    pub fn boot(
        config: MachineConfig,
        payload: &Payload,
        peripherals: Peripherals,
    ) -> Result<Self, Error> {
        config.check()?;
        let aclint = aclint_plic::Config {
            harts: config.harts,
            cycles_per_tick: config.hart.cycles_per_tick,
            sswi: config.sswi,
            edge_triggered: 1 << map::UART_IRQ,
        };
        let interrupts: Box<dyn InterruptArchitecture> = match config.interrupts {
            Interrupts::AclintPlic => Box::new(AclintPlic::new(aclint)),
            Interrupts::Trapless => Box::new(Trapless::new(trapless::Config {
                aclint,
                h: config.hart.extensions.h,
            })),
            Interrupts::Aia { guests } => Box::new(Aia::new(aia::Config {
                harts: config.harts,
                cycles_per_tick: config.hart.cycles_per_tick,
                guests,
            })),
        };
        Self::boot_with(config, interrupts, payload, peripherals)
    }

    /// As [`boot`](Self::boot), with another interrupt architecture than the configuration names.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn boot_with(
        config: MachineConfig,
        intc: Box<dyn InterruptArchitecture>,
        payload: &Payload,
        peripherals: Peripherals,
    ) -> Result<Self, Error> {
        config.check()?;
        let ram = Ram::new(map::RAM, config.ram)?;
        let loaded = boot::load(&ram, payload)?;
        let placement = loaded.placement;
        let fdt = match &payload.dtb {
            Some(dtb) => {
                let fail = |e| Error::Invalid(format!("cannot use the device tree file: {e}"));
                let mut tree = Tree::parse(dtb).map_err(fail)?;
                tree.set_boot(&payload.append, &placement);
                tree.flatten().map_err(fail)?
            }
            None => fdt::build(&config, intc.as_ref(), &payload.append, &placement)?,
        };
        let fdt_addr = boot::place_fdt(&ram, &placement, &fdt)?;
        let rom = reset::rom(placement.entry, placement.kernel, fdt_addr);

        let (wires, clock) = (Arc::new(Wires::default()), VirtualClock::default());
        let (power, console) = (PowerLatch::default(), ConsoleInput::default());
        let console_slot = peripherals.console_slot();
        let slots = peripherals.build(&Wiring {
            config: &config,
            ram: ram.guest_memory(),
            wires: &wires,
            clock: &clock,
            power: &power,
            input: &console,
        });
        let harts = config.harts;
        let mut bus = Bus::new(Parts {
            ram: ram.clone(),
            rom,
            intc,
            slots,
            wires,
            clock,
            harts,
            power,
        })
        .map_err(Error::Invalid)?;
        bus.intc.attach_memory(Box::new(Tables {
            ram: ram.clone(),
            protection: bus.protection.clone(),
            hart: 0,
        }));
        let mut hart_config = config.hart.clone();
        hart_config.reset_pc = map::ROM;
        hart_config.supervisor_interrupts = bus.intc.supervisor_interrupts();
        hart_config.custom_csrs = bus.intc.custom_csrs();
        let guests = bus.intc.guest_files();
        hart_config.aia = guests.map(|guests| AiaConfig { guests });
        let new_hart = |id| {
            let mut hart = Hart::new(id, hart_config.clone(), ram.clone());
            hart.set_meter(&bus.meter);
            hart
        };
        let mut code = CodeCache::new(&ram, hart_config.extensions, hart_config.cost);
        code.set_limits(config.code);
        code.set_meter(&bus.meter);
        if let Engine::Jit { hot } = config.engine {
            code.compile(hot, &hart_config);
        }
        Ok(Self {
            harts: (0..config.harts).map(new_hart).collect(),
            code,
            config,
            ram,
            bus,
            htif: None,
            clock: crate::schedule::Progress::default(),
            inputs: BTreeMap::new(),
            console,
            console_slot,
            input_count: 0,
            twin: None,
            symbols: loaded.symbols,
            placement,
            fdt,
        })
    }

    /// Sends a listing of each block compiled from now on to `listener`; `false`: this machine has no
    /// compiler.
    pub fn list_code(&mut self, listener: Box<dyn FnMut(&str) + Send>) -> bool {
        self.code.list_code(&self.ram, listener)
    }

    /// A machine that runs the bare-metal ELF program `elf` from reset in M-mode, with Spike's
    /// `tohost`/`fromhost` convention if it has these symbols; `htif` receives what it prints there.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn exec(
        config: MachineConfig,
        elf: &[u8],
        peripherals: Peripherals,
        htif: Box<dyn Write + Send>,
    ) -> Result<Self, Error> {
        if !boot::elf::is_elf(elf) {
            return Err(Error::Invalid("the program is not an ELF file".into()));
        }
        boot::elf::Elf::parse(elf)
            .map_err(|e| Error::Invalid(format!("cannot load the program: {e}")))?;
        let payload = Payload {
            firmware: Some(elf.into()),
            ..Payload::default()
        };
        let mut machine = Self::boot(config, &payload, peripherals)?;
        if let Some(tohost) = machine.symbols.tohost {
            machine.htif = Some(Htif::new(tohost, machine.symbols.fromhost, htif));
        }
        Ok(machine)
    }

    /// What the machine is.
    #[must_use]
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// Virtual time in cycles that all harts have reached.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now
    }

    /// The harts.
    #[must_use]
    pub fn harts(&self) -> &[Hart] {
        &self.harts
    }

    /// A hart, for debuggers.
    ///
    /// # Panics
    /// If there is no hart `index`.
    pub fn hart_mut(&mut self, index: usize) -> &mut Hart {
        &mut self.harts[index]
    }

    /// Writes a CSR of a hart as M-mode would, for debuggers; `false` if there is no such CSR.
    pub fn poke_csr(&mut self, hart: usize, csr: u16, value: u64) -> bool {
        self.harts
            .get_mut(hart)
            .is_some_and(|hart| hart.poke_csr(csr, value, &mut self.bus))
    }

    /// RAM.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Physical memory: reads what RAM and ROM hold, without touching devices. Returns how many
    /// bytes there are from `addr` on, at most `data.len()`.
    pub fn read_physical(&mut self, addr: u64, data: &mut [u8]) -> usize {
        if let Some(rom) = self.bus.rom_at(addr) {
            let len = rom.len().min(data.len());
            data[..len].copy_from_slice(&rom[..len]);
            return len;
        }
        let room = (self.ram.base() + self.ram.size()).saturating_sub(addr);
        let len = room.min(data.len() as u64) as usize;
        match self
            .ram
            .guest_memory()
            .read_slice(&mut data[..len], GuestAddress(addr))
        {
            Ok(()) => len,
            Err(_) => 0,
        }
    }

    /// Writes RAM, for debuggers. Returns how many bytes were written.
    pub fn write_physical(&mut self, addr: u64, data: &[u8]) -> usize {
        let room = (self.ram.base() + self.ram.size()).saturating_sub(addr);
        let len = room.min(data.len() as u64) as usize;
        let memory = self.ram.guest_memory();
        let written = match memory.write_slice(&data[..len], GuestAddress(addr)) {
            Ok(()) => len,
            Err(_) => 0,
        };
        self.ram.written_by_device();
        self.code.fence_i(&self.ram);
        written
    }

    /// Where firmware, kernel and initrd were put.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Symbols of the program or firmware.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The device tree the guest gets.
    #[must_use]
    pub fn device_tree(&self) -> &[u8] {
        &self.fdt
    }

    /// Instructions retired by all harts.
    #[must_use]
    pub fn instret(&self) -> u64 {
        self.harts.iter().map(Hart::instret).sum()
    }

    /// `HFENCE` and `HINVAL` instructions executed by all harts.
    #[must_use]
    pub fn hfences(&self) -> u64 {
        self.harts.iter().map(Hart::hfences).sum()
    }

    /// Adds a receiver of events. Several receive in the order in which they were added.
    pub fn add_sink(&mut self, sink: Box<dyn Sink + Send>) {
        self.bus.sums &= sink.sums_timer_sets();
        self.bus.sinks.push(sink);
        self.bus.intc.record_steps(true);
    }

    /// Puts something around the interrupt architecture: a log. It must answer as the inner one does.
    pub fn wrap_interrupts(
        &mut self,
        wrap: impl FnOnce(Box<dyn InterruptArchitecture>) -> Box<dyn InterruptArchitecture>,
    ) {
        // Holds the place while the architecture is in `wrap`'s hands.
        let nobody = Box::new(AclintPlic::new(aclint_plic::Config {
            harts: 1,
            cycles_per_tick: 1,
            sswi: false,
            edge_triggered: 0,
        }));
        let inner = std::mem::replace(&mut self.bus.intc, nobody);
        self.bus.intc = wrap(inner);
    }

    /// Setting this to `true` ends the run with [`Outcome::Stopped`](crate::Outcome::Stopped).
    #[must_use]
    pub fn stop_handle(&self) -> Arc<AtomicBool> {
        self.bus.stop.clone()
    }

    /// Console input that arrives at virtual time `at` (cycles), or now if that is past.
    pub fn input(&mut self, at: u64, bytes: &[u8]) {
        self.input_count += 1;
        let at = at.max(self.clock.now);
        self.inputs.insert((at, self.input_count), bytes.into());
        self.twin_input(at, bytes);
    }

    /// The signature of a riscv-arch-test program: the bytes between its two symbols.
    ///
    /// # Errors
    /// A sentence, if the program has no usable signature.
    pub fn signature(&self) -> Result<Vec<u8>, Error> {
        let fail = |text: &str| Error::Invalid(text.into());
        let (Some(begin), Some(end)) = (self.symbols.begin_signature, self.symbols.end_signature)
        else {
            return Err(fail(
                "the program has no symbols begin_signature and end_signature",
            ));
        };
        let len = end
            .checked_sub(begin)
            .filter(|&len| self.ram.contains(begin, len));
        let Some(len) = len else {
            return Err(fail("the program's signature lies outside RAM"));
        };
        if len > MAX_SIGNATURE {
            return Err(Error::Invalid(format!(
                "the program's signature would have {len} bytes, more than 16 MiB; \
                 correct its symbols begin_signature and end_signature"
            )));
        }
        let mut bytes = vec![0; len as usize];
        self.ram
            .guest_memory()
            .read_slice(&mut bytes, GuestAddress(begin))
            .map_err(|e| Error::Invalid(format!("cannot read the signature: {e}")))?;
        Ok(bytes)
    }

    /// Digest of all registers and RAM: equal for equal states. Reads all of RAM.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut hash = Digest(0xcbf2_9ce4_8422_2325);
        for hart in &self.harts {
            (0..32).for_each(|i| hash.add(hart.x(i)));
            (0..32).for_each(|i| hash.add(hart.f(i)));
            for value in [hart.pc(), hart.now(), hart.instret(), hart.mode() as u64] {
                hash.add(value);
            }
            (0..0x1000)
                .filter_map(|csr| hart.peek_csr(csr))
                .for_each(|v| hash.add(v));
        }
        let mut page = [0; 4096];
        for at in (self.ram.base()..self.ram.base() + self.ram.size()).step_by(page.len()) {
            if self
                .ram
                .guest_memory()
                .read_slice(&mut page, GuestAddress(at))
                .is_ok()
                && page.iter().any(|&b| b != 0)
            {
                hash.add(at);
                for word in page.chunks_exact(8) {
                    hash.add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
                }
            }
        }
        hash.0
    }
}

/// FNV-1a over words with a finishing shift.
struct Digest(u64);

impl Digest {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}
