//! The circuit as the controller of a machine, beside the model.

use std::sync::Arc;

use serde_json::Value;
use trapless_intc::aclint_plic;
use trapless_intc::trapless::{Config, Trapless};
use trapless_intc::{
    CsrAccess, CsrFault, Description, Effects, InterruptArchitecture, Lines, Memory, MmioAccess,
    NoRegister, Row, Snapshot,
};
use trapless_isa::cause::interrupt;
use trapless_machine::{MachineConfig, map};
use vm_fdt::{Error, FdtWriter};

use crate::memory::Shared;
use crate::port::{Counts, DRIVEN, Port, Timing};

/// The controller. Answers and lines of Xtrapless are those of the circuit; ACLINT, PLIC and the
/// steps for the ledger are those of the model. It has no message windows, which the circuit has
/// not either.
pub struct Controller {
    model: Trapless,
    /// The model has to do the same.
    compared: bool,
    port: Port,
    memory: Shared,
    counts: Arc<Counts>,
}

impl Controller {
    /// The one of a machine. Without `timing` accesses cost what those to the model cost, so that
    /// ledgers are the same.
    ///
    /// # Panics
    /// If there is no circuit for its number of harts.
    pub fn new(config: &MachineConfig, counts: Arc<Counts>, timing: Option<Timing>) -> Self {
        let aclint = aclint_plic::Config {
            harts: config.harts,
            cycles_per_tick: config.hart.cycles_per_tick,
            sswi: config.sswi,
            edge_triggered: 1 << map::UART_IRQ,
        };
        let h = config.hart.extensions.h;
        let memory = Shared::default();
        let mut model = Trapless::new(Config { aclint, h });
        model.attach_memory(Arc::new(memory.clone()));
        Self {
            model,
            compared: true,
            port: Port::new(config.harts, memory.clone(), timing),
            memory,
            counts,
        }
    }

    /// The circuit alone: nothing is compared, and there are no steps for the ledger.
    #[must_use]
    pub fn alone(self) -> Self {
        Self {
            compared: false,
            ..self
        }
    }
}

/// A difference between circuit and model ends the process: what follows would mean nothing.
fn differ(what: &str, access: Option<&CsrAccess>) -> ! {
    panic!("circuit and model differ: {what} {access:x?}")
}

impl Snapshot for Controller {
    fn save(&self) -> Value {
        self.model.save()
    }

    /// The registers of a circuit cannot be set.
    fn restore(&mut self, state: &Value) -> Result<(), String> {
        if *state == self.model.save() {
            return Ok(());
        }
        Err("the machine trapless-rtl cannot continue from a checkpoint".into())
    }
}

impl InterruptArchitecture for Controller {
    fn describe(&self) -> Description {
        self.model.describe()
    }

    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        self.model.load(access, effects)
    }

    fn store(
        &mut self,
        access: &MmioAccess,
        value: u64,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        self.model.store(access, value, effects)
    }

    fn csr(&mut self, access: &CsrAccess, effects: &mut Effects) -> Result<u64, CsrFault> {
        let answered = self.port.access(access, &self.counts);
        let answered = answered.unwrap_or_else(|e| differ(&e, Some(access)));
        let circuit = answered.answer;
        effects.changed |= answered.changed;
        effects.delay += answered.delay;
        if !self.compared {
            self.memory.forget();
            return circuit;
        }
        let model = self.model.csr(access, effects);
        if circuit != model {
            differ(&format!("{circuit:x?}, {model:x?} at"), Some(access));
        }
        if let Err(word) = self.memory.compare() {
            differ(&format!("{word} at"), Some(access));
        }
        circuit
    }

    fn set_source(&mut self, now: u64, source: u32, level: bool, effects: &mut Effects) {
        self.model.set_source(now, source, level, effects);
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let model = self.model.lines(hart, now);
        // The ACLINT sets SSIP, too, which the circuit knows nothing of.
        let pulse = 1 << interrupt::SSI;
        let mut lines = Lines {
            level: model.level & !DRIVEN,
            pulse: model.pulse & !pulse,
            arrived: 0,
            split: false,
            ..model
        };
        self.port.drive(hart, &mut lines);
        let missing = lines.pulse & !model.pulse;
        lines.pulse |= model.pulse;
        if self.compared && (lines != model || missing != 0) {
            differ(
                &format!("lines of hart {hart}: {lines:x?}, {model:x?}"),
                None,
            );
        }
        lines
    }

    fn attach_memory(&mut self, memory: Arc<dyn Memory>) {
        self.memory.attach(memory);
    }

    fn inspect(&self, now: u64) -> Vec<Row> {
        self.model.inspect(now)
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
        self.model.fdt(fdt, cpu_intc)
    }
}
