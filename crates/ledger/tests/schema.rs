//! The JSON that is written keeps to `docs/ledger.schema.json`, and comes back unchanged.

mod json_schema;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use serde_json::Value;
use trapless_isa::Mode::{self, HS, M, U, VS, VU};
use trapless_isa::cause::INTERRUPT;
use trapless_ledger::document::{Cost, HostInfo, JSON_SCHEMA, Measurement, Work};
use trapless_ledger::event::{
    DeviceAccess, Event, Guest, Raise, Return, Sink, StepKind, Switch, TimerSet, Trap, VirtualStep,
    Wait,
};
use trapless_ledger::{Class, Config, DeviceMap, ExitReason, Ledger, LedgerFile, Reason, RunInfo};

fn check(value: &Value) -> Vec<String> {
    json_schema::violations(&serde_json::from_str(JSON_SCHEMA).unwrap(), value)
}

/// A new counter is in the documentation, too.
#[test]
fn the_committed_table_of_counters_is_that_of_the_declarations() {
    assert!(
        trapless_ledger::document::counters_markdown() == include_str!("../../../docs/counters.md"),
        "docs/counters.md is out of date; write it with\n\
         cargo run -p trapless-ledger --example counters > docs/counters.md"
    );
}

/// `docs/ledger.md` explains each reason that an exit can have.
#[test]
fn every_reason_of_exits_is_documented() {
    let rules = include_str!("../../../docs/ledger.md");
    let start = rules.find("## Reasons of exits").unwrap();
    let table = &rules[start..start + rules[start..].find("\n## What is charged").unwrap()];
    let devices = DeviceMap::virt();
    for index in 0..trapless_ledger::reason::table_len(devices.len()) {
        let key = Reason::from_index(index).key(&devices);
        let shown = match key.reason() {
            ExitReason::Fixed(_) => key.as_str().to_string(),
            ExitReason::Mmio { .. } => "mmio.DEVICE.read".to_string(),
            ExitReason::SbiOther(_) => "sbi_other.EXT".to_string(),
            ExitReason::Csr(_) => "csr.NAME".to_string(),
            ExitReason::Other(_) => "other.CAUSE".to_string(),
        };
        // Members of a class after the first stand without it: `.timer`.
        let member = shown
            .split_once('.')
            .map(|(_, member)| format!("`.{member}`"));
        let named = table.contains(&format!("`{shown}`"))
            || member.is_some_and(|m| {
                table.contains(&m) && table.contains(&format!("`{}.", key.class()))
            });
        assert!(named, "docs/ledger.md does not explain {shown}");
    }
}

