//! Guests with interrupts under way that are paused, saved, killed and restored
//! (`images/tests/restore`).

use crate::hosts::{Host, restore, restore_with_aia, restore_with_uer};

/// Promise: a paused guest stands still and continues where it was.
#[test]
fn a_guest_is_paused_and_resumed() {
    let run = restore();
    run.assert_result("paused", "paused");
    run.assert_result("resumed", "running");
}

/// Promise: a guest that is saved with interrupts under way, killed and restored, three times, from
/// ordinary to huge pages and back, loses none of them and gets none twice; nor does one that takes
/// the place of a VMM that was killed with SIGKILL.
#[test]
fn a_saved_guest_loses_no_interrupt() {
    lost_nothing(restore());
}

/// Promise: the same with KVM's AIA, wherever the APLIC is.
#[test]
fn a_saved_guest_with_aia_loses_no_interrupt() {
    for inject in ["ioctl", "irqfd"] {
        let run = restore_with_aia(inject).unwrap_or_else(|what| panic!("{what}"));
        lost_nothing(&run);
    }
}

/// Promise: nor does one whose serial port answers in user mode, wherever its handler is
/// interrupted; and nothing that it prints is lost.
#[test]
fn a_saved_guest_with_handlers_in_user_mode_loses_nothing() {
    let run = restore_with_uer("trapless").unwrap_or_else(|what| panic!("{what}"));
    lost_nothing(&run);
    run.assert_result("chatter_gaps", "0");
    assert!(run.number("chatter_lines") > 100);
}

fn lost_nothing(run: &Host) {
    run.assert_result("saves", "3");
    run.assert_result("survivor_errors", "0");
    // As many as `images/tests/survivor` asks for: on each of 2 vCPUs, from each to each, from each
    // of 4 sources.
    for (class, count) in [("timer", 1200 * 2), ("ipi", 1500 * 4), ("device", 1000 * 4)] {
        let came = run.number(&format!("survivor_{class}"));
        assert!(came >= count, "{class}: {came} of {count}");
    }
    run.assert_result("survivor_vmm", "0");
}
