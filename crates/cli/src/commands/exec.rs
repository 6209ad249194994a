//! `trapless exec`: a bare-metal program from reset in M-mode.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use trapless_isa::{Mode, csr};
use trapless_ledger::event::{Event, Sink};
use trapless_machine::{Limits, Machine, Outcome, Peripherals};
use trapless_run::{Trapless, files, interrupt, machine, observe};

use crate::args::ExecArgs;
use crate::output::Screen;

/// Virtual time between two checks of Ctrl-C and of the limit of instructions, in cycles: short
/// enough for the slowest engine, and the same for all, so that a run that reaches its limit ends
/// at the same instant with each.
const SLICE: u64 = 500_000;
/// Traps to M-mode in a row without an executed instruction after which the program is stuck: the
/// handler itself traps, and interrupts are off.
const HOPELESS: u64 = 1_000_000;

/// Runs the program; the exit status is its own.
pub fn main(args: &ExecArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    let (spec, observe) = (args.spec(), args.observe.options(None));
    let config = spec.config(&trapless.machines()?)?;
    observe::check_engine(&spec.options, &observe)?;
    observe::check(&observe)?;
    for path in args.ledger.iter().chain(&args.signature) {
        files::check_output(path)?;
    }
    let elf = files::read(&args.file, "program")?;
    let mut observation = observe::Observation::new(&observe)?;
    let recorder = machine::recorder(&config, String::new());
    let screen = Screen::default();
    let mut machine = observation.exec(
        config.clone(),
        &elf,
        Peripherals::new(Box::new(screen.clone())),
        Box::new(screen.clone()),
    )?;
    machine::accompany(&mut machine, &spec.options, &config, move |config| {
        let nowhere = Peripherals::new(Box::new(std::io::sink()));
        Machine::exec(config, &elf, nowhere, Box::new(std::io::sink()))
    })?;
    if args.ledger.is_some() {
        machine.add_sink(Box::new(recorder.clone()));
    }
    let traps = Traps::default();
    machine.add_sink(Box::new(traps.clone()));
    let limits = Limits {
        instret: args.max_instructions,
        ..Limits::default()
    };
    let mut progress = Progress::default();
    let mut interrupted = false;
    let outcome = observation.drive(&mut machine, &|| limits, SLICE, &mut |machine, idle| {
        interrupted = interrupt::requested();
        progress.note(machine, &traps);
        let done = progress.tried >= args.max_instructions || progress.stuck.is_some();
        !idle && !interrupted && !done && screen.check().is_ok()
    })?;
    if interrupted {
        return Err(interrupt::Interrupted::WithoutResult.into());
    }
    screen.clone().flush().ok();
    screen.check()?;
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
        _ if progress.stuck.is_some() => bail!("{}", progress.stuck.unwrap_or_default()),
        Some(Outcome::Stopped) => return Err(interrupt::Interrupted::WithoutResult.into()),
        _ => bail!(
            "the program did not end within {} instructions and traps; use --max-instructions for more",
            args.max_instructions
        ),
    };
    // A status has eight bits; a failure whose low bits are zero must not look like success.
    let status = u8::try_from(code).unwrap_or(if code & 0xFF == 0 { 1 } else { code as u8 });
    Ok(ExitCode::from(status))
}

/// Counts traps: an instruction that traps is not executed, but a loop of them must end, too.
#[derive(Clone, Default)]
struct Traps(Arc<Mutex<Trapped>>);

/// What was recorded of the traps so far.
#[derive(Clone, Copy, Default)]
struct Trapped {
    count: u64,
    /// Hart, cause and program counter of the last one, if M-mode handles it.
    last: Option<(usize, u64, u64)>,
}

impl Traps {
    fn get(&self) -> Trapped {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Traps {
    fn record(&mut self, event: &Event) {
        if let Event::Trap(trap) = event {
            let mut traps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            traps.count += 1;
            traps.last = (trap.to == Mode::M).then_some((trap.hart, trap.cause, trap.epc));
        }
    }

    fn sums_timer_sets(&self) -> bool {
        true
    }
}

/// Progress of the program.
#[derive(Default)]
struct Progress {
    /// Instructions that were executed or trapped.
    tried: u64,
    /// Executed instructions, and traps since the last of them.
    executed: u64,
    traps: u64,
    /// Why the program can make no progress, if it cannot.
    stuck: Option<String>,
}

impl Progress {
    /// Checks the machine between two slices.
    fn note(&mut self, machine: &Machine, traps: &Traps) {
        let Trapped { count, last } = traps.get();
        let executed = machine.instret();
        self.tried = executed.saturating_add(count);
        if executed != self.executed {
            (self.executed, self.traps) = (executed, count);
        } else if count - self.traps > HOPELESS {
            self.stuck = last.map(|(hart, cause, epc)| {
                let handler = machine.harts()[hart].peek_csr_as_m(csr::MTVEC).unwrap_or(0);
                format!(
                    "the program does nothing but trap at {epc:#x} ({}): no handler can run there; \
                     it must set mtvec (now {handler:#x}) before anything can trap",
                    trapless_isa::cause::name(cause).unwrap_or("unknown cause")
                )
            });
        }
    }
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
