//! The summary of a comparison in one sentence: whether machines differ in exits per interrupt, or
//! else in firmware traps.

use crate::cell::cell;
use crate::compare::Comparison;
use crate::number::{Space, size};
use crate::rows::overview::Overview;
use crate::statistics::{Difference, Sample};

/// The verdict on all exits, and on the firmware traps that they caused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// One sentence: the largest gain over the baseline, with intervals; or that none is shown.
    pub sentence: String,
    /// Sentences that limit the verdict; may be empty.
    pub limits: Vec<String>,
}

impl Verdict {
    fn alone(sentence: String) -> Self {
        Self {
            sentence,
            limits: Vec::new(),
        }
    }

    /// All sentences.
    pub fn text(&self) -> String {
        let limits = self.limits.iter().map(|limit| format!(" {limit}"));
        limits.fold(self.sentence.clone(), |text, limit| text + &limit)
    }
}

/// A column with figures.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    name: &'a str,
    sample: &'a Sample,
}

impl Candidate<'_> {
    fn several(&self) -> bool {
        self.sample.runs() > 1
    }

    /// Difference from `base` in per cent, if one is shown; infinite where `base` is 0.
    fn change(&self, base: Self) -> Option<f64> {
        match self.sample.difference(base.sample) {
            Difference::Shown(change) => Some(change.unwrap_or(f64::INFINITY)),
            Difference::Unknown | Difference::NotShown => None,
        }
    }
}

/// One figure of all columns, which is judged independently of others.
struct Field<'a> {
    /// What is counted, in the plural.
    what: &'static str,
    base: Candidate<'a>,
    /// The other columns that have the figure.
    others: Vec<Candidate<'a>>,
    overview: &'a Overview,
    per: String,
    space: Space,
}

impl<'a> Field<'a> {
    fn figure(&self, c: Candidate) -> String {
        cell(Some(c.sample), |v| self.overview.per.text(v, self.space))
    }

    /// "0.42 (0.40–0.45) exits per interrupt".
    fn counted(&self, c: Candidate) -> String {
        format!("{} {} {}", self.figure(c), self.what, self.per)
    }

    /// "1.13 exits per interrupt on sbi, 0.93 on sstc and 0.42 on trapless"; `None` if that would
    /// be too long for a sentence.
    fn figures(&self, others: &[Candidate]) -> Option<String> {
        let first = format!("{} on {}", self.counted(self.base), self.base.name);
        let others = others
            .iter()
            .map(|c| format!("{} on {}", self.figure(*c), c.name));
        let all: Vec<String> = std::iter::once(first).chain(others).collect();
        let figures = list(&all.iter().map(String::as_str).collect::<Vec<_>>());
        (figures.chars().count() <= LONGEST).then_some(figures)
    }

    /// Columns that can be compared with the baseline.
    fn compared(&self) -> Vec<Candidate<'a>> {
        let others = self.others.iter().copied();
        let several = others.filter(Candidate::several);
        several.filter(|_| self.base.several()).collect()
    }

    /// The column with the fewest below the baseline, if one is shown; else the one with the most
    /// above it.
    fn leader(&self, compared: &[Candidate<'a>]) -> Option<(Candidate<'a>, f64)> {
        let changes = compared.iter().map(|c| (*c, c.change(self.base)));
        let shown: Vec<_> = changes
            .filter_map(|(c, change)| Some((c, change?)))
            .collect();
        let order = |a: &&(Candidate, f64), b: &&(Candidate, f64)| {
            a.0.sample.median().total_cmp(&b.0.sample.median())
        };
        let fewest = shown
            .iter()
            .filter(|(_, change)| *change < 0.0)
            .min_by(order);
        let most = || shown.iter().max_by(order);
        fewest.or_else(most).copied()
    }

    /// "trapless made 0.42 (0.40–0.45) exits per interrupt, 80 % fewer than sbi with 2.10."
    fn difference(&self, lead: Candidate, change: f64) -> String {
        format!(
            "{} made {}, {} than {} with {}.",
            lead.name,
            self.counted(lead),
            size(change),
            self.base.name,
            self.figure(self.base)
        )
    }

    /// A sentence with the columns from which `than` is not shown to differ, if there are any.
    fn not_shown(&self, than: Candidate) -> Option<String> {
        let compared = self.compared();
        let alike = |c: &&Candidate| {
            c.name != than.name && c.sample.difference(than.sample) == Difference::NotShown
        };
        let same: Vec<&str> = compared.iter().filter(alike).map(|c| c.name).collect();
        let mut names = list(&same);
        if names.chars().count() > LONGEST_NAMES && same.len() > 1 {
            names = format!("{} others", same.len());
        }
        let (what, than) = (self.what, than.name);
        let sentence = format!("No difference in {what} between {than} and {names} is shown.");
        (!same.is_empty()).then_some(sentence)
    }

    fn no_difference(&self) -> String {
        let (what, name, per) = (self.what, self.base.name, &self.per);
        match self.figures(&self.compared()) {
            Some(figures) => format!(
                "No difference in {what} from {name} is shown, the intervals overlap: {figures}."
            ),
            None => format!(
                "No difference in {what} from {name} is shown, the intervals of {what} {per} \
                 overlap."
            ),
        }
    }
}

