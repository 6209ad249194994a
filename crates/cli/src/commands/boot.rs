//! `trapless boot`: a machine with its console on the terminal.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use trapless_ledger::Ledger;
use trapless_machine::{Limits, Machine, MachineConfig, Outcome, Payload, Peripherals};

use crate::args::BootArgs;
use crate::console::{ConsoleTap, Recorder, SharedRecorder};
use crate::devices::Devices;
use crate::terminal::{HELP, Key, RawMode, keyboard};
use crate::{files, interrupt, machine, observe, project};

/// Virtual time between two looks at the keyboard, in cycles.
const SLICE: u64 = 2_000_000;
/// How long to wait for a key while the machine is idle, before looking at Ctrl-C again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Kernel command line with the default images. The self-tests of the kernel's ciphers keep a hart busy for
/// seconds after the boot.
const APPEND: &str = "console=ttyS0 quiet cryptomgr.notests";

/// Boots, and boots again after a reboot, until the guest powers off or the user leaves.
pub fn main(args: &BootArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    let config = machine::config(
        &args.machine,
        args.harts,
        &args.harts_options,
        &args.settings,
    )?;
    observe::check(&args.observe)?;
    if let Some(path) = &args.ledger {
        files::check_output(path)?;
    }
    let payload = payload(args)?;
    if let Some(path) = &args.dump_dtb {
        let machine = Machine::boot(
            config,
            &payload,
            Peripherals::new(Box::new(std::io::sink())),
        )?;
        files::write(path, machine.device_tree())?;
        return Ok(ExitCode::SUCCESS);
    }
    let keys = keyboard();
    loop {
        if !session(args, &config, &payload, &keys)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn payload(args: &BootArgs) -> Result<Payload> {
    let mut images = None;
    let mut image = |name: &str| -> Result<PathBuf> {
        if images.is_none() {
            images = Some(project::images()?);
        }
        let images = images.as_mut().context("images are open")?;
        Ok(images.prepare(name)?.path)
    };
    let given = |path: &Option<std::path::PathBuf>, what: &str| {
        path.as_deref().map(|p| files::read(p, what)).transpose()
    };
    let own_kernel = args.kernel.is_some();
    let firmware = match args.firmware.as_deref() {
        Some(path) if path.as_os_str() == "none" => None,
        Some(path) => Some(files::read(path, "firmware")?),
        None => Some(files::read(&image("opensbi")?, "opensbi")?),
    };
    let kernel = match &args.kernel {
        Some(path) => files::content(path, "kernel")?,
        None => files::content(&image("kernel")?, "kernel")?,
    };
    let initrd = match &args.initrd {
        Some(path) => Some(files::content(path, "initrd")?),
        None if !own_kernel && args.disk.is_empty() => {
            Some(files::content(&image("host")?, "host")?)
        }
        None => None,
    };
    let default = if own_kernel { "" } else { APPEND };
    Ok(Payload {
        firmware,
        kernel: Some(kernel),
        initrd,
        append: args.append.clone().unwrap_or_else(|| default.into()),
        dtb: given(&args.dtb, "device tree")?,
    })
}

/// One run from reset; `true` if the guest rebooted.
fn session(
    args: &BootArgs,
    config: &MachineConfig,
    payload: &Payload,
    keys: &Receiver<Key>,
) -> Result<bool> {
    let ledger = Ledger::new(machine::ledger_config(config));
    let recorder = SharedRecorder::new(Recorder::new(ledger, String::new()));
    let mut observation = observe::Observation::new(&args.observe, args.trace.as_deref())?;
    let out: Box<dyn Write + Send> = Box::new(std::io::stdout());
    let console = Box::new(ConsoleTap::new(recorder.clone(), Some(out)));
    let devices = Devices::new(args);
    let peripherals = devices.plug(console, true)?;
    let mut machine = observation.boot(config.clone(), payload, peripherals)?;
    machine.add_sink(Box::new(recorder.clone()));
    observe::check_both(&args.harts_options, &args.observe)?;
    let payload = payload.clone();
    machine::accompany(&mut machine, &args.harts_options, config, move |config| {
        let nowhere = devices.plug(Box::new(std::io::sink()), false)?;
        Machine::boot(config, &payload, nowhere)
    })?;
    let outcome = {
        let _raw = RawMode::enter();
        interact(&mut machine, &mut observation, keys)?
    };
    let now = machine.now();
    observation.finish(now)?;
    observation.show_profile();
    if let Some(path) = &args.ledger {
        let mut info = machine::run_info(config);
        info.workload = "boot".into();
        let mut recorder = recorder.lock();
        recorder.ledger.finish(now);
        files::write(path, recorder.ledger.to_file(info, None).to_json())?;
    }
    match outcome {
        Some(Outcome::Rebooted) => Ok(true),
        Some(Outcome::PoweredOff) | None => Ok(false),
        Some(Outcome::Exit(code)) => bail!("the guest stopped the machine with code {code}"),
        Some(Outcome::Idle) => bail!(
            "all harts wait for interrupts that nothing can raise, and there is no more input"
        ),
        // Without a signal it was gdb's `kill`.
        Some(Outcome::Stopped) if !interrupt::requested() => Ok(false),
        Some(Outcome::Stopped) => Err(interrupt::Interrupted.into()),
        Some(other) => bail!("the machine stopped unexpectedly: {other:?}"),
    }
}

/// How the user ended a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// By key.
    Key,
    /// By signal.
    Signal,
}

/// Runs with the keyboard attached; `None` if the user left.
fn interact(
    machine: &mut Machine,
    observation: &mut observe::Observation,
    keys: &Receiver<Key>,
) -> Result<Option<Outcome>> {
    let mut leave = None;
    let mut open = true;
    // Somebody who types should not see idle hours fly by.
    let paced = std::io::stdin().is_terminal();
    let clock = Instant::now();
    let outcome = observation.drive(machine, Limits::default(), SLICE, &mut |machine, idle| {
        show_output();
        let ahead = Duration::from_nanos(machine.now()).saturating_sub(clock.elapsed());
        loop {
            if interrupt::requested() {
                leave = Some(Leave::Signal);
                return false;
            }
            let patience = match (idle, paced && open) {
                (true, _) => PATIENCE,
                (false, true) => ahead.min(PATIENCE),
                (false, false) => Duration::ZERO,
            };
            match keys.recv_timeout(patience) {
                Ok(Key::Input(bytes)) => machine.input(machine.now(), &bytes),
                Ok(Key::Quit) => {
                    eprint!("\r\n");
                    leave = Some(Leave::Key);
                    return false;
                }
                Ok(Key::Help) => eprint!("{HELP}"),
                Ok(Key::Status) => status(machine),
                Err(RecvTimeoutError::Timeout) if idle => continue,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    open = false;
                    return !idle;
                }
            }
            return true;
        }
    });
    show_output();
    let outcome = outcome?;
    Ok(match leave {
        Some(Leave::Key) => None,
        Some(Leave::Signal) => Some(Outcome::Stopped),
        None => outcome,
    })
}

/// Lets the user see what the guest has written after the last whole line. Nobody may be there to see it.
fn show_output() {
    let _ = std::io::stdout().flush();
}

fn status(machine: &Machine) {
    eprint!(
        "\r\n{:.6} s of virtual time\r\n",
        machine.now() as f64 / 1e9
    );
    for hart in machine.harts() {
        let state = if hart.waiting() { "waits" } else { "runs" };
        eprint!(
            "hart {}: {} {:#x}, {state}, {} instructions\r\n",
            hart.id(),
            hart.mode(),
            hart.pc(),
            hart.instret()
        );
    }
}
