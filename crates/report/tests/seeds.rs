//! What a report says of runs with several seeds, from ledgers made by hand.

use std::ops::Range;

use trapless_ledger::document::{Cost, Exit, Measurement, Phase, Section, Work};
use trapless_ledger::{Class, Histogram, InterruptClass, LedgerFile, RunInfo};
use trapless_report::{Style, page, report, summary};

/// A run of workload `ping` with 1 000 pings, `taken` IPIs of which `exits` exits were made.
fn run(machine: &str, seed: u64, exits: u64, taken: u64) -> LedgerFile {
    let ipi = InterruptClass {
        sent: taken,
        taken,
        exits,
        ..InterruptClass::default()
    };
    let exit = Exit {
        exits,
        ..Exit::default()
    };
    let section = Section {
        guest_exits: exits,
        exits: [("ipi_send".parse().unwrap(), exit)].into(),
        interrupts: [(Class::Ipi, ipi)].into(),
        ..Section::default()
    };
    let configuration = [
        ("seed", seed.to_string()),
        ("parameter size", "56".into()),
        // As the command passes both on.
        (
            "kernel command line",
            format!("quiet size=56 trapless.seed={seed}"),
        ),
    ];
    LedgerFile {
        schema: trapless_ledger::document::SCHEMA.into(),
        run: RunInfo {
            machine: machine.into(),
            workload: "ping".into(),
            work: Some(Work {
                unit: "pings".into(),
                count: 1000,
            }),
            configuration: configuration.map(|(k, v)| (k.to_string(), v)).into(),
            measurements: vec![Measurement {
                name: "rtt".into(),
                value: seed as f64,
                unit: "us".into(),
            }],
            ..RunInfo::default()
        },
        total: section.clone(),
        phases: vec![Phase {
            name: "workload".into(),
            from: 0,
            totals: section,
        }],
        vcpus: Vec::new(),
        host: None,
    }
}

/// Runs with seeds 0, 1, ... that made these numbers of exits for 100 IPIs.
fn runs(machine: &str, exits: &[u64]) -> Vec<LedgerFile> {
    let seeds = exits.iter().zip(0..);
    seeds.map(|(n, seed)| run(machine, seed, *n, 100)).collect()
}

fn text(ledgers: &[LedgerFile]) -> String {
    let style = Style {
        width: 1000,
        ..Style::default()
    };
    report(ledgers, style)
}

/// The line of the terminal report that begins with `start`.
fn line(ledgers: &[LedgerFile], start: &str) -> String {
    let text = text(ledgers);
    let found = text.lines().find(|line| line.starts_with(start));
    found
        .unwrap_or_else(|| panic!("{start}: {text}"))
        .to_string()
}

fn json(ledgers: &[LedgerFile]) -> serde_json::Value {
    serde_json::from_str(&summary(ledgers)).unwrap()
}

/// Seeds of one configuration are one column, whatever order their files are given in.
#[test]
fn runs_that_differ_in_the_seed_share_a_column_with_median_and_interval() {
    let mut ledgers = runs("sbi", &[655, 269, 550, 300, 600]);
    ledgers.extend(runs("sstc", &[10, 30, 20, 15, 25]));
    ledgers.swap(1, 7);
    let shown = line(&ledgers, "all exits");
    assert!(
        shown.contains("550 (269–655)") && shown.contains("20 (10–30)"),
        "{shown}"
    );
    let text = text(&ledgers);
    assert!(
        text.contains("sbi: workload ping, 1 000 pings, 5 runs (seeds "),
        "{text}"
    );
    assert!(text.contains("from the smallest to the largest value, which covers it with 93.75 %"));
    let page = page(&ledgers);
    assert!(page.contains("<h1>ping workload: sbi vs sstc</h1>"));
    assert!(page.contains("550 (269–655)") && page.contains("which covers it with 93.75 %"));
    let json = json(&ledgers);
    assert_eq!(json["columns"].as_array().unwrap().len(), 2);
    assert_eq!(json["columns"][0]["runs"], 5);
    assert_eq!(json["columns"][0]["interval"]["coverage"], 0.9375);
    assert_eq!(json["all_exits"][0]["median"], 550.0);
    assert_eq!(json["totals"]["exits"][1]["median"], 20.0);
    // 100 IPIs in each run.
    assert_eq!(json["exits_per_interrupt"]["ipi"][0]["median"], 5.5);
    assert_eq!(json["exits_per_interrupt"]["other"][0]["median"], 0.0);
    let verdict = "sstc made 0.20 (0.10–0.30) exits per interrupt, 96 % fewer than sbi with 5.50 \
                   (2.69–6.55).";
    assert_eq!(json["verdict"], verdict);
    assert!(text.contains(verdict));
    assert_eq!(json["measurements"]["rtt"][0]["median"], 2.0);
    assert_eq!(
        json["all_exits"][0]["interval"],
        serde_json::json!([269.0, 655.0])
    );
}