impl Comparison<'_> {
    /// The verdict over the columns, against the baseline.
    pub fn verdict(&self, overview: &Overview, space: Space) -> Verdict {
        let Some(exits) = self.field("exits", &overview.exits, overview, space) else {
            return Verdict::alone("There are no runs.".to_string());
        };
        if exits.others.is_empty() {
            return alone(&exits);
        }
        let compared = exits.compared();
        if compared.is_empty() {
            return single_runs(&exits);
        }
        let firmware = self.field("firmware traps", &overview.firmware, overview, space);
        let mut verdict = match exits.leader(&compared) {
            Some((lead, change)) => difference(&exits, firmware.as_ref(), lead, change),
            None => no_difference(&exits, firmware.as_ref()),
        };
        let single = exits.others.iter().filter(|c| !c.several());
        let single: Vec<&str> = single.map(|c| c.name).collect();
        if !single.is_empty() {
            let names = list(&single);
            verdict
                .limits
                .push(format!("One run of {names} is no result."));
        }
        verdict
    }

    /// A figure of the columns; `None` if the baseline does not have it.
    fn field<'a>(
        &'a self,
        what: &'static str,
        samples: &'a [Option<Sample>],
        overview: &'a Overview,
        space: Space,
    ) -> Option<Field<'a>> {
        let candidate = |i: usize| {
            let sample = samples.get(i)?.as_ref()?;
            let name = &self.columns[i].name;
            Some(Candidate { name, sample })
        };
        let others = (0..self.columns.len()).filter(|i| *i != self.base);
        Some(Field {
            what,
            base: candidate(self.base)?,
            others: others.filter_map(candidate).collect(),
            overview,
            per: self.per_text(overview.per, space),
            space,
        })
    }
}

fn alone(exits: &Field) -> Verdict {
    let only = exits.base;
    let sentence = format!("{} made {}.", only.name, exits.counted(only));
    let limits = match only.several() {
        true => Vec::new(),
        false => vec!["One run is no result: run several seeds.".to_string()],
    };
    Verdict { sentence, limits }
}

/// The part of chance in a difference between single runs is unknown.
fn single_runs(exits: &Field) -> Verdict {
    let figures = exits.figures(&exits.others);
    let figures = figures.unwrap_or_else(|| format!("exits {}", exits.per));
    Verdict {
        sentence: format!("One run is no result: {figures} may differ by chance."),
        limits: vec!["Run several seeds of each.".to_string()],
    }
}

/// Exits differ. Firmware traps are added where exits alone would be misleading: the leader made
/// more of them, or a column without a difference in exits has one in these.
fn difference(exits: &Field, firmware: Option<&Field>, lead: Candidate, change: f64) -> Verdict {
    // The fewest need not be shown to be fewer than the second.
    let mut limits: Vec<String> = exits.not_shown(lead).into_iter().collect();
    limits.extend(exits.not_shown(exits.base));
    if let Some(firmware) = firmware {
        let compared = firmware.compared();
        let (leads, others): (Vec<_>, Vec<_>) = compared.iter().partition(|c| c.name == lead.name);
        let opposite = firmware.leader(&leads);
        let opposite = opposite.filter(|(_, traps)| (*traps < 0.0) != (change < 0.0));
        let differs = |c: &Candidate| {
            exits
                .compared()
                .iter()
                .any(|e| e.name == c.name && e.change(exits.base).is_some())
        };
        let others: Vec<_> = others.into_iter().filter(|c| !differs(c)).collect();
        let misleading = opposite.into_iter().chain(firmware.leader(&others));
        limits.extend(misleading.map(|(c, traps)| firmware.difference(c, traps)));
    }
    Verdict {
        sentence: exits.difference(lead, change),
        limits,
    }
}

