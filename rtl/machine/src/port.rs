//! Accesses of harts to the circuit, one at a time.

use std::collections::BTreeMap;
use std::sync::Mutex;

use trapless_intc::{CsrAccess, CsrFault, Lines};
use trapless_isa::cause::interrupt;
use trapless_isa::xtrapless::limits;
use trapless_lockstep::access::Access;
use trapless_lockstep::circuit::{Circuit, HartOut, In, MOST_HARTS, Out, built};

use crate::memory::Shared;

/// More cycles than an access and what follows from it may take.
const MOST_CYCLES: u64 = 200_000;

/// Bits of `mip` and the like that the circuit drives.
pub const DRIVEN: u64 = 1 << interrupt::VSSI | 1 << interrupt::VSEI | 1 << limits::NOTIFY_IRQ;

/// Cycles of accesses to one CSR.
#[derive(Clone, Copy, Default)]
struct Count {
    accesses: u64,
    to_answer: u64,
    to_end: u64,
    /// Accesses to memory, all of them.
    memory: u64,
    memory_to_answer: u64,
}

/// How the circuit's time becomes time of a hart that waits for it.
#[derive(Clone, Copy)]
pub struct Timing {
    /// Cycles of a hart in one cycle of the circuit.
    pub ratio: u32,
    /// Cycles of the circuit for which an access to memory is late; 0: the answer is there in the
    /// next one.
    pub memory: u32,
}

impl Timing {
    fn delay(self, count: &Count) -> u32 {
        let memory = count.memory_to_answer * u64::from(self.memory);
        let cycles = (count.to_answer + memory) * u64::from(self.ratio);
        u32::try_from(cycles).unwrap_or(u32::MAX)
    }
}

/// What became of an access.
pub struct Answered {
    pub answer: Result<u64, CsrFault>,
    /// Harts whose lines may have changed.
    pub changed: u64,
    /// Cycles that the hart has waited.
    pub delay: u32,
}

/// How many cycles the circuit has taken, by CSR.
#[derive(Default)]
pub struct Counts(Mutex<BTreeMap<u16, Count>>);

impl Counts {
    /// A table; `None` if there was no access.
    pub fn text(&self) -> Option<String> {
        let counts = self.0.lock().ok()?;
        if counts.is_empty() {
            return None;
        }
        let mut text =
            String::from("circuit: CSR, accesses, cycles to the answer and to the end, words");
        for (csr, count) in counts.iter() {
            let of = |sum: u64| sum as f64 / count.accesses as f64;
            text += &format!(
                "\n  {csr:#05x} {:>9} {:>8.1} {:>8.1} {:>8.1}",
                count.accesses,
                of(count.to_answer),
                of(count.to_end),
                of(count.memory)
            );
        }
        let all: u64 = counts.values().map(|c| c.accesses).sum();
        Some(format!(
            "{text}\n  {all} accesses without a difference to the model"
        ))
    }

    fn add(&self, csr: u16, one: Count) {
        if let Ok(mut counts) = self.0.lock() {
            let count = counts.entry(csr).or_default();
            count.accesses += 1;
            count.to_answer += one.to_answer;
            count.to_end += one.to_end;
            count.memory += one.memory;
        }
    }
}

/// What the circuit drives at a hart, and what has happened since the hart last looked.
#[derive(Clone, Copy, Default)]
struct Driven {
    level: u64,
    split: bool,
    arrived: u64,
    ipi: bool,
}

/// The circuit with its memory.
pub struct Port {
    circuit: Circuit,
    inputs: In,
    outputs: Out,
    memory: Shared,
    driven: Vec<Driven>,
    timing: Option<Timing>,
}

impl Port {
    /// The circuit for `harts` harts after reset. A larger one would know harts that are not there.
    /// Without `timing` it takes no time.
    ///
    /// # Panics
    /// If none is built for so many.
    pub fn new(harts: usize, memory: Shared, timing: Option<Timing>) -> Self {
        let size = built().find(|&size| size == harts).unwrap_or_else(|| {
            panic!(
                "no circuit is built for {harts} harts: add the number to LOCKSTEP_HARTS in \
                 rtl/machine/.cargo/config.toml"
            )
        });
        let mut port = Self {
            circuit: Circuit::new(size, 1),
            inputs: In::default(),
            outputs: Out::default(),
            memory,
            driven: vec![Driven::default(); harts],
            timing,
        };
        port.inputs.reset = true;
        for _ in 0..2 {
            port.circuit.cycle(&port.inputs, &mut port.outputs);
        }
        port.inputs.reset = false;
        port
    }

