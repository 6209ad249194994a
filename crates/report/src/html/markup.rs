//! Pieces that the page is made of.

use maud::{Markup, PreEscaped, html};

/// A list of facts in a table: head, then rows of cells, the first cell of each being its name.
/// `words` is for text rather than figures.
pub struct TableSpec<'a> {
    /// What the table holds.
    pub caption: &'a str,
    /// Groups of columns with the number of their columns, after the first column; may be empty.
    pub groups: Vec<(String, usize)>,
    /// Column names; the first is that of the names.
    pub head: Vec<String>,
    /// Rows: class of the row, then cells. A name that starts with two spaces is a part of the row
    /// above.
    pub rows: Vec<(&'static str, Vec<String>)>,
    /// Left-aligned, wrapping cells.
    pub words: bool,
}

impl TableSpec<'_> {
    /// The table in a box that scrolls if the window is narrow.
    pub fn html(&self) -> Markup {
        let content = html! {
            caption { span { (self.caption) } }
            thead {
                @if !self.groups.is_empty() {
                    tr {
                        td {}
                        @for (name, width) in &self.groups {
                            th scope="colgroup" colspan=(width) class="group" { (name) }
                        }
                    }
                }
                tr {
                    @for name in &self.head {
                        @if name.is_empty() { td {} } @else { th scope="col" { (name) } }
                    }
                }
            }
            tbody {
                @for (class, cells) in &self.rows {
                    (row(class, cells))
                }
            }
        };
        boxed(self.caption, self.words, content)
    }
}

fn row(class: &str, cells: &[String]) -> Markup {
    html! {
        tr class=(class) {
            @for (i, cell) in cells.iter().enumerate() {
                @match (i, cell.strip_prefix("  ")) {
                    (0, Some(part)) => { th scope="row" class="sub" { (part) } },
                    (0, None) => { th scope="row" { (cell) } },
                    _ => { td { (cell) } },
                }
            }
        }
        (PreEscaped("\n"))
    }
}

/// A table in a box that scrolls if the window is narrow.
pub fn boxed(label: &str, words: bool, content: Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(label) {
            table class=[words.then_some("words")] { (content) }
        }
        (PreEscaped("\n"))
    }
}

/// A part that is folded away until asked for.
pub fn details(summary: &str, content: Markup) -> Markup {
    html! {
        details { summary { (summary) } (content) }
        (PreEscaped("\n"))
    }
}

/// A section with a heading and an explanation under it. `long` ones may be broken over pages.
pub fn section(id: &str, title: &str, note: &str, content: Markup, long: bool) -> Markup {
    html! {
        section id=(id) class=[long.then_some("long")] aria-labelledby={ (id) "-title" } {
            h2 id={ (id) "-title" } { (title) }
            @if !note.is_empty() { p class="note" { (note) } }
            (content)
        }
        (PreEscaped("\n"))
    }
}
