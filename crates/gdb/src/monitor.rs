//! gdb's `monitor` commands.

use trapless_hart::Hart;
use trapless_machine::Machine;

const HELP: &str = "\
monitor harts        what each hart is doing
monitor time         virtual time in cycles, and instructions executed
monitor phys on|off  let addresses of memory commands be physical, or virtual as the current
                     thread's hart translates them (the default); breakpoints are always virtual
monitor help         this text
";

/// One line about a hart.
pub fn describe(hart: &Hart) -> String {
    let wait = if hart.waiting() { ", waits in wfi" } else { "" };
    format!("hart {} {}-mode{wait}", hart.id(), hart.mode())
}

/// Executes `command`, which may change whether memory addresses are `physical`; the answer ends
/// with a newline.
pub fn command(command: &str, machine: &Machine, physical: &mut bool) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        [] | ["help"] => HELP.into(),
        ["harts"] => machine
            .harts()
            .iter()
            .map(|hart| format!("{}, pc {:#x}\n", describe(hart), hart.pc()))
            .collect(),
        ["time"] => format!(
            "{} cycles, {} instructions\n",
            machine.now(),
            machine.instret()
        ),
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
