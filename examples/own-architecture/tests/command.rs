//! The command with a machine of one's own.

use std::process::{Command, Output};

use own_architecture::{Mine, SWIRES};
use trapless_intc::{CsrAccess, CsrFault, CsrOp, Effects, InterruptArchitecture, Snapshot};
use trapless_isa::Mode;
use trapless_ledger::LedgerFile;
use trapless_machine::MachineConfig;

fn command(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-architecture"));
    command.args(words).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Promise: a program of ten lines is the whole command, with an interrupt architecture that
/// Trapless does not know: host, KVM and guest boot on it, and the ledger names it.
#[test]
fn a_workload_runs_on_an_architecture_from_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("timer.json");
    let path = file.to_str().expect("text");
    let words = ["run", "--machine", "mine", "--workload", "timer"];
    let more = ["--set", "wakeups=20", "--ledger", path];
    let output = command(&[&words[..], &more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let ledger = LedgerFile::read(&file).expect("a ledger");
    let run = &ledger.run;
    assert_eq!(
        (run.machine.as_str(), run.workload.as_str()),
        ("mine", "timer")
    );
    let wakeups = run.measurements.iter().find(|m| m.name == "wakeups");
    assert_eq!(wakeups.map(|m| m.value), Some(20.0));
    assert!(ledger.workload().guest_exits > 0);
    assert!(text(&output.stdout).contains("mine"));
}

#[test]
fn the_machine_is_listed_and_mistakes_name_it() {
    let list = command(&["machines"]);
    assert!(text(&list.stdout).contains("mine         sstc that counts device interrupts"));
    let wrong = command(&["run", "--machine", "main", "--workload", "timer"]);
    assert_eq!(wrong.status.code(), Some(2));
    let stderr = text(&wrong.stderr);
    assert!(
        stderr.contains("there is no machine called main; use one of: ") && stderr.contains("mine")
    );
}

#[test]
fn device_interrupts_are_counted_for_supervisors_and_saved() {
    let mut config = MachineConfig::preset("sstc").expect("a machine");
    config.harts = 2;
    let (mut mine, mut effects) = (Mine::new(&config), Effects::default());
    let access = |mode, op| CsrAccess {
        hart: 0,
        csr: SWIRES,
        mode,
        vmid: 0,
        now: 0,
        op,
    };
    for level in [true, false, true] {
        mine.set_source(0, 3, level, &mut effects);
    }
    let read = access(Mode::HS, CsrOp::Read);
    assert_eq!(mine.csr(&read, &mut effects), Ok(2));
    let guest = access(Mode::VS, CsrOp::Read);
    assert_eq!(mine.csr(&guest, &mut effects), Err(CsrFault::Virtual));
    let mut other = Mine::new(&config);
    other.restore(&mine.save()).expect("the same harts");
    assert_eq!(
        other.csr(&access(Mode::HS, CsrOp::Swap(0)), &mut effects),
        Ok(2)
    );
    assert_eq!(other.csr(&read, &mut effects), Ok(0));
    assert!(other.restore(&serde_json::json!({})).is_err());
}
