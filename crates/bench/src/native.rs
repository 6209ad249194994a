//! The same programs without an emulator: Debian's packages of this machine's own architecture, in
//! a tree of their own. It shows how far an emulator is from the limit.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use trapless_images::{Apt, Images, Progress, Tools};

use crate::rows::{Row, Scenario, Unit};

/// Name in results.
pub const NAME: &str = "native";

/// The programs of an image, for this machine.
pub struct Native {
    tools: Tools,
    project: PathBuf,
    run: RunFolder,
}

/// `/run` of the programs: in memory, as in a guest.
struct RunFolder(PathBuf);

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What is left behind is in memory, and named after a process that has ended.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl RunFolder {
    fn new() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = parent.join(format!("trapless-bench-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    fn empty(&self) -> Result<()> {
        std::fs::remove_dir_all(&self.0)
            .and_then(|()| std::fs::create_dir(&self.0))
            .with_context(|| format!("cannot empty {}", self.0.display()))
    }
}

/// A port of this machine at which nobody listens.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.context("cannot find a free port")?.port())
}

impl Native {
    /// Fetches the packages that image `name` has.
    ///
    /// # Errors
    /// If there is no such image, or packages cannot be fetched.
    pub fn prepare(project: &Path, name: &str) -> Result<Self> {
        let images = Images::open(project, Progress::auto())?;
        let recipes = images.recipes()?;
        let Some(recipe) = recipes.iter().find(|recipe| recipe.name == name) else {
            bail!("there is no image `{name}`");
        };
        let apt = Apt::open(images.cache(), Progress::auto())?;
        let title = "the programs for this machine";
        let tools = Tools::of_packages(
            &recipe.packages,
            title,
            images.cache(),
            &apt,
            Progress::auto(),
        )?;
        Ok(Self {
            tools,
            project: project.to_owned(),
            run: RunFolder::new()?,
        })
    }

    /// What it is, for results.
    pub fn version(&self) -> String {
        format!("Debian's packages for {}", std::env::consts::ARCH)
    }

    /// The rows that it can measure: all but programs of our own, which are for RISC-V.
    pub fn rows(rows: &[&'static Row]) -> Vec<&'static Row> {
        let measured = rows.iter().filter(|row| row.unit == Unit::Seconds);
        measured.copied().collect()
    }

    /// The command for one run.
    ///
    /// # Errors
    /// If the tree cannot be used.
    pub fn command(&self, scenario: &Scenario, rows: &[&Row]) -> Result<Command> {
        self.run.empty()?;
        let images = self.project.join("images");
        let (bench, scripts) = (images.join("bench"), images.join("init"));
        let places = [
            (bench.as_path(), Path::new("/bench")),
            (scripts.as_path(), Path::new("/scripts")),
            (self.run.0.as_path(), Path::new("/run")),
        ];
        let Some(programs) = scenario.programs else {
            bail!("{} has no programs for this machine", scenario.name);
        };
        // As its image's init script would.
        let script = format!(
            ". /scripts/trapless.sh; side=host; . /bench/{}",
            programs.script
        );
        let shell = "/usr/bin/busybox";
        let mut command = self.tools.command_with(shell, &places, Path::new("/"))?;
        command.args(["sh", "-c", &script]);
        // As in a guest, whose image has no locales.
        command.env("LC_ALL", "C").env("only", scenario.only(rows));
        // A server of the user's must not be measured, or written to.
        command.env("port", free_port()?.to_string());
        Ok(command)
    }
}
