//! The riscv64 build of `vmm/`, with the machine's own cargo where it can, else with Debian's in
//! the tool tree. It is kept under a name that says what it was built from.

use crate::built::inputs::add_input;
use crate::built::tools::Tools;
use crate::cache::Cache;
use crate::cache::prepared::files_of;
use crate::cache::shipped;
use crate::command::{run, spawn_output};
use crate::debian::apt::Apt;
use crate::digest::sha256_parts;
use crate::error::{Error, Result, io};
use crate::progress::Progress;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET_GNU: &str = "riscv64gc-unknown-linux-gnu";
/// Where the tool tree sees the project and the cache. Always the same, so that the program is the
/// same wherever these are.
const SOURCE: &str = "/trapless/source";
const CACHE: &str = "/trapless/cache";
const TARGET_MUSL: &str = "riscv64gc-unknown-linux-musl";

/// Folder of the cache, and of what a package brings along.
pub(crate) const KIND: &str = "vmm";
/// What is built: the VMM first.
const PROGRAMS: [&str; 2] = ["trapless-vmm", "trapless-backend"];
/// Changes when this code would make another program from the same sources.
const FORMAT: &str = "2";
/// What stands in a crate's folder and has no part in its build.
const APART: &[&str] = &["target", "tests", "examples", "README.md"];

/// Builds the VMM (`vmm/` of `project`) and its back ends as static riscv64 programs and returns
/// the path of the VMM, beside which the others are.
///
/// What has been built from the same sources is taken from the cache, or came with the program:
/// then no compiler is needed.
///
/// # Errors
/// If the tools cannot be had or the program does not compile; the compiler's messages go to
/// standard error.
pub fn build(project: &Path, cache: &Cache, apt: &Apt, progress: Progress) -> Result<PathBuf> {
    let key = &sources(project)?[..24];
    if let Some(shipped) = shipped::find(project, KIND, key) {
        return Ok(shipped.join(PROGRAMS[0]));
    }
    let folder = cache.folder(KIND)?.join(key);
    let program = folder.join("trapless-vmm");
    let _lock = cache.lock("vmm")?;
    if program.exists() {
        return Ok(program);
    }
    let built = compile_here(project, cache, apt, progress)?;
    let unfinished = folder.with_extension("unfinished");
    fs::create_dir_all(&unfinished).map_err(io("create", &unfinished))?;
    for name in PROGRAMS {
        let copy = unfinished.join(name);
        fs::copy(built.with_file_name(name), &copy).map_err(io("write", &copy))?;
    }
    fs::rename(&unfinished, &folder).map_err(io("write", &folder))?;
    Ok(program)
}

/// Names the sources of the VMM by their content: its own folder, and the crates of the project
/// that its lock file lists, which are those without a `source`.
fn sources(project: &Path) -> Result<String> {
    let lock = project.join("vmm/Cargo.lock");
    let text = fs::read_to_string(&lock).map_err(io("read", &lock))?;
    let bad = |message: String| Error::Data {
        path: lock.clone(),
        message,
    };
    let lock: toml::Table = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let mut parts = vec![FORMAT.to_owned()];
    // Versions and features of what the crates share.
    add_input(&project.join("Cargo.toml"), "Cargo.toml", &mut parts)?;
    add_crate(project, "vmm", &mut parts)?;
    for package in packages.into_iter().flatten() {
        let name = package.get("name").and_then(toml::Value::as_str);
        let name = name.and_then(|name| name.strip_prefix("trapless-"));
        if let (Some(name), None) = (name, package.get("source"))
            && name != "vmm"
        {
            add_crate(project, &format!("crates/{name}"), &mut parts)?;
        }
    }
    Ok(sha256_parts(parts.iter().map(String::as_bytes)))
}

fn add_crate(project: &Path, name: &str, parts: &mut Vec<String>) -> Result<()> {
    for file in files_of(&project.join(name))? {
        let below = file.file_name().unwrap_or_default().to_string_lossy();
        if !APART.contains(&&*below) && !below.starts_with('.') {
            add_input(&file, &format!("{name}/{below}"), parts)?;
        }
    }
    Ok(())
}

/// Where in the cache cargo keeps what it has compiled. Each project has a folder of its own: cargo
/// tells by the times of source files whether they have changed, and would take an older file of
/// another checkout for what it has compiled already.
fn target_folder(project: &Path) -> String {
    let path = sha256_parts([project.as_os_str().as_encoded_bytes()]);
    format!("vmm-target/{}", &path[..16])
}

/// Lets cargo build the program and returns where it left it.
fn compile_here(project: &Path, cache: &Cache, apt: &Apt, progress: Progress) -> Result<PathBuf> {
    let target_dir = cache.folder(&target_folder(project))?;
    let _task = progress.task("Building the VMM for riscv64", 0);
    let program = |target: &str| target_dir.join(target).join("release/trapless-vmm");
    if let Some(target) = host_target() {
        let mut command = host_cargo(project, target);
        command.arg("--target-dir").arg(&target_dir);
        if Tools::status(&mut command)? == 0 {
            return Ok(program(target));
        }
        progress.tell("the machine's own cargo could not build the VMM; trying Debian's");
    }
    let code = Tools::status(&mut tree_cargo(project, cache, apt, progress)?)?;
    // PRoot ends with status 0 when a signal has ended the program.
    if code == 0 && program(TARGET_GNU).exists() {
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

/// Debian's cargo works offline on crates that the machine's cargo, which knows the registry, has
/// laid beside it.
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
        .args([
            "--target-dir",
            &format!("{CACHE}/{}", target_folder(project)),
        ])
        .env("CARGO_HOME", format!("{CACHE}/cargo-home"));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a changed source is built again; an unchanged one is not, wherever it is and
    /// however new.
    #[test]
    fn the_vmm_is_named_by_the_content_of_its_sources() {
        let temp = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = temp.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let lock = "[[package]]\nname = \"trapless-intc\"\n[[package]]\nname = \"libc\"\n\
                    source = \"x\"\n[[package]]\nname = \"trapless-vmm\"\n";
        write("Cargo.toml", "[workspace]");
        write("vmm/Cargo.lock", lock);
        write("vmm/src/main.rs", "1");
        write("crates/intc/src/lib.rs", "1");
        let key = || sources(temp.path()).unwrap();
        let first = key();
        write("vmm/src/main.rs", "1");
        write("vmm/target/release/x", "1");
        write("crates/intc/tests/x.rs", "1");
        write("crates/hart/src/lib.rs", "1");
        assert_eq!(key(), first);
        let mut keys = vec![first];
        for path in ["vmm/src/main.rs", "crates/intc/src/lib.rs", "Cargo.toml"] {
            write(path, "[a]");
            keys.push(key());
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 4);
    }

    /// Promise: two checkouts with one cache do not get each other's VMM, whose sources are older
    /// than what was compiled last.
    #[test]
    fn each_project_has_its_own_compiled_code() {
        let folders = ["/a", "/b"].map(|project| target_folder(Path::new(project)));
        assert_ne!(folders[0], folders[1]);
        assert!(
            folders
                .iter()
                .all(|folder| folder.starts_with("vmm-target/"))
        );
    }
}