/// A ledger of events drawn at random: every shape of the file occurs, and none makes it panic.
fn random_ledger() -> LedgerFile {
    let mut numbers = SplitMix64::seed_from_u64(1);
    let mut draw = move |n: u64| numbers.next_u64() % n;
    let mut ledger = Ledger::new(Config::new(2));
    let mut time = 0;
    for step in 0..200_000 {
        time += draw(50);
        let hart = draw(3) as usize;
        let mode = |d: u64| [VU, VS, U, HS, M][d as usize];
        let guest = Guest {
            vmid: draw(3) as u16,
            context: draw(4) << 12,
        };
        let (from, to): (Mode, Mode) = (mode(draw(5)), [VS, HS, M][draw(3) as usize]);
        let extensions = [
            0,
            4,
            6,
            0x10,
            0x5449_4d45,
            0x73_5049,
            0x5246_4e43,
            0x48_534d,
            99,
        ];
        let insns = [0x1050_0073, 0x00d0_0073, 0xc010_2573, 0x14d5_1073, 0];
        let event = match draw(10) {
            0..=2 => Event::Trap(Trap {
                time,
                hart,
                from,
                to,
                guest,
                cause: if draw(2) == 0 {
                    draw(24)
                } else {
                    INTERRUPT | draw(26)
                },
                epc: draw(4),
                tval: draw(u64::MAX),
                gpa: [0, 0x1000_0000, 0x1000_1000, 0x8000_0000, u64::MAX][draw(5) as usize],
                insn: insns[draw(5) as usize],
                args: [
                    draw(64),
                    draw(2).wrapping_sub(1),
                    0,
                    extensions[draw(9) as usize],
                ],
                htimedelta: draw(u64::MAX),
                instret: 0,
            }),
            3 | 4 => Event::Return(Return {
                time,
                hart,
                from,
                to: mode(draw(5)),
                guest,
                pc: draw(4),
                instret: 0,
                masked: false,
            }),
            5 => Event::Raise(Raise {
                time,
                hart,
                irq: draw(64) as u8,
                guest,
            }),
            6 => Event::TimerSet(TimerSet {
                time,
                hart,
                mode: from,
                guest,
                deadline: time + draw(99),
            }),
            7 | 8 => {
                let (vhart, source) = (draw(3) as u16, draw(5) as u16);
                let (kind, on) = (draw(5) as u8, draw(4) as usize);
                let (to, merged) = (on, draw(2) == 0);
                let kinds = [
                    StepKind::PostSoft { vhart, merged },
                    StepKind::PostSource {
                        vhart,
                        source,
                        merged,
                    },
                    StepKind::Hit { vhart, on },
                    StepKind::Notified { vhart, to, kind },
                    StepKind::Silent { vhart },
                    StepKind::Lowered { source },
                    StepKind::Claimed { vhart, source },
                    StepKind::Completed {
                        vhart,
                        source,
                        again: merged,
                    },
                    StepKind::Attached { vhart },
                    StepKind::Detached { vhart, state: kind },
                    StepKind::HartIpi { to },
                    StepKind::Fetched { id: vhart, kind },
                    StepKind::Overflow { on },
                    StepKind::Message {
                        on,
                        file: vhart as u8,
                        identity: source,
                        merged,
                    },
                    StepKind::FileClaimed {
                        file: vhart as u8,
                        identity: source,
                    },
                    StepKind::FileSelected { file: vhart as u8 },
                ];
                Event::Virtual(VirtualStep {
                    time,
                    hart,
                    mode: from,
                    by_device: false,
                    domain: draw(2) as u16,
                    kind: kinds[draw(16) as usize],
                    memory: draw(4) as u16,
                })
            }
            _ if step % 3 == 0 => Event::Switch(Switch {
                time,
                hart,
                from: 0,
                to: 1 << 63 | draw(5) << 12,
                satp: 0,
            }),
            _ if step % 2 == 0 => Event::Wait(Wait {
                time,
                hart,
                mode: from,
                begin: draw(2) == 0,
            }),
            _ => {
                let addr = [0x1000_0000, 0xc00_0000, 0x9999][draw(3) as usize];
                Event::DeviceAccess(DeviceAccess {
                    time,
                    hart,
                    mode: from,
                    addr,
                    write: draw(2) == 0,
                })
            }
        };
        ledger.record(&event);
        if step % 50_000 == 49_999 {
            ledger.mark(if step < 99_999 { "workload" } else { "end" }, time);
        }
    }
    ledger.finish(time);
    let run = RunInfo {
        machine: "sbi".into(),
        workload: "random".into(),
        work: Some(Work {
            unit: "events".into(),
            count: 200_000,
        }),
        configuration: [("harts".to_string(), "2".to_string())].into(),
        cost_model: vec![Cost {
            name: "trap".into(),
            cycles: 30,
            source: "none".into(),
        }],
        packages: [("linux-image-riscv64".to_string(), "6.12".to_string())].into(),
        git_revision: "0".into(),
        measurements: vec![Measurement {
            name: "avg".into(),
            value: 1.5,
            unit: "us".into(),
        }],
        counters: [("instret".to_string(), 7)].into(),
        ..RunInfo::default()
    };
    let host = HostInfo {
        wall_seconds: 0.25,
        ..HostInfo::default()
    };
    ledger.to_file(run, Some(host))
}

#[test]
fn written_ledgers_keep_to_the_schema_and_read_back_equal() {
    let file = random_ledger();
    let text = file.to_json();
    let value: Value = serde_json::from_str(&text).unwrap();
    let errors = check(&value);
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(LedgerFile::from_json(&text).unwrap(), file);
    assert_eq!(random_ledger().to_json(), text, "same events, same bytes");
}

