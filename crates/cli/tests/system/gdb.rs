//! A real gdb with the symbols of the kernels that run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A run that waits for gdb, and dies with this.
struct Waiting {
    child: Child,
    address: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets workload `timer` run until the guest of KVM is busy, `at` seconds of virtual time.
fn run(machine: &str, at: &str) -> Waiting {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command.env("TRAPLESS_CHECKPOINTS", "0");
    command.args(["run", "--machine", machine, "--workload", "timer"]);
    command.args(["--host-harts", "2", "--gdb", ":0", "--at", at]);
    command.args(["--ledger", "/dev/null"]);
    wait(command)
}

/// Starts a command and lets it run until it waits for gdb.
fn wait(mut command: Command) -> Waiting {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("trapless starts");
    let errors = BufReader::new(child.stderr.take().unwrap());
    let mut address = None;
    let mut printed = String::new();
    for line in errors.lines().map_while(Result::ok) {
        printed += &line;
        if let Some((_, found)) = line.split_once("target remote ") {
            address = Some(found.to_owned());
            break;
        }
    }
    let Some(address) = address else {
        panic!("it does not wait for gdb: {printed}")
    };
    Waiting { child, address }
}

/// What gdb prints for these commands.
fn gdb(waiting: &Waiting, commands: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../gdb/gdb/trapless.py");
    let target = format!("target remote {}", waiting.address);
    let mut command = Command::new("gdb-multiarch");
    command.args(["-nx", "-batch", "-ex", "set pagination off"]);
    command.args(["-ex", "set confirm off", "-x", script]);
    for text in ["set architecture riscv:rv64", &target]
        .iter()
        .chain(commands)
    {
        command.args(["-ex", text]);
    }
    let out = command
        .stdin(Stdio::null())
        .output()
        .expect("gdb-multiarch is installed (scripts/packages-test)");
    let text = [out.stdout, out.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[track_caller]
fn has(text: &str, wanted: &str) {
    assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
}

/// Promise: in gdb, functions of the host's kernel and of its modules have names, wherever they
/// were loaded; a breakpoint at one is reached, its callers are shown, and so is the interrupt
/// controller.
#[test]
fn functions_of_kvm_have_names() {
    let waiting = run("trapless", "1.9s");
    let text = gdb(
        &waiting,
        &[
            "trapless symbols",
            "trapless break kvm_riscv_vcpu_trapless_put",
            "continue",
            "info symbol $pc",
            "bt 6",
            "monitor interrupts",
            "kill",
        ],
    );
    has(&text, "symbols of the kernel and ");
    has(&text, " in section kvm.text");
    has(&text, "#0  0x");
    let frame = |number: u32, function: &str| {
        let begins = format!("#{number} ");
        let found = text.lines().find(|line| line.starts_with(&begins));
        assert!(found.is_some_and(|line| line.ends_with(function)), "{text}");
    };
    frame(0, " in kvm_riscv_vcpu_trapless_put ()");
    frame(1, " in kvm_arch_vcpu_put ()");
    has(&text, "domain 1");
    has(&text, "vhart 0");
}

/// Promise: the same for the kernel of a guest.
#[test]
fn functions_of_a_guests_kernel_have_names() {
    let waiting = run("sstc", "1.9s");
    let text = gdb(
        &waiting,
        &[
            "trapless symbols",
            // The hart that loads a vCPU is the one that enters the guest.
            "trapless break kvm_arch_vcpu_load",
            "continue",
            "delete",
            "break handle_exception if $v == 1",
            "continue",
            // Without those of the host
            "symbol-file",
            "echo -- now the guest\\n",
            "trapless guest",
            "info symbol $pc",
            "printf \"v %d\\n\", $v",
            "kill",
        ],
    );
    let (_, guest) = text.split_once("-- now the guest").expect("gdb got there");
    has(guest, "symbols of the kernel");
    has(guest, "handle_exception");
    has(guest, " in section vmlinux.text");
    has(guest, "v 1");
}

/// Promise: a session with the host's network and a folder of the host goes back in gdb when it is
/// repeated from its record, to its first instruction, and forwards again to the same end.
#[test]
fn a_repeated_session_goes_back() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gdb-replay");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("in")).expect("it can be made");
    fs::write(folder.join("in/page"), "from the host").expect("it can be written");
    let script = "expect switches the host off\n\
        send modprobe virtio_net; ifconfig eth0 10.0.2.15 up; ping -c 3 10.0.2.2\n\
        send cat /mnt/share/page; exit\n";
    fs::write(folder.join("script"), script).expect("it can be written");
    let boot = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
        command.args(["boot", "--harts", "1", "--net", "user", "--share", "in"]);
        command.args(options).current_dir(&folder);
        command
    };
    let recorded = ["--script", "script", "--record", "r", "--ledger", "a.json"];
    let recorded = boot(&recorded).output().expect("trapless starts");
    let printed = String::from_utf8_lossy(&recorded.stdout);
    assert!(printed.contains("from the host"), "{printed}");
    let mut end = String::new();
    for line in printed.lines().filter(|line| line.contains("3 packets")) {
        end += line;
    }
    has(&end, "0% packet loss");

    let replayed = [
        "--replay", "r", "--ledger", "b.json", "--gdb", ":0", "--at", "1.2s",
    ];
    let mut machine = wait(boot(&replayed));
    let text = gdb(
        &machine,
        &[
            "break *0",
            "reverse-continue",
            "monitor time",
            "delete",
            "continue",
        ],
    );
    has(&text, "No more reverse-execution history");
    has(&text, "\n0 cycles, 0 instructions");
    has(&text, "exited normally");
    let status = machine.child.wait().expect("it runs");
    assert!(status.success(), "{status}");

    // A session that was left goes no further, and from there back.
    fs::write(folder.join("script"), "expect switches the host off\nend\n").expect("it is ours");
    let left = ["--script", "script", "--record", "left"];
    let left = boot(&left).output().expect("trapless starts");
    assert!(left.status.success());
    for (at, commands) in [
        (
            "1s",
            ["continue", "reverse-stepi", "continue", "monitor time"],
        ),
        (
            "900s",
            [
                "monitor time",
                "reverse-stepi",
                "continue",
                "monitor history",
            ],
        ),
    ] {
        let mut machine = wait(boot(&["--replay", "left", "--gdb", ":0", "--at", at]));
        let text = gdb(&machine, &[&commands[..], &["detach"]].concat());
        has(&text, "No more reverse-execution history");
        let status = machine.child.wait().expect("it runs");
        assert!(status.success(), "{status}\n{text}");
    }
    let [one, two] = ["a.json", "b.json"].map(|name| fs::read(folder.join(name)).expect(name));
    assert!(one == two, "the ledgers differ");
}