/// A difference that could be chance is said to be none, and no percentage suggests otherwise.
#[test]
fn overlapping_intervals_show_no_difference_and_no_percentage() {
    let mut ledgers = runs("sbi", &[395, 503, 686]);
    ledgers.extend(runs("sstc", &[269, 550, 655]));
    ledgers.extend(runs("trapless", &[100, 110, 120]));
    let total = line(&ledgers, "All guest exits");
    let expected = "All guest exits: 503 (395–686) on sbi; 550 (269–655) on sstc (no difference \
                    shown); 110 (100–120) on trapless (−78 %), per 1 000 pings.";
    assert_eq!(total.replace('\u{202f}', " "), expected);
    let row = line(&ledgers, "all exits");
    assert!(
        row.contains("550 (269–655) ≈") && !row.contains("110 (100–120) ≈"),
        "{row}"
    );
    assert!(page(&ledgers).contains("550 (269–655) on sstc (no difference shown)"));
    let json = json(&ledgers);
    assert_eq!(json["all_exits"][1]["difference"], "not shown");
    assert!(json["all_exits"][1].get("difference_percent").is_none());
    assert_eq!(json["all_exits"][2]["difference"], "shown");
}

/// Promise: exits and firmware traps are judged each by itself, in sentences, tables and on the
/// page: "no difference shown" never stands for a figure that does differ.
#[test]
fn each_figure_has_its_own_judgement() {
    let with = |machine, exits: [u64; 3], firmware: [u64; 3]| {
        let mut all = runs(machine, &exits);
        for (ledger, traps) in all.iter_mut().zip(firmware) {
            let section = &mut ledger.phases[0].totals;
            section.firmware.charged_to_exits = traps;
            for exit in section.exits.values_mut() {
                exit.firmware_traps = traps;
            }
            for class in section.interrupts.values_mut() {
                class.firmware_traps = traps;
            }
        }
        all
    };
    let mut ledgers = with("sbi", [395, 503, 686], [480, 490, 497]);
    ledgers.extend(with("mine", [400, 500, 600], [359, 365, 376]));
    let plain = |start| line(&ledgers, start).replace('\u{202f}', " ");
    let expected = "Sending an IPI: 5 030 (3 950–6 860) exits and 4 900 (4 800–4 970) firmware traps \
                    on sbi; 5 000 (4 000–6 000) exits (no difference shown) and 3 650 (3 590–3 760) \
                    firmware traps (−26 %) on mine, per 1 000 IPIs.";
    assert_eq!(plain("Sending an IPI"), expected);
    let expected = "IPIs: 5 030 (3 950–6 860) exits + 4 900 (4 800–4 970) firmware traps on sbi → \
                    5 000 (4 000–6 000) exits (no difference shown) + 3 650 (3 590–3 760) firmware \
                    traps (−26 %) on mine, per 1 000 interrupts.";
    assert_eq!(plain("IPIs: 5"), expected);
    let verdict = "mine made 3.65 (3.59–3.76) firmware traps per interrupt, 26 % fewer than sbi with \
                   4.90 (4.80–4.97).";
    assert!(plain("mine made").starts_with(verdict));
    let page = page(&ledgers);
    let row = page.split("<tbody>").nth(1).unwrap();
    let row = row.split("<tr>").nth(2).unwrap();
    let [exits, firmware] = ["none shown", "−26 %"].map(|change| row.find(change).unwrap());
    assert!(exits < firmware, "{row}");
}

#[test]
fn single_runs_are_not_compared() {
    let ledgers = [run("sbi", 0, 600, 100), run("sstc", 0, 300, 100)];
    let total = line(&ledgers, "All guest exits");
    assert!(
        !total.contains('%') && total.contains("run several seeds"),
        "{total}"
    );
    assert!(!text(&ledgers).contains("medians of several"));
    assert!(json(&ledgers)["all_exits"][1].get("difference").is_none());
    // Nor with a column of several.
    let mut mixed = runs("sbi", &[600, 601, 602]);
    mixed.push(run("sstc", 0, 300, 100));
    let total = line(&mixed, "All guest exits");
    assert!(
        !total.contains("(−") && total.contains("run several seeds"),
        "{total}"
    );
}

/// 1 000 pings made 100 IPIs with 250 exits: an IPI costs 2.5 exits, not a quarter of one.
#[test]
fn rates_divide_by_interrupts_of_the_class() {
    let ledgers = [run("sbi", 0, 250, 100)];
    let text = text(&ledgers);
    assert!(
        text.contains("Sending an IPI: 2 500 exits on sbi, per 1 000 IPIs."),
        "{text}"
    );
    assert!(text.contains("IPIs: 2 500 exits + 0 firmware traps on sbi, per 1 000 interrupts."));
    let row = line(&ledgers, "  exits per 1 000 taken");
    assert!(row.ends_with("2 500"), "{row}");
    assert_eq!(json(&ledgers)["findings"][0]["unit"], "IPIs");
    // Nothing sent is no rate of 0.
    let none = [run("sbi", 0, 250, 100), run("sstc", 0, 9, 0)];
    let text = self::text(&none);
    assert!(text.contains("no IPIs on sstc, per 1 000 IPIs."), "{text}");
}