/// Exits do not differ; firmware traps may.
fn no_difference(exits: &Field, firmware: Option<&Field>) -> Verdict {
    let Some(firmware) = firmware else {
        return Verdict::alone(exits.no_difference());
    };
    let compared = firmware.compared();
    let Some((lead, change)) = firmware.leader(&compared) else {
        let mut limits = Vec::new();
        if compared.iter().any(|c| c.sample.median() != 0.0) {
            limits.push("None is shown in firmware traps either.".to_string());
        }
        return Verdict {
            sentence: exits.no_difference(),
            limits,
        };
    };
    let mut limits = vec![exits.no_difference()];
    limits.extend(firmware.not_shown(lead));
    limits.extend(firmware.not_shown(firmware.base));
    Verdict {
        sentence: firmware.difference(lead, change),
        limits,
    }
}

/// Characters of a list of figures in one sentence.
const LONGEST: usize = 240;

/// Characters of a list of names.
const LONGEST_NAMES: usize = 60;

/// Number of names that are listed before the rest is counted, to keep it one sentence.
const LISTED: usize = 4;

/// "a", "a and b", "a, b and c"; of many "a, b, c and 4 others".
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_string(),
        [first @ .., last] if words.len() <= LISTED => format!("{} and {last}", first.join(", ")),
        _ => {
            let (first, rest) = words.split_at(LISTED - 1);
            format!("{} and {} others", first.join(", "), rest.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::{Class, Config, InterruptClass, Ledger, LedgerFile, RunInfo};

    /// A run in which guests took 100 interrupts.
    fn run(machine: &str, seed: usize, exits: u64, firmware: u64) -> LedgerFile {
        let info = RunInfo {
            machine: machine.into(),
            configuration: [("seed".to_string(), seed.to_string())].into(),
            ..RunInfo::default()
        };
        let mut file = Ledger::new(Config::new(1)).to_file(info, None);
        let counts = InterruptClass {
            taken: 100,
            ..InterruptClass::default()
        };
        file.total.interrupts = [(Class::Timer, counts)].into();
        file.total.guest_exits = exits;
        file.total.firmware.charged_to_exits = firmware;
        file
    }

    /// Machines with the exits of each of their runs.
    fn verdict_against(machines: &[(&str, &[u64])], base: usize) -> String {
        let runs = machines.iter().flat_map(|(machine, exits)| {
            let seeds = exits.iter().enumerate();
            seeds.map(|(seed, n)| run(machine, seed, *n, 0))
        });
        verdict_of(runs.collect(), base)
    }

    /// Machines with exits and firmware traps of two runs each.
    fn with_firmware(machines: &[(&str, [u64; 2], [u64; 2])]) -> String {
        let runs = machines.iter().flat_map(|(machine, exits, firmware)| {
            [0, 1].map(|seed| run(machine, seed, exits[seed], firmware[seed]))
        });
        verdict_of(runs.collect(), 0)
    }

    fn verdict_of(files: Vec<LedgerFile>, base: usize) -> String {
        let comparison = Comparison::new(&files).against(base);
        let verdict = comparison.verdict(&comparison.overview(), Space::Plain);
        verdict.text()
    }

    fn verdict(machines: &[(&str, &[u64])]) -> String {
        verdict_against(machines, 0)
    }

    /// Promise: a clear difference comes with its size and both intervals.
    #[test]
    fn a_clear_difference_has_intervals() {
        let text = verdict(&[("sbi", &[200, 220, 210]), ("trapless", &[40, 42, 45])]);
        let expected = "trapless made 0.42 (0.40–0.45) exits per interrupt, 80 % fewer than sbi \
                        with 2.10 (2.00–2.20).";
        assert_eq!(text, expected);
        let text = verdict(&[("trapless", &[40, 42, 45]), ("sbi", &[84, 90, 80])]);
        assert!(
            text.contains("100 % more than trapless with 0.42"),
            "{text}"
        );
        let text = verdict(&[("none", &[0, 0]), ("sbi", &[84, 90])]);
        assert!(
            text.contains("exits per interrupt, more than none with 0."),
            "{text}"
        );
    }

    /// Promise: the best of several is not called better than those it is not shown to differ from.
    #[test]
    fn the_fewest_are_not_called_fewer_than_their_like() {
        let sbi: (&str, &[u64]) = ("sbi", &[200, 220, 210]);
        let aia: (&str, &[u64]) = ("aia", &[44, 50, 60]);
        let trapless: (&str, &[u64]) = ("trapless", &[40, 42, 45]);
        let sstc: (&str, &[u64]) = ("sstc", &[190, 205, 207]);
        let text = verdict(&[sbi, sstc, aia, trapless]);
        assert!(text.starts_with("trapless made 0.42"), "{text}");
        let limits = "No difference in exits between trapless and aia is shown. \
                      No difference in exits between sbi and sstc is shown.";
        assert!(text.ends_with(limits), "{text}");
        // Against another baseline it is another sentence.
        let text = verdict_against(&[sbi, sstc, aia, trapless], 2);
        assert!(
            text.contains("more than aia with 0.50 (0.44–0.60)"),
            "{text}"
        );
    }

    /// Promise: where intervals overlap, no difference is told and no percentage.
    #[test]
    fn overlapping_intervals_are_no_difference() {
        let text = verdict(&[("sbi", &[39, 50, 69]), ("sstc", &[27, 55, 65])]);
        let expected = "No difference in exits from sbi is shown, the intervals overlap: 0.50 (0.39–0.69) \
                        exits per interrupt on sbi and 0.55 (0.27–0.65) on sstc.";
        assert_eq!(text, expected);
        let three: [(&str, &[u64]); 3] = [("a", &[39, 69]), ("b", &[27, 65]), ("c", &[40, 41])];
        let text = verdict(&three);
        assert!(
            text.starts_with("No difference in exits from a is shown") && !text.contains('%'),
            "{text}"
        );
    }

    /// Promise: exits and firmware traps are judged each by itself. What saves firmware traps alone
    /// is told by them, and never called no difference.
    #[test]
    fn firmware_traps_have_a_judgement_of_their_own() {
        let sbi = ("sbi", [390, 394], [482, 497]);
        let clint2 = ("clint2", [391, 393], [359, 376]);
        let expected = "clint2 made 3.67 (3.59–3.76) firmware traps per interrupt, 25 % fewer than \
                        sbi with 4.89 (4.82–4.97). No difference in exits from sbi is shown, the \
                        intervals overlap: 3.92 (3.90–3.94) exits per interrupt on sbi and 3.92 \
                        (3.91–3.93) on clint2.";
        assert_eq!(with_firmware(&[sbi, clint2]), expected);
        // Beside another that saves exits, it is named as well.
        let trapless = ("trapless", [40, 45], [10, 11]);
        let text = with_firmware(&[sbi, clint2, trapless]);
        assert!(
            text.starts_with("trapless made 0.43 (0.40–0.45) exits per"),
            "{text}"
        );
        let rest = "No difference in exits between sbi and clint2 is shown. clint2 made 3.67 \
                    (3.59–3.76) firmware traps per interrupt, 25 % fewer than sbi with 4.89 \
                    (4.82–4.97).";
        assert!(text.ends_with(rest), "{text}");
        // Fewer exits for more firmware traps are no gain that may be told alone.
        let text = with_firmware(&[sbi, ("costly", [40, 45], [900, 910])]);
        assert!(
            text.ends_with("85 % more than sbi with 4.89 (4.82–4.97)."),
            "{text}"
        );
        let text = with_firmware(&[sbi, ("like", [391, 393], [480, 499])]);
        let neither = "None is shown in firmware traps either.";
        assert!(
            text.starts_with("No difference in exits") && text.ends_with(neither),
            "{text}"
        );
    }

    /// Promise: of one run nothing is concluded, not even beside a column of several.
    #[test]
    fn one_run_is_no_result() {
        let text = verdict(&[("sbi", &[200]), ("trapless", &[40])]);
        let expected = "One run is no result: 2.00 exits per interrupt on sbi and 0.40 on trapless \
                        may differ by chance. Run several seeds of each.";
        assert_eq!(text, expected);
        let text = verdict(&[("sbi", &[200])]);
        assert!(
            text.ends_with("One run is no result: run several seeds."),
            "{text}"
        );
        let text = verdict(&[("sbi", &[200, 201]), ("aia", &[50]), ("sstc", &[90, 91])]);
        assert!(
            text.contains("than sbi") && text.starts_with("sstc seed=0..1 made"),
            "{text}"
        );
        assert!(
            text.ends_with("One run of aia seed=0 is no result."),
            "{text}"
        );
        let text = verdict(&[("sbi", &[200, 201]), ("aia", &[50])]);
        assert!(text.starts_with("One run is no result"), "{text}");
        assert_eq!(verdict(&[]), "There are no runs.");
    }

    #[test]
    fn many_columns_are_still_a_sentence() {
        assert_eq!(list(&["a", "b", "c", "d"]), "a, b, c and d");
        assert_eq!(
            list(&["a", "b", "c", "d", "e", "f"]),
            "a, b, c and 3 others"
        );
        let long = "machine with a name of many settings ".repeat(3);
        let names = ["a", "b", "c"].map(|end| format!("{long}{end}"));
        let same: [&[u64]; 3] = [&[39, 69], &[27, 65], &[40, 41]];
        let machines = [0, 1, 2].map(|i| (names[i].as_str(), same[i]));
        let text = verdict(&machines);
        assert!(
            text.ends_with("a is shown, the intervals of exits per interrupt overlap."),
            "{text}"
        );
    }
}
