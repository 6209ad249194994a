//! Circuit and model side by side.
//!
//! The engine of the circuit carries out one job after the other. When a job ends, the model does
//! the same, and everything that can be seen is compared. An access that the circuit answers
//! without the engine concerns registers of its hart only; the model does it at that moment.

use std::collections::VecDeque;

use trapless_intc::CsrOp;
use trapless_isa::Mode;
use trapless_isa::xtrapless::{csr, hgenvsi, op, sgenipi};

use crate::access::{Access, STIMECMP};
use crate::circuit::{Circuit, In, MOST_HARTS, Out};
use crate::memory::Words;
use crate::random::Random;
use crate::reference::{Answer, Reference};

/// More cycles than any access may need.
const MOST_CYCLES: u64 = 200_000;
/// Events that are shown when something differs.
const HISTORY: usize = 100;

/// What happened.
#[derive(Clone, Copy)]
enum Event {
    Begins(usize, Access),
    Answers(usize, Answer, bool),
    Ends(usize, Option<u32>),
    Mode(usize, bool),
    Reset(usize),
    Host(u64, u64),
}

/// An access under way.
#[derive(Clone, Copy)]
struct InFlight {
    access: Access,
    /// The engine has begun with it.
    begun: bool,
    /// The hart has asked to withdraw it.
    withdrawn: bool,
    /// The targets of this `sgenipi` are in `Port::posts`.
    announced: bool,
    since: u64,
    /// Of a SYNC: posts of each hart that have to be over when it is.
    before: [u64; MOST_HARTS],
}

/// An access that is answered while the engine is busy with it: what is left is its effects on
/// other harts, or on `vsip`.
#[derive(Clone, Copy)]
struct Early {
    /// `vsip` at that time, if it was settled.
    terms: Option<u8>,
}

/// The CSR port of a hart.
#[derive(Clone, Default)]
struct Port {
    current: Option<InFlight>,
    early: Option<Early>,
    /// Domains and vharts that posts of `sgenipi` are to come to.
    posts: Vec<(u16, u16)>,
    /// How many there have been, and how many are over.
    posts_named: u64,
    posts_over: u64,
    /// CSR values of the timers.
    stimecmp: [u64; 2],
}

/// How the circuit is driven.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Most cycles that memory takes.
    pub latency: u64,
    /// One in so many cycles a hart that waits asks to withdraw its access; 0: never.
    pub withdraw: u64,
}

/// Counts of what has been done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Accesses that were answered.
    pub accesses: u64,
    /// Those that were given up.
    pub retries: u64,
    /// Those that were answered before their job was over.
    pub early: u64,
    /// Posts of `sgenipi`.
    pub posts: u64,
    /// Accesses that raised an exception.
    pub faults: u64,
    /// Claims that returned a source.
    pub claims: u64,
    /// Notifications that were read.
    pub notifications: u64,
    /// Accesses to memory.
    pub memory: u64,
    /// Cycles.
    pub cycles: u64,
    /// Most cycles from an access to its answer.
    pub longest: u64,
}

/// Both.
pub struct Bench {
    circuit: Circuit,
    inputs: In,
    outputs: Out,
    ram: Words,
    /// The model.
    pub model: Reference,
    ports: Vec<Port>,
    random: Random,
    /// How the circuit is driven.
    pub pace: Pace,
    wait: u64,
    history: VecDeque<Event>,
    /// What has been done.
    pub counts: Counts,
    /// `htlcfg.FLT` may differ: memory was damaged, and the two need not read the same words.
    loose: bool,
}

impl Bench {
    /// Both after reset, with the same `memory`.
    #[must_use]
    pub fn new(harts: usize, seed: u64, fill: impl Fn(&mut Words)) -> Self {
        let mut ram = Words::new();
        fill(&mut ram);
        let model = Reference::new(harts);
        fill(&mut model.memory.words());
        let port = Port {
            stimecmp: [u64::MAX; 2],
            ..Port::default()
        };
        let mut bench = Self {
            circuit: Circuit::new(harts, seed),
            inputs: In::default(),
            outputs: Out::default(),
            ram,
            model,
            ports: vec![port; harts],
            random: Random::new(!seed),
            pace: Pace {
                latency: 0,
                withdraw: 0,
            },
            wait: 0,
            history: VecDeque::new(),
            counts: Counts::default(),
            loose: false,
        };
        bench.inputs.reset = true;
        for _ in 0..2 {
            bench.circuit.cycle(&bench.inputs, &mut bench.outputs);
        }
        bench.inputs.reset = false;
        bench
    }

