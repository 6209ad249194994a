//! Reports for the terminal.

use crate::cell::{Row, cell, cells};
use crate::compare::{Comparison, Run};
use crate::number::{self, Space};
use crate::rows::exits::ExitRow;
use crate::rows::latency::percentile;
use crate::table::{Align, Style, Table, clean};
use trapless_ledger::LedgerFile;
use trapless_ledger::document::Exit;

/// Kinds of exit that get their own line; the rest is summed up.
const EXIT_ROWS: usize = 18;

/// A report of one ledger, or of several side by side. The findings come last, where a reader looks
/// when a command ends.
///
/// ```
/// use trapless_ledger::{Config, Ledger, RunInfo};
/// use trapless_report::{Style, report};
///
/// let mut ledger = Ledger::new(Config::new(1));
/// ledger.finish(1_000_000);
/// let run = RunInfo { machine: "sstc".into(), ..RunInfo::default() };
/// let text = report(&[ledger.to_file(run, None)], Style::default());
/// assert!(text.contains("sstc"));
/// ```
pub fn report(ledgers: &[LedgerFile], style: Style) -> String {
    if ledgers.is_empty() {
        return "No ledger to report.\n".to_string();
    }
    let comparison = Comparison::new(ledgers);
    let mut out = String::new();
    out.push_str(&title(&comparison));
    out.push_str(&wrap(&comparison.scope(Space::NoBreak), style.width).replace('\u{202f}', " "));
    if let Some(method) = comparison.method() {
        out.push_str(&wrap(&method, style.width));
    }
    let both = [exits(&comparison, true), exits(&comparison, false)];
    let fits = both[0].width() <= style.width;
    out.push_str(&both[usize::from(!fits)].render(style));
    out.push_str(&interrupts(&comparison).render(style));
    for (title, rows) in comparison.class_blocks(Space::Plain) {
        out.push_str(&figures(&comparison, title, &rows).render(style));
    }
    if !comparison.latency_rows().is_empty() {
        out.push_str(&latencies(&comparison).render(style));
    }
    out.push_str(&time(&comparison).render(style));
    let threads = comparison.thread_rows(Space::Plain);
    if !threads.is_empty() {
        let title = comparison.thread_title(Space::Plain);
        out.push_str(&figures(&comparison, &title, &threads).render(style));
    }
    let measurements = measurements(&comparison);
    if measurements.rows() != 0 {
        out.push_str(&measurements.render(style));
    }
    out.push('\n');
    let verdict = comparison.verdict(&comparison.overview(), Space::NoBreak);
    out.push_str(&wrap(&verdict.text(), style.width).replace('\u{202f}', " "));
    for line in comparison.headlines(Space::NoBreak) {
        out.push_str(&wrap(&line, style.width).replace('\u{202f}', " "));
    }
    out
}

fn title(comparison: &Comparison) -> String {
    let mut text = String::new();
    for c in &comparison.columns {
        let run = &c.first().file.run;
        let work = match &run.work {
            Some(work) if comparison.reported => {
                let count = c.sample(|run| run.work as f64);
                let count = cell(count.as_ref(), |v| number::decimal(v, Space::Plain));
                format!(", {count} {}", work.unit)
            }
            Some(work) => {
                let count = number::count(work.count, Space::Plain);
                format!(", {count} {}", work.unit)
            }
            None => String::new(),
        };
        let runs = match c.runs.len() {
            1 => String::new(),
            n => format!(", {n} runs (seeds {})", c.seeds()),
        };
        let line = format!("{}: workload {}{work}{runs}", c.name, run.workload);
        text.push_str(&clean(&line));
        text.push('\n');
    }
    text
}

fn exits(comparison: &Comparison, with_rates: bool) -> Table {
    let mut table = Table::new("Guest exits by reason");
    table.column("", Align::Left);
    for c in &comparison.columns {
        table.column(&c.name, Align::Right);
        if with_rates {
            table.column("per 1000", Align::Right);
            table.column("firmware", Align::Right);
        }
    }
    let mut rows = comparison.exit_rows();
    if rows.len() > EXIT_ROWS {
        let rest = rows.split_off(EXIT_ROWS - 1);
        let label = format!("{} other reasons", rest.len());
        rows.push(ExitRow::sum(label, comparison, &rest));
    }
    let total = ExitRow::sum("all exits".to_string(), comparison, &rows);
    for row in rows {
        exit_row(&mut table, comparison, &row, with_rates);
    }
    table.rule();
    exit_row(&mut table, comparison, &total, with_rates);
    if with_rates {
        let note = "firmware: M-mode traps charged to these exits";
        table.note(&format!("per 1000 {}; {note}", comparison.unit));
    }
    table.divide();
    table
}

fn exit_row(table: &mut Table, comparison: &Comparison, row: &ExitRow, with_rates: bool) {
    let text = |v| number::decimal(v, Space::Plain);
    let figure = |figure: fn(&Run, &Exit) -> f64| cells(&row.samples(comparison, figure), text);
    let exits = figure(|_, exit| exit.exits as f64);
    let rates = figure(|run, exit| run.per_thousand(exit.exits));
    let firmware = figure(|_, exit| exit.firmware_traps as f64);
    let mut line = vec![row.label.clone()];
    for i in 0..comparison.columns.len() {
        line.push(exits[i].to_string());
        if with_rates {
            line.extend([rates[i].to_string(), firmware[i].to_string()]);
        }
    }
    table.row(line);
}

/// A table with one column per ledger and rows of one figure each.
fn figures(comparison: &Comparison, title: &str, rows: &[Row]) -> Table {
    let mut table = Table::new(title);
    table.column("", Align::Left);
    comparison
        .columns
        .iter()
        .for_each(|c| table.column(&c.name, Align::Right));
    table.divide();
    for (label, cells) in rows {
        table.row(
            std::iter::once(label.clone())
                .chain(cells.iter().map(ToString::to_string))
                .collect(),
        );
    }
    table
}

fn interrupts(comparison: &Comparison) -> Table {
    let rows = comparison.interrupt_rows(Space::Plain);
    figures(comparison, "Interrupts and firmware", &rows)
}

fn latencies(comparison: &Comparison) -> Table {
    let mut table = Table::new("Interrupt latency in µs of virtual time");
    table.column("", Align::Left);
    table.column("", Align::Left);
    for name in ["count", "median", "p99", "max"] {
        table.column(name, Align::Right);
    }
    for (key, what) in comparison.latency_rows() {
        let mut what = what;
        for c in &comparison.columns {
            let Some(l) = c.latency(key) else { continue };
            let us = |v: u64| number::micros_text(c.micros(v as f64), Space::Plain);
            let count = number::count(l.count, Space::Plain);
            table.row(vec![
                what.into(),
                c.name.clone(),
                count,
                us(l.p50),
                percentile(&l, 990).map_or("–".to_string(), us),
                us(l.max),
            ]);
            what = "";
        }
    }
    table
}

fn time(comparison: &Comparison) -> Table {
    figures(
        comparison,
        "Virtual time",
        &comparison.time_rows(Space::Plain),
    )
}

fn measurements(comparison: &Comparison) -> Table {
    let title = "Measured by the workload itself";
    figures(
        comparison,
        title,
        &comparison.measurement_rows(Space::Plain),
    )
}

/// Breaks a sentence into lines, the following ones indented.
fn wrap(text: &str, width: usize) -> String {
    let text = clean(text);
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if used != 0 && used + 1 + len > width {
            out.push_str("\n  ");
            used = 2;
        } else if used != 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += len;
    }
    out.push('\n');
    out
}
