//! Files into and out of a guest.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::SystemTime;

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
        let file = format!("{name}.json");
        let share = format!("{name},tag=data");
        let options = [
            "--share",
            &share,
            "--copy",
            "tool:/bin/tool",
            "--ledger",
            &file,
        ];
        let text = succeed(
            &folder,
            &options,
            &[
                "ls -l /mnt/data/in",
                "sh /bin/tool </mnt/data/in/b >/mnt/data/result",
                "mkdir /mnt/data/made; : >/mnt/data/empty; ln -s empty /mnt/data/link",
                "find /mnt/data -newer /mnt/data/in/a -exec stat {} +",
            ],
        );
        assert!(text.contains("Your folder is in /mnt/data."), "{text}");
        let result = fs::read_to_string(shared.join("result")).expect("the guest made it");
        assert_eq!(result, "B");
        ledger(&folder.join(&file))
    });
    assert!(ledgers[0] == ledgers[1], "the ledgers differ");
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

/// Repeats the recorded run `r` with these options.
fn replay(folder: &Path, options: &[&str]) -> Output {
    let mut command = trapless();
    command.args(["boot", "--harts", "1", "--replay", "r"]);
    command.args(options).current_dir(folder);
    command.output().expect("the command starts")
}

/// Asserts that a command ended with this status and said why.
#[track_caller]
fn refused(output: &Output, status: i32, reason: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(error.contains(reason), "{error}");
}

/// A ledger, to the last byte: that of a boot says nothing of the host's time.
fn ledger(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("it is there");
    assert!(text.contains("\"boot\""), "{text}");
    text
}

/// Promise: a run with the host's network, a shared folder and typed lines is repeated from its
/// record, where none of these is there: same output, same ledger, same date. A record of another
/// run is refused. A guest on the host's network has the host's date, without which signatures and
/// certificates are not valid yet.
#[test]
fn recorded_run_is_repeated_without_what_it_needed() {
    let folder = scratch("record");
    fs::create_dir(folder.join("in")).expect("it can be made");
    fs::write(folder.join("in/page"), "index").expect("it can be written");
    let server = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = server.local_addr().expect("it has one").port();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("the guest calls");
        let mut request = [0; 1024];
        let len = stream.read(&mut request).expect("the guest asks");
        let answer = b"HTTP/1.0 200 OK\r\n\r\nfrom the host";
        stream.write_all(answer).expect("the guest listens");
        String::from_utf8_lossy(&request[..len]).into_owned()
    });
    let get = format!(
        "wget -q -O - http://10.0.2.2:{port}/$(cat /mnt/share/page) >/mnt/share/got; \
         cat /mnt/share/got"
    );
    let outside = ["--net", "user", "--share", "in"];
    let recorded = [&outside[..], &["--record", "r", "--ledger", "a.json"]].concat();
    let date = "echo date $(cat /sys/class/rtc/rtc0/since_epoch) $(date +%s)";
    let lines = [
        "modprobe virtio_net",
        "ifconfig eth0 10.0.2.15 up",
        &get,
        date,
    ];
    let began = SystemTime::now();
    let first = succeed(&folder, &recorded, &lines);
    let clocks = dates(&first);
    let ended = seconds(began) + began.elapsed().map_or(0, |spent| spent.as_secs());
    assert_eq!(clocks.len(), 2, "{first}");
    for clock in clocks {
        assert!((seconds(began)..=ended + 1).contains(&clock), "{clock}");
    }
    let request = serve.join().expect("it has answered");
    assert!(request.starts_with("GET /index "), "{request}");
    let got = fs::read_to_string(folder.join("in/got")).expect("the guest made it");
    assert_eq!(got, "from the host");

    fs::remove_dir_all(folder.join("in")).expect("it can be removed");
    let again = replay(&folder, &[&outside[..], &["--ledger", "b.json"]].concat());
    let error = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success(), "{error}");
    let second = String::from_utf8_lossy(&again.stdout);
    assert!(second.contains("from the host"), "{second}");
    assert_eq!(first, second);
    let [one, two] = ["a.json", "b.json"].map(|name| ledger(&folder.join(name)));
    assert!(one == two, "the ledgers differ");
    let other = replay(&folder, &["--net", "user"]);
    refused(&other, 2, "another set of devices");
    let dated = [&outside[..], &["--rtc", "2030-01-01"]].concat();
    refused(&replay(&folder, &dated), 2, "another machine (epoch)");
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.expect("it is later").as_secs()
}

