//! Debian's kernel with a system on a disk of the user's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::runs::{runs, trapless};

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn must_do(command: &mut Command) {
    let status = command.status();
    let status = status.unwrap_or_else(|e| panic!("{command:?}: {e}: install it by `make test`"));
    assert!(status.success(), "{command:?}: {status}");
}

/// A disk with an ext4 file system: the folders a system has, and one program.
fn disk() -> PathBuf {
    let root = scratch("disk-root");
    let _ = fs::remove_dir_all(&root);
    for folder in ["dev", "proc", "sys", "run", "sbin"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let object = scratch("disk_init.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/disk_init.S");
    let mut assembler = Command::new("riscv64-linux-gnu-as");
    must_do(assembler.arg("-o").arg(&object).arg(source));
    let mut linker = Command::new("riscv64-linux-gnu-ld");
    must_do(linker.arg("-o").arg(root.join("sbin/init")).arg(&object));
    let image = scratch("disk.img");
    let _ = fs::remove_file(&image);
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-t", "ext4", "-L", "system", "-d"]);
    must_do(mke2fs.arg(&root).arg(&image).arg("16M"));
    image
}

/// What `boot` says with the disk and this `root=`, and its exit status.
fn boot(disk: &Path, root: &str) -> (String, Option<i32>) {
    let append = format!("root={root} rw rootdelay=1 console=ttyS0 quiet cryptomgr.notests");
    let mut command = trapless();
    command.args(["boot", "--harts", "1", "--append", &append, "--disk"]);
    let output = command.arg(disk).output().expect("the command starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.code())
}

/// Promise: `root=` starts the system on the disk with Debian's kernel, whose drivers are modules;
/// a disk that is not there is named, with those that are.
#[test]
fn root_on_the_command_line_starts_the_system_on_the_disk() {
    runs();
    let disk = disk();
    for root in ["/dev/vda", "LABEL=system"] {
        let (text, status) = boot(&disk, root);
        assert!(
            text.contains("the system on the disk has started"),
            "{text}"
        );
        assert_eq!(status, Some(0), "{text}");
    }
    let (text, _) = boot(&disk, "/dev/vdb1");
    assert!(text.contains("There is no disk /dev/vdb1"), "{text}");
    assert!(text.contains("vda"), "{text}");
}
