//! Latency histogram with a bounded relative error.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counters::Merge;

/// Bits of resolution below the leading one.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

/// Counts of values in cycles: exact below 64, else in 32 buckets per power of two, so that a
/// bucket is at most 3.2 % wide. Minimum, maximum and sum are exact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Histogram {
    /// Empty until the first value: most histograms stay so.
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Vec::new(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

fn bucket(value: u64) -> usize {
    let top = 63 - (value | 1).leading_zeros();
    if top < SUB_BITS {
        return value as usize;
    }
    let shift = top - SUB_BITS;
    (((shift as u64 + 1) << SUB_BITS) + ((value >> shift) & (SUB - 1))) as usize
}

/// Smallest and largest value of a bucket.
fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < SUB {
        return (index, index);
    }
    let shift = (index >> SUB_BITS) - 1;
    let low = (SUB + (index & (SUB - 1))) << shift;
    (low, low + ((1u64 << shift) - 1))
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of `other`.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Whether it has buckets for all values, or none.
    pub(crate) fn is_sound(&self) -> bool {
        let all = self
            .counts
            .iter()
            .try_fold(0_u64, |sum, n| sum.checked_add(*n));
        matches!(self.counts.len(), 0 | BUCKETS) && all == Some(self.count)
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest value `v` such that at least `per_mille`/1000 of all values are `<= v`, rounded up
    /// to the end of its bucket and never above the maximum. 0 without values.
    pub fn percentile(&self, per_mille: u64) -> u64 {
        let buckets = self.counts.iter().enumerate();
        let buckets = buckets.map(|(index, n)| (bounds(index).1, *n));
        percentile(buckets, self.count, self.max, per_mille)
    }

    /// The form that is written to a ledger.
    pub fn summary(&self) -> Latency {
        let buckets = self.counts.iter().enumerate().filter(|(_, n)| **n != 0);
        Latency {
            count: self.count,
            sum: self.sum,
            min: if self.count == 0 { 0 } else { self.min },
            max: self.max,
            p50: self.percentile(500),
            p90: self.percentile(900),
            p99: self.percentile(990),
            p999: self.percentile(999),
            buckets: buckets
                .map(|(i, n)| (bounds(i).0, bounds(i).1, *n))
                .collect(),
        }
    }
}

/// The percentile of `count` values in `buckets`, given by their largest values and counts, none
/// of them above `max`.
fn percentile(
    buckets: impl Iterator<Item = (u64, u64)>,
    count: u64,
    max: u64,
    per_mille: u64,
) -> u64 {
    // u128: count * 1000 may not fit, and rounding must be exact for reproducible ledgers.
    let rank = (u128::from(count) * u128::from(per_mille))
        .div_ceil(1000)
        .max(1) as u64;
    let mut seen = 0;
    for (largest, n) in buckets {
        seen += n;
        if seen >= rank {
            return largest.min(max);
        }
    }
    max
}

impl Merge for Histogram {
    fn merge(&mut self, other: &Self) {
        self.add(other);
    }
}

/// A histogram in a ledger. All values in cycles of virtual time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// Sum of all values (exact).
    pub sum: u64,
    /// Smallest value (exact); 0 without values.
    pub min: u64,
    /// Largest value (exact).
    pub max: u64,
    /// Median, within 3.2 %.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Occupied buckets: smallest value, largest value, count.
    pub buckets: Vec<(u64, u64, u64)>,
}

impl Latency {
    /// The values of several runs as if they were of one; `None` without a value.
    pub fn pooled<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut all = Self {
            min: u64::MAX,
            ..Self::default()
        };
        let mut buckets: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for part in parts.into_iter().filter(|part| part.count != 0) {
            all.count += part.count;
            all.sum = all.sum.saturating_add(part.sum);
            all.min = all.min.min(part.min);
            all.max = all.max.max(part.max);
            for (low, high, n) in &part.buckets {
                *buckets.entry((*low, *high)).or_default() += n;
            }
        }
        let of = |per_mille| {
            let largest = buckets.iter().map(|((_, high), n)| (*high, *n));
            percentile(largest, all.count, all.max, per_mille)
        };
        (all.p50, all.p90, all.p99, all.p999) = (of(500), of(900), of(990), of(999));
        all.buckets = buckets.iter().map(|((a, b), n)| (*a, *b, *n)).collect();
        (all.count != 0).then_some(all)
    }

    /// Arithmetic mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_whole_range_without_gap_or_overlap() {
        let mut next = 0u64;
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            assert_eq!(low, next, "bucket {index}");
            assert_eq!((bucket(low), bucket(high)), (index, index));
            assert!(high - low <= low / SUB, "bucket {index} is wider than 1/32");
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "last bucket ends at u64::MAX");
    }

    #[test]
    fn percentiles_match_sorted_values_within_a_bucket() {
        let mut h = Histogram::default();
        let mut values: Vec<u64> = (0..5000u64).map(|i| i * i % 77_777).collect();
        values.iter().for_each(|v| h.record(*v));
        values.sort_unstable();
        for (per_mille, exact) in [
            (500, values[2499]),
            (990, values[4949]),
            (1000, values[4999]),
        ] {
            let got = h.percentile(per_mille);
            assert!(
                got >= exact && got - exact <= exact / 31 + 1,
                "{per_mille}: {got} {exact}"
            );
        }
        let s = h.summary();
        assert_eq!((s.min, s.max, s.count), (values[0], values[4999], 5000));
        assert_eq!(s.buckets.iter().map(|b| b.2).sum::<u64>(), 5000);
    }

    #[test]
    fn merge_equals_recording_everything_in_one() {
        let (mut a, mut b, mut all) = (
            Histogram::default(),
            Histogram::default(),
            Histogram::default(),
        );
        for v in [3, 900, u64::MAX] {
            a.record(v);
            all.record(v);
        }
        for v in [0, 1 << 40] {
            b.record(v);
            all.record(v);
        }
        a.add(&b);
        assert_eq!(a.summary(), all.summary());
        assert_eq!(Histogram::default().summary(), Latency::default());
        // The written form can be put together as well.
        let parts = [a.summary(), Latency::default()];
        assert_eq!(Latency::pooled(&parts), Some(all.summary()));
    }

    #[test]
    fn pooled_latencies_are_those_of_all_values() {
        let mut all = Histogram::default();
        let parts: Vec<Latency> = (1..4u64)
            .map(|run| {
                let mut one = Histogram::default();
                for i in 0..100 * run {
                    one.record(i * i * run);
                    all.record(i * i * run);
                }
                one.summary()
            })
            .collect();
        assert_eq!(Latency::pooled(&parts), Some(all.summary()));
        assert_eq!(Latency::pooled([]), None);
    }
}