/// What the guest's clocks showed, in seconds since 1970: the line that begins with `date`.
fn dates(printed: &str) -> Vec<u64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("date "));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers.map_while(|number| number.parse().ok()).collect()
}

/// Promise: without a network the clock shows the same date each time, or that which the user says,
/// and continues when the guest reboots.
#[test]
fn the_clock_shows_the_date_that_is_asked_for_and_continues_after_a_reboot() {
    let folder = scratch("date");
    let show = "echo date $(cat /sys/class/rtc/rtc0/since_epoch)";
    let usual = dates(&succeed(&folder, &[], &[show]));
    assert_eq!(usual[0] / 86_400, 1_735_689_600 / 86_400, "2025-01-01");
    let script = format!(
        "timeout 300\nexpect switches the host off\nsend sleep 100; {show}; reboot -f\n\
         expect switches the host off\nsend {show}; exit\n"
    );
    fs::write(folder.join("script"), script).expect("it can be written");
    let mut command = trapless();
    command.args(["boot", "--harts", "1", "--rtc", "2030-01-01T00:00:00"]);
    let output = command
        .args(["--script", "script"])
        .current_dir(&folder)
        .output();
    let printed = output.expect("the command starts").stdout;
    let printed = String::from_utf8_lossy(&printed);
    let shown: Vec<u64> = printed
        .split("date ")
        .flat_map(|rest| dates(&format!("date {rest}")))
        .collect();
    let [first, second] = shown[..] else {
        panic!("{printed}");
    };
    let midnight = 1_893_456_000;
    assert!((midnight + 100..midnight + 200).contains(&first), "{first}");
    assert!((first..first + 100).contains(&second), "{first} {second}");
}

/// Promise: what `--replay` repeats is the recorded run, or says that it is not: if a disk is
/// another one, and if that shows only in what the guest does.
#[test]
fn another_run_is_not_taken_for_the_recorded_one() {
    let folder = scratch("other");
    fs::create_dir(folder.join("in")).expect("it can be made");
    fs::write(folder.join("in/page"), "x").expect("it can be written");
    let disk = fs::File::create(folder.join("a.img")).expect("it can be made");
    disk.set_len(64 << 20).expect("it can grow");
    let with = ["--disk", "a.img", "--share", "in"];
    let read = "cat /mnt/share/$(dd if=/dev/vda bs=512 skip=200 count=1 | tr -cd a-z)page";
    succeed(&folder, &[&with[..], &["--record", "r"]].concat(), &[read]);
    assert!(replay(&folder, &with).status.success());
    let write = |offset: usize| {
        let mut bytes = fs::read(folder.join("a.img")).expect("it is there");
        bytes[offset] = b'y';
        fs::write(folder.join("a.img"), bytes).expect("it can be written");
    };
    // Between the samples of the checksum.
    write(200 * 512);
    refused(&replay(&folder, &with), 1, "this is not the recorded run");
    write(0);
    refused(&replay(&folder, &with), 2, "another set of devices");
}