    /// Number of harts.
    #[must_use]
    pub fn harts(&self) -> usize {
        self.ports.len()
    }

    /// A hart can begin an access.
    #[must_use]
    pub fn is_free(&self, hart: usize) -> bool {
        self.ports[hart].current.is_none() && !self.outputs.harts[hart].rsp_valid
    }

    /// A hart waits for the answer to an access.
    #[must_use]
    pub fn is_under_way(&self, hart: usize) -> bool {
        self.ports[hart].current.is_some()
    }

    /// The engine has nothing to do, and nothing is left for it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let harts = &self.outputs.harts[..self.harts()];
        !self.outputs.job_busy && harts.iter().all(|h| !h.posting)
    }

    /// The engine has nothing to do at this moment.
    #[must_use]
    pub fn is_between_jobs(&self) -> bool {
        !self.outputs.job_busy
    }

    /// Nothing is under way anywhere.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let harts = &self.outputs.harts[..self.harts()];
        !self.outputs.job_busy
            && self.ports.iter().all(|p| p.current.is_none())
            && harts.iter().all(|h| !h.posting && !h.rsp_valid)
    }

    /// Accesses to `hifmap` that are under way.
    pub fn attaching(&self) -> impl Iterator<Item = Access> + '_ {
        let current = self.ports.iter().filter_map(|p| p.current);
        current.map(|c| c.access).filter(|a| a.csr == csr::HIFMAP)
    }

    /// A hart begins an access.
    pub fn begin(&mut self, hart: usize, access: Access) {
        let (code, operand) = access.port_op();
        let input = &mut self.inputs.harts[hart];
        input.req_valid = true;
        input.csr = access.csr;
        input.mode = access.port_mode();
        input.op = code;
        input.operand = operand;
        self.ports[hart].current = Some(InFlight {
            access,
            begun: false,
            withdrawn: false,
            announced: false,
            since: self.counts.cycles,
            before: std::array::from_fn(|h| self.ports.get(h).map_or(0, |p| p.posts_named)),
        });
        self.note(Event::Begins(hart, access));
    }

    /// V of a hart changes. Only between jobs.
    pub fn set_v(&mut self, hart: usize, v: bool) {
        if self.model.v[hart] == v {
            return;
        }
        self.inputs.harts[hart].v = v;
        self.model.set_v(hart, v);
        self.note(Event::Mode(hart, v));
    }

    /// Software clears latches of `hip`. Only between jobs.
    pub fn clear_latches(&mut self, hart: usize, bits: u8) {
        self.inputs.harts[hart].hip_clear = bits;
        self.model.seen[hart].latches &= !bits;
    }

    /// A hart is reset. Only when nothing is under way.
    pub fn reset(&mut self, hart: usize) {
        self.note(Event::Reset(hart));
        self.inputs.harts[hart].reset = true;
        self.model.reset(hart);
        self.ports[hart].stimecmp = [u64::MAX; 2];
        self.ports[hart].posts.clear();
    }

    /// `htimedelta`.
    pub fn set_delta(&mut self, hart: usize, delta: u64) {
        self.inputs.harts[hart].delta = delta;
    }

    /// `time`.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.inputs.now
    }

    /// The host changes a word. Only between jobs.
    pub fn host(&mut self, addr: u64, change: impl Fn(u64) -> u64) {
        let old = self.ram.get(addr);
        let new = change(old);
        if new != old {
            self.note(Event::Host(addr, new));
            self.ram.set(addr, new);
            self.model.memory.words().set(addr, new);
        }
    }

    /// Changes which words are usable. Only when nothing is under way.
    pub fn damage(&mut self, change: impl Fn(&mut Words)) {
        change(&mut self.ram);
        change(&mut self.model.memory.words());
    }

    /// `htlcfg.FLT` has been cleared on all harts.
    pub fn cleared_faults(&mut self) {
        self.loose = false;
    }

    /// One cycle.
    ///
    /// # Errors
    /// What differs, and what happened before.
    pub fn cycle(&mut self) -> Result<(), String> {
        self.step().map_err(|difference| self.report(&difference))
    }

    fn step(&mut self) -> Result<(), String> {
        let before = self.outputs;
        self.answer_memory(&before);
        self.withdraw();
        self.inputs.now += 1;
        self.circuit.cycle(&self.inputs, &mut self.outputs);
        self.counts.cycles += 1;
        if self.inputs.mem_ack && !self.inputs.mem_err && before.mem_op != 0 {
            // The memory is written with the edge.
            self.ram.store(before.mem_addr, self.outputs.mem_value);
        }
        for hart in 0..self.harts() {
            self.inputs.harts[hart].hip_clear = 0;
            self.inputs.harts[hart].reset = false;
        }
        let ended = before.job_end.then_some(usize::from(before.job_hart));
        for hart in 0..self.harts() {
            if self.outputs.harts[hart].rsp_valid {
                let ends = (ended == Some(hart)).then_some(before.job_post);
                self.answered(hart, ends)?;
            } else if let Some(current) = self.ports[hart].current {
                if self.counts.cycles - current.since > MOST_CYCLES {
                    return Err(format!("hart {hart} waits for ever"));
                }
            }
        }
        if let Some(hart) = ended {
            self.end(hart, before.job_post.then_some(before.job_target))?;
        }
        if self.outputs.job_busy && !before.job_busy && !self.outputs.job_post {
            let hart = usize::from(self.outputs.job_hart);
            let current = self.ports[hart].current.as_mut();
            current
                .ok_or("the engine has an access that nobody made")?
                .begun = true;
        }
        self.check_timers()?;
        if !self.outputs.job_busy {
            self.check_quiet()?;
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

    fn withdraw(&mut self) {
        for hart in 0..self.harts() {
            let may = self.pace.withdraw != 0 && self.random.one_in(self.pace.withdraw.max(1));
            let current = self.ports[hart].current.as_mut();
            self.inputs.harts[hart].withdraw = may && current.is_some();
            if let Some(current) = current {
                current.withdrawn |= may;
            }
        }
    }

    /// The circuit answers the access of a hart; `ends`: a job of it ends at the same time, which
    /// is a post or not.
    fn answered(&mut self, hart: usize, ends: Option<bool>) -> Result<(), String> {
        let output = self.outputs.harts[hart];
        self.inputs.harts[hart].req_valid = false;
        let current = self.ports[hart].current.take();
        let current = current.ok_or(format!("hart {hart} is answered without an access"))?;
        let answer: Answer = match output.fault {
            0 => Ok(output.data),
            fault => Err(fault),
        };
        self.note(Event::Answers(hart, answer, output.retry));
        self.counts.accesses += 1;
        self.counts.retries += u64::from(output.retry);
        self.counts.faults += u64::from(answer.is_err());
        let taken = self.counts.cycles - current.since;
        self.counts.longest = self.counts.longest.max(taken);
        if output.retry && (!current.withdrawn || answer.is_err()) {
            return Err(format!(
                "hart {hart} gave its access up without having asked to"
            ));
        }
        let access = current.access;
        if current.begun {
            if self.ports[hart].early.is_some() {
                return Err(format!("the job before is not over on hart {hart}"));
            }
            let early = ends != Some(false);
            self.counts.early += u64::from(early);
            let terms = (early && output.settled).then_some(output.terms);
            self.ports[hart].early = Some(Early { terms });
        }
        if output.retry {
            return Ok(());
        }
        let synchronizes =
            access.csr == csr::HGENVSI && access.value() >> hgenvsi::OP_SHIFT == op::SYNC;
        if synchronizes && current.begun {
            let mut ports = self.ports.iter().zip(current.before);
            if ports.any(|(port, before)| port.posts_over < before) {
                return Err(format!("a SYNC of hart {hart} has not waited for a post"));
            }
        }
        if current.begun {
            let expected = self.mirror(hart, current, answer);
            return self.same_answer(hart, access, answer, expected);
        }
        if access.is_timer() {
            return self.answered_timer(hart, access, answer);
        }
        if access.sends() && answer.is_ok() {
            // The posts are jobs of their own.
            if !current.announced {
                self.expect_posts(hart, access);
            }
            // CSR-2: the writer sees its own post, unless it must not look yet.
            let own = self.model.slot(hart);
            let posts = &self.ports[hart].posts;
            let looks = output.settled && ends != Some(true);
            if looks && own.is_some_and(|own| posts.contains(&own)) {
                return Err(format!("hart {hart} goes on before it is posted to"));
            }
            return self.same_answer(hart, access, answer, Ok(0));
        }
        let expected = self.model.access(hart, access);
        self.same_answer(hart, access, answer, expected)
    }

    /// Notes the vharts that a guest's `sgenipi` names.
    fn expect_posts(&mut self, hart: usize, access: Access) {
        let Some((dom, _)) = self.model.slot(hart) else {
            return;
        };
        let value = access.value();
        let base = (value & sgenipi::BASE) >> sgenipi::BASE_SHIFT;
        let named = (0..32).filter(|i| value >> i & 1 != 0).map(|i| base + i);
        let named = named.filter(|&n| n <= 0xffff).map(|n| (dom, n as u16));
        let port = &mut self.ports[hart];
        port.posts.extend(named);
        port.posts_named = port.posts_over + port.posts.len() as u64;
    }

    /// The engine has ended a job of `hart`; `post`: its target.
    fn end(&mut self, hart: usize, post: Option<u32>) -> Result<(), String> {
        self.note(Event::Ends(hart, post));
        if let Some(target) = post {
            self.end_post(hart, target)?;
        } else {
            let early = self.ports[hart].early.take();
            let early = early.ok_or(format!("a job of hart {hart} ends that is not answered"))?;
            if early
                .terms
                .is_some_and(|t| t != self.model.seen[hart].terms)
            {
                return Err(format!("vsip of hart {hart} was not settled"));
            }
        }
        let mut other = self.model.memory.words();
        self.loose |= self.ram.failed != other.failed;
        self.ram.failed = false;
        other.failed = false;
        let written = std::mem::take(&mut self.ram.written);
        let written = written
            .into_iter()
            .chain(std::mem::take(&mut other.written));
        for addr in written {
            if self.ram.get(addr) != other.get(addr) {
                return Err(difference(addr, &self.ram, &other));
            }
        }
        drop(other);
        self.same_sight()
    }

    /// The model does what the circuit has answered.
    fn mirror(&mut self, hart: usize, current: InFlight, answer: Answer) -> Answer {
        let access = current.access;
        let swap = matches!(access.op, CsrOp::Swap(_));
        if access.csr == csr::VSCLAIM && swap && current.withdrawn && answer == Ok(0) {
            // A claim that finds nothing leaves vsip.SEIP at 0. This one has been given up, and
            // could not be made again, because something has been completed (EXT-11).
            let op = CsrOp::Write(access.value());
            let answer = self.model.access(hart, Access { op, ..access });
            if self.outputs.harts[hart].terms & 2 != 0 {
                return answer;
            }
            let op = CsrOp::Read;
            return self.model.access(hart, Access { op, ..access });
        }
        let answer = self.model.access(hart, access);
        self.counts.claims +=
            u64::from(access.csr == csr::VSCLAIM && answer.is_ok_and(|source| source != 0));
        self.counts.notifications +=
            u64::from(access.csr == csr::HNOTIFY && answer.is_ok_and(|value| value >> 63 != 0));
        answer
    }

    fn end_post(&mut self, hart: usize, target: u32) -> Result<(), String> {
        self.counts.posts += 1;
        let (dom, vhart) = ((target >> 16) as u16, target as u16);
        let find = |port: &Port| port.posts.iter().position(|&post| post == (dom, vhart));
        let mut at = find(&self.ports[hart]);
        if at.is_none() {
            // The writer's own vhart may be posted to before the instruction is answered.
            let current = self.ports[hart].current.as_mut();
            if let Some(current) = current.filter(|c| c.access.sends() && !c.announced) {
                current.announced = true;
                let access = current.access;
                self.expect_posts(hart, access);
                at = find(&self.ports[hart]);
            }
        }
        let at = at.ok_or(format!("hart {hart} posts to vhart {vhart} of {dom}"))?;
        self.ports[hart].posts.remove(at);
        self.ports[hart].posts_over += 1;
        let value =
            op::SOFT << hgenvsi::OP_SHIFT | u64::from(dom) << hgenvsi::DOM_SHIFT | u64::from(vhart);
        let _ = self.model.access(hart, Access::hs(csr::HGENVSI, value));
        Ok(())
    }

    fn answered_timer(
        &mut self,
        hart: usize,
        access: Access,
        answer: Answer,
    ) -> Result<(), String> {
        let host = access.csr == STIMECMP && !matches!(access.mode, Mode::VS | Mode::VU);
        let cell = &mut self.ports[hart].stimecmp[usize::from(host)];
        let old = *cell;
        *cell = access.op.written(old).unwrap_or(old);
        self.same_answer(hart, access, answer, Ok(old))
    }

    fn check_timers(&self) -> Result<(), String> {
        for (hart, port) in self.ports.iter().enumerate() {
            let output = &self.outputs.harts[hart];
            let [guest, host] = port.stimecmp;
            let delta = self.inputs.harts[hart].delta;
            let expired = self.inputs.now.wrapping_add(delta) >= guest;
            if output.vstip != expired || output.stip != (self.inputs.now >= host) {
                return Err(format!("the timers of hart {hart} differ"));
            }
        }
        Ok(())
    }

    /// Between jobs.
    fn check_quiet(&mut self) -> Result<(), String> {
        for (hart, port) in self.ports.iter_mut().enumerate() {
            let output = &self.outputs.harts[hart];
            self.model.seen[hart].ipi &= !output.ipi;
            if output.posting || port.current.is_some() || output.rsp_valid {
                continue;
            }
            if !output.settled {
                return Err(format!("vsip of hart {hart} never settles"));
            }
            if !port.posts.is_empty() {
                return Err(format!("an sgenipi of hart {hart} has not posted to all"));
            }
        }
        Ok(())
    }

    fn same_answer(
        &mut self,
        hart: usize,
        access: Access,
        circuit: Answer,
        model: Answer,
    ) -> Result<(), String> {
        let flt = trapless_isa::xtrapless::htlcfg::FLT;
        // A job that is still under way may have failed, and not say so yet.
        let failing = self.ports[hart].early.is_some();
        let mask = if (self.loose || failing) && access.csr == csr::HTLCFG {
            !flt
        } else {
            !0
        };
        let same = match (circuit, model) {
            (Ok(a), Ok(b)) => a & mask == b & mask,
            (a, b) => a == b,
        };
        if same {
            return Ok(());
        }
        Err(format!(
            "hart {hart}, {access}: the circuit answers {}, the model {}",
            Shown(circuit),
            Shown(model)
        ))
    }

    fn same_sight(&self) -> Result<(), String> {
        for (hart, seen) in self.model.seen.iter().enumerate() {
            let output = &self.outputs.harts[hart];
            let pairs = [
                ("vsip", output.terms, seen.terms),
                ("hip", output.latches, seen.latches),
                ("interrupt 24", output.notify.into(), seen.notify.into()),
                ("EN", output.split.into(), seen.split.into()),
                ("the IPI", output.ipi.into(), seen.ipi.into()),
            ];
            for (name, circuit, model) in pairs {
                if circuit != model {
                    return Err(format!(
                        "{name} of hart {hart} is {circuit} in the circuit, {model} in the model"
                    ));
                }
            }
        }
        Ok(())
    }

    /// All of memory is the same.
    ///
    /// # Errors
    /// The first word that is not.
    pub fn same_memory(&self) -> Result<(), String> {
        let other = self.model.memory.words();
        match self.ram.differs(&other) {
            None => Ok(()),
            Some(addr) => Err(self.report(&difference(addr, &self.ram, &other))),
        }
    }

    fn note(&mut self, event: Event) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(event);
    }

    fn report(&self, difference: &str) -> String {
        let mut text = String::from("what happened last:\n");
        for event in &self.history {
            let line = match *event {
                Event::Begins(hart, access) => format!("hart {hart}: {access}"),
                Event::Answers(hart, _, true) => format!("hart {hart}: gives up"),
                Event::Answers(hart, answer, false) => format!("hart {hart}: {}", Shown(answer)),
                Event::Ends(hart, None) => format!("hart {hart}: its job is over"),
                Event::Ends(hart, Some(target)) => {
                    format!(
                        "hart {hart}: posted to {} of {}",
                        target & 0xffff,
                        target >> 16
                    )
                }
                Event::Mode(hart, v) => format!("hart {hart}: V={}", u8::from(v)),
                Event::Reset(hart) => format!("hart {hart}: reset"),
                Event::Host(addr, value) => format!("host: {addr:#x} becomes {value:#x}"),
            };
            text += &format!("  {line}\n");
        }
        for addr in self.ram.damaged() {
            text += &format!("  {addr:x?}\n");
        }
        let Counts {
            accesses, cycles, ..
        } = self.counts;
        text + &format!("after {accesses} accesses, in cycle {cycles}: {difference}")
    }
}

fn difference(addr: u64, ram: &Words, other: &Words) -> String {
    format!(
        "{addr:#x} is {:#x} in the circuit's memory, {:#x} in the model's",
        ram.get(addr),
        other.get(addr)
    )
}

struct Shown(Answer);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Ok(value) => write!(f, "{value:#x}"),
            Err(1) => f.write_str("illegal instruction"),
            Err(_) => f.write_str("virtual instruction"),
        }
    }
}
