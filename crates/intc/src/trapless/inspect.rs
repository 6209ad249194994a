//! The controller's state as rows: registers of harts, and vharts in the tables in memory.

use trapless_isa::cause::interrupt;
use trapless_isa::xtrapless::{domain, hgrant, htlcfg, hvtablebase, kind, state};

use super::Trapless;
use super::file::File;
use super::hart::Hart;
use super::queue::Notification;
use super::tables::{Domain, Source};
use crate::inspect::{Part, Row, bits, words};
use crate::words::{Words, field};

/// Maximum number of rows of tables, which may have entries for millions of vharts.
const MOST: usize = 10_000;

impl Trapless {
    /// Registers of all harts, then each table of domains that one of them uses.
    pub(super) fn rows(&self, rows: &mut Vec<Row>) {
        let mut tables: Vec<(usize, u64)> = Vec::new();
        for (number, hart) in self.state.harts.iter().enumerate() {
            registers(hart, &self.words.spectator(number), number, rows);
            let known = tables.iter().any(|(_, base)| *base == hart.tables);
            if hart.tables & hvtablebase::V != 0 && !known {
                tables.push((number, hart.tables));
            }
        }
        let several = tables.len() > 1;
        if let Some(windows) = &self.state.windows {
            windows.rows(&self.words.spectator(windows.hart()), rows);
        }
        for (hart, base) in tables {
            let words = self.words.spectator(hart);
            let entries = 1u32 << field(base, hvtablebase::SIZE, hvtablebase::SIZE_SHIFT).min(16);
            let domains = (0..entries).filter_map(|id| {
                Domain::find(&words, base, id as u16, self.state.windows.is_some())
            });
            for domain in domains {
                let name = format!("domain {}", domain.id);
                let mut part = Part::new(rows, several.then_some(hart), name.clone());
                if part.len() > MOST {
                    part.row(true, "more", "left out");
                    return;
                }
                domain_rows(&domain, &words, &mut part);
            }
        }
    }
}

fn registers(hart: &Hart, words: &Words, number: usize, rows: &mut Vec<Row>) {
    let mut part = Part::new(rows, Some(number), "xtrapless");
    let has = |bit| hart.config & bit != 0;
    let config = [
        (has(htlcfg::EN), "EN"),
        (has(htlcfg::ANY), "ANY"),
        (has(htlcfg::ERR), "ERR"),
        (has(htlcfg::FLT), "FLT"),
    ];
    part.row(hart.config != 0, "htlcfg", self::words(&config, "0"));
    let slot = hart.slot.map_or("empty".into(), |slot| {
        let drives = lines(slot.lines);
        format!(
            "domain {} vhart {}, drives {drives}",
            slot.domain, slot.vhart
        )
    });
    part.row(hart.slot.is_some(), "hifmap", slot);
    let arriving = hart.arrived | u64::from(hart.ipi) << interrupt::SSI;
    let on_the_way = [
        (hart.ipi, "SSIP"),
        (hart.arrived >> interrupt::VSSI & 1 != 0, "VSSIP"),
        (hart.arrived >> interrupt::VSEI & 1 != 0, "VSEIP"),
    ];
    part.row(
        arriving != 0,
        "arriving",
        self::words(&on_the_way, "nothing"),
    );
    let waiting: Vec<String> = hart.queue.waiting(words).map(notification).collect();
    let value = match waiting.as_slice() {
        [] if hart.queue.raised() => "overflow".into(),
        [] => "no notification".into(),
        waiting => waiting.join("; "),
    };
    part.row(hart.queue.raised(), "queue", value);
    part.row(false, "hnqbase", format!("{:#x}", hart.queue.base()));
    part.row(false, "hvtablebase", format!("{:#x}", hart.tables));
    let grant = |mask, shift| field(hart.grant, mask, shift);
    let first = grant(hgrant::FIRST, hgrant::FIRST_SHIFT);
    let count = grant(hgrant::COUNT, hgrant::COUNT_SHIFT);
    let of = grant(hgrant::DOM, hgrant::DOM_SHIFT);
    let valid = hart.grant & hgrant::V != 0;
    let value = if valid {
        format!("domain {of}, {count} sources from {first} on")
    } else {
        "none".into()
    };
    part.row(valid, "hgrant", value);
}

