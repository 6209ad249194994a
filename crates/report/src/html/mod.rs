//! A self-contained page: no script, font or image from elsewhere.
//!
//! The first screen has the results; everything else is folded. The page can be read without its
//! script, which sorts tables and searches.

mod charts;
mod markup;
mod overview;
mod policy;
mod sections;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use trapless_ledger::LedgerFile;

use crate::compare::Comparison;
use markup::against_each;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page about one ledger, or several side by side.
///
/// It depends only on the reproducible part of the ledgers: equal runs give equal pages.
pub fn page(ledgers: &[LedgerFile]) -> String {
    let comparison = Comparison::new(ledgers);
    let names: Vec<&str> = comparison.columns.iter().map(|c| c.name.as_str()).collect();
    let workload = ledgers
        .first()
        .map_or("no run", |l| l.run.workload.as_str());
    let title = format!("{workload} workload: {}", names.join(" vs "));
    // The policy has hashes of exactly the text in these elements.
    let style = format!("\n{STYLE}{}", overview::rules(&comparison));
    let script = format!("\n{SCRIPT}");
    let line = PreEscaped("\n");
    let page = html! {
        (DOCTYPE) (line)
        html lang="en" {
            (line)
            head {
                (line)
                meta charset="utf-8"; (line)
                meta name="viewport" content="width=device-width, initial-scale=1"; (line)
                meta http-equiv="Content-Security-Policy"
                    content=(policy::policy(&style, &script)); (line)
                title { (title) " - Trapless" } (line)
                style { (PreEscaped(&style)) } (line)
            }
            (line)
            body {
                (line) (body(&comparison, &title, ledgers.len())) (line)
                script { (PreEscaped(&script)) } (line)
            }
            (line)
        }
        (line)
    };
    page.into_string()
}

fn body(comparison: &Comparison, title: &str, ledgers: usize) -> Markup {
    let overview = comparison.overview();
    let line = PreEscaped("\n");
    html! {
        header {
            h1 { (title) }
            (overview::verdict(comparison, &overview))
        }
        (line)
        main {
            (line)
            (overview::bars(comparison, &overview))
            (line)
            (overview::tiles(comparison))
            (line)
            p class="note method" {
                (against_each(comparison, |c| html! { (c.method().unwrap_or_default()) }))
            }
            div class="tools" hidden {
                label { "Search " input type="search" id="search"; }
                output id="found" for="search" {}
                button type="button" id="unfold" { "Open all" }
            }
            (line)
            (sections::all(comparison))
        }
        (line)
        footer {
            "Written by trapless from " (ledgers) " ledger" @if ledgers != 1 { "s" }
            ", format " (trapless_ledger::document::SCHEMA)
            ". Counts of a run are exact. Times are virtual time under the stated cost model; what a \
             workload does while it waits, and so its counts, depends on it, too."
        }
        (line)
    }
}
