//! Lines, resamples, grants, windows and wires keep their promises in every state of small systems,
//! and each of their rules is needed for one.

use trapless_protocol::{Verdict, grants, lines, resample, visit, windows, wires};

fn holds(found: &Verdict) {
    println!("{} states", found.states);
    assert!(found.violated.is_empty(), "{:#?}", found.violated);
    assert!(found.missing.is_empty(), "never: {:?}", found.missing);
}

fn fails(found: &Verdict, property: &str, broken: impl std::fmt::Debug) {
    let fails = found.violated.iter().any(|(name, _)| *name == property);
    let violated = &found.violated;
    assert!(fails, "{broken:?} violates {violated:#?}, not: {property}");
}

fn lines_with(broken: Option<lines::Broken>) -> Verdict {
    let (rises, moves) = (4, 3);
    let model = lines::Lines {
        broken,
        rises,
        moves,
    };
    visit(model, None)
}

#[test]
fn a_line_that_is_raised_stays_pending_wherever_its_source_moves() {
    use lines::{Broken, MOVED, RAISED};
    holds(&lines_with(None));
    for (broken, property) in [
        (Broken::DropLate, RAISED),
        (Broken::OthersCannotComplete, RAISED),
        (Broken::CompletionIgnoresLine, RAISED),
        (Broken::MoveWithoutSync, MOVED),
        (Broken::MoveWithoutClear, MOVED),
        (Broken::MoveWithoutEdge, RAISED),
    ] {
        fails(&lines_with(Some(broken)), property, broken);
    }
}

fn resample_with(broken: Option<resample::Broken>) -> Verdict {
    let (rises, syncs) = (3, 2);
    let model = resample::Resample {
        broken,
        rises,
        syncs,
    };
    visit(model, None)
}

#[test]
fn completions_reach_the_device_and_sync_waits_for_them() {
    use resample::{Broken, PASSED_ON, RAISED};
    holds(&resample_with(None));
    for (broken, property) in [
        (Broken::MarkFirst, RAISED),
        (Broken::SignalFirst, RAISED),
        (Broken::OverflowForgotten, RAISED),
        (Broken::SyncWithoutFlush, PASSED_ON),
        (Broken::SyncWithoutLook, PASSED_ON),
        (Broken::SyncWithoutController, PASSED_ON),
    ] {
        fails(&resample_with(Some(broken)), property, broken);
    }
}

#[test]
fn a_grant_ends_with_its_domain() {
    use grants::{Broken, CONFINED, Grants};
    holds(&visit(Grants { broken: None }, None));
    for broken in [
        Broken::RegisterKept,
        Broken::SavedKept,
        Broken::SwitchNotAwaited,
        Broken::FreeWithoutSync,
    ] {
        let found = visit(
            Grants {
                broken: Some(broken),
            },
            None,
        );
        fails(&found, CONFINED, broken);
    }
}

fn windows_with(broken: Option<windows::Broken>) -> Verdict {
    let messages = 3;
    visit(windows::Windows { broken, messages }, None)
}

#[test]
fn messages_are_heard_of_and_end_with_their_window() {
    use windows::{Broken, DATA, ENDED, HEARD};
    holds(&windows_with(None));
    for (broken, property) in [
        (Broken::MessagePassesData, DATA),
        (Broken::LookupFirst, HEARD),
        (Broken::DetachWithoutRecheck, HEARD),
        (Broken::SyncIgnoresTaken, ENDED),
        (Broken::FreeWithoutSync, ENDED),
        (Broken::SyncBeforeClose, ENDED),
        (Broken::ReuseWithoutFence, ENDED),
        (Broken::ReuseWithoutSync, ENDED),
        (Broken::FenceBeforeUnmap, ENDED),
    ] {
        fails(&windows_with(Some(broken)), property, broken);
    }
}

fn wires_with(broken: Option<wires::Broken>) -> Verdict {
    let (rises, moves) = (4, 3);
    let model = wires::Wires {
        broken,
        rises,
        moves,
    };
    visit(model, None)
}

#[test]
fn a_high_wire_is_pending_with_its_owner_wherever_it_is_given() {
    use wires::{Broken, HEARD, RELEASED};
    holds(&wires_with(None));
    for (broken, property) in [
        (Broken::GiveIgnoresLevel, HEARD),
        (Broken::TakeBackIgnoresLevel, HEARD),
        (Broken::TakeBackLeavesLine, RELEASED),
        (Broken::GatewayKept, HEARD),
        (Broken::CompletionIgnoresLine, HEARD),
        (Broken::TakenBackAmidst, RELEASED),
    ] {
        fails(&wires_with(Some(broken)), property, broken);
    }
}
