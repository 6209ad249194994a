//! The result of an exploration, as text and as JSON.

use std::fmt::Write;

use anyhow::Result;

use crate::args::ExploreArgs;

use super::walk::Boundaries;
use super::workers::Runs;

/// An exploration that has ended.
pub struct Summary<'a> {
    /// The options of the exploration.
    pub args: &'a ExploreArgs,
    /// Name of the workload.
    pub workload: &'a str,
    /// Boundaries of the calls.
    pub boundaries: &'a Boundaries,
    /// Every `stride`-th was to be taken.
    pub stride: u64,
    /// Number of boundaries that were taken.
    pub taken: u64,
    /// Results of the runs.
    pub runs: &'a Runs,
}

impl Summary<'_> {
    /// The result as JSON.
    ///
    /// # Errors
    /// Serialization errors, which do not occur.
    pub fn json(&self) -> Result<String> {
        let result = serde_json::json!({
            "workload": self.workload,
            "machine": self.args.machine,
            "calls": self.args.calls,
            "stride": self.stride,
            "visits": self.args.visits,
            "times": self.args.times,
            "disturbances": self.disturbances(),
            "boundaries": self.boundaries.calls,
            "within": self.boundaries.within,
            "runs": self.runs.done,
            "without_effect": self.runs.without_effect,
            "failed": self.runs.failed(),
            "dropped": self.runs.dropped,
        });
        Ok(serde_json::to_string_pretty(&result)? + "\n")
    }

    /// The result as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (function, count) in &self.boundaries.calls {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{function:<48} {count:>6} instructions");
        }
        let dropped = match self.runs.dropped {
            0 => String::new(),
            n => format!(", {n} stopped before their end"),
        };
        let without = match self.runs.without_effect {
            0 => String::new(),
            n => format!(", {n} without effect"),
        };
        let disturbances = self.disturbances();
        // Runs are made in the order of the boundaries.
        let reached = self.runs.done.div_ceil(disturbances.len() as u64);
        let _ = writeln!(
            text,
            "{} runs disturbed at {} of {} instruction boundaries ({}), {} failed{without}{dropped}",
            self.runs.done,
            reached.min(self.taken),
            self.boundaries.seen,
            disturbances.join(", "),
            self.runs.failed().len()
        );
        if self.runs.without_effect != 0 {
            text.push_str(
                "Without effect: the machine soon became what it is without the disturbance, so the \
                 rest of these runs is known.\n",
            );
        }
        text
    }

    fn disturbances(&self) -> Vec<String> {
        self.args.disturb.iter().map(ToString::to_string).collect()
    }
}
