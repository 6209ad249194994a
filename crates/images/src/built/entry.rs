//! Ways into a tree of another system: programs run as if the tree were the root folder, with
//! folders of this machine at places in it.
//!
//! | way | needs |
//! |---|---|
//! | mount namespace and `chroot` | root, or user namespaces for everybody |
//! | PRoot | `ptrace` of own children: any user, also in a container with the usual limits |
//!
//! PRoot translates the paths in system calls, which makes programs slower. It does not know newer
//! system calls; `enosys` lets those fail as if the kernel were older, and C libraries then use the
//! old ones. Both come from Debian and run with the dynamic loader and C library of their own
//! release.
//!
//! PRoot also emulates `brk`, and forgets where a program's heap is when the program has started
//! another that shared its memory until `execve`, as `posix_spawn` does. `malloc` is therefore told
//! to take much at its first `brk` and to give nothing back.

use crate::cache::Cache;
use crate::command::{spawn_output, tail};
use crate::debian::apt::Apt;
use crate::debian::package::Request;
use crate::debian::tree;
use crate::error::{Error, Result, io};
use crate::progress::Progress;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What PRoot needs; `enosys` is part of util-linux-extra since Debian 13.
const PROOT: &[&str] = &["proot", "libtalloc2", "libc6", "util-linux-extra"];
/// System calls that PRoot 5.1 does not know.
const UNKNOWN: &[&str] = &["statx", "faccessat2", "openat2", "fchmodat2", "clone3"];

/// Settings of the C library for programs in PRoot: with them `malloc` seldom needs a second `brk`.
const MALLOC: &str = "glibc.malloc.top_pad=1073741824:glibc.malloc.trim_threshold=4294967296";

/// A way into a tree that works here.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// A mount namespace.
    Namespace {
        /// Options of `unshare`.
        options: &'static [&'static str],
    },
    /// PRoot out of this tree.
    Proot(PathBuf),
}

impl Entry {
    /// Finds the best way.
    ///
    /// # Errors
    /// If there is none; says what each lacks.
    pub(crate) fn find(cache: &Cache, apt: &Apt, progress: Progress) -> Result<Self> {
        let options: &[&str] = if is_root() {
            &["--mount"]
        } else {
            &["--map-root-user", "--mount"]
        };
        let mut probe = Command::new("unshare");
        probe.args(options).args(["--propagation", "private"]);
        probe.args(["chroot", "/", "true"]);
        if spawn_output(&mut probe, "util-linux").is_ok_and(|answer| answer.status.success()) {
            return Ok(Self::Namespace { options });
        }
        Self::proot(cache, apt, progress)
    }

    /// PRoot, if it works here.
    pub(crate) fn proot(cache: &Cache, apt: &Apt, progress: Progress) -> Result<Self> {
        let packages = apt.resolve(&Request {
            arch: apt.native().to_owned(),
            closure: Vec::new(),
            alone: PROOT.iter().map(|&name| name.to_owned()).collect(),
        })?;
        let proot = tree::unpack(cache, apt, &packages, "PRoot", progress)?;
        let entry = Self::Proot(proot.clone());
        let mut probe = entry.command(Path::new("/"), &[], Path::new("/"))?;
        let answer = spawn_output(probe.arg("/bin/true"), "proot")?;
        if answer.status.success() {
            return Ok(entry);
        }
        Err(Error::Command {
            what:
                "entering the tool tree (be root, or allow unprivileged user namespaces, or ptrace)"
                    .into(),
            status: answer.status.to_string(),
            output: tail(&answer, 2),
        })
    }

    /// A command that lacks only the program, which it runs in `tree`, in the folder `cwd` there,
    /// with each (folder, place) of `places` visible.
    ///
    /// # Errors
    /// If the mount points cannot be created.
    pub(crate) fn command(
        &self,
        tree: &Path,
        places: &[(&Path, &Path)],
        cwd: &Path,
    ) -> Result<Command> {
        for (_, place) in places {
            let point = tree.join(place.strip_prefix("/").unwrap_or(place));
            fs::create_dir_all(&point).map_err(io("create", &point))?;
        }
        match self {
            Self::Namespace { options } => Ok(unshare(options, tree, places, cwd)),
            Self::Proot(proot) => run_proot(proot, tree, places, cwd),
        }
    }
}

/// The machine's own mounts stay as they are: all happens in a mount namespace of its own.
fn unshare(options: &[&str], tree: &Path, places: &[(&Path, &Path)], cwd: &Path) -> Command {
    let quote = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let mut script = String::from("set -e; t=$1; shift\n");
    for (folder, place) in places {
        script += &format!("mount --rbind {} \"$t\"{}\n", quote(folder), quote(place));
    }
    let enter = r#"cd "$0" && exec "$@""#;
    script += &format!(
        "exec chroot \"$t\" /bin/sh -c '{enter}' {} \"$@\"\n",
        quote(cwd)
    );
    let mut command = Command::new("unshare");
    command.args(options).args(["--propagation", "private"]);
    command.args(["sh", "-c", &script, "sh"]).arg(tree);
    command
}

fn run_proot(proot: &Path, tree: &Path, places: &[(&Path, &Path)], cwd: &Path) -> Result<Command> {
    let (loader, libraries) = tree::loader(proot)?;
    let mut command = Command::new(&loader);
    let own = |command: &mut Command, name: &str| {
        command.arg("--library-path").arg(&libraries);
        command.arg(proot.join("usr/bin").join(name));
    };
    own(&mut command, "enosys");
    for name in UNKNOWN {
        command.args(["--syscall", name]);
    }
    command.arg(&loader);
    own(&mut command, "proot");
    command.arg("-r").arg(tree).arg("-w").arg(cwd);
    command.env("GLIBC_TUNABLES", MALLOC);
    for (folder, place) in places {
        command
            .arg("-b")
            .arg(format!("{}:{}", folder.display(), place.display()));
    }
    Ok(command)
}

/// Whether this process runs as root.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}
