//! Geometric means of programs.

use serde::Serialize;

use crate::entry::Entry;

/// Geometric means of a scenario's programs.
#[derive(Debug, Serialize)]
pub struct Means {
    /// Of the speed, relative to the peer.
    pub speed: Option<f64>,
    /// The same by processor time.
    pub processor_speed: Option<f64>,
    /// Of the time, relative to native, without those that do other work there.
    pub native_ratio: Option<f64>,
    /// Number of those.
    pub left_out: usize,
    /// The least that `speed` should be.
    pub goal: f64,
}

impl Means {
    /// Of the entries of a scenario, whose goal this is.
    pub fn new(entries: &[Entry], goal: f64) -> Self {
        let mean = |of: fn(&Entry) -> Option<f64>| geometric_mean(entries.iter().filter_map(of));
        Self {
            speed: mean(|e| e.speed),
            processor_speed: mean(|e| e.processor_ratio.map(|r| 1.0 / r)),
            native_ratio: mean(|e| e.native_ratio.filter(|_| !e.other_work)),
            left_out: entries
                .iter()
                .filter(|e| e.other_work && e.native_ratio.is_some())
                .count(),
            goal,
        }
    }
}

/// `None` without figures.
fn geometric_mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = figures.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}
