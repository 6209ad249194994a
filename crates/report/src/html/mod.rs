//! A page that needs nothing but itself: no script, no font, no image from elsewhere.

mod charts;
mod markup;
mod tables;

use trapless_ledger::LedgerFile;

use crate::compare::Comparison;
use crate::findings::Finding;
use crate::number::{self, Space};
use markup::{details, esc, section};

const STYLE: &str = include_str!("page.css");

/// Harts with a time bar of their own; with more, one bar stands for all.
const MOST_HARTS: usize = 8;

/// Reasons with bars of their own; the rest is in the table.
const BARS: usize = 12;

/// A page about one ledger, or several side by side.
///
/// It depends on nothing but the reproducible part of the ledgers: equal runs give equal pages.
pub fn page(ledgers: &[LedgerFile]) -> String {
    let comparison = Comparison::new(ledgers);
    let names: Vec<&str> = comparison.columns.iter().map(|c| c.name.as_str()).collect();
    let workload = ledgers
        .first()
        .map_or("no run", |l| l.run.workload.as_str());
    let title = format!("{workload} workload: {}", names.join(" vs "));
    let (lead, rest) = match comparison.headlines(Space::NoBreak).split_first() {
        Some((first, rest)) => (first.clone(), rest.to_vec()),
        None => (String::new(), Vec::new()),
    };
    let mut body = String::new();
    body.push_str(&format!(
        "<header><p class=\"kicker\">Trapless: every trap of a virtual machine, counted</p>\
         <h1>{}</h1><p class=\"lead\">{}</p><p class=\"note\">{}</p>{}</header>\n<main>\n",
        esc(&title),
        esc(&lead),
        esc(&comparison.scope(Space::NoBreak)),
        nav()
    ));
    body.push_str(&cards(&comparison));
    body.push_str(&exits(&comparison, &rest));
    body.push_str(&interrupts(&comparison));
    body.push_str(&latencies(&comparison));
    body.push_str(&time(&comparison));
    body.push_str(&section(
        "chains",
        "Reason chains",
        "What an exit set off until the guest ran again: each kind of trap once, in order of first occurrence.",
        &tables::chains(&comparison),
        true,
    ));
    body.push_str(&section(
        "traps",
        "Every kind of trap",
        "All harts together, by the mode left, the mode that handles it, and the cause.",
        &tables::traps(&comparison),
        true,
    ));
    body.push_str(&section(
        "run",
        "What exactly ran",
        "The same images and configuration give the same figures on every computer.",
        &tables::provenance(&comparison),
        true,
    ));
    body.push_str("</main>\n");
    body.push_str(&format!(
        "<footer>Written by trapless from {} ledger{}, format {}. Counts are exact; times are virtual time under the \
         stated cost model.</footer>\n",
        ledgers.len(),
        if ledgers.len() == 1 { "" } else { "s" },
        esc(trapless_ledger::document::SCHEMA)
    ));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{} - Trapless</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        esc(&title)
    )
}

fn nav() -> String {
    let links = [
        ("exits", "Exits"),
        ("interrupts", "Interrupts"),
        ("latency", "Latency"),
        ("time", "Time"),
        ("chains", "Chains"),
        ("traps", "Traps"),
        ("run", "What ran"),
    ];
    let links: String = links
        .iter()
        .map(|(id, text)| format!("<a href=\"#{id}\">{text}</a>"))
        .collect();
    format!("<nav aria-label=\"Sections\">{links}</nav>")
}

fn cards(comparison: &Comparison) -> String {
    let cards: String = comparison
        .findings()
        .iter()
        .map(|f| card(comparison, f))
        .collect();
    format!("<div class=\"cards\">{cards}</div>\n")
}

