//! Cache keys of checkpoints: everything that a checkpoint depends on.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use trapless_images::sha256_parts;
use trapless_machine::MachineConfig;
use trapless_machine::checkpoint::FORMAT;

/// Everything that determines the state at an instant of a run, and the program that writes and
/// reads the file.
#[derive(Serialize)]
pub struct Key<'a> {
    /// The program: its revision.
    pub program: &'a str,
    /// The machine's configuration with seed and cost model.
    pub machine: &'a MachineConfig,
    /// The images by content.
    pub images: &'a [String],
    /// The command line of the host's kernel, which has all parameters of the workload.
    pub command_line: &'a str,
    /// The instant, and the event that marks it.
    pub instant: &'a str,
}

/// File names derived from a key.
pub struct Names {
    /// Name of the checkpoint.
    pub own: String,
    /// Name of its base, which has the shared pages: common to runs with the same images and size
    /// of RAM.
    pub base: String,
}

impl Key<'_> {
    /// The names. The engine is part of the key although results are the same: a comparison of
    /// engines must execute both.
    pub fn names(&self) -> Option<Names> {
        let (engine, code) = (self.machine.engine, self.machine.code);
        let about = serde_json::to_vec(self).ok()?;
        let build = format!("{FORMAT} {} {:?}", self.program, build());
        let engine = format!("{engine:?} {code:?}");
        let likeness = format!("{:?} {}", self.images, self.machine.ram);
        Some(Names {
            own: sha256_parts([&about[..], build.as_bytes(), engine.as_bytes()]),
            base: sha256_parts([build.as_bytes(), likeness.as_bytes()]),
        })
    }
}

/// Distinguishes builds of the same revision, as during development: path, size and time of the
/// file with this code, which may be a library.
fn build() -> Option<(PathBuf, u64, u128)> {
    let path = this_file().or_else(|| std::env::current_exe().ok())?;
    let about = std::fs::metadata(&path).ok()?;
    let time = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((path, about.len(), time.as_nanos()))
}

/// The file that this function is mapped from, by `/proc/self/maps`.
fn this_file() -> Option<PathBuf> {
    let here = this_file as fn() -> Option<PathBuf> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let holds = |line: &&str| {
        let bounds = line.split(' ').next()?.split_once('-')?;
        let parse = |text| usize::from_str_radix(text, 16).ok();
        Some((parse(bounds.0)?..parse(bounds.1)?).contains(&here))
    };
    let line = maps.lines().find(|line| holds(line) == Some(true))?;
    line.find('/').map(|at| line[at..].into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_machine::Engine;

    /// Promise: a run never goes on from the checkpoint of a run that is not the same.
    #[test]
    fn whatever_changes_a_run_changes_its_key() {
        let config = MachineConfig::preset("sstc").unwrap();
        let images = ["a".to_string()];
        let key =
            |machine: &MachineConfig, images: &[String], command_line: &str, instant: &str| {
                let key = Key {
                    program: "1",
                    machine,
                    images,
                    command_line,
                    instant,
                };
                key.names().unwrap().own
            };
        let usual = key(&config, &images, "x=1", "workload");
        assert_eq!(usual, key(&config.clone(), &images, "x=1", "workload"));
        let with = |change: fn(&mut MachineConfig)| {
            let mut config = config.clone();
            change(&mut config);
            key(&config, &images, "x=1", "workload")
        };
        let others = [
            key(&config, &images, "x=2", "workload"),
            key(&config, &images, "x=1", "begin"),
            key(&config, &[], "x=1", "workload"),
            with(|config| config.seed = 1),
            with(|config| config.ram *= 2),
            with(|config| config.engine = Engine::Interp),
            with(|config| config.hart.cost.trap += 1),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != usual && !others[..at].contains(other), "{at}");
        }
        assert_eq!(this_file(), std::env::current_exe().ok());
    }
}
