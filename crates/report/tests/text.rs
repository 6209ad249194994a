//! The terminal report on synthetic ledgers.

mod synthetic;

use trapless_ledger::document::Work;
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
    let finding = "Programming the guest's timer: 1 000 exits and 1 000 firmware traps on sbi; \
                   0 exits and 0 firmware traps on sstc, per 1 000 timer interrupts.";
    let flat = text.replace("\n  ", " ");
    assert!(flat.contains(finding), "{flat}");
    // The last lines: traps before and after by interrupt class, WFI apart.
    let last: Vec<&str> = flat.lines().rev().take(4).collect();
    assert_eq!(
        last[3],
        "Timer interrupts: 1 000 exits + 1 000 firmware traps on sbi → 0 exits + 0 firmware traps \
         on sstc, per 1 000 interrupts."
    );
    assert!(last[2].starts_with("IPIs: 2 000 exits + 2 000 firmware traps on sbi → 2 000"));
    assert!(last[1].starts_with("Halting (WFI), counted apart: 1 000 exits on sbi → 1 000"));
    assert_eq!(
        last[0],
        "Timers of the host while vCPUs were halted: 1 000 firmware traps on sbi → 0 firmware \
         traps on sstc, per 1 000 wake-ups."
    );
    let table = text.split("\nTimer interrupts\n").nth(1).unwrap();
    for row in [
        ["programmed", "1 000", "1 000"],
        ["arrived: vCPU scheduled off", "1 000", "1 000"],
        ["exits", "1 000", "0"],
    ] {
        let found = table
            .lines()
            .find(|l| l.trim().starts_with(row[0]))
            .unwrap();
        let cells: Vec<&str> = found
            .split("  ")
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .collect();
        assert_eq!(cells, row);
    }
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
    ledger.run.work = Some(Work {
        unit: "pings\x1b[2J\u{9b}31m".into(),
        count: 7,
    });
    let text = report(&[ledger], Style::default());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn a_ledger_of_version_1_has_no_classes_and_says_so() {
    let mut old = synthetic::ledger("sbi", 10);
    old.total.interrupts.clear();
    old.phases
        .iter_mut()
        .for_each(|p| p.totals.interrupts.clear());
    let alone = report(std::slice::from_ref(&old), Style::default());
    assert!(!alone.contains("programmed") && !alone.contains("per 1 000 interrupts"));
    let both = report(&[old, synthetic::ledger("sstc", 10)], Style::default());
    let row = both.lines().find(|l| l.starts_with("programmed")).unwrap();
    assert!(row.contains('–'), "{row}");
    assert!(both.contains("Timer interrupts: 0 exits + 0 firmware traps on sstc, per"));
}

#[test]
fn what_the_controller_does_is_shown_when_it_does_something() {
    use trapless_ledger::class::NotificationKind;
    use trapless_ledger::document::NotificationQueue;
    let mut ledger = synthetic::ledger("trapless", 10);
    let section = &mut ledger.phases[1].totals;
    let wake = NotificationQueue {
        queued: 1234,
        fetched: 1234,
        latency: None,
    };
    section
        .notifications
        .kinds
        .insert(NotificationKind::Wake, wake);
    section.notifications.silent = 5;
    section.slots.attached = 77;
    let text = report(&[synthetic::ledger("sbi", 10), ledger], Style::default());
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    for row in [
        "queued: wake 0 1 234",
        "no notification (one outstanding, or no need) 0 5",
        "vCPUs loaded 0 77",
    ] {
        assert!(lines.iter().any(|line| line == row), "{row}: {text}");
    }
    assert!(!text.contains("dropped"));
}
