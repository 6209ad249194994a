//! Measurements: scenarios (one boot each) and their rows of the table.

use crate::setting::Sinks;

/// A point of a run.
#[derive(Clone, Copy)]
pub enum Mark {
    /// The process starts.
    Start,
    /// `@trapless begin NAME` has arrived.
    Begin(&'static str),
    /// `@trapless end NAME status=0` begins to arrive.
    End(&'static str),
    /// The process has ended.
    Exit,
}

/// How a row's figure is computed from measurements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds between the marks.
    Seconds,
    /// Microseconds for each of so many rounds.
    MicrosecondsPerRound(u64),
    /// 10^9 instructions per second, of so many instructions.
    Rate(u64),
    /// Resident memory in MiB some seconds after the second mark.
    Resident,
}

impl Unit {
    /// How it is written.
    pub fn text(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::MicrosecondsPerRound(_) => "us",
            Self::Rate(_) => "G/s",
            Self::Resident => "MiB",
        }
    }

    /// Whether more is better.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::Rate(_))
    }
}

/// Goal of a row.
#[derive(Clone, Copy)]
pub enum Goal {
    /// At most this times the peer's figure (time, or memory).
    Ratio(f64),
    /// At most this figure, whatever the peer's is.
    Absolute(f64),
    /// None of its own.
    None,
}

/// One row of the table.
pub struct Row {
    /// Its name, for `--only`.
    pub name: &'static str,
    /// Description.
    pub explanation: &'static str,
    /// Where the measured part begins.
    pub from: Mark,
    /// Where it ends.
    pub to: Mark,
    /// Unit of the figure.
    pub unit: Unit,
    /// Goal.
    pub goal: Goal,
}

/// One boot from which rows come.
pub struct Scenario {
    /// Its name, for `--only`.
    pub name: &'static str,
    /// Description.
    pub explanation: &'static str,
    /// Image in the initial RAM disk.
    pub image: &'static str,
    /// Words of the kernel command line.
    pub append: &'static str,
    /// Time limit in seconds.
    pub limit: u64,
    /// Instead of QEMU and `trapless`: this program with these receivers of events. The others are
    /// compared with the first.
    pub variants: Option<&'static [Sinks]>,
    /// Its rows.
    pub rows: &'static [Row],
}

impl Scenario {
    /// Names of `rows`, which are some of it, with commas.
    pub fn only(&self, rows: &[&Row]) -> String {
        let names: Vec<_> = rows.iter().map(|row| row.name).collect();
        names.join(",")
    }

    /// Whether the peer takes part and the guest powers off.
    pub fn ends(&self) -> bool {
        self.variants.is_none() && self.rows.iter().all(|r| r.unit != Unit::Resident)
    }
}

const fn row(
    name: &'static str,
    explanation: &'static str,
    from: Mark,
    to: Mark,
    unit: Unit,
    goal: Goal,
) -> Row {
    Row {
        name,
        explanation,
        from,
        to,
        unit,
        goal,
    }
}

/// A program of images/bench/programs.sh. All of them together have the goal: see `results`.
macro_rules! program {
    ($name:literal, $explanation:literal) => {
        row(
            $name,
            $explanation,
            Mark::Begin(concat!("host ", $name)),
            Mark::End(concat!("host ", $name)),
            Unit::Seconds,
            // None may be slower than 0.6 times the peer's speed.
            Goal::Ratio(1.0 / 0.6),
        )
    };
}

macro_rules! kvm {
    ($name:literal, $rounds:literal, $explanation:literal) => {
        row(
            $name,
            $explanation,
            Mark::Begin(concat!("host kvm-", $name)),
            Mark::End(concat!("host kvm-", $name)),
            Unit::MicrosecondsPerRound($rounds),
            Goal::Ratio(0.1),
        )
    };
}

/// Instructions of the loop in images/bench/programs/integer-loop.S.
const INTEGER_LOOP: u64 = 250_000_000 * 16;

