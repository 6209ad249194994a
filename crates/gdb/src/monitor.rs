//! gdb's `monitor` commands.

use trapless_machine::{History, Machine};

use crate::harts::describe;
use crate::interrupts;

const HELP: &str = "\
monitor harts        what each hart is doing
monitor interrupts   what is pending and enabled in harts and interrupt controllers; with a number:
                     of this hart; with `all`: everything they know
monitor symbols      contents of the last file of symbols that gdb fetched, or why there is none
monitor time         virtual time in cycles, and instructions executed
monitor history      how far back reverse-continue can go
monitor phys on|off  let addresses of memory commands be physical, or virtual as the current
                     thread's hart translates them (the default); breakpoints are always virtual
monitor help         this text
";

/// Extent of a machine's history.
fn history(history: &History, machine: &Machine) -> String {
    let Some(beginning) = history.beginning() else {
        return match machine.obstacle() {
            Some(obstacle) => format!("the machine cannot execute backwards: {obstacle}\n"),
            None => {
                "there is no history: it begins when the machine runs; --gdb-history 0 has none\n"
                    .into()
            }
        };
    };
    let present = match history.present() {
        Some(present) => format!(
            "this is the past, the present is at {} cycles",
            present.round()
        ),
        None => "this is the present".into(),
    };
    format!(
        "from {} cycles on, in {} snapshots of {} MiB; {} cycles, {present}\n",
        beginning.round(),
        history.snapshots(),
        history.size() >> 20,
        machine.now()
    )
}

/// Executes `command`, which may change whether memory addresses are `physical`; the answer ends
/// with a newline.
pub fn command(command: &str, machine: &Machine, past: &History, physical: &mut bool) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        [] | ["help"] => HELP.into(),
        ["harts"] => machine
            .harts()
            .iter()
            .map(|hart| format!("{}, pc {:#x}\n", describe(hart), hart.pc()))
            .collect(),
        ["interrupts", words @ ..] => interrupts::answer(words, machine),
        ["time"] => format!(
            "{} cycles, {} instructions\n",
            machine.now(),
            machine.instret()
        ),
        ["history"] => history(past, machine),
        ["phys", "on"] => {
            *physical = true;
            "memory addresses are physical\n".into()
        }
        ["phys", "off"] => {
            *physical = false;
            "memory addresses are virtual\n".into()
        }
        ["phys"] => format!(
            "memory addresses are {}\n",
            if *physical { "physical" } else { "virtual" }
        ),
        _ => format!("there is no monitor command \"{command}\"\n{HELP}"),
    }
}
