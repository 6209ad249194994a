//! One line of the results: figures of each emulator, their ratio and the goal.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::native;
use crate::rows::{Goal, Row, Unit};

/// Figure of our engine: wall time for each guest exit.
pub const NS_PER_EXIT: &str = "ns_per_guest_exit";
/// Maximum cost of totals, as a ratio to no ledger; then the same for totals with all events.
const LEDGER_GOALS: [(&str, f64); 2] = [("totals", 1.05), ("stream", 1.30)];

/// Results of one emulator in one row.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    pub median: Option<f64>,
    pub samples: Vec<f64>,
    /// Median of the seconds of wall time.
    pub seconds: Option<f64>,
    /// Median of the seconds of processor time, of all threads of the emulator.
    pub processor: Option<f64>,
    /// Runs in which it failed.
    pub failures: u32,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    pub name: String,
    pub explanation: String,
    pub unit: &'static str,
    /// By emulator: `qemu` and `trapless`, and `native` for programs; or what varies.
    pub figures: BTreeMap<String, Figures>,
    /// Trapless to QEMU: of the figures themselves.
    pub ratio: Option<f64>,
    /// How many times as fast as QEMU (for memory: as small).
    pub speed: Option<f64>,
    /// Trapless to QEMU: processor time.
    pub processor_ratio: Option<f64>,
    /// Trapless to native: of the figures themselves.
    pub native_ratio: Option<f64>,
    /// Natively it does other work.
    pub other_work: bool,
    /// Instructions that Trapless executes in it, on all harts.
    pub instructions: Option<f64>,
    /// Of them, 10^6 in each second of wall time.
    pub million_per_second: Option<f64>,
    /// Further counters of Trapless' engine in it, by name.
    pub engine: BTreeMap<&'static str, f64>,
    pub goal: Option<String>,
    pub met: Option<bool>,
}

/// A quotient that is a number.
pub fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a / b).filter(|q| q.is_finite())
}

/// A row of both emulators.
pub fn compared(row: &Row, figures: BTreeMap<String, Figures>) -> Entry {
    let median = |name: &str| figures.get(name).and_then(|f: &Figures| f.median);
    let (qemu, trapless) = (median("qemu"), median("trapless"));
    let ratio = quotient(trapless, qemu);
    let processor = |name: &str| figures.get(name).and_then(|f: &Figures| f.processor);
    // Memory takes no time.
    let timed = row.unit != Unit::Resident;
    let processor_ratio = quotient(processor("trapless"), processor("qemu")).filter(|_| timed);
    let native_ratio = quotient(trapless, median(native::NAME));
    let speed = ratio.map(|r| if row.unit.is_rate() { r } else { 1.0 / r });
    let (goal, met) = match row.goal {
        Goal::Ratio(most) => (Some(format!("<= {most:.2} x")), ratio.map(|r| r <= most)),
        Goal::Absolute(most) => (
            Some(format!("<= {most} {}", row.unit.text())),
            trapless.map(|t| t <= most),
        ),
        Goal::None => (None, None),
    };
    Entry {
        name: row.name.into(),
        explanation: row.explanation.into(),
        unit: row.unit.text(),
        figures,
        ratio,
        speed,
        processor_ratio,
        native_ratio,
        other_work: row.other_work,
        instructions: None,
        million_per_second: None,
        engine: BTreeMap::new(),
        goal,
        met,
    }
}

/// Each kind of event receivers against none.
pub fn variants(row: &Row, figures: &BTreeMap<String, Figures>) -> Vec<Entry> {
    let pair = |(name, most): (&str, f64)| {
        let of: BTreeMap<_, _> = ["none", name]
            .into_iter()
            .filter_map(|n| Some((n.to_owned(), figures.get(n)?.clone())))
            .collect();
        let median = |n: &str| of.get(n).and_then(|f| f.median);
        let processor = |n: &str| of.get(n).and_then(|f| f.processor);
        let ratio = quotient(median(name), median("none"));
        let processor_ratio = quotient(processor(name), processor("none"));
        Entry {
            name: format!("{} {name}", row.name),
            explanation: format!("{}, Trapless without a ledger and with it", row.explanation),
            unit: row.unit.text(),
            figures: of,
            ratio,
            speed: ratio.map(|r| 1.0 / r),
            processor_ratio,
            native_ratio: None,
            other_work: false,
            instructions: None,
            million_per_second: None,
            engine: BTreeMap::new(),
            goal: Some(format!("<= {most:.2} x")),
            met: ratio.map(|r| r <= most),
        }
    };
    LEDGER_GOALS.map(pair).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Mark;

    fn row(unit: Unit, goal: Goal) -> Row {
        Row {
            name: "r",
            explanation: "",
            from: Mark::Start,
            to: Mark::Exit,
            unit,
            goal,
            other_work: false,
        }
    }

    fn figures(qemu: f64, trapless: f64) -> BTreeMap<String, Figures> {
        let of = |m| Figures {
            median: Some(m),
            ..Figures::default()
        };
        BTreeMap::from([("qemu".into(), of(qemu)), ("trapless".into(), of(trapless))])
    }

    #[test]
    fn half_the_time_and_twice_the_rate_are_twice_the_speed() {
        let time = compared(&row(Unit::Seconds, Goal::Ratio(0.4)), figures(4.0, 2.0));
        assert_eq!(
            (time.ratio, time.speed, time.met),
            (Some(0.5), Some(2.0), Some(false))
        );
        let rate = compared(&row(Unit::Rate(1), Goal::None), figures(2.0, 4.0));
        assert_eq!((rate.speed, rate.met), (Some(2.0), None));
        let own = compared(&row(Unit::Seconds, Goal::Absolute(2.0)), figures(1.0, 2.0));
        assert_eq!(own.met, Some(true));
    }
}
