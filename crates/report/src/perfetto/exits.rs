//! Tracks of a VM's exits: how many so far, how many in each millisecond, and when each reason
//! occurs.

use std::collections::BTreeMap;
use std::io::Write;

use trapless_ledger::{Class, Config, Reason};

use super::writer::{Event, Kind, Track, Writer};

/// Ranks of the groups among the tracks of the VM.
const TOTALS: u32 = 1 << 25;
const RATES: u32 = TOTALS + 1;
const REASONS: u32 = TOTALS + 2;

/// Maximum number of reasons with a track of their own: a guest can cause as many as there are
/// CSRs.
const MOST_REASONS: usize = 64;

/// The track of all others.
const OTHERS: &str = "others";

/// Exits whose reason belongs to no class of interrupts.
const OTHER: &str = "other";

/// Tracks by name below one of their own, which are made when they are needed.
#[derive(Debug)]
struct Group<T> {
    name: &'static str,
    rank: u32,
    /// Kind of each of the tracks.
    kind: Kind,
    track: Option<Track>,
    list: BTreeMap<String, (Track, T)>,
}

impl<T: Default> Group<T> {
    fn new(name: &'static str, rank: u32, kind: Kind) -> Self {
        Self {
            name,
            rank,
            kind,
            track: None,
            list: BTreeMap::new(),
        }
    }

    fn find<W: Write>(&mut self, out: &mut Writer<W>, vm: Track, name: &str) -> &mut (Track, T) {
        let group = *self
            .track
            .get_or_insert_with(|| out.track(Kind::Sorted, self.name, Some(vm), self.rank));
        let kind = self.kind;
        self.list
            .entry(name.to_string())
            .or_insert_with(|| (out.track(kind, name, Some(group), 0), T::default()))
    }
}

/// Exits in a millisecond.
#[derive(Default, Debug)]
struct Rate {
    /// Count of the current millisecond.
    count: u64,
    /// Last value on the track.
    shown: u64,
}

/// The exits of one VM.
#[derive(Debug)]
pub struct Exits {
    vm: Track,
    totals: Group<u64>,
    rates: Group<Rate>,
    reasons: Group<()>,
}

impl Exits {
    /// Tracks below `vm`.
    pub fn new(vm: Track) -> Self {
        Self {
            vm,
            totals: Group::new("exits", TOTALS, Kind::Counter),
            rates: Group::new("exits per ms", RATES, Kind::Counter),
            reasons: Group::new("reasons", REASONS, Kind::Slices),
        }
    }

    /// Shows an exit of the vCPU called `vcpu`.
    pub fn record<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        time: u64,
        vcpu: &str,
        reason: Reason,
        config: &Config,
    ) {
        let key = reason.key(&config.guest_devices);
        let (counter, total) = self.totals.find(out, self.vm, key.class());
        *total += 1;
        out.count(*counter, time, *total);
        let class = Class::of_reason(reason, &config.guest_devices);
        let (_, rate) = self
            .rates
            .find(out, self.vm, class.map_or(OTHER, Class::name));
        rate.count += 1;
        let known = self.reasons.list.contains_key(key.as_str());
        let room = self.reasons.list.len() < MOST_REASONS;
        let name = if known || room { key.as_str() } else { OTHERS };
        let (track, ()) = self.reasons.find(out, self.vm, name);
        let mut shown = Event::named(vcpu, "reason");
        if name == OTHERS {
            shown = shown.annotated("reason", key.as_str());
        }
        out.instant(*track, time, shown);
    }

    /// The millisecond that began at `from` (cycles) is over at `to`, as are `more` after it.
    pub fn end_millisecond<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        from: u64,
        to: u64,
        more: bool,
    ) {
        for (track, rate) in self.rates.list.values_mut() {
            let count = std::mem::take(&mut rate.count);
            for (time, value, wanted) in [(from, count, true), (to, 0, more)] {
                if wanted && rate.shown != value {
                    out.count(*track, time, value);
                    rate.shown = value;
                }
            }
        }
    }
}

/// Division of a run into milliseconds.
#[derive(Debug, Default)]
pub struct Clock {
    /// Its beginning in cycles.
    begin: u64,
    /// Length of a millisecond in cycles.
    length: u64,
}

impl Clock {
    /// Milliseconds of a clock with so many cycles in a second.
    pub fn new(cycles_per_second: u64) -> Self {
        Self {
            begin: 0,
            length: (cycles_per_second / 1000).max(1),
        }
    }

    /// If the current millisecond ends by `time`: its beginning and end, and whether others have
    /// passed since. Late events, from a hart that is behind, count in the current one.
    pub fn pass(&mut self, time: u64) -> Option<(u64, u64, bool)> {
        let (from, to) = (self.begin, self.begin + self.length);
        if time < to {
            return None;
        }
        self.begin = time - time % self.length;
        Some((from, to, self.begin > to))
    }

    /// The current millisecond, at the end of the trace.
    pub fn last(&self) -> (u64, u64, bool) {
        (self.begin, self.begin + self.length, false)
    }
}
