//! Runs a program by both engines and compares everything that can be seen.

use trapless_hart::{Observer, Snapshot};

use super::program::Program;
use super::tables::RAM;
use super::world::{Distrust, Stops, World};

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
        match program.stops {
            // A block that is stopped in is looked up again, and may have been overwritten: both
            // are stopped. Every third slice only, so that stops are followed by compiled code.
            Some(every) if slice % 3 == 0 => {
                left.run(*until, Some(&mut Stops { every, left: every }));
                right.run(*until, Some(&mut Stops { every, left: every }));
            }
            // Every other one is watched, which must not change it, and decodes all it may have to.
            _ => {
                let mut distrust = Distrust(left.ram.clone());
                let watched = program.seed % 2 == 0;
                left.run(
                    *until,
                    watched.then_some(&mut distrust as &mut dyn Observer),
                );
                right.run(*until, None);
            }
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
        if !values.is_empty() {
            return Some(Difference { slice, values });
        }
    }
    None
}
