//! Numbers as text.

/// Separates groups of three digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// For terminals.
    Plain,
    /// For pages: never broken at a line end.
    NoBreak,
}

impl Space {
    fn text(self) -> &'static str {
        match self {
            Self::Plain => " ",
            Self::NoBreak => "\u{202f}",
        }
    }
}

/// A count with its digits in groups of three: `2 003`. Four digits are grouped too, so that
/// columns line up.
pub fn count(value: u64, space: Space) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i != 0 && (digits.len() - i).is_multiple_of(3) {
            text.push_str(space.text());
        }
        text.push(digit);
    }
    text
}

/// A rate or a time, not negative: whole if it is, else three significant digits below 100, whole
/// above; only 0 reads `0`.
///
/// ```
/// use trapless_report::number::{Space, decimal};
///
/// assert_eq!(decimal(3.14159, Space::Plain), "3.14");
/// assert_eq!(decimal(12_345.6, Space::Plain), "12 346");
/// ```
pub fn decimal(value: f64, space: Space) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e15 {
        count(value as u64, space)
    } else if size < 0.005 {
        "<0.01".to_string()
    } else if size < 9.995 {
        format!("{value:.2}")
    } else if size < 99.95 {
        format!("{value:.1}")
    } else {
        count(value.round() as u64, space)
    }
}

/// A duration in cycles with a unit that suits it.
pub fn duration(cycles: u64, cycles_per_second: u64, space: Space) -> String {
    let seconds = cycles as f64 / cycles_per_second as f64;
    for (unit, scale) in [("s", 1.0), ("ms", 1e3), ("µs", 1e6)] {
        // Not 1.0: a value that rounds to the next unit is shown in that unit.
        if seconds * scale >= 0.9995 {
            return format!("{} {unit}", decimal(seconds * scale, space));
        }
    }
    format!("{} ns", decimal(seconds * 1e9, space))
}

/// Microseconds for a column of times: nanoseconds are kept below 1.
pub fn micros_text(micros: f64, space: Space) -> String {
    if micros.fract() != 0.0 && micros < 0.9995 {
        format!("{micros:.3}")
    } else {
        decimal(micros, space)
    }
}

/// Cycles in microseconds.
pub fn micros(cycles: f64, cycles_per_second: u64) -> f64 {
    cycles * 1e6 / cycles_per_second as f64
}

/// A share in per cent, one decimal.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "–".to_string()
    } else {
        format!("{:.1} %", part as f64 * 100.0 / whole as f64)
    }
}

/// "63 % fewer"; `f64::INFINITY`: the base is 0.
pub fn size(change: f64) -> String {
    let word = if change < 0.0 { "fewer" } else { "more" };
    if change.is_infinite() {
        return word.to_string();
    }
    format!("{} % {word}", magnitude(change))
}

/// A change in per cent without its sign: never 0 or 100 where it is not quite that.
pub fn magnitude(change: f64) -> String {
    let size = change.abs();
    if size != 0.0 && size < 1.0 {
        format!("{:.1}", size.max(0.1))
    } else if size > 99.0 && size < 100.0 {
        format!("{:.1}", size.min(99.9))
    } else {
        format!("{size:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!(count(2003, Space::Plain), "2 003");
        assert_eq!(count(12_345_678, Space::Plain), "12 345 678");
        assert_eq!(count(999, Space::Plain), "999");
        assert_eq!(decimal(0.001, Space::Plain), "<0.01");
        assert_eq!(decimal(9.996, Space::Plain), "10.0");
        assert_eq!(decimal(99.96, Space::Plain), "100");
        assert_eq!(decimal(2002.6, Space::Plain), "2 003");
        assert_eq!(duration(1_500_000, 1_000_000_000, Space::Plain), "1.50 ms");
        assert_eq!(duration(40, 1_000_000_000, Space::Plain), "40 ns");
        assert_eq!(percent(1, 3), "33.3 %");
    }

    #[test]
    fn a_change_is_never_rounded_to_nothing_or_all() {
        let texts = [0.0, -0.001, -63.4, -99.99, -100.0, 250.0].map(magnitude);
        assert_eq!(texts, ["0", "0.1", "63", "99.9", "100", "250"]);
    }
}
