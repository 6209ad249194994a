//! A random program with everything it runs in.

use std::collections::BTreeMap;

use trapless_hart::{CodeLimits, CostModel, HartConfig, Tiers};
use trapless_isa::Mode;

use super::code::{Slot, code};
use super::handler::handler;
use super::instruction::Style;
use super::rng::Rng;
use super::space::space;
use super::start::{Start, csrs, start};
use super::tables::{CODE, HANDLER, Tables};
use super::user;

/// A random program: its code, page tables, registers and hart configuration.
#[derive(Clone)]
pub struct Program {
    pub seed: u64,
    /// Mode in which it starts.
    pub mode: Mode,
    pub config: HartConfig,
    /// When it is compiled.
    pub tiers: Tiers,
    /// Of the code cache: sometimes so small that it is dropped all the time.
    pub limits: CodeLimits,
    /// In order of addresses, instructions that have been left out included.
    pub slots: Vec<Slot>,
    /// Where execution begins, and continues after faults that leave nowhere to go: virtual
    /// addresses.
    pub entries: [u64; 8],
    /// Page tables and the handler: words by physical address.
    pub words: BTreeMap<u64, u64>,
    /// Set before the start, in this order.
    pub csrs: Vec<(u16, u64)>,
    pub harts: Vec<Start>,
    /// The device's answers and the contents of memory.
    pub noise: u64,
    /// Cycles between two timer interrupts.
    pub step: u64,
    /// What the handler adds to `satp` and to `vsatp` at each new entry.
    pub spaces: [u64; 2],
    /// Runs are stopped after so many instructions, again and again, by an observer.
    pub stops: Option<u64>,
    /// Times at which the engines are compared, ascending.
    pub slices: Vec<u64>,
}

impl Program {
    /// The program of a seed.
    pub fn new(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let mut tables = Tables::new();
        let space = space(rng, &mut tables);
        let mut style = Style::new(rng);
        style.root = 1 + rng.below(31) as u8;
        let (slots, starts) = code(rng, &mut style);
        let to_virtual = |pa: u64| pa.wrapping_sub(CODE).wrapping_add(space.code);
        let entries = std::array::from_fn(|_| to_virtual(rng.pick(&starts)));
        let harts = (0..1 + u64::from(rng.chance(25)))
            .map(|_| start(rng, &style, &space, &slots, &starts))
            .collect();
        let mut words = tables.words;
        words.extend(handler());
        let price = |rng: &mut Rng| 1 + rng.below(9) as u32;
        let cost = CostModel {
            simple: price(rng),
            mul: price(rng),
            div: price(rng),
            fp: price(rng),
            fp_div: price(rng),
            load: price(rng),
            store: price(rng),
            amo: price(rng),
            branch: price(rng),
            jump: price(rng),
            csr: price(rng),
            system: price(rng),
            fence: price(rng),
            cbo: price(rng),
            trap: price(rng),
            xret: price(rng),
            walk_step: price(rng),
            device: price(rng),
        };
        let config = HartConfig {
            misaligned: rng.chance(70),
            cycles_per_tick: rng.pick(&[1, 1, 10, 100]),
            cost,
            reset_pc: HANDLER + 0x400,
            ..HartConfig::default()
        };
        let mut time = 0;
        let slices = (0..1 + rng.below(8)).map(|_| {
            time += 1 + rng.below(4000);
            time
        });
        let slices = turns(seed, slices.collect());
        let mut program = Self {
            seed,
            mode: space.mode,
            config,
            tiers: Tiers {
                hot: rng.pick(&[0, 0, 0, 0, 1, 3]),
                region: region(seed),
            },
            limits: limits(seed),
            slots,
            entries,
            words,
            csrs: csrs(rng, &space, &entries),
            harts,
            noise: rng.next(),
            step: 20 + rng.below(3000),
            spaces: match rng.below(3) {
                0 if space.mode.v() && space.paged => [0, 1 << 44],
                0 if !space.mode.v() && space.data_paged => [1 << 44, 0],
                _ => [0, 0],
            },
            stops: rng.chance(8).then(|| 1 + rng.below(50)),
            slices,
        };
        if space.mode.v() && user::wanted(seed) {
            program.config.extensions.xuer = true;
            user::add(
                seed,
                &mut program.words,
                &mut program.csrs,
                &program.entries,
            );
        }
        program
    }
}

/// Of some programs, slices in many short turns, as those of a machine with many harts.
fn turns(seed: u64, slices: Vec<u64>) -> Vec<u64> {
    let rng = &mut Rng::new(seed ^ 0x0054_5552_4E53);
    if !rng.chance(30) {
        return slices;
    }
    let end = slices.last().copied().unwrap_or_default();
    let next = |time: &u64| Some(time + 1 + rng.below(150));
    let turns = std::iter::successors(Some(1), next);
    turns.take_while(|time| *time <= end).collect()
}

/// When loops of the program of a seed become regions.
fn region(seed: u64) -> Option<u64> {
    let rng = &mut Rng::new(seed ^ 1 << 63);
    rng.pick(&[Some(0), Some(0), Some(1), Some(200), None])
}

fn limits(seed: u64) -> CodeLimits {
    // Numbers of its own: a seed has the program it had before there were limits.
    let rng = &mut Rng::new(!seed);
    let mut limits = CodeLimits::default();
    match rng.below(8) {
        0 => limits.instructions = rng.below(500) as usize,
        1 => limits.compiled = 0,
        _ => {}
    }
    limits
}
