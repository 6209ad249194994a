//! The terminal report on synthetic ledgers.

mod synthetic;

use trapless_report::{Style, report};

#[test]
fn comparison_is_aligned_and_says_what_the_ledgers_say() {
    let ledgers = [
        synthetic::ledger("sbi", 1000),
        synthetic::ledger("sstc", 1000),
    ];
    let text = report(&ledgers, Style::default());
    println!("{text}");
    assert!(
        text.lines().all(|l| l.chars().count() <= 100),
        "wider than 100 columns"
    );
    assert!(!text.contains('\x1b'));
    let finding = "Programming the guest's timer: 1 000 exits and 1 000 firmware traps on sbi; 0 exits on sstc, per 1 000 wake-ups.";
    let flat = text.replace("\n  ", " ");
    assert!(flat.contains(finding), "{flat}");
    let set = text
        .lines()
        .find(|l| l.starts_with("set timer (SBI call)"))
        .unwrap();
    let cells: Vec<&str> = set
        .split("  ")
        .filter(|c| !c.is_empty())
        .map(str::trim)
        .collect();
    assert_eq!(
        cells,
        [
            "set timer (SBI call)",
            "1 000",
            "1 000",
            "1 000",
            "0",
            "0",
            "0"
        ]
    );
}

#[test]
fn one_ledger_and_many_fit_as_well() {
    let one = report(&[synthetic::ledger("sbi", 10)], Style::default());
    assert!(one.contains("Guest exits by reason"));
    let many: Vec<_> = (0..5).map(|_| synthetic::ledger("sbi", 10)).collect();
    let text = report(
        &many,
        Style {
            colour: true,
            width: 100,
        },
    );
    assert!(text.contains("sbi #5"));
    assert!(text.contains("\x1b[1m"));
    assert_eq!(
        report(&[], Style::default()),
        "No ledger to report.
"
    );
}

#[test]
fn names_from_files_cannot_drive_the_terminal() {
    let mut ledger = synthetic::ledger("sbi\x1b[2J", 10);
    ledger.run.workload = "a\x07b".into();
    ledger.run.measurements[0].name = "x\ny\x1b]0;".into();
    let text = report(&[ledger], Style::default());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
}
