//! A hostile host and hostile guests: CSR accesses, doorbells and user contexts of Xvei and Xhcs
//! from every mode, with event tables, doorbell pages, shadows, contexts and save areas of any
//! content in memory.
//!
//! The input is a list of steps. Memory begins with tables that are right; some steps spoil them.

#![no_main]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_intc::aclint_plic::{self, AclintPlic};
use trapless_intc::vei::Vei;
use trapless_intc::{
    ContextAccess, CsrAccess, CsrOp, DoorbellAccess, Effects, Exchanged, InterruptArchitecture,
    Memory, Snapshot, StepKind,
};
use trapless_isa::Mode;
use trapless_isa::haiov::{bell, context, csr, event, hucsave, hveiq, hveitab, limits};

const RAM: u64 = 0x8000_0000;
const WORDS: usize = 0x1000;
const HARTS: usize = 2;
const TABLE: u64 = RAM;
const PAGE: u64 = RAM + 0x1000;
const SHADOW: u64 = RAM + 0x2000;
const CONTEXTS: u64 = RAM + 0x3000;
const SAVES: u64 = RAM + 0x3800;
const QUEUES: u64 = RAM + 0x4000;

/// All doorbells of a page with their values, and what a post touches; or what a handler exchanges.
const MOST_ACCESSES: u64 = 2 * limits::MAX_DOORBELLS + 16;

const MODES: [Mode; 5] = [Mode::M, Mode::HS, Mode::U, Mode::VS, Mode::VU];
const CSRS: [u16; 11] = [
    csr::SGENVEI,
    csr::HVEITAB,
    csr::HVEIQ,
    csr::HVEICLAIM,
    csr::HGENVEI,
    csr::SUATP,
    csr::SUSCRATCH,
    csr::HUCSAVE,
    csr::HUCONTEXT,
    csr::HUCSHARE,
    csr::HUEDELEG,
];

/// RAM that counts its accesses.
#[derive(Clone)]
struct Ram(Arc<[AtomicU64]>, Arc<AtomicU64>);

impl Ram {
    fn word(&self, addr: u64) -> Option<&AtomicU64> {
        assert_eq!(addr % 8, 0, "accesses are aligned");
        self.1.fetch_add(1, Relaxed);
        self.0.get((addr.checked_sub(RAM)? / 8) as usize)
    }

    fn set(&self, addr: u64, value: u64) {
        if let Some(word) = self.word(addr) {
            word.store(value, Relaxed);
        }
    }
}

impl Memory for Ram {
    fn load(&self, _hart: usize, addr: u64) -> Option<u64> {
        Some(self.word(addr)?.load(Relaxed))
    }

    fn store(&self, _hart: usize, addr: u64, value: u64) -> Option<()> {
        self.word(addr)?.store(value, Relaxed);
        Some(())
    }
}

/// `hveiq` of a hart: four entries.
fn queue(hart: usize) -> u64 {
    hveiq::EN | (QUEUES + hart as u64 * 0x1000) | 2
}

fn machine(ram: &Ram) -> Vei<AclintPlic> {
    let inner = AclintPlic::new(aclint_plic::Config {
        harts: HARTS,
        cycles_per_tick: 100,
        sswi: false,
        edge_triggered: 0,
    });
    let mut intc = Vei::new(inner, HARTS, true);
    intc.attach_memory(Arc::new(ram.clone()));
    intc
}

struct World {
    intc: Vei<AclintPlic>,
    effects: Effects,
    ram: Ram,
    /// Events in the queue of each hart, as steps tell.
    queued: [u64; HARTS],
}

impl World {
    fn new() -> Self {
        let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let ram = Ram(words, Arc::default());
        for n in 0..64 {
            let to = (n % HARTS as u64) << event::CTL_HART_SHIFT;
            let ctl = event::CTL_V | to | n << event::CTL_ID_SHIFT;
            ram.set(TABLE + n * event::SIZE, ctl);
        }
        let count = 8 << bell::HEADER_COUNT_SHIFT;
        ram.set(PAGE, bell::HEADER_V | count);
        ram.set(PAGE + bell::SHADOW, bell::SHADOW_V | SHADOW);
        ram.set(PAGE + bell::LOADS, 0x5555);
        for n in 0..8 {
            let what = [bell::MATCH_POST, bell::MATCH_CLEAR, bell::MATCH_DATA][n as usize % 3];
            let place = (n * 4) << bell::MATCH_OFFSET_SHIFT | n << bell::MATCH_REQUEST_SHIFT;
            let at = PAGE + bell::MATCH + n * bell::MATCH_STRIDE;
            let width = 2 << bell::MATCH_WIDTH_SHIFT;
            ram.set(at, bell::MATCH_V | bell::MATCH_POST | what | width | place);
        }
        // Every fourth event is for one of two user contexts.
        for n in (0..64).step_by(4) {
            let kind = 1 << event::CTL_KIND_SHIFT | n << event::CTL_VECTOR_SHIFT;
            ram.set(TABLE + n * event::SIZE, event::CTL_V | kind);
            let target = CONTEXTS + n / 4 % 2 * context::SIZE;
            ram.set(TABLE + n * event::SIZE + event::TARGET, target);
        }
        for n in 0..2 {
            let hart = n << context::CTL_HART_SHIFT;
            ram.set(CONTEXTS + n * context::SIZE, context::CTL_V | hart);
        }
        let mut effects = Effects::default();
        effects.steps.record();
        let mut world = Self {
            intc: machine(&ram),
            effects,
            ram,
            queued: [0; HARTS],
        };
        for hart in 0..HARTS {
            world.csr(
                hart,
                csr::HVEITAB,
                Mode::HS,
                CsrOp::Write(hveitab::V | TABLE | 6),
            );
            world.csr(hart, csr::HVEIQ, Mode::HS, CsrOp::Write(queue(hart)));
            let area = SAVES + hart as u64 * 0x200;
            let save = CsrOp::Write(hucsave::V | area);
            world.csr(hart, csr::HUCSAVE, Mode::HS, save);
        }
        world
    }

