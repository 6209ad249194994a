//! Text logs for debugging: `--log exec,trap,csr,intc:FILE`.
//!
//! ```text
//! harts ── Observer ──> exec, csr lines ─┐
//!   └───── Sink ──────> (marks traps)    ├──> LogFile, one line per event
//! architecture ── watcher ──> intc lines ┤
//! harts ── Sink ── trap lines ───────────┘    written by the owner of LogFile, see `Log::writer`
//! ```
//!
//! The form of the lines is documented in `docs/tracing.md`. A log does not change the run.
//!
//! ```no_run
//! # use trapless_machine::{Limits, Machine, log::LogOptions};
//! # fn example(mut machine: Machine) -> Result<(), trapless_machine::Error> {
//! let mut log = "exec,csr:boot.log".parse::<LogOptions>()?.open()?;
//! log.attach(&mut machine);
//! machine.run_observed(&Limits::default(), log.observer());
//! log.finish()?;
//! # Ok(())
//! # }
//! ```

mod csr;
mod exec;
mod file;
mod intc;

use std::path::PathBuf;
use std::str::FromStr;

use trapless_hart::Observer;

pub use file::LogFile;

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use exec::{HartLog, HartSink, Watcher};
use intc::IntcLog;

/// What to log, and where: `exec,trap,csr,intc:FILE`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogOptions {
    /// Every instruction.
    pub exec: bool,
    /// Traps and other events of the ledger.
    pub trap: bool,
    /// CSR accesses, and what traps and returns do to CSRs.
    pub csr: bool,
    /// The interrupt architecture: accesses to it, its wires and its lines to the harts.
    pub intc: bool,
    /// File to write; an existing one is replaced.
    pub file: PathBuf,
}

impl FromStr for LogOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = |what: &str| {
            Err(Error::Invalid(format!(
                "{what}; write --log KINDS:FILE with KINDS of exec, trap, csr, intc, for instance \
                 --log trap,csr:run.log"
            )))
        };
        let Some((kinds, file)) = text.split_once(':') else {
            return fail(&format!("\"{text}\" names no log file"));
        };
        if file.is_empty() {
            return fail("the name of the log file is empty");
        }
        let mut options = Self {
            file: file.into(),
            ..Self::default()
        };
        for kind in kinds.split(',') {
            match kind.trim() {
                "exec" => options.exec = true,
                "trap" => options.trap = true,
                "csr" => options.csr = true,
                "intc" => options.intc = true,
                other => return fail(&format!("there is no log called \"{other}\"")),
            }
        }
        Ok(options)
    }
}

impl LogOptions {
    /// Creates the file.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn open(self) -> Result<Log, Error> {
        let file = LogFile::create(&self.file)?;
        Ok(Log::new(self, file))
    }
}

/// A log that is being written.
pub struct Log {
    options: LogOptions,
    file: LogFile,
    watcher: Option<Watcher>,
}

impl Log {
    /// A log to an open file.
    #[must_use]
    pub fn new(options: LogOptions, file: LogFile) -> Self {
        let watcher = (options.exec || options.csr).then(|| {
            Watcher(Shared::new(HartLog::new(
                options.exec,
                options.csr,
                file.clone(),
            )))
        });
        Self {
            options,
            file,
            watcher,
        }
    }

    /// Connects the log to a machine that has not run yet. Sinks added later write after it.
    pub fn attach(&self, machine: &mut Machine) {
        if let Some(watcher) = &self.watcher {
            machine.add_sink(Box::new(HartSink(watcher.0.clone())));
        }
        if self.options.intc {
            let file = self.file.clone();
            let past = machine.bus.past.clone();
            let interrupts = &mut machine.bus.interrupts;
            let windows = interrupts.architecture().describe().windows;
            let mut log = IntcLog::new(windows, file);
            interrupts.watch(Box::new(move |call| {
                if !past.get() {
                    log.write(call);
                }
            }));
        }
    }

    /// The observer to run the machine with, if a requested log needs one.
    pub fn observer(&mut self) -> Option<&mut dyn Observer> {
        match &mut self.watcher {
            Some(watcher) => Some(watcher),
            None => None,
        }
    }

    /// Where to write the `trap` lines, if they were requested; the machine does not write them
    /// itself.
    #[must_use]
    pub fn trap_writer(&self) -> Option<LogFile> {
        self.options.trap.then(|| self.file.clone())
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// The first write that failed; nothing after it is in the file.
    pub fn finish(self) -> Result<(), Error> {
        self.file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_parse_or_say_what_is_wrong() {
        let options: LogOptions = "exec,intc:/tmp/a:b.log".parse().unwrap();
        assert!(options.exec && options.intc && !options.trap && !options.csr);
        assert_eq!(options.file, PathBuf::from("/tmp/a:b.log"));
        for (text, hint) in [
            ("exec", "names no log file"),
            ("exec:", "is empty"),
            ("exec,traps:x", "no log called \"traps\""),
            (":x", "no log called \"\""),
        ] {
            let error = text.parse::<LogOptions>().unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains("--log"), "{error}");
        }
    }

    #[test]
    fn missing_folder_and_full_disk_are_sentences() {
        let options: LogOptions = "csr:/no/such/folder/x.log".parse().unwrap();
        let error = options.open().err().unwrap().to_string();
        assert!(
            error.starts_with("cannot create the log /no/such/folder/x.log"),
            "{error}"
        );
        let full: LogOptions = "csr:/dev/full".parse().unwrap();
        let Ok(log) = full.open() else { return };
        log.file.line(format_args!("{}", "x".repeat(1 << 21)));
        let error = log.finish().unwrap_err().to_string();
        assert!(
            error.starts_with("the log /dev/full is incomplete"),
            "{error}"
        );
    }
}
