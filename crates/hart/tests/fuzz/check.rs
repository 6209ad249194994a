//! Runs a program by both engines and compares everything that can be seen.

use trapless_hart::{Hart, Observer};
use trapless_isa::csr;
use trapless_isa::disasm::{f_name, x_name};

use super::program::Program;
use super::tables::RAM;
use super::world::{Distrust, World};

/// What differs, interpreted and compiled.
pub struct Difference {
    /// Slice after which it shows.
    pub slice: usize,
    /// Name and both values.
    pub values: Vec<(String, String, String)>,
}

/// CSRs that are compared: all that a hart has, but for unused counters.
fn csrs() -> impl Iterator<Item = u16> {
    let named = csr::NAMES.iter().map(|(address, _)| *address);
    let pmp = (0..8).flat_map(|i| [csr::PMPCFG0 + 2 * (i / 4), csr::PMPADDR0 + i]);
    let counters = (0..4).flat_map(|i| [csr::MHPMCOUNTER3 + i, csr::MHPMEVENT3 + i]);
    named.chain(pmp).chain(counters)
}

fn state(hart: &Hart, values: &mut Vec<u64>) {
    values.clear();
    values.extend((0..32).map(|i| hart.x(i)));
    values.extend((0..32).map(|i| hart.f(i)));
    values.extend([
        hart.pc(),
        hart.now(),
        hart.instret(),
        hart.mode() as u64,
        hart.waiting().into(),
        hart.wake_time(),
    ]);
    values.extend(csrs().map(|address| hart.peek_csr_as_m(address).unwrap_or_default()));
}

fn name(index: usize) -> String {
    match index {
        0..32 => x_name(index as u8).into(),
        32..64 => f_name((index - 32) as u8).into(),
        64 => "pc".into(),
        65 => "cycles".into(),
        66 => "instret".into(),
        67 => "mode".into(),
        68 => "waiting".into(),
        69 => "wake time".into(),
        _ => csrs().nth(index - 70).map(csr::name).unwrap_or_default(),
    }
}

/// The first difference between the engines, if there is one.
pub fn check(program: &Program) -> Option<Difference> {
    let mut worlds = [World::new(program, false), World::new(program, true)];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for (slice, until) in program.slices.iter().enumerate() {
        let [left, right] = &mut worlds;
        // Every other one is watched, which must not change it, and decodes all it may have to.
        let mut distrust = Distrust(left.ram.clone());
        let watched = program.seed % 2 == 0;
        left.run(
            *until,
            watched.then_some(&mut distrust as &mut dyn Observer),
        );
        right.run(*until, None);
        let mut values = Vec::new();
        for (left, right) in worlds[0].harts.iter().zip(&worlds[1].harts) {
            state(left, &mut a);
            state(right, &mut b);
            let pairs = a.iter().zip(&b).enumerate().filter(|(_, (a, b))| a != b);
            values.extend(pairs.map(|(i, (a, b))| {
                let name = format!("hart {} {}", left.id(), name(i));
                (name, format!("{a:#x}"), format!("{b:#x}"))
            }));
        }
        let [left, right] = &worlds;
        if left.device.log != right.device.log {
            let mut lines = left.device.log.lines().zip(right.device.log.lines());
            let pair = lines.find(|(a, b)| a != b);
            let (a, b) = pair.unwrap_or(("(one has more)", "(one has more)"));
            values.push(("event".into(), a.into(), b.into()));
        }
        let last = slice + 1 == program.slices.len();
        if last || !values.is_empty() {
            let (left, right) = (left.memory(), right.memory());
            let words = left.iter().zip(&right).enumerate();
            values.extend(
                words
                    .filter(|(_, (a, b))| a != b)
                    .take(8)
                    .map(|(i, (a, b))| {
                        let name = format!("memory at {:#x}", RAM + 8 * i as u64);
                        (name, format!("{a:#x}"), format!("{b:#x}"))
                    }),
            );
        }
        if !values.is_empty() {
            return Some(Difference { slice, values });
        }
    }
    None
}
