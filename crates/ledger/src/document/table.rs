//! All counters of the JSON form as the Markdown tables of `docs/counters.md`.

use std::fmt::Write as _;

use super::{
    DirectFirmware, Events, Exit, Firmware, GuestFiles, GuestInterrupts, HartInfo, InterruptClass,
    NotificationQueue, Notifications, Pci, PciFunction, Redirected, Section, Slots, Thread,
};
use crate::counters::Counter;

/// The page, from the declarations.
pub fn counters_markdown() -> String {
    let mut page = String::from(HEAD);
    let mut part = |name: &str, rows: String| {
        page.push_str(&format!(
            "\n## {name}\n\n| counter | unit | meaning |\n|---|---|---|\n{rows}"
        ));
    };
    part("A run or a phase", rows(Section::COUNTERS));
    part("`exits.REASON`", rows(Exit::COUNTERS));
    part("`redirected.REASON`", rows(Redirected::COUNTERS));
    part("`firmware`", rows(Firmware::COUNTERS));
    part("`firmware.direct.CAUSE`", rows(DirectFirmware::COUNTERS));
    part("`guest_interrupts`", rows(GuestInterrupts::COUNTERS));
    part("`interrupts.CLASS`", rows(InterruptClass::COUNTERS));
    part("`notifications`", rows(Notifications::COUNTERS));
    part(
        "`notifications.kinds.KIND`",
        rows(NotificationQueue::COUNTERS),
    );
    part("`events`", rows(Events::COUNTERS));
    part("`slots`", rows(Slots::COUNTERS));
    part("`guest_files`", rows(GuestFiles::COUNTERS));
    part("`pci`", rows(Pci::COUNTERS));
    part("`pci.functions.FUNCTION`", rows(PciFunction::COUNTERS));
    part("`harts`", rows(HartInfo::COUNTERS));
    part("`threads`", rows(Thread::COUNTERS));
    page
}

const HEAD: &str = "\
# Counters

Made from their declarations in `crates/ledger/src/document/` by `cargo run -p trapless-ledger
--example counters`. The rules by which they count are in [the ledger](ledger.md).
";

fn rows<T>(counters: &[Counter<T>]) -> String {
    let mut rows = String::new();
    for counter in counters {
        let meaning = counter.description.replace('|', "\\|");
        // Writing to a string cannot fail.
        let _ = writeln!(
            rows,
            "| `{}` | {} | {meaning} |",
            counter.name,
            counter.unit.name()
        );
    }
    rows
}