    fn csr(&mut self, hart: usize, csr: u16, mode: Mode, op: CsrOp) {
        let access = CsrAccess {
            hart,
            csr,
            mode,
            vmid: 0,
            now: 0,
            op,
        };
        self.ram.1.store(0, Relaxed);
        let result = self.intc.csr(&access, &mut self.effects);
        let may = match csr {
            csr::SGENVEI => mode == Mode::VS,
            csr::HUEDELEG => false,
            _ => matches!(mode, Mode::M | Mode::HS),
        };
        assert!(may || result.is_err(), "{csr:#x} from {mode}");
        // A new ring is an empty one; a closed one can still be emptied.
        let opened = matches!(op, CsrOp::Write(value) if value & hveiq::EN != 0);
        if csr == csr::HVEIQ && opened && result.is_ok() {
            self.queued[hart] = 0;
        }
        self.look();
    }

    fn doorbell(&mut self, access: &DoorbellAccess) {
        self.ram.1.store(0, Relaxed);
        let before: Vec<_> = self.ram.0.iter().map(|w| w.load(Relaxed)).collect();
        let result = self.intc.doorbell(access, &mut self.effects);
        if let (Ok(value), None) = (result, access.stored) {
            assert!(value <= u64::MAX >> (64 - 8 * u32::from(access.size)));
        }
        if result.is_err() {
            let after: Vec<_> = self.ram.0.iter().map(|w| w.load(Relaxed)).collect();
            assert_eq!(before, after, "what is not answered changes nothing");
        }
        self.look();
    }

    /// A handler begins or ends.
    fn exchange(&mut self, hart: usize, enter: bool) {
        let access = ContextAccess {
            hart,
            mode: Mode::VS,
            now: 0,
        };
        let mut registers = Exchanged {
            pc: 1,
            x: [2; 32],
            ustatus: 3,
            utvec: 4,
            uscratch: 5,
            satp: 6,
            sscratch: 7,
        };
        self.ram.1.store(0, Relaxed);
        if enter {
            let due = self.intc.lines(hart, 0).context;
            let entered = self
                .intc
                .enter_context(&access, &mut registers, &mut self.effects);
            assert!(due || entered.is_none(), "nothing was due");
            assert!(entered.is_none() || registers.x == [0; 32], "the guest's");
            self.queued[hart] -= u64::from(due);
        } else {
            self.intc
                .leave_context(&access, &mut registers, &mut self.effects);
        }
        self.look();
    }

    /// After each access.
    fn look(&mut self) {
        assert!(self.ram.1.load(Relaxed) <= MOST_ACCESSES, "too much work");
        for step in self.effects.steps.drain() {
            match step.kind {
                StepKind::EventQueued { to, .. } => self.queued[to] += 1,
                StepKind::EventTaken { .. } => {
                    let left = self.queued[step.hart].checked_sub(1);
                    self.queued[step.hart] = left.expect("what is taken was queued");
                }
                _ => {}
            }
        }
        for (hart, queued) in self.queued.into_iter().enumerate() {
            let raised = self.intc.lines(hart, 0).level >> limits::VEI_IRQ & 1 != 0;
            assert!(raised || queued == 0, "an event without a notification");
        }
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let hart = input.int_in_range(0..=HARTS - 1)?;
        match input.int_in_range(0..=5u8)? {
            0 | 1 => {
                let (csr, mode) = (*input.choose(&CSRS)?, *input.choose(&MODES)?);
                let value = match input.int_in_range(0..=2u8)? {
                    0 => input.arbitrary()?,
                    1 => u64::from(input.arbitrary::<u8>()?),
                    _ => TABLE + u64::from(input.arbitrary::<u8>()?) * 8,
                };
                let op = *input.choose(&[
                    CsrOp::Read,
                    CsrOp::Write(value),
                    CsrOp::Swap(value),
                    CsrOp::Set(value),
                    CsrOp::Clear(value),
                ])?;
                // Rings stay where nothing else is written, each where it was.
                let op = match op {
                    CsrOp::Read => op,
                    _ if csr != csr::HVEIQ => op,
                    _ => CsrOp::Write(*input.choose(&[0, queue(hart)])?),
                };
                self.csr(hart, csr, mode, op);
            }
            2 | 3 => {
                let page =
                    *input.choose(&[PAGE, PAGE, PAGE, SHADOW, RAM + 0x7000, u64::MAX << 12])?;
                let stored = input.arbitrary::<Option<u64>>()?;
                self.doorbell(&DoorbellAccess {
                    hart,
                    mode: Mode::VS,
                    now: 0,
                    page,
                    offset: input.int_in_range(0..=0xfff)?,
                    size: *input.choose(&[1, 2, 4, 8])?,
                    stored,
                });
            }
            4 => self.exchange(hart, input.arbitrary()?),
            _ => {
                let word = input.int_in_range(0..=WORDS as u64 - 1)?;
                // What queues hold is the controller's.
                if RAM + word * 8 < QUEUES {
                    self.ram.set(RAM + word * 8, input.arbitrary()?);
                }
            }
        }
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut world = World::new();
    while !input.is_empty() {
        if world.step(&mut input).is_err() {
            break;
        }
    }
    let saved = world.intc.save();
    let mut other = machine(&world.ram);
    other.restore(&saved).expect("it comes from such a machine");
    assert_eq!(other.save(), saved);
});