/// With latencies of as many interrupts as `range` has numbers.
fn with_latency(mut ledger: LedgerFile, range: Range<u64>) -> LedgerFile {
    let mut histogram = Histogram::default();
    range.for_each(|i| histogram.record(i * 1000));
    let section = &mut ledger.phases[0].totals;
    section
        .latency
        .insert("guest_ipi".into(), histogram.summary());
    ledger
}

/// The 99th percentile of 21 values is their maximum, and must not be presented as more.
#[test]
fn percentiles_need_a_hundred_values_of_all_seeds_together() {
    let few = [with_latency(run("sbi", 0, 1, 21), 0..21)];
    let row = line(&few, "IPI latency, median:");
    assert!(
        !row.contains("99th") && row.contains("longest of 21: 20"),
        "{row}"
    );
    assert!(!page(&few).contains("99th percentile 20"));
    assert!(page(&few).contains("n\u{a0}=\u{a0}21"));
    assert_eq!(
        json(&few)["latency"]["guest_ipi"][0]["p99"],
        serde_json::Value::Null
    );
    let half = |seed, range| with_latency(run("sbi", seed, 1, 60), range);
    let pooled = [half(0, 0..60), half(1, 60..120)];
    let row = line(&pooled, "IPI latency, median:");
    assert!(row.contains("99th percentile of 120: 1"), "{row}");
    let values = &json(&pooled)["latency"]["guest_ipi"][0];
    assert_eq!(
        (&values["count"], &values["max"]),
        (&120.into(), &119_000.into())
    );
    // Within a bucket of the value of rank 119.
    assert!(
        (118_000..122_000).contains(&values["p99"].as_u64().unwrap()),
        "{values}"
    );
    assert_eq!(values["p999"], serde_json::Value::Null);
}

fn titles(ledgers: &[LedgerFile]) -> Vec<String> {
    let json = json(ledgers);
    let columns = json["columns"].as_array().unwrap();
    let name = |column: &serde_json::Value| column["name"].as_str().unwrap().to_string();
    columns.iter().map(name).collect()
}

/// Twelve ledgers of a sweep must not be called `#1` to `#12`.
#[test]
fn titles_name_what_differs() {
    let with = |key: &str, value: &str, seed| {
        let mut one = run("aia", seed, 1, 1);
        one.run.configuration.insert(key.into(), value.into());
        one
    };
    let sweep = [
        with("parameter size", "56", 0),
        with("parameter size", "1400", 0),
    ];
    assert_eq!(titles(&sweep), ["aia size=56", "aia size=1400"]);
    let seeds = [with("harts", "2", 3), with("harts", "4", 7)];
    assert_eq!(titles(&seeds), ["aia harts=2 seed=3", "aia harts=4 seed=7"]);
    let mut several = runs("aia", &[1, 2]);
    several.push(with("quantum", "500", 5));
    assert_eq!(
        titles(&several),
        ["aia no quantum seed=0..1", "aia quantum=500 seed=5"]
    );
    let mut priced = run("aia", 0, 1, 1);
    priced.run.cost_model.push(Cost {
        name: "trap".into(),
        cycles: 1,
        source: String::new(),
    });
    assert_eq!(
        titles(&[run("aia", 0, 1, 1), priced]),
        ["aia no price of trap", "aia price of trap=1"]
    );
    // Machines are distinguished by their names, not by what follows from them.
    let sbi = run("sbi", 0, 1, 1);
    assert_eq!(
        titles(&[sbi, with("extensions", "sstc", 0)]),
        ["sbi", "aia"]
    );
    // The same run twice is no second sample.
    let same = [run("aia", 0, 1, 1), run("aia", 0, 1, 1)];
    assert_eq!(titles(&same), ["aia #1", "aia #2"]);
}

/// A counter that is declared but left out of the tables is counted nowhere.
#[test]
fn every_counter_of_a_class_is_shown() {
    let mut ledger = run("sbi", 0, 1, 1);
    let class = ledger.phases[0].totals.interrupts.get_mut("ipi").unwrap();
    let value = serde_json::to_value(&*class).unwrap();
    let mut fields = value.as_object().unwrap().clone();
    let names = InterruptClass::COUNTERS.iter().map(|counter| counter.name);
    for (name, i) in names.zip(0u64..) {
        fields.insert(name.into(), (700_001 + i).into());
    }
    *class = serde_json::from_value(fields.into()).unwrap();
    let text = text(&[ledger]);
    for (counter, i) in InterruptClass::COUNTERS.iter().zip(0u64..) {
        let shown = text.contains(&format!("700 {:03}", 1 + i));
        assert!(shown, "{}, {}: {text}", counter.name, counter.description);
    }
}
