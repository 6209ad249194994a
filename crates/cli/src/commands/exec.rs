//! `trapless exec`: a bare-metal program from reset in M-mode.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use trapless_ledger::Ledger;
use trapless_machine::{Limits, Machine, Outcome, Peripherals};

use crate::args::ExecArgs;
use crate::console::{Recorder, SharedRecorder};
use crate::{files, interrupt, machine, observe};

/// Virtual time between two looks at Ctrl-C, in cycles.
const SLICE: u64 = 50_000_000;

/// Runs the program; the exit status is its own.
pub fn main(args: &ExecArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    let config = machine::config(
        &args.machine,
        args.harts,
        &args.harts_options,
        &args.settings,
    )?;
    observe::check(&args.observe)?;
    let elf = files::read(&args.file, "program")?;
    let mut observation = observe::Observation::new(&args.observe, None)?;
    let ledger = Ledger::new(machine::ledger_config(&config));
    let recorder = SharedRecorder::new(Recorder::new(ledger, String::new()));
    let mut machine = observation.exec(
        config.clone(),
        &elf,
        Peripherals::new(Box::new(std::io::stdout())),
        Box::new(std::io::stdout()),
    )?;
    observe::check_both(&args.harts_options, &args.observe)?;
    machine::accompany(&mut machine, &args.harts_options, &config, move |config| {
        let nowhere = Peripherals::new(Box::new(std::io::sink()));
        Machine::exec(config, &elf, nowhere, Box::new(std::io::sink()))
    })?;
    if args.ledger.is_some() {
        machine.add_sink(Box::new(recorder.clone()));
    }
    let limits = Limits {
        instret: args.max_instructions,
        ..Limits::default()
    };
    let mut interrupted = false;
    let outcome = observation.drive(&mut machine, limits, SLICE, &mut |machine, idle| {
        interrupted = interrupt::requested();
        !idle && !interrupted && machine.instret() < args.max_instructions
    })?;
    if interrupted {
        return Err(interrupt::Interrupted.into());
    }
    observation.finish(machine.now())?;
    observation.show_profile();
    if let Some(path) = &args.ledger {
        let mut info = machine::run_info(&config);
        info.workload = args.file.display().to_string();
        info.counters
            .insert("instructions".into(), machine.instret());
        let ledger = &mut recorder.lock().ledger;
        ledger.finish(machine.now());
        files::write(path, ledger.to_file(info, None).to_json())?;
    }
    if let Some(path) = &args.signature {
        let width: usize = args.signature_granularity.parse()?;
        files::write(path, signature(&machine.signature()?, width))?;
    }
    let code = match outcome {
        Some(Outcome::Exit(code)) => code,
        Some(Outcome::PoweredOff | Outcome::Rebooted) => 0,
        Some(Outcome::Idle) => bail!("the program waits for an interrupt that nothing can raise"),
        Some(Outcome::Stopped) => return Err(interrupt::Interrupted.into()),
        _ => bail!(
            "the program did not end within {} instructions; use --max-instructions for more",
            args.max_instructions
        ),
    };
    // A status has eight bits; a failure whose low bits are zero must not look like success.
    let status = u8::try_from(code).unwrap_or(if code & 0xFF == 0 { 1 } else { code as u8 });
    Ok(ExitCode::from(status))
}

/// Lines of `width` bytes in hexadecimal, most significant first (riscv-arch-test).
fn signature(bytes: &[u8], width: usize) -> String {
    let mut text = String::new();
    for line in bytes.chunks(width) {
        for byte in line.iter().rev() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_lines_are_little_endian_words() {
        assert_eq!(
            signature(&[1, 2, 3, 4, 5, 6, 7, 8], 4),
            "04030201\n08070605\n"
        );
        assert_eq!(
            signature(&[1, 2, 3, 4, 5, 6, 7, 8], 8),
            "0807060504030201\n"
        );
    }
}
