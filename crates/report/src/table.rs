//! Aligned tables of text.

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Use colour (only for a terminal).
    pub colour: bool,
    /// Width of the terminal in columns, which tables do not exceed if the figures permit.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            colour: false,
            width: 100,
        }
    }
}

/// Alignment of a cell's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// To the left.
    Left,
    /// To the right, for figures.
    Right,
}

/// Text without control characters: names come from files, and must not control the terminal.
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// A table with a title, a head and optional rules.
pub struct Table {
    title: String,
    note: String,
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    rule_before: Option<usize>,
    divisible: bool,
}

impl Table {
    /// An empty table.
    pub fn new(title: &str) -> Self {
        let (columns, rows) = (Vec::new(), Vec::new());
        Self {
            title: clean(title),
            note: String::new(),
            columns,
            rows,
            rule_before: None,
            divisible: false,
        }
    }

    /// Adds a column.
    pub fn column(&mut self, name: &str, align: Align) {
        self.columns.push((clean(name), align));
    }

    /// Adds a row; missing cells stay empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|c| clean(c)).collect());
    }

    /// Draws a line between the rows so far and the next.
    pub fn rule(&mut self) {
        self.rule_before = Some(self.rows.len());
    }

    /// Explains the figures, after the title.
    pub fn note(&mut self, text: &str) {
        self.note = clean(text);
    }

    /// Allows columns that do not fit to follow below the others.
    pub fn divide(&mut self) {
        self.divisible = true;
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    fn widths(&self) -> Vec<usize> {
        let cell = |row: &Vec<String>, i: usize| row.get(i).map_or(0, |c| c.chars().count());
        let width = |(i, (name, _)): (usize, &(String, Align))| {
            self.rows
                .iter()
                .map(|r| cell(r, i))
                .max()
                .unwrap_or(0)
                .max(name.chars().count())
        };
        self.columns.iter().enumerate().map(width).collect()
    }

    /// Width in columns of the terminal.
    pub fn width(&self) -> usize {
        self.widths()
            .iter()
            .map(|w| w + 2)
            .sum::<usize>()
            .saturating_sub(2)
    }

    /// The text, after an empty line.
    pub fn render(&self, style: Style) -> String {
        let (bold, dim, reset) = if style.colour {
            ("\x1b[1m", "\x1b[2m", "\x1b[0m")
        } else {
            ("", "", "")
        };
        let mut out = format!("\n{bold}{}{reset}", self.title);
        if !self.note.is_empty() {
            out.push_str(&format!("  {dim}{}{reset}", self.note));
        }
        out.push('\n');
        for part in self.parts(style.width) {
            let widths = part.widths();
            let names: Vec<String> = part.columns.iter().map(|c| c.0.clone()).collect();
            out.push_str(&format!("{dim}{}{reset}\n", part.line(&names, &widths)));
            for (i, row) in part.rows.iter().enumerate() {
                if part.rule_before == Some(i) {
                    out.push_str(&format!("{dim}{}{reset}\n", "-".repeat(part.width())));
                }
                out.push_str(&part.line(row, &widths));
                out.push('\n');
            }
        }
        out
    }

    /// Divides the table into parts that fit, each with the first column, unless it fits or must
    /// not be divided.
    fn parts(&self, width: usize) -> Vec<Self> {
        let widths = self.widths();
        let first = widths.first().copied().unwrap_or(0);
        let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
        let mut used = first;
        for (i, w) in widths.iter().enumerate().skip(1) {
            let full = used + 2 + w > width && used != first;
            if full && self.divisible {
                parts.push(Vec::new());
                used = first;
            }
            used += 2 + w;
            if let Some(part) = parts.last_mut() {
                part.push(i);
            }
        }
        parts.iter().map(|columns| self.part(columns)).collect()
    }

    /// The first column and a range of others.
    fn part(&self, columns: &[usize]) -> Self {
        let kept = || std::iter::once(&0).chain(columns);
        let cell = |row: &Vec<String>, i: &usize| row.get(*i).cloned().unwrap_or_default();
        let columns = kept().filter_map(|i| self.columns.get(*i).cloned());
        let row = |row: &Vec<String>| kept().map(|i| cell(row, i)).collect();
        Self {
            title: String::new(),
            note: String::new(),
            columns: columns.collect(),
            rows: self.rows.iter().map(row).collect(),
            rule_before: self.rule_before,
            divisible: false,
        }
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut out = String::new();
        for (i, (width, (_, align))) in widths.iter().zip(&self.columns).enumerate() {
            let cell = cells.get(i).map_or("", String::as_str);
            let pad = " ".repeat(width - cell.chars().count());
            let gap = if i == 0 { "" } else { "  " };
            match align {
                Align::Left => out.push_str(&format!("{gap}{cell}{pad}")),
                Align::Right => out.push_str(&format!("{gap}{pad}{cell}")),
            }
        }
        out.trim_end().to_string()
    }
}