    /// Carries an access out, with all that follows from it.
    ///
    /// # Errors
    /// If it does not end.
    pub fn access(&mut self, access: &CsrAccess, counts: &Counts) -> Result<Answered, String> {
        let hart = access.hart;
        let request = Access {
            csr: access.csr,
            mode: access.mode,
            op: access.op,
        };
        let (op, operand) = request.port_op();
        let input = &mut self.inputs.harts[hart];
        input.req_valid = true;
        input.csr = access.csr;
        input.mode = request.port_mode();
        input.op = op;
        input.operand = operand;
        let mut count = Count::default();
        let mut answer = None;
        let mut changed = 0;
        while answer.is_none() || self.is_busy() {
            changed |= self.cycle(&mut count);
            let output = self.outputs.harts[hart];
            if output.rsp_valid {
                self.inputs.harts[hart].req_valid = false;
                count.to_answer = count.to_end;
                count.memory_to_answer = count.memory;
                answer = Some(answer_of(&output)?);
            }
            if count.to_end > MOST_CYCLES {
                return Err("the circuit does not end".into());
            }
        }
        // What the last edge has changed is seen after it.
        let mut idle = Count::default();
        changed |= self.cycle(&mut idle);
        counts.add(access.csr, count);
        Ok(Answered {
            answer: answer.ok_or("the circuit does not answer")?,
            changed,
            delay: self.timing.map_or(0, |timing| timing.delay(&count)),
        })
    }

    /// What the circuit drives at a hart; what has arrived is returned once.
    pub fn drive(&mut self, hart: usize, lines: &mut Lines) {
        let driven = &mut self.driven[hart];
        lines.level = lines.level & !DRIVEN | driven.level;
        lines.split = driven.split;
        lines.arrived |= std::mem::take(&mut driven.arrived);
        lines.pulse |= u64::from(std::mem::take(&mut driven.ipi)) << interrupt::SSI;
    }

    fn is_busy(&self) -> bool {
        let harts = &self.outputs.harts[..MOST_HARTS];
        self.outputs.job_busy || harts.iter().any(|h| h.posting || h.rsp_valid)
    }

    /// One cycle; the harts at which the circuit drives something else than before.
    fn cycle(&mut self, count: &mut Count) -> u64 {
        let before = self.outputs;
        let mut old = None;
        self.inputs.mem_ack = before.mem_req;
        self.inputs.mem_err = false;
        if before.mem_req {
            let (hart, addr) = (usize::from(before.mem_hart), before.mem_addr);
            count.memory += 1;
            old = match before.mem_op {
                0 => self.memory.load_circuit(hart, addr),
                _ => self.memory.load_to_store(hart, addr),
            };
            self.inputs.mem_err = old.is_none();
            self.inputs.mem_rdata = old.unwrap_or(0);
        }
        self.inputs.now += 1;
        self.circuit.cycle(&self.inputs, &mut self.outputs);
        count.to_end += 1;
        if let (Some(old), true) = (old, before.mem_op != 0) {
            let (hart, addr) = (usize::from(before.mem_hart), before.mem_addr);
            self.memory
                .store_circuit(hart, addr, old, self.outputs.mem_value);
        }
        self.look()
    }

    fn look(&mut self) -> u64 {
        let mut changed = 0;
        for (hart, driven) in self.driven.iter_mut().enumerate() {
            let output = &self.outputs.harts[hart];
            let vs_level = |bits: u8| {
                u64::from(bits & 1) << interrupt::VSSI | u64::from(bits >> 1 & 1) << interrupt::VSEI
            };
            let level = vs_level(output.terms) | u64::from(output.notify) << limits::NOTIFY_IRQ;
            // V stays 0 for the circuit, and each latch is taken over at once: the hart drops what
            // arrives at V=1 itself. In the cycle of the clear the latch still reads as 1.
            let cleared = self.inputs.harts[hart].hip_clear;
            let latched = output.latches;
            self.inputs.harts[hart].hip_clear = latched & !cleared;
            let arrived = vs_level(latched & !cleared);
            if level != driven.level || output.split != driven.split || output.ipi || arrived != 0 {
                changed |= 1 << hart;
            }
            driven.level = level;
            driven.split = output.split;
            driven.arrived |= arrived;
            driven.ipi |= output.ipi;
        }
        changed
    }
}

fn answer_of(output: &HartOut) -> Result<Result<u64, CsrFault>, String> {
    if output.retry {
        return Err("the circuit gives an access up that is not withdrawn".into());
    }
    Ok(match output.fault {
        0 => Ok(output.data),
        1 => Err(CsrFault::Illegal),
        _ => Err(CsrFault::Virtual),
    })
}