/// Promise: a replay in which the guest does not end when the recorded one did says so, instead of
/// going on for ever.
#[test]
fn a_replay_that_continues_is_not_the_recorded_run() {
    let folder = scratch("on");
    let disk = fs::File::create(folder.join("a.img")).expect("it can be made");
    disk.set_len(64 << 20).expect("it can grow");
    // Between the samples of the checksum.
    let off = "dd if=/dev/vda bs=512 skip=200 count=1 | grep -q stay && sleep 1000000; poweroff -f";
    succeed(&folder, &["--disk", "a.img", "--record", "r"], &[off]);
    let mut bytes = fs::read(folder.join("a.img")).expect("it is there");
    bytes[200 * 512..200 * 512 + 5].copy_from_slice(b"stay\n");
    fs::write(folder.join("a.img"), bytes).expect("it can be written");
    let on = replay(&folder, &["--disk", "a.img"]);
    refused(&on, 1, "this is not the recorded run");
}

/// Promise: a run that writes to its disk, reboots and reads that again is repeated with the disk
/// as it was before.
#[test]
fn a_disk_that_a_recorded_run_wrote_is_there_after_its_reboot() {
    let folder = scratch("reboot");
    fs::write(folder.join("a.img"), vec![0; 1 << 20]).expect("it can be written");
    let script = "expect switches the host off\n\
        send echo written | dd of=/dev/vda conv=sync; sync; reboot -f\n\
        expect switches the host off\n\
        send head -c 7 /dev/vda | tr w W; exit\n";
    fs::write(folder.join("script"), script).expect("it can be written");
    let mut command = trapless();
    command.args(["boot", "--harts", "1", "--disk", "a.img,rw"]);
    command.args(["--script", "script", "--record", "r"]);
    let first = command.current_dir(&folder).output();
    let first = first.expect("the command starts");
    let printed = String::from_utf8_lossy(&first.stdout);
    assert!(printed.contains("Written"), "{printed}");
    fs::write(folder.join("a.img"), vec![0; 1 << 20]).expect("it can be written");
    let again = replay(&folder, &["--disk", "a.img,rw"]);
    assert!(again.status.success() && again.stdout == first.stdout);
    let kept = fs::read(folder.join("a.img")).expect("it is there");
    assert!(kept.iter().all(|byte| *byte == 0), "the replay wrote to it");
}

/// Promise: the record of a command that was killed repeats the run as far as it went, and says
/// that it has no end. While a machine runs, its images stay in the cache.
#[test]
fn record_of_a_killed_command_is_repeated_as_far_as_it_goes() {
    const LINES: usize = 20;
    let folder = scratch("killed");
    fs::create_dir(folder.join("in")).expect("it can be made");
    fs::write(folder.join("in/page"), "x").expect("it can be written");
    // The guest's own cache does not answer.
    let line =
        "while :; do cat /mnt/share/page; echo 3 >/proc/sys/vm/drop_caches; echo again; done";
    let script = format!("expect switches the host off\nsend {line}\nexpect never\n");
    fs::write(folder.join("script"), script).expect("it can be written");
    let mut command = trapless();
    command.args(["boot", "--harts", "1", "--share", "in"]);
    command.args(["--script", "script", "--record", "r"]);
    command.current_dir(&folder);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the command starts");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut printed = Vec::new();
    let (mut lines, mut compared) = (0, 0);
    // Some more: what is printed after the last answer may be cut off.
    while lines < LINES + 5 {
        let begin = printed.len();
        let read = output.read_until(b'\n', &mut printed);
        assert_ne!(read.expect("it prints"), 0, "it ended");
        lines += usize::from(printed[begin..].ends_with(b"again\r\n"));
        if lines <= LINES {
            compared = printed.len();
        }
    }
    let fds = fs::read_dir(format!("/proc/{}/fd", child.id())).expect("it runs");
    let open: Vec<_> = fds
        .flatten()
        .flat_map(|e| fs::read_link(e.path()))
        .collect();
    for image in ["/images/kernel-", "/images/host-"] {
        let held = |path: &PathBuf| path.to_string_lossy().contains(image);
        assert!(open.iter().any(held), "{image} in {open:?}");
    }
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let again = replay(&folder, &["--share", "in"]);
    let error = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success(), "{error}");
    assert!(error.contains("the record has no end"), "{error}");
    assert!(
        again.stdout.starts_with(&printed[..compared]),
        "it printed something else"
    );
}

