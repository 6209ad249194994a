//! One figure of several runs: its median, an interval for it, and whether two of them differ.

/// Minimum probability with which the interval of several runs contains the median, if there are
/// enough runs: that of the smallest and largest of five.
const COVERAGE: f64 = 0.9375;

/// The interval for the median by order statistics: the only assumption is that runs are
/// independent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Number of smallest and of largest values outside the interval.
    pub outside: usize,
    /// Probability with which it contains the median of the distribution.
    pub coverage: f64,
}

impl Interval {
    /// The interval of `runs` values: the narrowest that reaches 93.75 %, else from the smallest to
    /// the largest (2 runs: 50 %, 3: 75 %, 4: 87.5 %).
    pub fn of(runs: usize) -> Self {
        let mut coverages = coverages(runs).enumerate().take(runs.div_ceil(2).max(1));
        let widest = coverages.next().map_or(0.0, |(_, coverage)| coverage);
        let enough = coverages.take_while(|(_, coverage)| *coverage >= COVERAGE);
        let (outside, coverage) = enough.last().unwrap_or((0, widest));
        Self { outside, coverage }
    }
}

/// Probabilities that the median lies between value `outside + 1` from below and from above, for
/// `outside` = 0, 1, ...: fewer than that many of `runs` values are on one side of it otherwise.
fn coverages(runs: usize) -> impl Iterator<Item = f64> {
    // Probability of exactly `i` values below the median: binomial coefficient times 0.5 to the
    // power of `runs`, which underflows for many runs. The rest of the power is therefore
    // multiplied later.
    let (mut exactly, mut halvings, mut missed) = (1.0f64, runs, 0.0);
    (0..=runs).map(move |i| {
        missed += exactly * half_to_the(halvings);
        exactly *= (runs - i) as f64 / (i + 1) as f64;
        if exactly > half_to_the(HALVINGS).recip() {
            let now = halvings.min(HALVINGS);
            exactly *= half_to_the(now);
            halvings -= now;
        }
        (1.0 - 2.0 * missed).max(0.0)
    })
}

/// Number of halvings of a floating-point number at a time without loss.
const HALVINGS: usize = 500;

fn half_to_the(power: usize) -> f64 {
    0.5f64.powi(i32::try_from(power).unwrap_or(i32::MAX))
}

/// Values of one figure, one for each run.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// `None` without values, or if one of them is not finite (a rate of something that did not
    /// happen).
    pub fn new(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let usable = !sorted.is_empty() && sorted.iter().all(|v| v.is_finite());
        usable.then_some(Self { sorted })
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.sorted.len()
    }

    /// The median; of an even number of runs the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let (low, high) = ((self.runs() - 1) / 2, self.runs() / 2);
        f64::midpoint(self.sorted[low], self.sorted[high])
    }

    /// Ends of the [`Interval`]; `None` for a single run.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let outside = Interval::of(self.runs()).outside;
        let ends = (self.sorted[outside], self.sorted[self.runs() - 1 - outside]);
        (self.runs() > 1).then_some(ends)
    }

    /// Difference from `base`.
    pub fn difference(&self, base: &Self) -> Difference {
        let (Some(mine), Some(other)) = (self.interval(), base.interval()) else {
            return Difference::Unknown;
        };
        if mine.0 <= other.1 && other.0 <= mine.1 {
            return Difference::NotShown;
        }
        let (mine, base) = (self.median(), base.median());
        Difference::Shown((base != 0.0).then(|| (mine - base) * 100.0 / base))
    }
}

/// Difference of the medians of two samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Difference {
    /// One of them is a single run.
    Unknown,
    /// Their intervals overlap.
    NotShown,
    /// They do not; in per cent of the base, if that is not 0.
    Shown(Option<f64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    /// The probabilities of a fair coin, counted by hand.
    #[test]
    fn the_interval_is_the_narrowest_order_statistics_with_enough_coverage() {
        let of = |runs| (Interval::of(runs).outside, Interval::of(runs).coverage);
        assert_eq!(of(1), (0, 0.0));
        assert_eq!(of(2), (0, 0.5));
        assert_eq!(of(5), (0, 0.9375));
        // Two outside of eight: 2 * (1 + 8) / 256 is 7 %.
        assert_eq!(of(8), (0, 1.0 - 2.0 / 256.0));
        assert_eq!(of(9), (1, 1.0 - 2.0 * 10.0 / 512.0));
        assert_eq!(Interval::of(100).outside, 40);
        assert!(Interval::of(100).coverage > 0.9375);
        assert_eq!(coverages(100).nth(50), Some(0.0));
        // By exact arithmetic. Half to the power of so many is 0 as a number.
        assert_eq!(Interval::of(1100).outside, 518);
        assert_eq!(Interval::of(5000).outside, 2433);
    }

    #[test]
    fn the_median_and_its_interval_do_not_depend_on_the_order_of_runs() {
        let five = sample(&[655.0, 269.0, 550.0, 300.0, 600.0]);
        assert_eq!(
            (five.median(), five.interval()),
            (550.0, Some((269.0, 655.0)))
        );
        let nine = sample(&[9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0]);
        assert_eq!((nine.median(), nine.interval()), (5.0, Some((2.0, 8.0))));
        assert_eq!(sample(&[1.0, 2.0]).median(), 1.5);
        assert_eq!(sample(&[7.0]).interval(), None);
        assert_eq!(Sample::new([]), None);
        assert_eq!(Sample::new([1.0, f64::INFINITY]), None);
    }

    #[test]
    fn a_difference_is_shown_only_by_intervals_that_do_not_overlap() {
        let base = sample(&[100.0, 110.0, 120.0]);
        let near = sample(&[120.0, 130.0, 200.0]);
        let far = sample(&[54.0, 55.0, 56.0]);
        assert_eq!(near.difference(&base), Difference::NotShown);
        assert_eq!(far.difference(&base), Difference::Shown(Some(-50.0)));
        assert_eq!(
            base.difference(&sample(&[0.0, 0.0])),
            Difference::Shown(None)
        );
        assert_eq!(sample(&[1.0]).difference(&base), Difference::Unknown);
        assert_eq!(base.difference(&sample(&[1.0])), Difference::Unknown);
    }
}
