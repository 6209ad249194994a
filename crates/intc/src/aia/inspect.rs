//! The state of the Advanced Interrupt Architecture as rows.

use super::Aia;
use crate::inspect::Row;

impl Aia {
    pub(super) fn rows(&self, now: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        self.state.aclint.inspect(now, &mut rows);
        self.state.aplic.inspect(&mut rows);
        if let Some(imsics) = &self.state.imsics {
            imsics.inspect(&mut rows);
        }
        rows
    }
}