fn notification(notification: Notification) -> String {
    let Notification { kind, domain, id } = notification;
    match kind {
        kind::WAKE => format!("WAKE domain {domain} vhart {id}"),
        kind::YIELD => format!("YIELD domain {domain} vhart {id}"),
        kind::SOURCE => format!("SOURCE domain {domain} source {id}"),
        kind::RESAMPLE => format!("RESAMPLE domain {domain} source {id}"),
        kind => format!("kind {kind} domain {domain} id {id}"),
    }
}

/// VS-level inputs by the guest's names.
fn lines(lines: u64) -> String {
    let is = |irq: u64| lines >> irq & 1 != 0;
    let names = [(is(interrupt::VSSI), "SSIP"), (is(interrupt::VSEI), "SEIP")];
    words(&names, "nothing")
}

fn domain_rows(domain: &Domain, words: &Words, part: &mut Part<'_>) {
    let tables = [
        ("vhart table", domain::VHART_TABLE),
        ("source table", domain::SOURCE_TABLE),
        ("line table", domain::LINES),
    ];
    for (name, offset) in tables {
        let address = domain.word(words, offset).unwrap_or(0);
        part.row(false, name, format!("{address:#x}"));
    }
    part.set("lines high", domain.lines(words));
    let second = if domain.host { "pending" } else { "resamples" };
    part.set(second, domain.resamples(words));
    for number in 0..domain.vharts() {
        if part.len() > MOST {
            return;
        }
        if let Some(file) = domain.file(words, number) {
            vhart(number, file, domain, words, part);
        }
    }
    for number in 1..=domain.sources {
        if let Some(source) = domain.source(words, number) {
            part.row(false, format!("source {number}"), describe(source));
        }
    }
}

fn describe(source: Source) -> String {
    let to = format!("to vhart {}", source.vhart);
    let priority = format!("priority {}", source.priority);
    words(
        &[
            (true, &to),
            (true, &priority),
            (source.level, "level"),
            (source.resample, "resample"),
        ],
        "",
    )
}

fn vhart(number: u16, file: File, domain: &Domain, words: &Words, part: &mut Part<'_>) {
    let Some(control) = file.control(words) else {
        part.row(true, format!("vhart {number}"), "its file cannot be read");
        return;
    };
    let state = match control.state() {
        state::STOPPED => "STOPPED",
        state::PREEMPTED => "PREEMPTED",
        state::HALTED => "HALTED",
        _ => "LOADED",
    };
    let state = format!("{state} on hart {}", control.hart());
    let flags = [
        (true, state.as_str()),
        (control.soft(), "soft pending"),
        (control.on(), "notification outstanding"),
    ];
    let flags = self::words(&flags, "");
    let drives = lines(file.lines(words, domain));
    part.row(
        true,
        format!("vhart {number}"),
        format!("{flags}, drives {drives}, file at {:#x}", file.address()),
    );
    let last = domain.sources / 64;
    let sources = |word: fn(File, &Words, u16) -> Option<u64>| {
        bits(
            (0..=last).map(move |i| word(file, words, i).unwrap_or(0)),
            64,
        )
        .filter(|n| (1..=usize::from(domain.sources)).contains(n))
        .collect::<Vec<_>>()
    };
    part.set("  pending", sources(File::pending_word));
    part.set("  enabled", sources(File::enabled_word));
    let threshold = file.threshold(words).unwrap_or(0);
    part.row(threshold != 0, "  threshold", threshold.to_string());
}