#[test]
fn random_events_keep_the_sums() {
    let file = random_ledger();
    let total = &file.total;
    let direct: u64 = total.firmware.direct.values().map(|d| d.traps).sum();
    let f = &total.firmware;
    assert_eq!(f.charged_to_exits + direct + f.host, f.total);
    assert!(f.charged_to_exits > 0 && direct > 0);
    assert_eq!(
        total.exits.values().map(|e| e.exits).sum::<u64>(),
        total.guest_exits
    );
    assert_eq!(total.chains.values().sum::<u64>(), total.guest_exits);
    let of_threads = total.threads.iter().flat_map(|t| t.cycles.values());
    let of_harts = total.harts.iter().flat_map(|h| h.cycles.values());
    assert_eq!(of_threads.sum::<u64>(), of_harts.sum::<u64>());
    assert!(total.context_switches > 1000 && total.threads.len() == 6);
    for (name, class) in &total.interrupts {
        let arrived: u64 = class.arrived.values().sum();
        assert!(arrived > 0 && class.exits > 0, "{name}");
        let gone = arrived + class.coalesced + class.superseded;
        // Only a deadline that has not passed yet is none of these.
        let armed = class.sent - gone;
        assert!(
            armed == 0 || *name == Class::Timer && armed < 20,
            "{name} {armed}"
        );
    }
}

#[test]
fn ledgers_of_version_1_are_read() {
    let mut value: Value = serde_json::from_str(&random_ledger().to_json()).unwrap();
    value["schema"] = "trapless-ledger/1".into();
    let drop = |section: &mut Value| {
        let later = ["context_switches", "threads"];
        let names = ["interrupts", "notifications", "slots", "host_ipis"];
        for name in names.into_iter().chain(later) {
            section.as_object_mut().unwrap().remove(name).unwrap();
        }
    };
    drop(&mut value["total"]);
    for phase in value["phases"].as_array_mut().unwrap() {
        drop(&mut phase["totals"]);
    }
    let file = LedgerFile::from_json(&value.to_string()).unwrap();
    assert!(file.total.interrupts.is_empty());
    assert_eq!(file.total.guest_exits, random_ledger().total.guest_exits);
}

#[test]
fn the_schema_notices_what_does_not_belong() {
    let good: Value = serde_json::from_str(&random_ledger().to_json()).unwrap();
    assert!(check(&good).is_empty());
    let spoil: [fn(&mut Value); 5] = [
        |v| v["total"]["surprise"] = 1.into(),
        |v| v["total"]["guest_exits"] = (-1).into(),
        |v| v["total"]["exits"]["made_up"] = v["total"]["exits"]["wfi"].clone(),
        |v| v["total"]["traps"][0]["from"] = "S".into(),
        |v| drop(v["total"].as_object_mut().unwrap().remove("chains")),
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        let mut value = good.clone();
        spoil(&mut value);
        assert_eq!(check(&value).len(), 1, "case {number}: {:?}", check(&value));
    }
}

#[test]
fn other_versions_are_refused_with_a_sentence() {
    let error = LedgerFile::from_json(r#"{"schema":"trapless-ledger/9"}"#)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("trapless-ledger/9") && error.contains("trapless-ledger/2"),
        "{error}"
    );
    assert!(LedgerFile::from_json("[]").is_err());
}

#[test]
fn ledgers_that_no_run_writes_are_refused() {
    let good: Value = serde_json::from_str(&random_ledger().to_json()).unwrap();
    assert!(LedgerFile::from_json(&good.to_string()).is_ok());
    let spoil: [fn(&mut Value); 3] = [
        |v| v["run"]["clock"]["cycles_per_second"] = 0.into(),
        |v| v["total"]["exits"]["wfi"]["exits"] = u64::MAX.into(),
        |v| v["total"]["cycles"] = "many".into(),
    ];
    for spoil in spoil {
        let mut value = good.clone();
        spoil(&mut value);
        assert!(LedgerFile::from_json(&value.to_string()).is_err());
    }
}
