//! A session, from the command line to the end of the last run, with the guest's host resources.

use crate::cli::Cli;
use crate::devices::virtio::slots::Backends;
use crate::devices::virtio::tap::SharedTap;
use crate::error::{Error, Result};
use crate::guest::config::Config;
use crate::guest::files::create;
use crate::guest::machine::{Host, Machine, Start};
use crate::guest::ram;
use crate::kvm::vm;
use crate::run::affinity;
use crate::run::control::Control;
use crate::run::outcome::Outcome;
use crate::run::signals::Signals;
use crate::run::stats::Stats;
use crate::terminal::RawTerminal;
use kvm_ioctls::Kvm;
use std::io::Write as _;
use std::sync::Arc;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

/// Runs the guest until it ends; restarts it after a reboot unless that is disabled.
///
/// # Errors
/// [`Error::User`] for what the user can correct, [`Error::Failed`] for what the system refused.
pub fn run(cli: &Cli) -> Result<Outcome> {
    let config = cli.config.clone();
    config.check()?;
    affinity::check(&config.pin)?;
    ram::check_host(config.memory)?;
    let stats_file = cli
        .stats
        .as_ref()
        .map(|path| create("statistics", path))
        .transpose()?;
    let mut stats = Stats::default();
    let outcome = Session::new(cli, config)?.run(&mut stats)?;
    if let Some(mut file) = stats_file {
        file.write_all(stats.json().as_bytes())
            .map_err(|e| Error::failed("cannot write the statistics", e))?;
    }
    Ok(outcome)
}

extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// State shared by all runs of the guest.
struct Session<'a> {
    cli: &'a Cli,
    config: Config,
    kvm: Kvm,
    signals: Signals,
    control: Option<Arc<Control>>,
    backends: Backends,
}

impl<'a> Session<'a> {
    fn new(cli: &'a Cli, config: Config) -> Result<Self> {
        let kvm = vm::open(config.cpus)?;
        let signals = Signals::receive()?;
        register_signal_handler(SIGRTMIN(), ignore)
            .map_err(|e| Error::failed("cannot set a signal handler", e))?;
        let control = cli.control.as_deref().map(Control::listen).transpose()?;
        Ok(Self {
            cli,
            kvm,
            signals,
            control: control.map(Arc::new),
            backends: Backends {
                tap: cli.config.tap.as_deref().map(SharedTap::open).transpose()?,
                vhost_net: cli.config.vhost_net,
                ..Backends::default()
            },
            config,
        })
    }

    fn build(&self, start: Start<'_>) -> Result<Machine> {
        Machine::new(&self.config, &self.kvm, &self.backends, start)
    }

    fn run(&self, stats: &mut Stats) -> Result<Outcome> {
        if let Some(stagger) = self.config.stagger {
            std::thread::sleep(stagger.vm());
        }
        let mut machine = match (&self.cli.restore, &self.cli.kernel) {
            (Some(path), _) => self.build(Start::Saved(path))?,
            (None, Some(path)) => self.build(Start::Kernel(path))?,
            (None, None) => return Err(Error::user("there is no --kernel to start")),
        };
        // Only now, so that errors until here are printed to an ordinary terminal.
        let terminal =
            RawTerminal::enter().map_err(|e| Error::failed("cannot set up the terminal", e))?;
        loop {
            let host = Host {
                signals: &self.signals,
                escape: terminal.is_terminal().then_some(self.cli.escape_key),
                control: self.control.as_ref(),
            };
            let outcome = machine.run(&self.config, host, stats)?;
            if outcome != Outcome::Reboot || self.cli.no_reboot {
                return Ok(outcome);
            }
            stats.reboots += 1;
            machine = match &self.cli.kernel {
                Some(path) => self.build(Start::Kernel(path))?,
                None => {
                    return Ok(Outcome::Failure(
                        "the restored guest wants to reboot; name its --kernel".into(),
                    ));
                }
            };
        }
    }
}
