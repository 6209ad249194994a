//! Files into and out of a guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::runs::trapless;

/// An empty folder for one test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("data")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("it can be made");
    folder
}

/// Boots the host image, types these lines and waits for the guest to power off.
fn boot(folder: &Path, options: &[&str], lines: &[&str]) -> Output {
    let mut script = String::from("expect switches the host off\n");
    for line in lines {
        script += &format!("send {line}\n");
    }
    script += "send exit\n";
    let file = folder.join("script");
    fs::write(&file, script).expect("it can be written");
    let mut command = trapless();
    command
        .args(["boot", "--harts", "1", "--script"])
        .arg(&file);
    command.args(options).current_dir(folder);
    command.output().expect("the command starts")
}

/// What a boot printed, which ended well.
fn succeed(folder: &Path, options: &[&str], lines: &[&str]) -> String {
    let output = boot(folder, options, lines);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{error}");
    text
}

/// Promise: what a guest writes to a disk with `rw` is there at the next boot, whatever the format
/// of the image; without `rw` the file stays as it was.
#[test]
fn second_boot_reads_what_the_first_wrote() {
    let folder = scratch("disk");
    let file = fs::File::create(folder.join("a.img")).expect("it can be made");
    file.set_len(4 << 20).expect("it can grow");
    let write = ["echo written | dd of=/dev/vda bs=512 seek=8 conv=sync,fsync"];
    let read = ["dd if=/dev/vda bs=512 skip=8 count=1 | tr w W"];
    succeed(&folder, &["--disk", "a.img"], &write);
    let forgotten = succeed(&folder, &["--disk", "a.img"], &read);
    assert!(!forgotten.contains("Written"), "{forgotten}");
    succeed(&folder, &["--disk", "a.img,rw"], &write);
    let bytes = fs::read(folder.join("a.img")).expect("it is there");
    assert!(bytes[8 * 512..].starts_with(b"written\n"));
    let kept = succeed(&folder, &["--disk", "a.img,ro"], &read);
    assert!(kept.contains("Written"), "{kept}");
}

/// Promise: a shared folder brings files in and results out, a copied file is where it was asked
/// for, and with the same files both runs have the same ledger.
#[test]
fn files_come_in_and_results_go_out() {
    let folder = scratch("share");
    fs::write(folder.join("tool"), "#!/bin/sh\ntr a-z A-Z\n").expect("it can be written");
    let ledgers = ["one", "two"].map(|name| {
        let shared = folder.join(name);
        fs::create_dir_all(shared.join("in")).expect("it can be made");
        for file in ["c", "a", "b"] {
            fs::write(shared.join("in").join(file), file).expect("it can be written");
        }
        for path in ["in/a", "in/b", "in/c", "in", "."] {
            let file = fs::File::open(shared.join(path)).expect("it is there");
            let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
            file.set_times(times).expect("it is ours");
        }
        let ledger = format!("{name}.json");
        let share = format!("{name},tag=data");
        let options = [
            "--share",
            &share,
            "--copy",
            "tool:/bin/tool",
            "--ledger",
            &ledger,
        ];
        let text = succeed(
            &folder,
            &options,
            &[
                "ls -l /mnt/data/in",
                "sh /bin/tool </mnt/data/in/b >/mnt/data/result",
                "find /mnt/data -newer /mnt/data/in/a -exec stat {} +",
            ],
        );
        assert!(text.contains("Your folder is in /mnt/data."), "{text}");
        let result = fs::read_to_string(shared.join("result")).expect("the guest made it");
        assert_eq!(result, "B");
        let text = fs::read_to_string(folder.join(&ledger)).expect("it is there");
        let mut ledger: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        // How long the host took.
        ledger
            .as_object_mut()
            .expect("it is an object")
            .remove("host");
        ledger
    });
    assert_eq!(ledgers[0], ledgers[1]);
}

/// Promise: with `ro` a guest changes nothing, and a file that two machines would write is refused.
#[test]
fn what_may_not_be_written_is_not() {
    let folder = scratch("refused");
    fs::create_dir(folder.join("in")).expect("it can be made");
    fs::write(folder.join("in/file"), "kept").expect("it can be written");
    fs::write(folder.join("a.img"), [0; 4096]).expect("it can be written");
    let text = succeed(
        &folder,
        &["--share", "in,ro"],
        &[
            "echo x >/mnt/share/file",
            "rm /mnt/share/file",
            "touch /mnt/share/new",
        ],
    );
    assert!(text.contains("Read-only file system"), "{text}");
    let names = fs::read_dir(folder.join("in"))
        .expect("it is there")
        .count();
    assert_eq!(names, 1);
    let kept = fs::read_to_string(folder.join("in/file")).expect("it is there");
    assert_eq!(kept, "kept");
    let twice = boot(&folder, &["--disk", "a.img,rw", "--disk", "a.img"], &[]);
    let error = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert_eq!(twice.status.code(), Some(2), "{error}");
    assert!(error.contains("is in use"), "{error}");
}
