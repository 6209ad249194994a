//! Small pieces of HTML.

/// Text with the characters that mean something in HTML replaced.
pub fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A list of facts in a table: head, then rows of cells, the first cell of each being its name.
/// `words` is for text rather than figures.
pub struct TableSpec<'a> {
    /// What the table holds.
    pub caption: &'a str,
    /// Groups of columns with the number of their columns, after the first column; may be empty.
    pub groups: Vec<(String, usize)>,
    /// Column names; the first is that of the names.
    pub head: Vec<String>,
    /// Rows: class of the row, then cells. A name that starts with two spaces is a part of the row above.
    pub rows: Vec<(&'static str, Vec<String>)>,
    /// Left-aligned, wrapping cells.
    pub words: bool,
}

impl TableSpec<'_> {
    /// The table in a box that scrolls if the window is narrow.
    pub fn html(&self) -> String {
        let class = if self.words { " class=\"words\"" } else { "" };
        let mut out = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table{class}><caption><span>{0}</span></caption><thead>",
            esc(self.caption)
        );
        if !self.groups.is_empty() {
            out.push_str("<tr><td></td>");
            for (name, width) in &self.groups {
                out.push_str(&format!(
                    "<th scope=\"colgroup\" colspan=\"{width}\" class=\"group\">{}</th>",
                    esc(name)
                ));
            }
            out.push_str("</tr>");
        }
        out.push_str("<tr>");
        for name in &self.head {
            if name.is_empty() {
                out.push_str("<td></td>");
            } else {
                out.push_str(&format!("<th scope=\"col\">{}</th>", esc(name)));
            }
        }
        out.push_str("</tr></thead><tbody>");
        for (class, cells) in &self.rows {
            out.push_str(&format!("<tr class=\"{class}\">"));
            for (i, cell) in cells.iter().enumerate() {
                match (i, cell.strip_prefix("  ")) {
                    (0, Some(part)) => {
                        out.push_str(&format!(
                            "<th scope=\"row\" class=\"sub\">{}</th>",
                            esc(part)
                        ));
                    }
                    (0, None) => out.push_str(&format!("<th scope=\"row\">{}</th>", esc(cell))),
                    _ => out.push_str(&format!("<td>{}</td>", esc(cell))),
                }
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}

/// A part that is folded away until asked for.
pub fn details(summary: &str, content: &str) -> String {
    format!(
        "<details><summary>{}</summary>{content}</details>\n",
        esc(summary)
    )
}

/// A section with a heading and an explanation under it. `long` ones may be broken over pages.
pub fn section(id: &str, title: &str, note: &str, content: &str, long: bool) -> String {
    let class = if long { " class=\"long\"" } else { "" };
    let note = if note.is_empty() {
        String::new()
    } else {
        format!("<p class=\"note\">{}</p>", esc(note))
    };
    format!(
        "<section id=\"{id}\"{class} aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{}</h2>{note}{content}</section>\n",
        esc(title)
    )
}