/// Promise: the same without anything from outside but a typed line: what came long after it is
/// printed again.
#[test]
fn record_of_a_killed_command_goes_beyond_the_last_typed_line() {
    let folder = scratch("typed");
    let script = "expect switches the host off\n\
        send i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.1; done\nexpect never\n";
    fs::write(folder.join("script"), script).expect("it can be written");
    let mut command = trapless();
    command.args([
        "boot",
        "--harts",
        "1",
        "--real-time",
        "--script",
        "script",
        "--record",
        "r",
    ]);
    command.current_dir(&folder).stderr(Stdio::null());
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.expect("the command starts");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let ticked = |line: &String| line.starts_with("tick 30");
    let seen = output
        .lines()
        .map_while(Result::ok)
        .any(|line| ticked(&line));
    assert!(seen, "it ended");
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let again = replay(&folder, &[]);
    let printed = String::from_utf8_lossy(&again.stdout);
    // Progress is noted five times a second, but not by a thread that waits for a processor.
    assert!(printed.contains("tick 5\r\n"), "{printed}");
}

/// Promise: a session that does not do what its script expects leaves its ledger and its trace.
#[test]
fn a_session_that_fails_leaves_its_ledger() {
    let folder = scratch("fails");
    fs::write(folder.join("script"), "timeout 1\nexpect never\n").expect("it can be written");
    let mut command = trapless();
    command.args(["boot", "--script", "script", "--ledger", "l.json"]);
    command
        .args(["--trace", "l.perfetto-trace"])
        .current_dir(&folder);
    let output = command.output().expect("the command starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(ledger(&folder.join("l.json")).contains("\"schema\""));
    assert!(folder.join("l.perfetto-trace").exists());
}

/// Promise: a session continues from a checkpoint with what its guest had in memory and on its
/// disk; on another disk, or with a folder of the host, that is refused.
#[test]
fn a_session_continues_from_its_checkpoint() {
    let folder = scratch("session");
    fs::write(folder.join("a.img"), vec![0; 1 << 20]).expect("it can be written");
    let script = "expect switches the host off\n\
        send echo kept | dd of=/dev/vda conv=sync,fsync; i=0; while sleep 1; do i=$((i+1)); \
        echo tick $i $(head -c 4 /dev/vda); done\n\
        expect tick 8 kept\nend\n";
    fs::write(folder.join("script"), script).expect("it can be written");
    let run = |words: &[&str]| {
        let mut command = trapless();
        command
            .args(words)
            .current_dir(&folder)
            .stdin(Stdio::null());
        command.output().expect("the command starts")
    };
    let boot = ["boot", "--harts", "1", "--disk", "a.img"];
    let saved = ["--script", "script", "--checkpoint", "8=c"];
    let first = run(&[&boot[..], &saved].concat());
    let error = String::from_utf8_lossy(&first.stderr);
    assert!(
        first.status.success() && error.contains("Checkpoint at 8."),
        "{error}"
    );
    let again = run(&["resume", "c", "--time-limit", "12"]);
    let printed = String::from_utf8_lossy(&again.stdout);
    assert!(
        printed.contains("tick 8 kept") && !printed.contains("OpenSBI"),
        "{printed}"
    );
    let whole = String::from_utf8_lossy(&first.stdout);
    let next = printed
        .lines()
        .find(|line| line.starts_with("tick "))
        .expect("it goes on");
    assert!(whole.contains(next), "{next} is not of this session");

    fs::write(folder.join("a.img"), vec![1; 1 << 20]).expect("it can be written");
    refused(&run(&["resume", "c"]), 2, "was made with other disks");
    let shared = run(&[&boot[..], &["--share", ".", "--checkpoint", "1=d"]].concat());
    refused(
        &shared,
        2,
        "this machine cannot be saved: it shares a folder",
    );
    refused(
        &run(&["boot", "--checkpoint", "workload=d"]),
        2,
        "boot runs no workload",
    );
}
