//! The PLIC's state as rows.

use super::{MAX_PRIORITY, Plic};
use crate::inspect::{Part, Row, bits};

/// Sources whose bits are set.
fn set(words: &[u32]) -> impl Iterator<Item = usize> {
    bits(words.iter().map(|word| u64::from(*word)), 32)
}

impl Plic {
    /// State of its sources, and of its contexts: `context` returns a context's hart and name.
    pub(crate) fn inspect(
        &self,
        context: impl Fn(usize) -> (usize, &'static str),
        rows: &mut Vec<Row>,
    ) {
        let mut part = Part::new(rows, None, "plic");
        part.set("wires high", set(&self.wire));
        part.set("pending", set(&self.pending));
        part.set("in service", set(&self.claimed));
        for priority in 1..=MAX_PRIORITY {
            let same = (1..self.priority.len()).filter(|&s| self.priority[s] == priority);
            let sources = crate::inspect::ranges(same);
            part.row(false, format!("priority {priority}"), sources);
        }
        for (index, own) in self.contexts.iter().enumerate() {
            let (hart, name) = context(index);
            let mut part = Part::new(rows, Some(hart), name);
            part.set("enabled", set(&own.enable));
            part.row(own.threshold != 0, "threshold", own.threshold.to_string());
            let next = self.best(index, own.threshold);
            let text = next.map_or("no".into(), |source| format!("yes, by source {source}"));
            part.row(own.raised, "raised", text);
        }
    }
}
