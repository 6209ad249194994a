//! The commands that run the same guest: Debian's QEMU, the `trapless` command, and this
//! program with other receivers of events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use trapless_images::{Apt, Cache, Kept, PackageVersion, Progress, Tools};

use crate::rows::Scenario;
use crate::setting::{HARTS, MEMORY, Sinks};

/// Words of every kernel command line. The self-tests of the kernel's ciphers keep a hart busy for
/// seconds after the boot.
const APPEND: &str = "console=ttyS0 quiet cryptomgr.notests";

/// How to start one emulator.
#[derive(Clone)]
pub struct Emulator {
    /// `qemu`, `trapless`, or what varies.
    pub name: String,
    /// Program and options that come first.
    command: Vec<PathBuf>,
    environment: Vec<(&'static str, PathBuf)>,
    /// Its version.
    pub version: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Qemu,
    Trapless,
    Instrumented,
}

/// What the machines boot.
pub struct Images {
    paths: BTreeMap<String, PathBuf>,
    /// Keeps them in the cache.
    _kept: Kept,
    /// Packages in all of them.
    pub packages: Vec<PackageVersion>,
}

impl Images {
    /// Makes the images `names`.
    pub fn prepare(project: &Path, names: &[&str]) -> Result<Self> {
        let mut images = trapless_images::Images::open(project, Progress::auto())?;
        let prepared = images.prepare_all(names)?;
        let mut packages: Vec<_> = prepared.values().flat_map(|p| p.packages.clone()).collect();
        packages.sort();
        packages.dedup();
        Ok(Self {
            paths: prepared.into_iter().map(|(n, p)| (n, p.path)).collect(),
            _kept: images.keep(),
            packages,
        })
    }

    fn path(&self, name: &str) -> Result<&Path> {
        let path = self.paths.get(name);
        Ok(path.with_context(|| format!("image {name} was not prepared"))?)
    }
}

/// QEMU at `path`, or Debian's. Its modules must be its own, since those of the system's
/// QEMU have another version.
pub fn qemu(project: &Path, path: Option<&Path>) -> Result<Emulator> {
    let mut environment = Vec::new();
    let command = match path {
        Some(path) => vec![path.to_owned()],
        None => {
            let cache = Cache::open(project)?;
            let apt = Apt::open(&cache, Progress::auto())?;
            let tools = Tools::qemu(&cache, &apt, Progress::auto())?;
            let usr = tools.tree().join("usr");
            let (loader, libraries) = trapless_images::tree::loader(tools.tree())?;
            environment.push(("QEMU_MODULE_DIR", libraries.join("qemu")));
            // A program of another Debian release cannot use this system's libraries.
            vec![
                loader,
                "--library-path".into(),
                libraries,
                usr.join("bin/qemu-system-riscv64"),
                "-L".into(),
                usr.join("share/qemu"),
            ]
        }
    };
    let mut emulator = Emulator {
        name: "qemu".into(),
        command,
        environment,
        version: String::new(),
        kind: Kind::Qemu,
    };
    emulator.version = emulator.ask_version()?;
    Ok(emulator)
}

/// The command `trapless` at `path`.
pub fn trapless(path: &Path, engine: Option<&str>) -> Result<Emulator> {
    let mut emulator = Emulator {
        name: "trapless".into(),
        command: vec![path.to_owned()],
        environment: Vec::new(),
        version: String::new(),
        kind: Kind::Trapless,
    };
    emulator.version = emulator.ask_version()?;
    emulator.command.push("boot".into());
    if let Some(engine) = engine {
        emulator.command.extend(["--engine".into(), engine.into()]);
    }
    Ok(emulator)
}

/// This program as emulator with `sinks`; engine and version of `like`.
pub fn variant(sinks: Sinks, like: &Emulator) -> Result<Emulator> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = vec![
        program,
        "instrumented".into(),
        "--sinks".into(),
        sinks.name().into(),
    ];
    if let Some(at) = like
        .command
        .iter()
        .position(|word| word.as_os_str() == "--engine")
    {
        command.extend(like.command[at..at + 2].iter().cloned());
    }
    Ok(Emulator {
        name: sinks.name().into(),
        command,
        environment: Vec::new(),
        version: like.version.clone(),
        kind: Kind::Instrumented,
    })
}

impl Emulator {
    fn start(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.envs(self.environment.iter().map(|(k, v)| (k, v)));
        command
    }

    fn ask_version(&self) -> Result<String> {
        let program = self
            .command
            .last()
            .map(|p| p.display().to_string())
            .unwrap_or_default();
        let out = self
            .start()
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        let text = String::from_utf8_lossy(&out.stdout);
        match text.lines().next() {
            Some(line) if out.status.success() => Ok(line.to_owned()),
            _ => bail!(
                "{program} does not print its version: {}",
                String::from_utf8_lossy(&out.stderr).trim()
            ),
        }
    }

    /// The command for one run.
    pub fn command(&self, scenario: &Scenario, append: &str, images: &Images) -> Result<Command> {
        let (firmware, kernel, initrd) = (
            images.path("opensbi")?,
            images.path("kernel")?,
            images.path(scenario.image)?,
        );
        let append = format!("{APPEND} {append}");
        let mut command = self.start();
        if self.kind == Kind::Qemu {
            command.args(["-M", "virt", "-cpu", "rv64,h=true,sstc=true"]);
            command.args([
                "-display",
                "none",
                "-monitor",
                "none",
                "-serial",
                "stdio",
                "-no-reboot",
            ]);
            command.args(["-smp", &HARTS.to_string(), "-m", &format!("{MEMORY}M")]);
            command
                .arg("-bios")
                .arg(firmware)
                .arg("-kernel")
                .arg(kernel);
            command
                .arg("-initrd")
                .arg(initrd)
                .arg("-append")
                .arg(append);
            return Ok(command);
        }
        if self.kind == Kind::Trapless {
            command.args([
                "--harts",
                &HARTS.to_string(),
                "--ram",
                &format!("{MEMORY}M"),
            ]);
        }
        command
            .arg("--firmware")
            .arg(firmware)
            .arg("--kernel")
            .arg(kernel);
        command
            .arg("--initrd")
            .arg(initrd)
            .arg("--append")
            .arg(append);
        Ok(command)
    }
}
