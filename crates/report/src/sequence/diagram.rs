//! A [`Sequence`] as Mermaid for pages, and plain text for terminals.

use crate::number::{self, Space};
use crate::sequence::Sequence;
use crate::sequence::actors::Message;
use crate::table::clean;

/// Columns of text from one actor to the next.
const STEP: usize = 22;
/// Columns for the time.
const MARGIN: usize = 10;

impl Sequence {
    fn note_of_cut(&self, index: usize) -> Option<String> {
        let (at, count) = self.messages.cut()?;
        (at == index).then(|| format!("... {count} more ..."))
    }

    fn text_of(&self, message: &Message) -> String {
        match message.times {
            1 => clean(&message.text),
            n => format!("{} (x{n})", clean(&message.text)),
        }
    }

    /// The diagram in Mermaid's language (`sequenceDiagram`).
    pub fn mermaid(&self, cycles_per_second: u64) -> String {
        let mut out = format!(
            "---\ntitle: \"{}\"\n---\nsequenceDiagram\n",
            self.title(cycles_per_second)
        );
        let names = self.messages.names();
        for (index, name) in names.iter().enumerate() {
            out.push_str(&format!("    participant a{index} as {name}\n"));
        }
        let all = names.len().saturating_sub(1);
        for (index, m) in self.messages().iter().enumerate() {
            if let Some(note) = self.note_of_cut(index) {
                out.push_str(&format!("    Note over a0,a{all}: {note}\n"));
            }
            // Mermaid ends a message at a semicolon and reads '#' as an escape.
            let text = self.text_of(m).replace([';', '#'], " ");
            let time = number::duration(m.time, cycles_per_second, Space::Plain);
            let line = if m.from == m.to {
                format!("    Note over a{}: +{time} {text}\n", m.from)
            } else {
                format!("    a{}->>a{}: +{time} {text}\n", m.from, m.to)
            };
            out.push_str(&line);
        }
        out
    }

    /// The diagram as plain text: time goes down, each actor has a line.
    pub fn text(&self, cycles_per_second: u64) -> String {
        let names = self.messages.names();
        let at = |actor: usize| MARGIN + 2 + actor * STEP;
        let width = at(names.len());
        let mut out = format!("{}\n\n", self.title(cycles_per_second));
        let mut head = vec![' '; width];
        for (actor, name) in names.iter().enumerate() {
            let name: Vec<char> = name.chars().take(STEP - 1).collect();
            put(&mut head, at(actor), &name);
        }
        out.push_str(&line_of(head));
        for (index, m) in self.messages().iter().enumerate() {
            let mut lifelines = vec![' '; width];
            for actor in 0..names.len() {
                lifelines[at(actor)] = '|';
            }
            if let Some(note) = self.note_of_cut(index) {
                let mut line = lifelines.clone();
                put(&mut line, at(0) + 2, &note.chars().collect::<Vec<_>>());
                out.push_str(&line_of(line));
            }
            let time = number::duration(m.time, cycles_per_second, Space::Plain);
            let mut line = lifelines.clone();
            put(
                &mut line,
                0,
                &format!("{time:>MARGIN$}").chars().collect::<Vec<_>>(),
            );
            let (left, right) = (m.from.min(m.to), m.from.max(m.to));
            let mark = if left == right { "* " } else { "" };
            let text: Vec<char> = format!("{mark}{}", self.text_of(m)).chars().collect();
            // A text longer than the distance to the next line overwrites the line, which is more
            // readable than a truncated text.
            let start = at(left) + if left == right { 0 } else { 2 };
            if line.len() < start + text.len() {
                line.resize(start + text.len(), ' ');
            }
            put(&mut line, start, &text);
            out.push_str(&line_of(line));
            if left != right {
                let mut line = lifelines;
                for column in &mut line[at(left) + 1..at(right)] {
                    *column = '-';
                }
                if m.from < m.to {
                    line[at(right) - 1] = '>';
                } else {
                    line[at(left) + 1] = '<';
                }
                out.push_str(&line_of(line));
            }
        }
        out
    }
}

fn put(line: &mut [char], at: usize, text: &[char]) {
    for (place, c) in line.iter_mut().skip(at).zip(text) {
        *place = *c;
    }
}

fn line_of(line: Vec<char>) -> String {
    let text: String = line.into_iter().collect();
    format!("{}\n", text.trim_end())
}
