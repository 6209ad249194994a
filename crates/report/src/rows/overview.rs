//! Exits for each interrupt that guests took: all of them, and the part of each class.

use trapless_ledger::{Class, Section};

use crate::compare::{Comparison, Run};
use crate::findings::interrupts;
use crate::number::{self, Space};
use crate::rows::classes::timers_while_halted;
use crate::statistics::Sample;

/// Divisor of exits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Per {
    /// An interrupt that a guest took, of any class.
    Interrupt,
    /// 1 000 units of the workload's own work: in some run no guest took an interrupt.
    Work,
    /// The whole run: neither of these occurred in each run.
    Run,
}

/// Parts of all exits, in the order of a bar: the classes, then exits that belong to none of them.
pub const PARTS: [Option<Class>; 4] = [
    Some(Class::Timer),
    Some(Class::Ipi),
    Some(Class::Device),
    None,
];

/// All exits for each interrupt.
pub struct Overview {
    /// Divisor of the figures.
    pub per: Per,
    /// All exits of each column.
    pub exits: Vec<Option<Sample>>,
    /// Firmware traps charged to them.
    pub firmware: Vec<Option<Sample>>,
    /// The exits of each of [`PARTS`].
    pub parts: [Vec<Option<Sample>>; 4],
    /// Their shares of the exits of all runs of a column together: 0 to 1.
    pub shares: Vec<[f64; 4]>,
}

/// Cost of each interrupt of a class.
pub struct Tile {
    /// The class.
    pub class: Class,
    /// Exits for each interrupt taken; `None` in a column where none was.
    pub exits: Vec<Option<Sample>>,
    /// Firmware traps charged to the class.
    pub firmware: Vec<Option<Sample>>,
    /// Of timers, if there are any: firmware traps for timers that are charged to WFI, as the vCPU
    /// was halted.
    pub halted: Option<Vec<Option<Sample>>>,
}

impl Comparison<'_> {
    /// The figures of all interrupts together.
    pub fn overview(&self) -> Overview {
        let per = self.divisor();
        let rate = |count: &dyn Fn(&Section) -> u64| {
            self.samples(|run| divided(count(run.section), per, run))
        };
        let shares = self.columns.iter().map(|c| {
            let all = |part| c.runs.iter().map(|run| exits_of(run.section, part)).sum();
            let counts: [u64; 4] = PARTS.map(all);
            let whole = counts.iter().sum::<u64>().max(1);
            counts.map(|n| n as f64 / whole as f64)
        });
        Overview {
            per,
            exits: rate(&|s| s.guest_exits),
            firmware: rate(&|s| s.firmware.charged_to_exits),
            parts: PARTS.map(|part| rate(&|s| exits_of(s, part))),
            shares: shares.collect(),
        }
    }

    /// The figures of each class alone.
    pub fn tiles(&self) -> [Tile; 3] {
        [Class::Timer, Class::Ipi, Class::Device].map(|class| Tile {
            class,
            exits: self.per_interrupt(class, |part| part.exits),
            firmware: self.per_interrupt(class, |part| part.firmware_traps),
            halted: self.halted(class),
        })
    }

    /// Firmware traps for timers while vCPUs were halted, for each timer interrupt taken.
    fn halted(&self, class: Class) -> Option<Vec<Option<Sample>>> {
        let rate = |run: &Run| {
            let taken = interrupts(run.section, Class::Timer);
            timers_while_halted(run.section) as f64 / taken as f64
        };
        let shown = class == Class::Timer && self.any(timers_while_halted);
        shown.then(|| self.samples(rate))
    }

    fn divisor(&self) -> Per {
        let runs = || self.columns.iter().flat_map(|c| &c.runs);
        if runs().all(|run| taken(run.section) != 0) {
            Per::Interrupt
        } else if self.reported && runs().all(|run| run.work != 0) {
            Per::Work
        } else {
            Per::Run
        }
    }

    /// "per interrupt".
    pub fn per_text(&self, per: Per, space: Space) -> String {
        match per {
            Per::Interrupt => "per interrupt".to_string(),
            Per::Work => self.per_thousand_text(space),
            Per::Run => "in the measured part".to_string(),
        }
    }
}

impl Per {
    /// A figure as text: rates below 10 have two decimals, so that they can be compared.
    pub fn text(self, value: f64, space: Space) -> String {
        match self {
            Self::Interrupt => rate_text(value, space),
            Self::Work | Self::Run => number::decimal(value, space),
        }
    }
}

