//! Events and user contexts as rows. Doorbell pages are named by page tables, which the controller
//! does not search.

use trapless_isa::haiov::{context, event, hucontext, hucsave, hveitab, target};

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
    let Some(ctl) = memory.load(at, event::CTL) else {
        return;
    };
    if ctl & event::CTL_V == 0 {
        return;
    }
    let kind = field(ctl, event::CTL_KIND, event::CTL_KIND_SHIFT);
    let to = if contexts && kind == target::CONTEXT {
        let at = memory.load(at, event::TARGET).unwrap_or(0) & event::TARGET_ADDRESS;
        let pending = memory.load(at, context::PENDING).unwrap_or(0);
        let told = memory.load(at, context::CTL).unwrap_or(0);
        let state = [
            (told & context::CTL_M != 0, "masked"),
            (told & context::CTL_N != 0, "a hart was told"),
        ];
        let state = words(&state, "nobody was told");
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
    part.row(true, format!("event {request}"), words(&state, ""));
}
