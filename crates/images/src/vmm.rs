//! The riscv64 build of `vmm/`, with the machine's own cargo where it can, else with Debian's in the tool tree.

use crate::apt::Apt;
use crate::cache::{Cache, sha256_parts};
use crate::command::{run, spawn_output};
use crate::error::{Error, Result, io};
use crate::progress::Progress;
use crate::tools::Tools;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET_GNU: &str = "riscv64gc-unknown-linux-gnu";
/// Where the tool tree sees the project and the cache. Always the same, so that the program is the same wherever these are.
const SOURCE: &str = "/trapless/source";
const CACHE: &str = "/trapless/cache";
const TARGET_MUSL: &str = "riscv64gc-unknown-linux-musl";

/// Builds the VMM (`vmm/` of `project`) as a static riscv64 program and returns the path of the program.
///
/// Cargo itself decides what is out of date, so a second call costs a fraction of a second.
///
/// # Errors
/// If the tools cannot be had or the program does not compile; the compiler's messages go to standard error.
pub fn build(project: &Path, cache: &Cache, apt: &Apt, progress: Progress) -> Result<PathBuf> {
    let _lock = cache.lock("vmm")?;
    let target_dir = cache.folder("vmm-target")?;
    let _task = progress.task("Building the VMM for riscv64", 0);
    let program = |target: &str| target_dir.join(target).join("release/trapless-vmm");
    if let Some(target) = host_target() {
        let mut command = host_cargo(project, target);
        command.arg("--target-dir").arg(&target_dir);
        if Tools::status(&mut command)? == 0 {
            return Ok(program(target));
        }
        eprintln!("the machine's own cargo could not build the VMM; trying Debian's");
    }
    let code = Tools::status(&mut tree_cargo(project, cache, apt, progress)?)?;
    if code == 0 {
        return Ok(program(TARGET_GNU));
    }
    Err(Error::Command {
        what: "building the VMM".into(),
        status: format!("exit status {code}"),
        output: "see the compiler's messages above".into(),
    })
}

/// What both ways of building have in common.
fn compile(command: &mut Command, target: &str, flags: &[&str]) {
    let mut all = vec!["-Ctarget-feature=+crt-static"];
    all.extend(flags);
    command
        .args(["build", "--release", "--target", target])
        .env("CARGO_ENCODED_RUSTFLAGS", all.join("\x1f"))
        .env(
            "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER",
            "riscv64-linux-gnu-gcc",
        )
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
}

/// The riscv64 target this machine's rustup and linkers can build a static program for.
fn host_target() -> Option<&'static str> {
    let output = spawn_output(
        Command::new("rustup").args(["target", "list", "--installed"]),
        "rustup",
    )
    .ok()?;
    let installed = String::from_utf8_lossy(&output.stdout).into_owned();
    let has = |target: &str| installed.lines().any(|l| l.trim() == target);
    if has(TARGET_MUSL) {
        return Some(TARGET_MUSL);
    }
    let linker = spawn_output(
        Command::new("riscv64-linux-gnu-gcc").arg("--version"),
        "gcc-riscv64-linux-gnu",
    );
    (has(TARGET_GNU) && linker.is_ok_and(|o| o.status.success())).then_some(TARGET_GNU)
}

fn host_cargo(project: &Path, target: &str) -> Command {
    let mut command = Command::new("cargo");
    // rustup's own linker and C library: no cross compiler needed.
    let musl = ["-Clinker=rust-lld", "-Clink-self-contained=yes"];
    compile(
        &mut command,
        target,
        if target == TARGET_MUSL { &musl } else { &[] },
    );
    command
        .arg("--manifest-path")
        .arg(project.join("vmm/Cargo.toml"));
    command
}

/// Debian's cargo works offline on crates that the machine's cargo, which knows the registry, has laid beside it.
fn tree_cargo(project: &Path, cache: &Cache, apt: &Apt, progress: Progress) -> Result<Command> {
    let tools = Tools::prepare(cache, apt, progress)?;
    let manifest = project.join("vmm/Cargo.toml");
    let key = || -> Result<String> {
        let lock = fs::read(project.join("vmm/Cargo.lock")).unwrap_or_default();
        let manifest = fs::read(&manifest).map_err(io("read", &manifest))?;
        Ok(sha256_parts([&manifest[..], &lock])[..24].to_owned())
    };
    let folder = cache.folder("crates")?;
    let mut vendor = folder.join(key()?);
    if !vendor.with_extension("toml").exists() {
        let _task = progress.task("Fetching the VMM's crates", 0);
        let arriving = folder.join("arriving");
        let mut command = Command::new("cargo");
        command
            .args(["vendor", "--quiet", "--manifest-path"])
            .arg(&manifest)
            .arg(&arriving);
        run(&mut command, "fetching the VMM's crates", "cargo")?;
        // Only now: cargo may have had to complete the lock file.
        vendor = folder.join(key()?);
        let _ = fs::remove_dir_all(&vendor);
        fs::rename(&arriving, &vendor).map_err(io("write", &vendor))?;
        let text = format!(
            "[source.crates-io]\nreplace-with = \"beside\"\n[source.beside]\ndirectory = \"{CACHE}/crates/{}\"\n",
            key()?
        );
        let config = vendor.with_extension("toml");
        fs::write(&config, text).map_err(io("write", &config))?;
    }
    cache.folder("cargo-home")?;
    let places = [
        (project, Path::new(SOURCE)),
        (cache.root(), Path::new(CACHE)),
    ];
    let mut command = tools.command_with("cargo", &places, Path::new(SOURCE))?;
    compile(&mut command, TARGET_GNU, &[]);
    command
        .args(["--offline", "--locked", "--manifest-path"])
        .arg(format!("{SOURCE}/vmm/Cargo.toml"))
        .args(["--config", &format!("{CACHE}/crates/{}.toml", key()?)])
        .args(["--target-dir", &format!("{CACHE}/vmm-target")])
        .env("CARGO_HOME", format!("{CACHE}/cargo-home"));
    Ok(command)
}
