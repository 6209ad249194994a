//! Counters of a machine's engines.

use serde::Serialize;
use trapless_hart::{CodeStatistics, HartStatistics, Meter};

use crate::machine::Machine;

/// Counters of a run. They depend on the engine; results do not depend on them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct EngineStatistics {
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// All harts together.
    #[serde(flatten)]
    pub harts: HartStatistics,
    /// The code that they share.
    #[serde(flatten)]
    pub code: CodeStatistics,
}

impl EngineStatistics {
    /// TLB misses of loads, stores and fetches.
    #[must_use]
    pub fn tlb_misses(&self) -> u64 {
        let harts = &self.harts;
        harts.load_misses + harts.store_misses + harts.fetch_misses
    }
}

impl Machine {
    /// The counters since reset.
    #[must_use]
    pub fn engine_statistics(&self) -> EngineStatistics {
        let mut harts = HartStatistics::default();
        for hart in &self.harts {
            harts.add(&hart.statistics());
        }
        EngineStatistics {
            instructions: self.instret(),
            harts,
            code: self.code.statistics(),
        }
    }

    /// The activity meter, for a profiler thread to sample while the machine runs.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.bus.meter.clone()
    }
}