/// All of them, in the order of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "boot",
        explanation: "the stock kernel boots a small initial RAM disk",
        image: "guest",
        append: "trapless.workload=boot",
        limit: 120,
        variants: None,
        rows: &[row(
            "boot",
            "process start to user space, through OpenSBI and the kernel",
            Mark::Start,
            Mark::Begin("guest boot"),
            Unit::Seconds,
            Goal::Ratio(1.0),
        )],
    },
    Scenario {
        name: "kvm",
        explanation: "what KVM costs: a guest of a few instructions, directly on /dev/kvm",
        image: "bench-nested",
        append: "trapless.run=kvm set.costs=hypercall:100000,mmio:40000,stimecmp:5000000",
        limit: 300,
        variants: None,
        rows: &[
            kvm!(
                "hypercall",
                100_000,
                "an SBI call that KVM answers in the kernel, and back"
            ),
            kvm!("mmio", 40_000, "a load that user space answers, and back"),
            kvm!(
                "stimecmp",
                5_000_000,
                "the guest writes vstimecmp, without an exit"
            ),
        ],
    },
    Scenario {
        name: "nested",
        explanation: "the stock host boots, QEMU with KVM in it boots a stock guest with 2 vCPUs, 200 short sleeps, both power off",
        image: "bench-nested",
        append: "trapless.run=naps trapless.vmm=qemu trapless.cpus=2",
        limit: 300,
        variants: None,
        rows: &[row(
            "nested-qemu",
            "all of it, QEMU as VMM",
            Mark::Start,
            Mark::Exit,
            Unit::Seconds,
            Goal::Ratio(0.25),
        )],
    },
    Scenario {
        name: "nested-own-vmm",
        explanation: "the same with our VMM in the host, and guest RAM in huge pages",
        image: "bench-nested",
        append: "trapless.run=naps trapless.cpus=2 set.hugepages=1",
        limit: 300,
        variants: None,
        rows: &[
            row(
                "nested",
                "all of it, our VMM",
                Mark::Start,
                Mark::Exit,
                Unit::Seconds,
                Goal::None,
            ),
            row(
                "guest-boot",
                "start of the VMM to the guest's user space",
                Mark::Begin("host naps"),
                Mark::Begin("guest naps"),
                Unit::Seconds,
                Goal::Absolute(1.0),
            ),
        ],
    },
    Scenario {
        name: "programs",
        explanation: "programs in the host's user space, each with a fixed amount of work",
        image: "bench",
        append: "trapless.run=programs",
        limit: 900,
        variants: None,
        rows: &[
            row(
                "integer",
                "a loop of 16 integer instructions",
                Mark::Begin("host integer"),
                Mark::End("host integer"),
                Unit::Rate(INTEGER_LOOP),
                Goal::None,
            ),
            program!("sysbench_cpu", "sysbench cpu: prime numbers"),
            program!("sysbench_memory", "sysbench memory: writes of 4 KiB blocks"),
            program!("stress_matrix", "stress-ng matrixprod: floating point"),
            program!("stress_integer", "stress-ng int64: integer arithmetic"),
            program!("gzip", "gzip -9 of 3 MB"),
            program!("xz", "xz -2 of 3 MB"),
            program!("python", "CPython: objects, dictionaries, big integers"),
            program!("compiler", "gcc's cc1 -O2"),
            program!("sqlite", "SQLite: inserts, indexes, joins"),
            program!(
                "redis",
                "redis-benchmark against redis-server over loopback"
            ),
        ],
    },
    Scenario {
        name: "idle",
        explanation: "a machine that waits for input that does not come",
        image: "bench-guest",
        append: "trapless.workload=idle",
        limit: 120,
        variants: None,
        rows: &[row(
            "idle-memory",
            "resident memory of the idle machine, 2 harts, 2 GiB",
            Mark::Start,
            Mark::Begin("guest idle"),
            Unit::Resident,
            Goal::Ratio(1.2),
        )],
    },
    Scenario {
        name: "ledger",
        explanation: "scenario nested-own-vmm without huge pages on our machine: no ledger, its totals, and totals with all events written to a file",
        image: "bench-nested",
        append: "trapless.run=naps trapless.cpus=2",
        limit: 300,
        variants: Some(&[Sinks::None, Sinks::Totals, Sinks::Stream]),
        rows: &[row(
            "ledger",
            "all of it",
            Mark::Start,
            Mark::Exit,
            Unit::Seconds,
            Goal::None,
        )],
    },
];

/// Rows whose geometric mean counts as one.
pub const PROGRAMS: &str = "programs";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let mut seen = BTreeSet::new();
        for scenario in SCENARIOS {
            for row in scenario.rows {
                assert!(seen.insert(row.name), "{}", row.name);
            }
        }
    }
}
