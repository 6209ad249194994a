//! The ACLINT's state as rows.

use super::{Clint, Sswi, bit};
use crate::inspect::{Part, Row};

impl Clint {
    /// MSIP and comparators at virtual time `now`.
    pub(crate) fn inspect(&self, now: u64, rows: &mut Vec<Row>) {
        let timer = &self.mtimer;
        let mtime = timer.mtime(now);
        Part::new(rows, None, "aclint").row(false, "mtime", mtime.to_string());
        for (hart, compare) in timer.mtimecmp.iter().enumerate() {
            let mut part = Part::new(rows, Some(hart), "aclint");
            let pending = self.mswi.pending(hart);
            part.row(pending, "msip", if pending { "pending" } else { "0" });
            let value = match (*compare, timer.pending(hart, now)) {
                (u64::MAX, _) => "never".into(),
                (compare, (true, _)) => format!("{compare}, MTIP pending"),
                (compare, (_, at)) => format!("{compare}, in {} cycles", at.saturating_sub(now)),
            };
            part.row(*compare != u64::MAX, "mtimecmp", value);
        }
    }
}

impl Sswi {
    /// Edges that have not set SSIP yet.
    pub(crate) fn inspect(&self, rows: &mut Vec<Row>) {
        for hart in 0..self.harts {
            let sent = bit(self.edges, hart);
            let value = if sent { "sent" } else { "0" };
            Part::new(rows, Some(hart), "sswi").row(sent, "setssip", value);
        }
    }
}
