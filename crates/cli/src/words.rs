//! The command that repeats a run, as text for messages.

use std::fmt;

use trapless_run::RunSpec;
use trapless_run::spec::{EngineChoice, MachineOptions, Vmm, WorkloadSpec};

/// `trapless run` with all options that determine the run.
pub fn command(run: &RunSpec) -> String {
    let words = ["trapless", "run", "--machine", &run.machine].map(String::from);
    let words = words.into_iter().chain(of_workload(&run.workload));
    let quoted: Vec<String> = words.map(|word| quoted(&word)).collect();
    quoted.join(" ")
}

fn of_workload(spec: &WorkloadSpec) -> Vec<String> {
    let WorkloadSpec {
        workload,
        settings,
        guest_harts,
        host_harts,
        vmm,
        time_limit,
        kernels,
        options,
    } = spec;
    let mut words = Words::default();
    words.add("workload", Some(workload));
    for (name, value) in settings {
        words.add("set", Some(format!("{name}={value}")));
    }
    words.add("guest-harts", *guest_harts);
    words.add("host-harts", *host_harts);
    words.add("vmm", Some(vmm).filter(|vmm| **vmm != Vmm::default()));
    let unusual = Some(time_limit).filter(|limit| **limit != WorkloadSpec::TIME_LIMIT);
    words.add("time-limit", unusual);
    for (name, path) in kernels.given() {
        words.add(&name, Some(path));
    }
    words.add_options(options);
    words.0
}

/// Words of a command line.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    /// An option, if it has a value.
    fn add(&mut self, name: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.0.extend([format!("--{name}"), value.to_string()]);
        }
    }

    fn add_options(&mut self, options: &MachineOptions) {
        let MachineOptions {
            ram,
            isa,
            cost,
            prices,
            trap_misaligned,
            quantum,
            seed,
            engine,
            hot,
            region,
            code_cache,
        } = options;
        self.add("ram", ram.map(|size| size.0));
        self.add("isa", isa.as_ref());
        let cost = cost.as_ref().and_then(|cost| cost.file());
        self.add("cost", cost.map(|file| file.display()));
        for (name, price) in prices {
            self.add("price", Some(format!("{name}={price}")));
        }
        self.add("quantum", *quantum);
        self.add("seed", *seed);
        let engine = match engine {
            EngineChoice::Jit => None,
            EngineChoice::Interp => Some("interp"),
            EngineChoice::Both => Some("both"),
        };
        self.add("engine", engine);
        self.add("hot", *hot);
        self.add("region", *region);
        self.add("code-cache", code_cache.map(|size| size.0));
        if *trap_misaligned {
            self.0.push("--trap-misaligned".into());
        }
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._=+,-/:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command, RunArgs};

    fn parsed(words: &[&str]) -> RunArgs {
        let words = ["trapless", "run"].iter().chain(words);
        match Cli::parse_from(words).command {
            Command::Run(args) => args,
            _ => unreachable!("that is what was given"),
        }
    }

    /// Promise: the command in the message about a failed run repeats this run, with any options.
    #[test]
    fn the_command_of_a_run_makes_the_same_run() {
        for options in [
            "",
            "--set rounds=5 --set wfi=native --guest-harts 4 --host-harts 2 --vmm qemu --time-limit 9",
            "--ram 3G --isa -svadu,+zicond --cost a/slow.toml --trap-misaligned --quantum 500",
            "--price trap=50 --price csr=x0.5",
            "--host-kernel a/Image --host-modules b --guest-kernel c.gz --guest-modules d",
            "--engine interp --hot 7 --code-cache 1M --seed 18446744073709551615",
            "--engine both --region 0",
            "--region never",
        ] {
            let usual = ["--machine", "sstc", "--workload", "ipi"].into_iter();
            let words: Vec<&str> = usual.chain(options.split_whitespace()).collect();
            let run = parsed(&words).spec();
            let command_line = command(&run);
            let again: Vec<&str> = command_line.split_whitespace().skip(2).collect();
            assert_eq!(parsed(&again).spec(), run, "{command_line}");
        }
    }

    #[test]
    fn a_shell_reads_the_words_that_were_meant() {
        let words = ["a b", "it's", "", "x=1", "$(y)"];
        let text = words.map(quoted).join(" ");
        assert_eq!(text, r"'a b' 'it'\''s' '' x=1 '$(y)'");
        let script = format!("printf '%s|' {text}");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        assert_eq!(output.unwrap().stdout, b"a b|it's||x=1|$(y)|");
    }
}
