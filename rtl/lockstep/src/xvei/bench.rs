//! Xvei of `rtl/xvei` and the model of `crates/intc` side by side.
//!
//! The engine of the circuit carries out one job after the other and answers at its end. Then the
//! model does the same, and answer, memory and interrupts are compared.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use trapless_intc::aclint_plic::{self, AclintPlic};
use trapless_intc::vei::Vei;
use trapless_intc::{
    CsrAccess, CsrFault, CsrOp, DoorbellAccess, DoorbellFault, Effects, InterruptArchitecture,
    Snapshot,
};
use trapless_isa::Mode;
use trapless_isa::haiov::{csr, hgenvei, hveiclaim, hveiq, limits};

use crate::access::Access;
use crate::memory::{Shared, Words};
use crate::random::Random;

const MOST_HARTS: usize = 8;
/// More answers of memory than an access may need that has been withdrawn: what it does is done.
const MOST_ANSWERS: u32 = 4;
/// More cycles than any access may need: a page of 240 doorbells, each with a value, for each hart.
const MOST_CYCLES: u64 = 100_000;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct HartIn {
    operand: u64,
    ppn: u64,
    csr: u16,
    offset: u16,
    reset: bool,
    req_valid: bool,
    page: bool,
    op: u8,
    mode: u8,
    width: u8,
    withdraw: bool,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct In {
    mem_rdata: u64,
    reset: bool,
    mem_ack: bool,
    mem_err: bool,
    harts: [HartIn; MOST_HARTS],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct HartOut {
    data: u64,
    rsp_valid: bool,
    fault: u8,
    retry: bool,
    irq: bool,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Out {
    mem_addr: u64,
    mem_value: u64,
    mem_mask: u64,
    mem_wdata: u64,
    mem_req: bool,
    mem_op: u8,
    mem_hart: u8,
    job_busy: bool,
    harts: [HartOut; MOST_HARTS],
}

#[repr(C)]
struct Functions {
    make: extern "C" fn(c_int) -> *mut c_void,
    destroy: extern "C" fn(*mut c_void),
    cycle: extern "C" fn(*mut c_void, *const In, *mut Out),
}

include!(concat!(env!("OUT_DIR"), "/xveis.rs"));

/// Numbers of harts for which there is a circuit.
pub fn built() -> impl Iterator<Item = usize> {
    XVEIS.iter().map(|(harts, _)| *harts)
}

/// What a hart does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Accesses a CSR.
    Csr { csr: u16, mode: Mode, op: CsrOp },
    /// Accesses a doorbell page.
    Page {
        page: u64,
        offset: u16,
        width: u8,
        stored: Option<u64>,
    },
}

/// An access under way.
#[derive(Clone, Copy)]
struct InFlight {
    act: Act,
    withdrawn: bool,
    /// Answers of memory for this hart since it has asked to withdraw the access.
    answers_since: u32,
    since: u64,
    /// How many jobs are over when all that have begun before are.
    jobs_before: u64,
}

impl Out {
    /// The request to memory.
    fn request(&self) -> Option<(u8, u8, u64, u64, u64)> {
        let request = (
            self.mem_op,
            self.mem_hart,
            self.mem_addr,
            self.mem_mask,
            self.mem_wdata,
        );
        self.mem_req.then_some(request)
    }
}

/// How the circuit is driven.
#[derive(Clone, Copy, Default)]
pub struct Pace {
    /// Most cycles that memory takes.
    pub latency: u64,
    /// One in so many cycles a hart asks to withdraw its access; 0: never.
    pub withdraw: u64,
}

/// Both.
pub struct Bench {
    functions: &'static Functions,
    circuit: *mut c_void,
    inputs: In,
    outputs: Out,
    ram: Words,
    model: Vei<AclintPlic>,
    effects: Effects,
    memory: Shared,
    current: Vec<Option<InFlight>>,
    random: Random,
    /// How the circuit is driven.
    pub pace: Pace,
    /// Cycles until memory answers.
    wait: u64,
    /// Jobs that are over.
    jobs_over: u64,
    /// Harts on behalf of which the job has accessed memory.
    accessed_for: u64,
    /// `hveiq.FLT` may differ: accesses are given up that may have failed to read something, or a
    /// queue is damaged, of which the model reads one word more.
    pub loose: bool,
    /// What has been done.
    pub counts: Counts,
}

/// Counts of what has been done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Accesses that were answered.
    pub accesses: u64,
    /// Those that were given up.
    pub retries: u64,
    /// Those that raised an exception.
    pub faults: u64,
    /// Stores that a doorbell has answered.
    pub rung: u64,
    /// Loads that the shadow has answered.
    pub shadowed: u64,
    /// Events that were taken.
    pub claims: u64,
    /// Overflows that were reported.
    pub overflows: u64,
    /// Accesses to memory.
    pub memory: u64,
    /// Cycles.
    pub cycles: u64,
}

impl Drop for Bench {
    fn drop(&mut self) {
        (self.functions.destroy)(self.circuit);
    }
}

/// The model after reset.
fn model(harts: usize) -> Vei<AclintPlic> {
    let inner = AclintPlic::new(aclint_plic::Config {
        harts,
        cycles_per_tick: 1,
        sswi: false,
        edge_triggered: 0,
    });
    Vei::new(inner, harts, false)
}

impl Bench {
    /// Both after reset, memory zero.
    ///
    /// # Panics
    /// If there is no circuit for that number of harts.
    #[must_use]
    pub fn new(harts: usize, seed: u64) -> Self {
        let found = XVEIS.iter().find(|(number, _)| *number == harts);
        let (_, functions) = found.unwrap_or_else(|| panic!("no circuit for {harts} harts"));
        let memory = Shared::new();
        let mut model = model(harts);
        model.attach_memory(Arc::new(memory.clone()));
        let mut bench = Self {
            functions,
            // Verilator takes 31 bits that are not 0.
            circuit: (functions.make)((seed & 0x7fff_ffff).max(1) as c_int),
            inputs: In::default(),
            outputs: Out::default(),
            ram: Words::new(),
            model,
            effects: Effects::default(),
            memory,
            current: vec![None; harts],
            random: Random::new(!seed),
            pace: Pace::default(),
            wait: 0,
            jobs_over: 0,
            accessed_for: 0,
            loose: false,
            counts: Counts::default(),
        };
        bench.inputs.reset = true;
        (functions.cycle)(bench.circuit, &bench.inputs, &mut bench.outputs);
        bench.inputs.reset = false;
        bench
    }

    /// Number of harts.
    #[must_use]
    pub fn harts(&self) -> usize {
        self.current.len()
    }

    /// A hart can begin an access.
    #[must_use]
    pub fn is_free(&self, hart: usize) -> bool {
        self.current[hart].is_none() && !self.outputs.harts[hart].rsp_valid
    }

    /// A hart waits for the answer to an access.
    #[must_use]
    pub fn is_under_way(&self, hart: usize) -> bool {
        self.current[hart].is_some()
    }

    /// The engine has nothing to do at this moment.
    #[must_use]
    pub fn is_between_jobs(&self) -> bool {
        !self.outputs.job_busy
    }

    /// Nothing is under way anywhere.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.is_between_jobs() && (0..self.harts()).all(|hart| self.is_free(hart))
    }

    /// A word of memory.
    #[must_use]
    pub fn word(&self, addr: u64) -> u64 {
        self.ram.get(addr)
    }

    /// Software or a device changes a word. Only between jobs.
    pub fn set(&mut self, addr: u64, value: u64) {
        self.ram.set(addr, value);
        self.memory.words().set(addr, value);
    }

    /// Changes which words are usable. Only when nothing is under way.
    pub fn damage(&mut self, change: impl Fn(&mut Words)) {
        change(&mut self.ram);
        change(&mut self.memory.words());
    }

    /// The first word that differs, when nothing is under way.
    ///
    /// # Errors
    /// That there is one.
    pub fn same_memory(&self) -> Result<(), String> {
        match self.ram.differs(&self.memory.words()) {
            None => Ok(()),
            Some(addr) => Err(format!("memory differs at {addr:#x}")),
        }
    }

    /// A hart is reset. Only when nothing is under way.
    pub fn reset(&mut self, hart: usize) {
        self.inputs.harts[hart].reset = true;
        let mut saved = self.model.save();
        saved["xvei"][hart] = model(1).save()["xvei"][0].clone();
        self.model
            .restore(&saved)
            .expect("it is a state of this model");
    }

    /// A hart begins an access.
    pub fn begin(&mut self, hart: usize, act: Act) {
        let input = &mut self.inputs.harts[hart];
        input.req_valid = true;
        match act {
            Act::Csr { csr, mode, op } => {
                let access = Access { csr, mode, op };
                input.page = false;
                input.csr = csr;
                input.mode = access.port_mode();
                (input.op, input.operand) = access.port_op();
            }
            Act::Page {
                page,
                offset,
                width,
                stored,
            } => {
                input.page = true;
                input.ppn = page >> 12;
                input.offset = offset;
                input.width = width;
                input.op = u8::from(stored.is_some());
                input.operand = stored.unwrap_or(0);
            }
        }
        self.current[hart] = Some(InFlight {
            act,
            withdrawn: false,
            answers_since: 0,
            since: self.counts.cycles,
            jobs_before: self.jobs_over + u64::from(self.outputs.job_busy),
        });
    }

    /// One cycle.
    ///
    /// # Errors
    /// What differs.
    pub fn cycle(&mut self) -> Result<(), String> {
        let before = self.outputs;
        self.answer_memory(&before);
        for hart in 0..self.harts() {
            let asks = self.pace.withdraw != 0 && self.random.one_in(self.pace.withdraw);
            self.inputs.harts[hart].withdraw = false;
            if let Some(current) = &mut self.current[hart] {
                current.withdrawn |= asks;
                self.inputs.harts[hart].withdraw = current.withdrawn;
                let answers = self.inputs.mem_ack && usize::from(before.mem_hart) == hart;
                current.answers_since += u32::from(current.withdrawn && answers);
                if current.answers_since > MOST_ANSWERS {
                    return Err(format!("hart {hart} goes on with what it has withdrawn"));
                }
            }
        }
        (self.functions.cycle)(self.circuit, &self.inputs, &mut self.outputs);
        self.counts.cycles += 1;
        if self.inputs.mem_ack && !self.inputs.mem_err && before.mem_op != 0 {
            self.ram.store(before.mem_addr, self.outputs.mem_value);
        }
        if before.mem_req && !self.inputs.mem_ack && before.request() != self.outputs.request() {
            return Err("a request to memory has changed before its answer".into());
        }
        if before.mem_req {
            self.accessed_for |= 1 << before.mem_hart;
        }
        if before.job_busy && !self.outputs.job_busy {
            self.jobs_over += 1;
            let answered = (0..self.harts()).filter(|&hart| self.outputs.harts[hart].rsp_valid);
            let answered: u64 = answered.map(|hart| 1 << hart).sum();
            if std::mem::take(&mut self.accessed_for) & !answered != 0 {
                return Err("memory was accessed on behalf of another hart".into());
            }
        }
        for hart in 0..self.harts() {
            self.inputs.harts[hart].reset = false;
            if self.outputs.harts[hart].rsp_valid {
                self.answered(hart)?;
            } else if self.current[hart].is_some_and(|c| self.counts.cycles - c.since > MOST_CYCLES)
            {
                return Err(format!("hart {hart} waits for ever"));
            }
        }
        if self.outputs.job_busy {
            return Ok(());
        }
        self.same_writes()?;
        for hart in 0..self.harts() {
            let model = self.model.lines(hart, 0).level >> limits::VEI_IRQ & 1 != 0;
            if self.outputs.harts[hart].irq != model {
                return Err(format!("interrupt 25 of hart {hart} is {}", !model));
            }
        }
        Ok(())
    }

    fn answer_memory(&mut self, before: &Out) {
        self.inputs.mem_ack = false;
        self.inputs.mem_err = false;
        self.inputs.mem_rdata = self.random.bits();
        if !before.mem_req {
            return;
        }
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.wait = self.random.below(self.pace.latency + 1);
        self.counts.memory += 1;
        let word = match before.mem_op {
            0 => self.ram.load(before.mem_addr),
            _ => self.ram.load_to_store(before.mem_addr),
        };
        self.inputs.mem_ack = true;
        self.inputs.mem_err = word.is_none();
        self.inputs.mem_rdata = word.unwrap_or(self.inputs.mem_rdata);
    }

    fn answered(&mut self, hart: usize) -> Result<(), String> {
        let output = self.outputs.harts[hart];
        self.inputs.harts[hart].req_valid = false;
        let current = self.current[hart].take();
        let current = current.ok_or(format!("hart {hart} is answered without an access"))?;
        self.counts.accesses += 1;
        let shown = |text: String| format!("hart {hart}, {:x?}: {text}", current.act);
        if output.retry {
            self.counts.retries += 1;
            if !current.withdrawn || output.fault != 0 {
                return Err(shown("given up without having asked to".into()));
            }
            return Ok(());
        }
        let expected = self.model_does(hart, current.act);
        let mut answer = match output.fault {
            0 => Ok(output.data),
            fault => Err(fault),
        };
        let mut same = expected;
        if self.loose
            && matches!(
                current.act,
                Act::Csr {
                    csr: csr::HVEIQ,
                    ..
                }
            )
        {
            answer = answer.map(|value| value & !hveiq::FLT);
            same = same.map(|value| value & !hveiq::FLT);
        }
        if answer != same {
            return Err(shown(format!("answer {answer:x?}, model {same:x?}")));
        }
        if waits_for_posts(current.act) && self.jobs_over < current.jobs_before {
            return Err(shown("a job that had begun before is not over".into()));
        }
        self.count(current.act, expected);
        Ok(())
    }

    fn model_does(&mut self, hart: usize, act: Act) -> Result<u64, u8> {
        match act {
            Act::Csr { csr, mode, op } => {
                let access = CsrAccess {
                    hart,
                    csr,
                    mode,
                    vmid: 0,
                    now: 0,
                    op,
                };
                let answer = self.model.csr(&access, &mut self.effects);
                answer.map_err(|fault| match fault {
                    CsrFault::Illegal => 1,
                    CsrFault::Virtual => 2,
                })
            }
            Act::Page {
                page,
                offset,
                width,
                stored,
            } => {
                let access = DoorbellAccess {
                    hart,
                    mode: Mode::VS,
                    now: 0,
                    page,
                    offset,
                    size: 1 << width,
                    stored,
                };
                let answer = self.model.doorbell(&access, &mut self.effects);
                answer.map_err(|DoorbellFault { mmio }| if mmio { 2 } else { 1 })
            }
        }
    }

    fn count(&mut self, act: Act, answer: Result<u64, u8>) {
        self.counts.faults += u64::from(answer.is_err());
        let Ok(value) = answer else {
            return;
        };
        match act {
            Act::Page { stored: None, .. } => self.counts.shadowed += 1,
            Act::Page { .. } => self.counts.rung += 1,
            Act::Csr { csr, .. } if csr == csr::HVEICLAIM => {
                self.counts.claims += u64::from(value & hveiclaim::V != 0);
                self.counts.overflows += u64::from(value & hveiclaim::OVF != 0);
            }
            Act::Csr { .. } => {}
        }
    }

    /// What either has stored since the last job is the same now.
    fn same_writes(&mut self) -> Result<(), String> {
        let mut words = self.memory.words();
        let mut written = std::mem::take(&mut words.written);
        written.append(&mut self.ram.written);
        let differs = written
            .into_iter()
            .find(|&addr| self.ram.get(addr) != words.get(addr));
        match differs {
            None => Ok(()),
            Some(addr) => Err(format!(
                "word {addr:#x} is {:#x}, in the model {:#x}",
                self.ram.get(addr),
                words.get(addr)
            )),
        }
    }
}

/// VEI-13
fn waits_for_posts(act: Act) -> bool {
    let Act::Csr { csr, mode, op } = act else {
        return false;
    };
    let value = op.written(0);
    csr == csr::HGENVEI
        && matches!(mode, Mode::M | Mode::HS)
        && matches!(op, CsrOp::Write(_) | CsrOp::Swap(_))
        && value.is_some_and(|value| value & hgenvei::ENTRY == 0)
}
