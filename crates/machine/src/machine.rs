//! A machine: harts, memory, devices and the state of its clock.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use trapless_hart::{CodeCache, Hart, Ram};
use trapless_ledger::event::Sink;

use crate::boot::elf::Symbols;
use crate::boot::placement::Placement;
use crate::bus::Bus;
use crate::bus::htif::Htif;
use crate::bus::places::ConsoleInput;
use crate::config::preset::MachineConfig;
use crate::drive::lockstep::Twin;
use crate::drive::progress::Progress;
use crate::outside::{Frames, Input};
use crate::time::input::{Arrival, Inputs};

/// A machine.
pub struct Machine {
    pub(crate) config: MachineConfig,
    pub(crate) harts: Vec<Hart>,
    pub(crate) code: CodeCache,
    pub(crate) ram: Ram,
    pub(crate) bus: Bus,
    pub(crate) htif: Option<Htif>,
    pub(crate) clock: Progress,
    pub(crate) input: Inputs,
    pub(crate) console: ConsoleInput,
    /// Device that console input goes to.
    pub(crate) console_slot: usize,
    pub(crate) frames: Frames,
    /// Device that frames go to.
    pub(crate) cable_slot: Option<usize>,
    /// The twin that runs in lock-step, if any. It is a machine, too, so this module and `lockstep`
    /// depend on each other.
    pub(crate) twin: Option<Box<Twin>>,
    pub(crate) symbols: Symbols,
    pub(crate) placement: Placement,
    pub(crate) fdt: Vec<u8>,
}

impl Machine {
    /// The machine's configuration.
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
        self.bus.interrupts.waits.forget(index);
        &mut self.harts[index]
    }

    /// Writes a CSR of a hart as M-mode would, for debuggers; `false` if there is no such CSR.
    pub fn poke_csr(&mut self, hart: usize, csr: u16, value: u64) -> bool {
        self.bus.interrupts.waits.forget(hart);
        self.harts
            .get_mut(hart)
            .is_some_and(|hart| hart.poke_csr(csr, value, &mut self.bus))
    }

    /// RAM.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
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

    /// Adds an event sink. Several sinks are called in the order in which they were added.
    pub fn add_sink(&mut self, sink: Box<dyn Sink + Send>) {
        self.bus.sums &= sink.sums_timer_sets();
        self.bus.sinks.push(sink);
        self.bus.interrupts.record_steps();
    }

    /// Sends a listing of each block compiled from now on to `listener`; `false`: this machine has
    /// no compiler.
    pub fn list_code(&mut self, listener: Box<dyn FnMut(&str) + Send>) -> bool {
        self.code.list_code(&self.ram, listener)
    }

    /// Setting this to `true` ends the run with [`Outcome::Stopped`](crate::Outcome::Stopped).
    #[must_use]
    pub fn stop_handle(&self) -> Arc<AtomicBool> {
        self.bus.stop.clone()
    }

    /// Console input that arrives at virtual time `at` (cycles), or as soon as possible if that is
    /// past: between rounds, and not while the machine re-executes its
    /// [`history`](crate::time::history).
    pub fn input(&mut self, at: u64, bytes: &[u8]) {
        self.bring(at, Input::Console(bytes.into()));
    }

    /// Input that arrives at virtual time `at` (cycles), or as soon as possible if that is past.
    pub fn bring(&mut self, at: u64, input: Input) {
        let at = at.max(self.clock.now);
        self.twin_input(at, &input);
        self.input.push(at, input);
        if !self.clock.in_round {
            self.input
                .between_rounds(self.clock.now, self.bus.past.get());
        }
    }

    /// The input since the last call, for a record. To be called first before the first
    /// instruction.
    pub fn take_record(&mut self) -> Vec<Arrival> {
        self.input.news()
    }

    /// Whether input of [`replay_input`](Self::replay_input) has not arrived yet: an idle machine
    /// runs until it does.
    #[must_use]
    pub fn expects_input(&self) -> bool {
        self.input.expected()
    }

    /// Replays the input of another run of this machine. To be called before the first instruction.
    pub fn replay_input(&mut self, record: Vec<Arrival>) {
        self.input.replay(record);
    }
}
