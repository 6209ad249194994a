//! What people see of doorbells.

use super::*;

fn shown(w: &World) -> Vec<(String, String)> {
    let rows = w.intc.inspect_doorbells(0, 0x1000_1000, PAGE);
    assert!(
        rows.iter()
            .all(|row| row.active && row.hart == Some(0) && row.part == "doorbells 0x10001000")
    );
    rows.into_iter().map(|row| (row.name, row.value)).collect()
}

/// Promise: a debugger sees which stores ring a doorbell, whom it tells and whether that is
/// pending, and looking changes nothing.
#[test]
fn doorbells_are_shown_with_whom_they_tell() {
    let mut w = World::new();
    assert_eq!(shown(&w)[0].1, format!("{PAGE:#x}, not valid"));
    let clears = bell::MATCH_CLEAR | bell::MATCH_ANY | 0x64 << bell::MATCH_OFFSET_SHIFT;
    w.doorbells(&[
        (posts(0x50, 3) | bell::MATCH_DATA, 1),
        (clears | 0x18 << bell::MATCH_UNIT_SHIFT, 0),
        (posts(0x50, 9), 0),
    ]);
    w.ram.set(PAGE + bell::SHADOW, bell::SHADOW_V | SHADOW);
    let page = format!("{PAGE:#x}, shadow at {SHADOW:#x}, the rest: guest-page faults");
    let expected = [
        ("page", page.as_str()),
        (
            "doorbell 0",
            "store of 0x1 to 0x50, 4 bytes: event 3: to hart 1 with id 103",
        ),
        (
            "doorbell 1",
            "store to 0x64, any size: clears bits of shadow 0x60",
        ),
        ("doorbell 2", "store to 0x50, 4 bytes: event 9: not valid"),
    ];
    let expected = expected.map(|(name, value)| (name.to_string(), value.to_string()));
    assert_eq!(shown(&w), expected);
    assert_eq!(w.bell(0x50, 4, Some(1)), Ok(0));
    assert!(
        shown(&w)[1]
            .1
            .ends_with("event 3: pending, to hart 1 with id 103")
    );
    let saved = w.intc.save();
    shown(&w);
    assert_eq!(w.intc.save(), saved);
    assert_eq!(w.claim(), Some(103));
}
