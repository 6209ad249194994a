//! Linux's own KVM selftests and those of our series, built for riscv64 from Debian's kernel source
//! with `linux/patches`.

use crate::built::inputs::add_input;
use crate::built::kmod;
use crate::built::tools::Tools;
use crate::command::run;
use crate::debian::package::Package;
use crate::digest::sha256_parts;
use crate::error::{Error, Result, io};
use crate::initramfs::files::PackageFiles;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The part of the kernel source that the selftests are built from, and what the patches touch
/// besides.
const PARTS: &[&str] = &[
    "Documentation/devicetree/bindings/riscv/*",
    "Documentation/devicetree/bindings/vendor-prefixes.yaml",
    "Documentation/virt/kvm/*",
    "Kbuild",
    "MAINTAINERS",
    "Makefile",
    "arch/riscv/*",
    "arch/x86/include/*",
    "drivers/iommu/*",
    "drivers/irqchip/*",
    "drivers/vfio/*",
    "include/*",
    "init/Kconfig",
    "kernel/sched/*",
    "scripts/*",
    "tools/*",
    "usr/*",
    "virt/kvm/*",
];

/// Files of the project that the programs depend on.
const SERIES: [&str; 3] = ["linux/include", "linux/patches", "linux/series"];

/// Generic tests that the kernel's makefile does not list for riscv but that compile for it.
const GENERIC: &str = "dirty_log_perf_test hardware_disable_test rseq_test";

/// Test sizes reduced for emulation: file, text, replacement. What is tested stays the same.
const AMOUNTS: &[(&str, &str, &str)] = &[
    ("dirty_log_test.c", "DIRTY_MEM_BITS 30", "DIRTY_MEM_BITS 24"),
    (
        "hardware_disable_test.c",
        "FORK_NUM (1ULL << 9)",
        "FORK_NUM (1ULL << 4)",
    ),
    (
        "rseq_test.c",
        "NR_TASK_MIGRATIONS 100000",
        "NR_TASK_MIGRATIONS 1000",
    ),
];

/// Builds the selftests of the release that the kernel belongs to.
///
/// Returns the folder with the static programs and the source package.
///
/// # Errors
/// If the source or the tools cannot be had, or the tests do not compile.
pub(crate) fn build(inputs: &kmod::Inputs<'_>) -> Result<(PathBuf, Package)> {
    let &kmod::Inputs {
        project,
        cache,
        progress,
        ..
    } = inputs;
    let source = kmod::source_of(inputs.apt, inputs.kernel)?;
    // As the archive in it is named, too.
    let name = source.name.clone();
    let choices = format!("{GENERIC} {AMOUNTS:?}");
    let mut parts = vec![source.sha256.clone(), choices];
    for input in SERIES {
        add_input(&project.join(input), input, &mut parts)?;
    }
    let key = sha256_parts(parts.iter().map(String::as_bytes));
    let folder = cache.folder("selftests")?.join(&key[..24]);
    let _lock = cache.lock("selftests")?;
    let programs = folder.join("programs");
    if programs.exists() {
        return Ok((programs, source));
    }
    let tools = Tools::prepare(cache, inputs.apt, progress)?;
    let files = PackageFiles::unpack(cache, inputs.apt, std::slice::from_ref(&source), progress)?;
    let archive = files.find(&format!("/usr/src/{name}.tar.xz"))?.1;
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(io("create", &folder))?;
    {
        let _task = progress.task("Unpacking the kernel source", 0);
        let mut tar = tools.command("tar", &[cache.root()])?;
        tar.arg("-xJf")
            .arg(&archive)
            .arg("-C")
            .arg(&folder)
            .arg("--wildcards");
        tar.args(PARTS.iter().map(|part| format!("{name}/{part}")));
        run(&mut tar, "unpacking the kernel source", "util-linux")?;
    }
    let _task = progress.task("Building the KVM selftests for riscv64", 0);
    let tree = folder.join(&name);
    let objects = folder.join("objects");
    let mut apply = tools.command(
        &project.join("linux/series").to_string_lossy(),
        &[project, cache.root()],
    )?;
    apply.arg("apply").arg(&tree).arg(&tree);
    run(&mut apply, "patching the kernel source", "util-linux")?;
    for (file, from, to) in AMOUNTS {
        let path = tree.join("tools/testing/selftests/kvm").join(file);
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        if !text.contains(from) {
            let message = format!("`{from}` is not there any more; correct AMOUNTS");
            return Err(Error::Data { path, message });
        }
        fs::write(&path, text.replace(from, to)).map_err(io("write", &path))?;
    }
    let make = |arguments: &[&str]| -> Result<()> {
        let mut command: Command = tools.command("make", &[cache.root()])?;
        command.args([
            "-s",
            "-j",
            &jobs(),
            "ARCH=riscv",
            "CROSS_COMPILE=riscv64-linux-gnu-",
        ]);
        command.arg("-C").args(arguments);
        run(&mut command, "building the KVM selftests", "util-linux").map(drop)
    };
    make(&[&tree.to_string_lossy(), "headers"])?;
    make(&[
        &tree.join("tools/testing/selftests/kvm").to_string_lossy(),
        "LDFLAGS=-static -s",
        &format!("OUTPUT={}", objects.display()),
        &format!("TEST_GEN_PROGS_EXTENDED_riscv={GENERIC}"),
    ])?;
    let unfinished = folder.join("unfinished");
    fs::create_dir_all(&unfinished).map_err(io("create", &unfinished))?;
    for place in [objects.clone(), objects.join("riscv")] {
        take_programs(&place, &unfinished)?;
    }
    fs::rename(&unfinished, &programs).map_err(io("write", &programs))?;
    // Only the programs are needed again.
    for done in [tree, objects] {
        let _ = fs::remove_dir_all(done);
    }
    Ok((programs, source))
}

/// Copies the ELF programs of one folder.
fn take_programs(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(io("list", from))?.flatten() {
        let path = entry.path();
        if path.is_file() && path.extension().is_none() {
            let copy = to.join(entry.file_name());
            fs::copy(&path, &copy).map_err(io("write", &copy))?;
        }
    }
    Ok(())
}

fn jobs() -> String {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what a patch of the series changes is unpacked, so that it applies, for the
    /// selftests and for KVM as a module.
    #[test]
    fn parts_hold_what_patches_change() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let patches = project.join("linux/patches");
        let recipe = fs::read_to_string(project.join("images/kvm.toml")).expect("it is there");
        let recipe: toml::Table = recipe.parse().expect("it is TOML");
        let kvm = recipe["build"]["source"].as_array().expect("a list");
        let kvm: Vec<&str> = kvm.iter().filter_map(|part| part.as_str()).collect();
        let unpacked = |path: &str| {
            let selftests = PARTS.iter().any(|part| match part.strip_suffix('*') {
                Some(folder) => path.starts_with(folder),
                None => path == *part,
            });
            selftests && kvm.iter().any(|part| Path::new(path).starts_with(part))
        };
        let mut changed = 0;
        for file in fs::read_dir(patches).expect("the series is there") {
            let file = file.expect("it can be read").path();
            if file
                .extension()
                .is_none_or(|extension| extension != "patch")
            {
                continue;
            }
            let text = fs::read_to_string(&file).expect("it is text");
            for path in text.lines().filter_map(|line| line.strip_prefix("--- a/")) {
                changed += 1;
                assert!(unpacked(path), "{}: {path}", file.display());
            }
        }
        assert!(changed > 100);
    }
}
