//! Measurements: scenarios (one boot each) and their rows of the table.

use std::sync::LazyLock;

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
    /// Natively it does other work.
    pub other_work: bool,
}

/// Programs that run without an emulator, too, and whose geometric mean counts as one.
#[derive(Clone, Copy)]
pub struct Programs {
    /// The script in images/bench that runs them, in a guest and natively.
    pub script: &'static str,
    /// The least geometric mean of their speed, relative to the peer.
    pub goal: f64,
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
    /// Whether its rows are programs.
    pub programs: Option<Programs>,
    /// Whether it is measured only if it is named.
    pub named: bool,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Scenario {
    /// A scenario without programs, which QEMU and `trapless` run.
    fn new(
        name: &'static str,
        explanation: &'static str,
        image: &'static str,
        append: &'static str,
        rows: impl Into<Vec<Row>>,
    ) -> Self {
        Self {
            name,
            explanation,
            image,
            append,
            limit: 300,
            variants: None,
            programs: None,
            named: false,
            rows: rows.into(),
        }
    }

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
        other_work: false,
    }
}

/// A program of the host. All of a scenario together have the goal: see [`Programs`].
fn program(name: &'static str, explanation: &'static str) -> Row {
    row(
        name,
        explanation,
        Mark::Begin(format!("host {name}").leak()),
        Mark::End(format!("host {name}").leak()),
        Unit::Seconds,
        // None may be slower than 0.6 times the peer's speed.
        Goal::Ratio(1.0 / 0.6),
    )
}

/// A program that computes with numbers of type `long double`: they have 128 bits on RISC-V, for
/// which it has no instructions, and 80 on x86-64, for which it has. So natively it is other work.
fn long_double(name: &'static str, explanation: &'static str) -> Row {
    Row {
        other_work: cfg!(target_arch = "x86_64"),
        ..program(name, explanation)
    }
}

/// A cost of KVM, of so many rounds.
fn kvm(name: &'static str, rounds: u64, explanation: &'static str) -> Row {
    row(
        name,
        explanation,
        Mark::Begin(format!("host kvm-{name}").leak()),
        Mark::End(format!("host kvm-{name}").leak()),
        Unit::MicrosecondsPerRound(rounds),
        Goal::Ratio(0.1),
    )
}

/// Rows of the programs that images/bench/methods lists: name, kind, work.
fn methods() -> Vec<Row> {
    let lines = include_str!("../../../images/bench/methods").lines();
    let words = lines.filter_map(|line| line.split_once(' '));
    words
        .map(|(name, rest)| match rest.split(' ').next() {
            Some("method") => program(name, "CPU method of stress-ng"),
            Some("long-double") => long_double(
                name,
                "CPU method of stress-ng that computes with long double",
            ),
            Some("stressor") => program(name, "stressor of stress-ng"),
            _ => program(name, "program of coreutils"),
        })
        .collect()
}

/// Instructions of the loop in images/bench/programs/integer-loop.S.
const INTEGER_LOOP: u64 = 250_000_000 * 16;

/// All of them, in the order of the table.
pub static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    vec![
        Scenario {
            limit: 120,
            ..Scenario::new(
                "boot",
                "the stock kernel boots a small initial RAM disk",
                "guest",
                "trapless.workload=boot",
                [row(
                    "boot",
                    "process start to user space, through OpenSBI and the kernel",
                    Mark::Start,
                    Mark::Begin("guest boot"),
                    Unit::Seconds,
                    Goal::Ratio(1.0),
                )],
            )
        },
        Scenario::new(
            "kvm",
            "what KVM costs: a guest of a few instructions, directly on /dev/kvm",
            "bench-nested",
            "trapless.run=kvm set.costs=hypercall:100000,mmio:40000,stimecmp:5000000",
            [
                kvm(
                    "hypercall",
                    100_000,
                    "an SBI call that KVM answers in the kernel, and back",
                ),
                kvm("mmio", 40_000, "a load that user space answers, and back"),
                kvm(
                    "stimecmp",
                    5_000_000,
                    "the guest writes vstimecmp, without an exit",
                ),
            ],
        ),
        Scenario::new(
            "nested",
            "the stock host boots, QEMU with KVM in it boots a stock guest with 2 vCPUs, 200 short sleeps, both power off",
            "bench-nested",
            "trapless.run=naps trapless.vmm=qemu trapless.cpus=2",
            [row(
                "nested-qemu",
                "all of it, QEMU as VMM",
                Mark::Start,
                Mark::Exit,
                Unit::Seconds,
                Goal::Ratio(0.25),
            )],
        ),
        Scenario::new(
            "nested-own-vmm",
            "the same with our VMM in the host, and guest RAM in huge pages",
            "bench-nested",
            "trapless.run=naps trapless.cpus=2 set.hugepages=1",
            [
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
        ),
        Scenario {
            limit: 900,
            programs: Some(Programs {
                script: "programs.sh",
                goal: 1.0,
            }),
            ..Scenario::new(
                "programs",
                "programs in the host's user space, each with a fixed amount of work",
                "bench",
                "trapless.run=programs",
                [
                    row(
                        "integer",
                        "a loop of 16 integer instructions",
                        Mark::Begin("host integer"),
                        Mark::End("host integer"),
                        Unit::Rate(INTEGER_LOOP),
                        Goal::None,
                    ),
                    program("sysbench_cpu", "sysbench cpu: prime numbers"),
                    program("sysbench_memory", "sysbench memory: writes of 4 KiB blocks"),
                    long_double("stress_matrix", "stress-ng matrixprod: long double"),
                    program("stress_integer", "stress-ng int64: integer arithmetic"),
                    program("gzip", "gzip -9 of 3 MB"),
                    program("xz", "xz -2 of 3 MB"),
                    program("python", "CPython: objects, dictionaries, big integers"),
                    program("compiler", "gcc's cc1 -O2"),
                    program("sqlite", "SQLite: inserts, indexes, joins"),
                    program(
                        "redis",
                        "redis-benchmark against redis-server over loopback",
                    ),
                ],
            )
        },
        Scenario {
            limit: 1800,
            programs: Some(Programs {
                script: "methods.sh",
                goal: 1.0,
            }),
            named: true,
            ..Scenario::new(
                "methods",
                "work that was not chosen for this project: all CPU methods of stress-ng, zlib, qsort, sha256sum and sort",
                "bench",
                "trapless.run=methods",
                methods(),
            )
        },
        Scenario {
            limit: 120,
            ..Scenario::new(
                "idle",
                "a machine that waits for input that does not come",
                "bench-guest",
                "trapless.workload=idle",
                [row(
                    "idle-memory",
                    "resident memory of the idle machine, 2 harts, 2 GiB",
                    Mark::Start,
                    Mark::Begin("guest idle"),
                    Unit::Resident,
                    Goal::Ratio(1.2),
                )],
            )
        },
        Scenario {
            variants: Some(&[Sinks::None, Sinks::Totals, Sinks::Stream]),
            ..Scenario::new(
                "ledger",
                "scenario nested-own-vmm without huge pages on our machine: no ledger, its totals, and totals with all events written to a file",
                "bench-nested",
                "trapless.run=naps trapless.cpus=2",
                [row(
                    "ledger",
                    "all of it",
                    Mark::Start,
                    Mark::Exit,
                    Unit::Seconds,
                    Goal::None,
                )],
            )
        },
    ]
});

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let mut seen = BTreeSet::new();
        for scenario in SCENARIOS.iter() {
            for row in &scenario.rows {
                assert!(seen.insert(row.name), "{}", row.name);
            }
        }
    }
}
