//! Makes a program on which the engines differ small enough to read, and prints it.

use std::collections::VecDeque;
use std::fmt::Write;

use trapless_hart::{CodeLimits, Hart, Observer, Tiers};
use trapless_isa::csr;
use trapless_isa::decode::decode;
use trapless_isa::disasm::{disasm, f_name, x_name};
use trapless_isa::inst::Inst;

use super::check::{Difference, check};
use super::code::Slot;
use super::program::Program;
use super::world::World;

/// Instructions shown of the run's end.
const TRACE: usize = 24;

fn nop(len: u8) -> u32 {
    if len == 2 { 0x0001 } else { 0x0000_0013 }
}

fn left_out(slot: &Slot) -> bool {
    slot.word == nop(slot.len)
}

/// Takes `change` over if the engines still differ after it.
fn attempt(program: &mut Program, change: impl FnOnce(&mut Program)) -> bool {
    let mut smaller = program.clone();
    change(&mut smaller);
    let differs = check(&smaller).is_some();
    if differs {
        *program = smaller;
    }
    differs
}

fn shrink(program: &mut Program) {
    attempt(program, |p| p.harts.truncate(1));
    attempt(program, |p| p.tiers = Tiers::EAGER);
    attempt(program, |p| p.limits = CodeLimits::default());
    attempt(program, |p| p.stops = None);
    attempt(program, |p| p.spaces = [0, 0]);
    if let Some(difference) = check(program) {
        program.slices.truncate(difference.slice + 1);
    }
    while program.slices.len() > 1
        && attempt(program, |p| {
            let _ = p.slices.remove(0);
        })
    {}
    let mut chunk = program.slots.len().next_power_of_two();
    while chunk > 0 {
        for from in (0..program.slots.len()).step_by(chunk) {
            let to = (from + chunk).min(program.slots.len());
            if program.slots[from..to].iter().all(left_out) {
                continue;
            }
            attempt(program, |p| {
                p.slots[from..to]
                    .iter_mut()
                    .for_each(|s| s.word = nop(s.len));
            });
        }
        chunk /= 2;
    }
    for index in (0..program.csrs.len()).rev() {
        attempt(program, |p| {
            let _ = p.csrs.remove(index);
        });
    }
    for hart in 0..program.harts.len() {
        for i in 0..32 {
            if program.harts[hart].x[i] != 0 {
                attempt(program, |p| p.harts[hart].x[i] = 0);
            }
            if program.harts[hart].f[i] != 0 {
                attempt(program, |p| p.harts[hart].f[i] = 0);
            }
        }
    }
    // The earliest end that shows it.
    if let [end] = program.slices[..] {
        let mut step = end / 2;
        while step > 0 {
            while program.slices[0] > step && attempt(program, |p| p.slices[0] -= step) {}
            step /= 2;
        }
    }
}

/// The last instructions.
#[derive(Default)]
struct Trace(VecDeque<String>);

impl Observer for Trace {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        if self.0.len() == TRACE {
            self.0.pop_front();
        }
        let (id, mode) = (hart.id(), hart.mode());
        let text = disasm(*inst, pc);
        self.0
            .push_back(format!("hart {id} {mode:?} {pc:#x}: {text}"));
        true
    }
}

/// A text about a program on which the engines differ.
///
/// # Panics
/// If they do not.
pub fn report(program: &Program) -> String {
    let mut small = program.clone();
    shrink(&mut small);
    let Difference { slice, values } = check(&small).expect("shrinking keeps the difference");
    let mut text = format!(
        "engines differ: seed {}, starts in {:?}, {:?}, stopped by an observer every \
         {:?} instructions, slices {:?}, {slice} passed\n",
        small.seed, small.mode, small.tiers, small.stops, small.slices
    );
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:24} {:>20} {:>20}", "", "interpreted", "compiled");
    for (name, a, b) in &values {
        let _ = writeln!(text, "{name:24} {a:>20} {b:>20}");
    }
    let _ = writeln!(text, "{:?}", small.config);
    for (address, value) in &small.csrs {
        let _ = writeln!(text, "{} = {value:#x}", csr::name(*address));
    }
    for (id, start) in small.harts.iter().enumerate() {
        let values = (start.x.iter().enumerate())
            .map(|(i, value)| (x_name(i as u8), value))
            .chain((start.f.iter().enumerate()).map(|(i, value)| (f_name(i as u8), value)));
        for (name, value) in values.filter(|(_, value)| **value != 0) {
            let _ = writeln!(text, "hart {id} {name} = {value:#x}");
        }
    }
    text.push_str("code by physical address, without instructions that do not matter:\n");
    for slot in small.slots.iter().filter(|slot| !left_out(slot)) {
        let inst = disasm(decode(slot.word), slot.at);
        let _ = writeln!(text, "{:#x}: {:08x} {inst}", slot.at, slot.word);
    }
    text.push_str("end of the interpreted run:\n");
    let mut world = World::new(&small, false);
    let mut trace = Trace::default();
    for until in &small.slices {
        world.run(*until, Some(&mut trace));
    }
    for line in trace.0 {
        let _ = writeln!(text, "{line}");
    }
    text
}
