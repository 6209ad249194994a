//! From the command line to the end of the last run: what the guest needs of the host.

use crate::cli::Cli;
use crate::devices::virtio::SharedTap;
use crate::error::{Error, Result};
use crate::guest::machine::{Host, Machine, Start};
use crate::kvm::exit::{Outcome, Stats};
use crate::run::control::Control;
use crate::run::events::Signals;
use crate::run::mover::cpu_set;
use crate::terminal::RawTerminal;
use kvm_ioctls::Kvm;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

/// Starts the guest and stays until it ends; starts it again after a reboot unless told otherwise.
///
/// # Errors
/// [`Error::User`] for what the user can put right, [`Error::Failed`] for what the system refused.
pub fn run(cli: &Cli) -> Result<Outcome> {
    cli.check()?;
    check_pins(&cli.pin)?;
    check_memory(cli.memory)?;
    let stats_file = cli
        .stats
        .as_ref()
        .map(|path| create("statistics", path))
        .transpose()?;
    let kvm = open_kvm(cli.cpus)?;
    let signals = Signals::receive()?;
    register_signal_handler(SIGRTMIN(), ignore)
        .map_err(|e| Error::failed("cannot set a signal handler", e))?;

    let mut stats = Stats::default();
    let control = cli
        .control
        .as_deref()
        .map(Control::listen)
        .transpose()?
        .map(Arc::new);
    let tap = cli.tap.as_deref().map(SharedTap::open).transpose()?;
    let build = |start| Machine::new(cli, &kvm, tap.clone(), start);
    let mut first = Some(match (&cli.restore, &cli.kernel) {
        (Some(path), _) => build(Start::Saved(path))?,
        (None, Some(path)) => build(Start::Kernel(path))?,
        (None, None) => return Err(Error::user("there is no --kernel to start")),
    });
    // Only now, so that errors until here are printed to an ordinary terminal.
    let terminal =
        RawTerminal::enter().map_err(|e| Error::failed("cannot set up the terminal", e))?;
    let outcome = loop {
        let machine = match (first.take(), &cli.kernel) {
            (Some(machine), _) => machine,
            (None, Some(path)) => build(Start::Kernel(path))?,
            (None, None) => {
                break Outcome::Failure(
                    "the restored guest wants to start again; name its --kernel".into(),
                );
            }
        };
        let host = Host {
            cli,
            signals: &signals,
            is_terminal: terminal.is_terminal(),
            control: control.as_ref(),
        };
        let outcome = machine.run(host, &mut stats)?;
        if outcome != Outcome::Reboot || cli.no_reboot {
            break outcome;
        }
        stats.reboots += 1;
    };
    drop(terminal);
    if let Some(mut file) = stats_file {
        file.write_all(stats.json().as_bytes())
            .map_err(|e| Error::failed("cannot write the statistics", e))?;
    }
    Ok(outcome)
}

extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

pub(crate) fn create(what: &str, path: &std::path::Path) -> Result<File> {
    File::create(path).map_err(|e| {
        Error::user(format!(
            "cannot create the {what} file {}: {e}",
            path.display()
        ))
    })
}

fn open_kvm(cpus: u16) -> Result<Kvm> {
    let kvm = Kvm::new().map_err(|e| {
        Error::user(match e.errno() {
            libc::ENOENT => "there is no /dev/kvm; the host needs the H extension and the kvm module (modprobe kvm)".into(),
            libc::EACCES => "no permission for /dev/kvm; run as root or join the group kvm".into(),
            _ => format!("cannot open /dev/kvm: {e}"),
        })
    })?;
    if kvm.get_api_version() != 12 {
        return Err(Error::user(
            "this KVM has an API version other than 12, the only stable one",
        ));
    }
    let most = kvm.get_max_vcpus();
    if usize::from(cpus) > most {
        return Err(Error::user(format!(
            "this host allows at most {most} vCPUs; use a smaller --cpus"
        )));
    }
    Ok(kvm)
}

fn check_pins(pins: &[u16]) -> Result<()> {
    let mut set = cpu_set(&[]);
    // SAFETY: `set` has the size given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } < 0 {
        return Err(Error::failed(
            "cannot read the CPU affinity",
            std::io::Error::last_os_error(),
        ));
    }
    for &cpu in pins {
        let cpu_exists = usize::from(cpu) < 8 * size_of_val(&set);
        // SAFETY: CPU_ISSET only reads, and the number was checked.
        if !(cpu_exists && unsafe { libc::CPU_ISSET(usize::from(cpu), &set) }) {
            return Err(Error::user(format!(
                "--pin {cpu}: this process may not run on host CPU {cpu}"
            )));
        }
    }
    Ok(())
}

/// The host provides pages as the guest touches them and would kill the VMM when there are no more.
fn check_memory(bytes: u64) -> Result<()> {
    // SAFETY: sysinfo is plain old data, for which zeroes are a valid value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` outlives the call, which writes one sysinfo.
    if unsafe { libc::sysinfo(&mut info) } < 0 {
        return Err(Error::failed(
            "cannot read the host's memory size",
            std::io::Error::last_os_error(),
        ));
    }
    let unit = u64::from(info.mem_unit);
    let host = (info.totalram + info.totalswap).saturating_mul(unit);
    if bytes > host {
        return Err(Error::user(format!(
            "the host has only {} MiB of memory; use a smaller --memory",
            host >> 20
        )));
    }
    Ok(())
}
