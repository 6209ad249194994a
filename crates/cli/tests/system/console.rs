//! What the images print for the command: marker lines and dumped files
//! (`images/init/trapless.sh`).

use std::collections::BTreeMap;

/// Dumps and exit statuses from a console.
#[derive(Default)]
pub struct Console {
    /// Lines of each dumped file by label, for instance `host.kvm`.
    pub dumps: BTreeMap<String, Vec<String>>,
    /// Exit status by side and name, for instance `guest timer`.
    pub status: BTreeMap<String, String>,
}

impl Console {
    /// Reads a console's text.
    pub fn parse(text: &str) -> Self {
        let mut console = Self::default();
        let mut dump: Option<String> = None;
        for line in text.split('\n') {
            let line = line.trim_end();
            let Some(at) = line.find("@trapless ") else {
                if let Some(label) = &dump {
                    let lines = console.dumps.entry(label.clone()).or_default();
                    lines.push(line.to_string());
                }
                continue;
            };
            match *line[at..].split_whitespace().collect::<Vec<_>>() {
                [_, "dump", label] => dump = Some(label.to_string()),
                [_, "dump-end", _] => dump = None,
                [_, "end", side, name, status] => {
                    let status = status.trim_start_matches("status=");
                    let key = format!("{side} {name}");
                    console.status.insert(key, status.to_string());
                }
                _ => {}
            }
        }
        console
    }

    /// KVM's statistics of the virtual machine by name.
    pub fn kvm(&self) -> BTreeMap<String, u64> {
        let pair = |line: &String| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        let pairs: Option<_> = self.dumps["host.kvm"].iter().map(pair).collect();
        pairs.expect("lines of host.kvm are NAME VALUE")
    }

    /// `/proc/interrupts` as dumped under `label`.
    pub fn interrupts(&self, label: &str) -> Interrupts {
        let lines = &self.dumps[label];
        let cpus = lines[0].split_whitespace().count();
        let rows = lines[1..].iter().filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let mut words = rest.split_whitespace();
            let counts: Vec<u64> = words
                .by_ref()
                .take(cpus)
                .map_while(|w| w.parse().ok())
                .collect();
            let about: Vec<&str> = words.collect();
            Some(Row {
                name: name.trim().to_string(),
                counts,
                about: about.join(" "),
            })
        });
        Interrupts {
            cpus,
            rows: rows.collect(),
        }
    }
}

/// A line of `/proc/interrupts`.
pub struct Row {
    /// Number of the interrupt, or `IPI0`.
    pub name: String,
    /// Count of each processor.
    pub counts: Vec<u64>,
    /// Controller and device.
    pub about: String,
}

/// A table of `/proc/interrupts`.
pub struct Interrupts {
    /// Columns.
    pub cpus: usize,
    rows: Vec<Row>,
}

impl Interrupts {
    /// Sum of processor `cpu` over the rows that `which` chooses.
    pub fn sum(&self, cpu: usize, which: impl Fn(&Row) -> bool) -> u64 {
        self.rows
            .iter()
            .filter(|r| which(r))
            .map(|r| r.counts[cpu])
            .sum()
    }

    /// Rows that no rule of this test reads.
    pub fn unknown(&self, known: &[fn(&Row) -> bool]) -> Vec<&str> {
        let strange = self.rows.iter().filter(|r| !known.iter().any(|k| k(r)));
        strange.map(|r| r.name.as_str()).collect()
    }
}