fn card(comparison: &Comparison, finding: &Finding) -> String {
    let mut rows = String::new();
    for (i, (c, exit)) in comparison.columns.iter().zip(&finding.exits).enumerate() {
        let rate = |n| number::decimal(c.per_thousand(n), Space::NoBreak);
        let class = if exit.exits == 0 {
            " class=\"zero\""
        } else {
            ""
        };
        let firmware = match exit.firmware_traps {
            0 => String::new(),
            n => format!(" <small class=\"whole\">+ {} firmware</small>", rate(n)),
        };
        rows.push_str(&format!(
            "<dt><span class=\"key {}\"></span>{}</dt><dd><b{class}>{}</b> <small>exits</small>{firmware}</dd>",
            charts::colour(i),
            esc(&c.name),
            rate(exit.exits)
        ));
    }
    format!(
        "<div class=\"card\"><h3>{}</h3><dl>{rows}</dl><small>{}</small></div>",
        esc(finding.what),
        esc(&comparison.per_thousand_text(Space::NoBreak))
    )
}

fn exits(comparison: &Comparison, sentences: &[String]) -> String {
    let mut rows = comparison.exit_rows();
    let table = tables::exits(comparison, &rows);
    let hidden = rows.len().saturating_sub(BARS);
    rows.truncate(BARS);
    let mut content = String::new();
    if rows.is_empty() {
        content.push_str("<p>No guest left V=1 in this part of the run.</p>");
    } else {
        content.push_str(&charts::legend(comparison));
        content.push_str(&charts::exit_bars(comparison, &rows));
        if hidden != 0 {
            content.push_str(&format!(
                "<p class=\"note\">{hidden} rarer reasons are in the table.</p>"
            ));
        }
        content.push_str("<h3>All reasons, and what was charged to them</h3>");
        content.push_str(&table);
        content.push_str("<h3>Interrupts and firmware</h3>");
        content.push_str(&tables::interrupts(comparison));
    }
    let list: String = sentences
        .iter()
        .map(|s| format!("<li>{}</li>", esc(s)))
        .collect();
    if !list.is_empty() {
        content.push_str(&format!("<h3>In words</h3><ul>{list}</ul>"));
    }
    let note = format!(
        "Traps from the guest to the hypervisor, {}. The thin bar shows the firmware (M-mode) traps that they led to.{}",
        comparison.per_thousand_text(Space::NoBreak),
        if comparison.reported {
            ""
        } else {
            " The workload did not report its work, so interrupts taken by the guest are the unit."
        }
    );
    section("exits", "Guest exits by reason", &note, &content, true)
}

fn interrupts(comparison: &Comparison) -> String {
    let mut content = tables::classes(comparison);
    if content.is_empty() {
        content.push_str("<p>No guest used an interrupt in this part of the run.</p>");
    }
    let note = "Where each interrupt found its vCPU, what it cost, and how long it took from being sent to the guest's handler (virtual time).";
    section("interrupts", "Interrupts by class", note, &content, true)
}

fn latencies(comparison: &Comparison) -> String {
    let mut content = String::new();
    for (key, what) in comparison.latency_rows() {
        content.push_str(&format!("<h3>{}</h3>", esc(what)));
        content.push_str(&charts::histograms(comparison, key, what));
        content.push_str(&details("Figures", &tables::latency(comparison, key)));
    }
    if content.is_empty() {
        content.push_str("<p>No guest took an interrupt in this part of the run.</p>");
    }
    let note = "Virtual time from the cause of an interrupt to its handler in the guest; logarithmic axis, each histogram scaled to its own peak. Solid line: median; dashed: 99th percentile.";
    section("latency", "Interrupt latency", note, &content, true)
}

fn time(comparison: &Comparison) -> String {
    let mut bars = String::new();
    let many = comparison
        .columns
        .iter()
        .any(|c| c.section.harts.len() > MOST_HARTS);
    for c in &comparison.columns {
        if many {
            bars.push_str(&charts::time_bar(
                &format!("{}, all harts", c.name),
                &c.time(),
            ));
            continue;
        }
        for hart in &c.section.harts {
            let time = crate::compare::MODES
                .map(|mode| (mode, hart.cycles.get(mode).copied().unwrap_or(0)));
            bars.push_str(&charts::time_bar(
                &format!("{}, hart {}", c.name, hart.hart),
                &time,
            ));
        }
    }
    let content = format!(
        "{}<figure class=\"split\">{bars}</figure>{}",
        charts::mode_legend(),
        details("Figures", &tables::time(comparison))
    );
    let note = "How each hart spent its virtual time.";
    section("time", "Time by mode", note, &content, true)
}
