//! Events, user contexts and doorbells as rows. Doorbell pages are named by page tables, which the
//! controller does not search: the caller gives their addresses.

use trapless_isa::haiov::{bell, context, event, hucontext, hucsave, hveitab, limits, target};

use super::context::named;
use super::hart::Hart;
use crate::inspect::{Part, Row, words};
use crate::words::{Words, field};

/// Registers and events of a hart at time `now`.
pub(super) fn rows(
    number: usize,
    hart: &Hart,
    contexts: bool,
    now: u64,
    memory: &Words,
    rows: &mut Vec<Row>,
) {
    let mut part = Part::new(rows, Some(number), "xvei");
    let waiting: Vec<String> = hart.queue.waiting(memory).map(entry).collect();
    let queue = match waiting.as_slice() {
        [] if hart.queue.raised() => "overflow".into(),
        [] => "empty".into(),
        waiting => waiting.join("; "),
    };
    part.row(hart.queue.raised(), "queue", queue);
    part.row(hart.fault, "hveiq", format!("{:#x}", hart.queue_register()));
    part.row(false, "hveitab", format!("{:#x}", hart.table));
    if contexts {
        let runs = hart.context & hucontext::ADDRESS != 0;
        let value = if runs {
            let left = hart.budget_ends.saturating_sub(now);
            format!("{:#x} runs, {left} cycles left", hart.context)
        } else {
            "none".into()
        };
        part.row(runs, "hucontext", value);
        let share = hart.share_register(now);
        part.row(false, "hucshare", format!("{share:#x}"));
        let save = hart.save & hucsave::V != 0;
        part.row(false, "hucsave", if save { "valid" } else { "none" });
    }
    if hart.table & hveitab::V != 0 {
        for request in (0..).map_while(|request| Some((request, hart.entry(request)?))) {
            described(request, contexts, memory, &mut part);
        }
    }
}

fn entry(word: u64) -> String {
    match named(word) {
        Some(at) => format!("context at {at:#x}"),
        None => format!("event with id {word}"),
    }
}

fn described((request, at): (u64, u64), contexts: bool, memory: &Words, part: &mut Part<'_>) {
    let state = entry_state(at, contexts, memory);
    if let Some(state) = state {
        part.row(true, format!("event {request}"), state);
    }
}

/// State of the entry of an event table at `at`, and its target; `None` if it is not valid.
fn entry_state(at: u64, contexts: bool, memory: &Words) -> Option<String> {
    let ctl = memory.load(at, event::CTL)?;
    if ctl & event::CTL_V == 0 {
        return None;
    }
    let kind = field(ctl, event::CTL_KIND, event::CTL_KIND_SHIFT);
    let to = if contexts && kind == target::CONTEXT {
        let at = memory.load(at, event::TARGET).unwrap_or(0) & event::TARGET_ADDRESS;
        let pending = memory.load(at, context::PENDING).unwrap_or(0);
        let control = memory.load(at, context::CTL).unwrap_or(0);
        let state = [
            (control & context::CTL_M != 0, "masked"),
            (control & context::CTL_N != 0, "a hart was notified"),
        ];
        let state = words(&state, "not notified");
        let vector = field(ctl, event::CTL_VECTOR, event::CTL_VECTOR_SHIFT);
        format!("to context at {at:#x} as {vector}: pending {pending:#x}, {state}")
    } else {
        let hart = field(ctl, event::CTL_HART, event::CTL_HART_SHIFT);
        let id = field(ctl, event::CTL_ID, event::CTL_ID_SHIFT);
        format!("to hart {hart} with id {id}")
    };
    let state = [
        (ctl & event::CTL_P != 0, "pending"),
        (ctl & event::CTL_M != 0, "masked"),
        (true, to.as_str()),
    ];
    Some(words(&state, ""))
}

/// A doorbell page, at its guest physical address and its own, and its doorbells; their events are
/// in the event table of the hart.
pub(super) fn doorbells(
    (number, hart): (usize, &Hart),
    contexts: bool,
    (gpa, page): (u64, u64),
    memory: &Words,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut part = Part::new(&mut rows, Some(number), format!("doorbells {gpa:#x}"));
    let header = memory.load(page, bell::HEADER);
    let Some(header) = header.filter(|word| word & bell::HEADER_V != 0) else {
        let why = match header {
            Some(_) => "not valid",
            None => "not readable",
        };
        part.row(true, "page", format!("{page:#x}, {why}"));
        return rows;
    };
    let count = field(header, bell::HEADER_COUNT, bell::HEADER_COUNT_SHIFT);
    let count = count.min(limits::MAX_DOORBELLS);
    let shadow = memory.load(page, bell::SHADOW).unwrap_or(0);
    let shadow = if shadow & bell::SHADOW_V == 0 {
        "no shadow".into()
    } else {
        format!("shadow at {:#x}", shadow & bell::SHADOW_PPN)
    };
    let other = if header & bell::HEADER_MMIO == 0 {
        "guest-page faults"
    } else {
        "MMIO faults"
    };
    part.row(
        true,
        "page",
        format!("{page:#x}, {shadow}, the rest: {other}"),
    );
    for index in 0..count {
        let at = bell::MATCH + index * bell::MATCH_STRIDE;
        let Some(doorbell) = memory.load(page, at) else {
            break;
        };
        if doorbell & bell::MATCH_V == 0 {
            continue;
        }
        let value = (doorbell & bell::MATCH_DATA != 0)
            .then(|| memory.load(page, at + bell::VALUE - bell::MATCH))
            .flatten();
        let does = does(doorbell, hart, contexts, memory);
        let text = format!("{}: {does}", rung_by(doorbell, value));
        part.row(true, format!("doorbell {index}"), text);
    }
    rows
}

/// Which stores ring a doorbell.
fn rung_by(doorbell: u64, value: Option<u64>) -> String {
    let offset = field(doorbell, bell::MATCH_OFFSET, bell::MATCH_OFFSET_SHIFT);
    let size = if doorbell & bell::MATCH_ANY != 0 {
        "any size".into()
    } else {
        let width = field(doorbell, bell::MATCH_WIDTH, bell::MATCH_WIDTH_SHIFT);
        match 1 << width {
            1 => "1 byte".into(),
            bytes => format!("{bytes} bytes"),
        }
    };
    match value {
        Some(value) => format!("store of {value:#x} to {offset:#x}, {size}"),
        None => format!("store to {offset:#x}, {size}"),
    }
}

/// Actions of a doorbell.
fn does(doorbell: u64, hart: &Hart, contexts: bool, memory: &Words) -> String {
    let mut all = Vec::new();
    if doorbell & bell::MATCH_CLEAR != 0 {
        let unit = field(doorbell, bell::MATCH_UNIT, bell::MATCH_UNIT_SHIFT);
        all.push(format!("clears bits of shadow {:#x}", 4 * unit));
    }
    if doorbell & bell::MATCH_POST != 0 {
        let request = field(doorbell, bell::MATCH_REQUEST, bell::MATCH_REQUEST_SHIFT);
        let entry = hart.entry(request);
        let state = entry.and_then(|at| entry_state(at, contexts, memory));
        let state = state.unwrap_or_else(|| "not valid".into());
        all.push(format!("event {request}: {state}"));
    }
    if all.is_empty() {
        "nothing".into()
    } else {
        all.join("; ")
    }
}
