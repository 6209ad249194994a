//! Building blocks of the page.

use maud::{Markup, PreEscaped, html};

use crate::cell::{Cell, SAME};
use crate::compare::Comparison;

/// Number of columns beyond which the baseline cannot be chosen and is the first one.
const MOST_BASELINES: usize = 12;

/// A line of a [`TableSpec`].
pub struct Line {
    /// Class of the row; may be empty.
    pub class: &'static str,
    /// Label of its figures. Two leading spaces: a part of the row above.
    pub label: String,
    /// Its cells, without the label.
    pub cells: Vec<Cell>,
}

/// Content of a table.
pub struct TableSpec<'a> {
    /// Caption.
    pub caption: &'a str,
    /// Column names; the first is that of the labels.
    pub head: Vec<String>,
    /// The lines.
    pub rows: Vec<Line>,
    /// Text rather than figures: left-aligned, wrapping cells.
    pub words: bool,
    /// All lines are of one kind, so that sorting them is meaningful.
    pub sortable: bool,
}

impl TableSpec<'_> {
    /// The table in a box that scrolls if the window is narrow.
    pub fn html(&self) -> Markup {
        let content = html! {
            caption { span { (self.caption) } }
            thead {
                tr {
                    @for name in &self.head {
                        @if name.is_empty() { td {} } @else { th scope="col" { (name) } }
                    }
                }
            }
            tbody {
                @for line in &self.rows {
                    (self.row(line))
                }
            }
        };
        let class = match (self.words, self.sortable) {
            (true, true) => "words sortable",
            (true, false) => "words",
            (false, true) => "sortable",
            (false, false) => "",
        };
        boxed(self.caption, class, content)
    }

    fn row(&self, line: &Line) -> Markup {
        let part = line.label.strip_prefix("  ");
        html! {
            tr class=[(!line.class.is_empty()).then_some(line.class)] {
                th scope="row" class=[part.map(|_| "sub")] { (part.unwrap_or(&line.label)) }
                @for (i, cell) in line.cells.iter().enumerate() {
                    td data-c=(self.head.get(i + 1).map_or("", |name| name)) data-v=[cell.value] {
                        (figure(cell))
                    }
                }
            }
            (PreEscaped("\n"))
        }
    }
}

/// A figure, its interval, and the mark for no shown difference from the baseline.
pub fn figure(cell: &Cell) -> Markup {
    html! {
        (cell.median)
        @if !cell.interval.is_empty() { " " span class="interval" { (cell.interval) } }
        (same_mark(cell))
    }
}

/// The mark alone; nothing where a difference from every column is shown.
pub fn same_mark(cell: &Cell) -> Markup {
    let bases = cell.same.iter().map(|base| format!(" b{base}"));
    html! {
        @if !cell.same.is_empty() {
            span class={ "for" (bases.collect::<String>()) } { "\u{a0}" (SAME) }
        }
    }
}

/// Number of columns, from the first, that a reader may choose as the baseline: one where single
/// runs are not compared anyway, or where the page would become too large.
pub fn baselines(comparison: &Comparison) -> usize {
    let columns = &comparison.columns;
    let repeated = columns.iter().any(|c| c.runs.len() > 1);
    if repeated && columns.len() <= MOST_BASELINES {
        columns.len().max(1)
    } else {
        1
    }
}

/// Content that depends on the baseline, once for each; the style sheet shows one of them.
pub fn against_each(comparison: &Comparison, part: impl Fn(&Comparison) -> Markup) -> Markup {
    let parts: Vec<String> = (0..baselines(comparison))
        .map(|base| part(&comparison.against(base)).into_string())
        .collect();
    html! {
        @if parts.windows(2).all(|pair| pair[0] == pair[1]) {
            @if let Some(part) = parts.first() { (PreEscaped(part)) }
        } @else {
            @for (base, part) in parts.iter().enumerate() {
                span class={ "for b" (base) } { (PreEscaped(part)) }
            }
        }
    }
}

/// A table in a box that scrolls if the window is narrow.
pub fn boxed(label: &str, class: &str, content: Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(label) {
            table class=[(!class.is_empty()).then_some(class)] { (content) }
        }
        (PreEscaped("\n"))
    }
}

/// A block with a heading, hidden by a search that finds nothing in it.
pub fn block(title: &str, content: Markup) -> Markup {
    html! { div class="block" { h3 { (title) } (content) } }
}

/// A part that is folded at first.
pub fn details(summary: &str, content: Markup) -> Markup {
    html! {
        details { summary { (summary) } (content) }
        (PreEscaped("\n"))
    }
}

/// A section that is folded at first.
pub struct Part<'a> {
    /// Its `id` on the page.
    pub id: &'a str,
    /// Heading.
    pub title: &'a str,
    /// Summary in a line beside the heading.
    pub hint: &'a str,
    /// Explanation under the heading; may be empty.
    pub note: &'a str,
    /// Whether it is printed although it is folded.
    pub printed: bool,
}

impl Part<'_> {
    /// The section with its content.
    pub fn html(&self, content: Markup) -> Markup {
        html! {
            details class={ "part" @if self.printed { " printed" } } id=(self.id) {
                summary { h2 { (self.title) } span class="hint" { (self.hint) } }
                @if !self.note.is_empty() { p class="note" { (self.note) } }
                (content)
            }
            (PreEscaped("\n"))
        }
    }
}