/// A rate for each interrupt, so that 1.00 and 1.03 are aligned; only 0 reads `0`.
pub fn rate_text(value: f64, space: Space) -> String {
    let small = (0.005..9.995).contains(&value);
    if small {
        format!("{value:.2}")
    } else {
        number::decimal(value, space)
    }
}

/// Interrupts of all classes that guests took.
fn taken(section: &Section) -> u64 {
    let classes = Class::ALL.into_iter();
    classes.map(|class| interrupts(section, class)).sum()
}

fn exits_of(section: &Section, part: Option<Class>) -> u64 {
    let of = |class| section.interrupts.get(&class).map_or(0, |c| c.exits);
    match part {
        Some(class) => of(class),
        None => {
            let charged = Class::ALL.into_iter().map(of).sum();
            section.guest_exits.saturating_sub(charged)
        }
    }
}

fn divided(n: u64, per: Per, run: &Run) -> f64 {
    match per {
        Per::Interrupt => n as f64 / taken(run.section) as f64,
        Per::Work => run.per_thousand(n),
        Per::Run => n as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::document::Work;
    use trapless_ledger::{Config, InterruptClass, Ledger, LedgerFile, RunInfo};

    /// A run of one class with so many interrupts and exits, and `others` that belong to none.
    fn ledger(class: Class, taken: u64, exits: u64, others: u64) -> LedgerFile {
        let info = RunInfo {
            work: Some(Work {
                unit: "pings".into(),
                count: 1000,
            }),
            ..RunInfo::default()
        };
        let mut file = Ledger::new(Config::new(1)).to_file(info, None);
        let counts = InterruptClass {
            taken,
            exits,
            firmware_traps: exits / 2,
            ..InterruptClass::default()
        };
        file.total.interrupts = [(class, counts)].into();
        file.total.guest_exits = exits + others;
        file
    }

    fn medians(samples: &[Option<Sample>]) -> Vec<Option<f64>> {
        let median = |s: &Option<Sample>| s.as_ref().map(Sample::median);
        samples.iter().map(median).collect()
    }

    /// Promise: 100 IPIs that made 250 exits cost 2.5 each, whatever else the guest took or did;
    /// of a class that nobody used there is no figure.
    #[test]
    fn tiles_divide_by_interrupts_of_their_class() {
        let mut file = ledger(Class::Ipi, 100, 250, 70);
        let timer = InterruptClass {
            taken: 400,
            ..InterruptClass::default()
        };
        file.total.interrupts.insert(Class::Timer, timer);
        let files = [file];
        let [timer, ipi, device] = Comparison::new(&files).tiles();
        assert_eq!(medians(&ipi.exits), [Some(2.5)]);
        assert_eq!(medians(&ipi.firmware), [Some(1.25)]);
        assert_eq!(medians(&timer.exits), [Some(0.0)]);
        assert_eq!(medians(&device.exits), [None]);
    }

    /// Promise: parts of a bar are all of the exits, and all are divided by all interrupts.
    #[test]
    fn parts_add_up_to_all_exits() {
        let files = [ledger(Class::Device, 50, 100, 25)];
        let overview = Comparison::new(&files).overview();
        assert_eq!(overview.per, Per::Interrupt);
        assert_eq!(medians(&overview.exits), [Some(2.5)]);
        let parts = overview.parts.map(|part| medians(&part)[0]);
        assert_eq!(parts, [0.0, 0.0, 2.0, 0.5].map(Some));
        assert_eq!(overview.shares, [[0.0, 0.0, 0.8, 0.2]]);
    }

    /// Promise: a workload without interrupts is measured by its own work, and never by nothing.
    #[test]
    fn without_interrupts_work_is_the_divisor() {
        let mut files = [ledger(Class::Timer, 0, 0, 3000)];
        let overview = Comparison::new(&files).overview();
        assert_eq!(
            (overview.per, medians(&overview.exits)[0]),
            (Per::Work, Some(3000.0))
        );
        files[0].run.work = None;
        let overview = Comparison::new(&files).overview();
        assert_eq!(
            (overview.per, medians(&overview.exits)[0]),
            (Per::Run, Some(3000.0))
        );
    }

    #[test]
    fn small_rates_keep_two_decimals() {
        let text = |v| rate_text(v, Space::Plain);
        let texts = [0.0, 0.001, 0.5, 1.0, 12.34, 1000.0].map(text);
        assert_eq!(texts, ["0", "<0.01", "0.50", "1.00", "12.3", "1 000"]);
    }
}
