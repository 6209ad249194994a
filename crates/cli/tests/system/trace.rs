//! The trace for Perfetto shows what the ledger counts.

#[path = "../../../report/tests/decoded/mod.rs"]
mod decoded;

use std::collections::BTreeMap;

use decoded::Trace;

use crate::runs::{Watched, run};

/// Promise: each exit of a real guest is a slice of its vCPU under the ledger's name for the
/// reason, counters end at the ledger's totals, and the phases are the ledger's.
#[test]
fn trace_and_ledger_agree() {
    let traced = run("trapless", "ipi", Watched::Trace);
    let trace = Trace::read(&traced.trace);
    let ledger = &traced.ledger;
    let mut reasons = BTreeMap::new();
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, exit) in ledger.total.exits.iter().filter(|(_, e)| e.exits != 0) {
        reasons.insert(key.to_string(), exit.exits);
        *classes.entry(key.class()).or_default() += exit.exits;
    }
    assert_eq!(trace.exits(), reasons);
    assert_eq!(trace.vcpus().count(), ledger.vcpus.len());
    let last = |values: &[(u64, u64)]| values.last().map_or(0, |(_, value)| *value);
    let counters = trace.counters().map(|c| (c.name(), last(&c.values)));
    assert_eq!(counters.collect::<BTreeMap<_, _>>(), classes);
    let phases = trace.track("phases").by_begin().into_iter();
    let counted = ledger.phases.iter().map(|p| (p.name.clone(), p.from));
    assert!(phases.map(|s| (s.name, s.begin)).eq(counted));
}
