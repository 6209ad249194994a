//! Runs a program by both engines and compares everything that can be seen.

use trapless_hart::{Observer, Snapshot};

use super::program::Program;
use super::tables::{CODE, CODE_PAGES, HANDLER, PAGE, RAM};
use super::world::{Distrust, Stops, World};

/// The words of memory that are code.
fn code(world: &World) -> Vec<u64> {
    let memory = world.memory();
    let words = |from: u64, pages: u64| {
        let first = ((from - RAM) / 8) as usize;
        &memory[first..first + (pages * PAGE / 8) as usize]
    };
    [words(HANDLER, 1), words(CODE, CODE_PAGES)].concat()
}

/// What differs, interpreted and compiled.
pub struct Difference {
    /// Slice after which it shows.
    pub slice: usize,
    /// Name and both values.
    pub values: Vec<(String, String, String)>,
}

/// The first difference between the engines, if there is one.
pub fn check(program: &Program) -> Option<Difference> {
    let mut worlds = [World::new(program, false), World::new(program, true)];
    let (mut a, mut b) = (Snapshot::default(), Snapshot::default());
    for (slice, until) in program.slices.iter().enumerate() {
        let [left, right] = &mut worlds;
        // Every other one is watched, which must not change it, and decodes all it may have to.
        let mut distrust = Distrust(left.ram.clone());
        let watched = program.seed % 2 == 0;
        left.run(
            *until,
            watched.then_some(&mut distrust as &mut dyn Observer),
        );
        match program.stops {
            // Every third slice is watched, so that stops are followed by compiled code.
            Some(every) if slice % 3 == 0 => {
                right.run(*until, Some(&mut Stops { every, left: every }));
            }
            _ => right.run(*until, None),
        }
        let mut values = Vec::new();
        for (left, right) in worlds[0].harts.iter().zip(&worlds[1].harts) {
            a.take(left);
            b.take(right);
            values.extend(a.differences(&b).into_iter().map(|(name, a, b)| {
                let name = format!("hart {} {name}", left.id());
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
        // A run that is stopped inside a block goes on with what memory holds then.
        if program.stops.is_some() && code(left) != code(&World::new(program, false)) {
            return None;
        }
        if !values.is_empty() {
            return Some(Difference { slice, values });
        }
    }
    None
}
