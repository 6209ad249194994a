//! A Debian tree with the tools this machine may lack: riscv64 cross compilers, rustc for riscv64.
//! QEMU 10 has a tree of its own, because only tests and comparisons of speed need it.

use crate::built::entry::Entry;
use crate::cache::Cache;
use crate::command::missing;
use crate::debian::apt::Apt;
use crate::debian::package::{Package, Request};
use crate::debian::release::Release;
use crate::debian::tree;
use crate::error::{Result, io};
use crate::progress::Progress;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tree of the stable release has besides, for all but kernels.
const PROGRAMS: &[&str] = &["rustc", "cargo", "e2fsprogs"];

/// What each tree holds; compilers come with what they depend on. A kernel is built with the
/// compiler of its own release: it is configured for what that can do.
const TOOLS: &[&str] = &[
    "dash",
    "bash",
    "libc-bin",
    "coreutils",
    "findutils",
    "grep",
    "sed",
    "gawk",
    "diffutils",
    "tar",
    "xz-utils",
    "bzip2",
    "debianutils",
    "make",
    "patch",
    "gcc",
    "g++",
    "libc6-dev",
    "gcc-riscv64-linux-gnu",
    "libc6-dev-riscv64-cross",
    // Kernel modules and selftests out of Debian's kernel source.
    "bc",
    "bison",
    "flex",
    "perl",
    "rsync",
    "kmod",
    "cpio",
    "python3-minimal",
    "libelf-dev",
    "libssl-dev",
    "pahole",
];

/// The unpacked tools.
#[derive(Debug, Clone)]
pub struct Tools {
    tree: PathBuf,
    packages: Vec<Package>,
    entry: Entry,
}

impl Tools {
    /// Fetches and unpacks the tools, unless they are there already.
    ///
    /// # Errors
    /// If packages cannot be fetched or unpacked.
    pub fn prepare(cache: &Cache, apt: &Apt, progress: Progress) -> Result<Self> {
        let packages = Self::resolve(apt)?;
        let tree = tree::unpack(cache, apt, &packages, "the tools", progress)?;
        // Names that packages only make when they are installed, not when they are unpacked.
        for (link, target) in [("awk", "gawk"), ("cc", "gcc"), ("c++", "g++")] {
            let link = tree.join("usr/bin").join(link);
            if link.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(target, &link).map_err(io("create", &link))?;
            }
        }
        let entry = Entry::find(cache, apt, progress)?;
        Ok(Self {
            tree,
            packages,
            entry,
        })
    }

    /// Instead of the tools, `packages` of this machine's own architecture with everything they
    /// depend on, and the shell that [`Tools::command_with`] needs. `title` is for progress.
    ///
    /// # Errors
    /// If packages cannot be fetched or unpacked.
    pub fn of_packages(
        packages: &[String],
        title: &str,
        cache: &Cache,
        apt: &Apt,
        progress: Progress,
    ) -> Result<Self> {
        // The dynamic loader is found by a link of base-files.
        let shell = ["dash", "base-files"].map(str::to_owned);
        let packages = apt.resolve(&Request {
            arch: apt.native().to_owned(),
            closure: packages.iter().cloned().chain(shell).collect(),
            alone: Vec::new(),
        })?;
        Ok(Self {
            tree: tree::unpack(cache, apt, &packages, title, progress)?,
            packages,
            entry: Entry::find(cache, apt, progress)?,
        })
    }

    /// Debian's QEMU, in a tree of its own.
    ///
    /// # Errors
    /// If packages cannot be fetched or unpacked.
    pub fn qemu(cache: &Cache, apt: &Apt, progress: Progress) -> Result<Self> {
        Self::of_packages(&["qemu-system-riscv".into()], "QEMU", cache, apt, progress)
    }

    /// The packages that [`Tools::prepare`] would use.
    pub(crate) fn resolve(apt: &Apt) -> Result<Vec<Package>> {
        let mut request = Request {
            arch: apt.native().to_owned(),
            closure: TOOLS.iter().map(|&t| t.to_owned()).collect(),
            alone: Vec::new(),
        };
        if apt.release() == Release::Stable {
            request
                .closure
                .extend(PROGRAMS.iter().map(|&t| t.to_owned()));
            // The riscv64 standard library of rustc and nothing it would pull in for running.
            request.alone = vec!["libstd-rust-dev:riscv64".into()];
        }
        apt.resolve(&request)
    }

    /// Root folder of the tree.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// The packages the tree was made from.
    #[must_use]
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// A command that runs `program` inside the tree, with `folders` visible at their own paths
    /// (besides `/tmp` and `/dev`) and the current folder kept if it lies in one of them.
    ///
    /// # Errors
    /// If the mount points cannot be created.
    pub fn command(&self, program: &str, folders: &[&Path]) -> Result<Command> {
        let cwd = std::env::current_dir().unwrap_or_default();
        let kept = folders.iter().any(|f| cwd.starts_with(f));
        let cwd = if kept { cwd } else { PathBuf::from("/tmp") };
        let places: Vec<_> = folders.iter().map(|&f| (f, f)).collect();
        self.command_with(program, &places, &cwd)
    }

    /// As [`Tools::command`], with each (folder, place) visible at another place in the tree, and
    /// the current folder `cwd` there.
    ///
    /// # Errors
    /// If the mount points cannot be created.
    pub fn command_with(
        &self,
        program: &str,
        places: &[(&Path, &Path)],
        cwd: &Path,
    ) -> Result<Command> {
        let system = ["/dev", "/proc", "/tmp"].map(|f| (Path::new(f), Path::new(f)));
        let places: Vec<_> = system.iter().chain(places).copied().collect();
        let mut command = self.entry.command(&self.tree, &places, cwd)?;
        command
            .arg(program)
            .env("PATH", "/usr/bin:/usr/sbin:/bin:/sbin")
            .env("LC_ALL", "C.UTF-8");
        for name in [
            "CARGO_HOME",
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "CARGO",
            "RUSTC",
            "RUSTFLAGS",
            "LD_LIBRARY_PATH",
        ] {
            command.env_remove(name);
        }
        Ok(command)
    }

    /// Runs a command of [`Tools::command`] with this program's terminal and returns its exit code.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn status(command: &mut Command) -> Result<i32> {
        let status = command
            .status()
            .map_err(|e| missing(command, "util-linux", e))?;
        Ok(status.code().unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Project;
    use crate::command::spawn_output;

    /// Promise: where namespaces are refused, as in containers, tools that start others work.
    #[test]
    fn in_proot_a_program_that_has_started_another_keeps_its_heap() {
        let cache = Cache::open(&Project::new(None).folder().unwrap()).unwrap();
        let progress = Progress::auto();
        let apt = Apt::open(&cache, progress).unwrap();
        let mut tools = Tools::prepare(&cache, &apt, progress).unwrap();
        tools.entry = Entry::proot(&cache, &apt, progress).unwrap();
        let script = "import os\n\
            os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\n\
            kept = [bytes(1000) for _ in range(100_000)]\n\
            print('alive')";
        let mut command = tools.command("python3", &[]).unwrap();
        let answer = spawn_output(command.args(["-c", script]), "python3").unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.stdout), "alive\n");
    }
}
