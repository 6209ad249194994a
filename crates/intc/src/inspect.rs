//! Descriptions of an architecture's state for debugging.

/// One line about the state of an interrupt architecture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Hart to which the state belongs; `None`: to no single hart.
    pub hart: Option<usize>,
    /// Part of the architecture, for instance `plic S` or `imsic guest 1`.
    pub part: String,
    /// Name of the state: a register, a source, a set of interrupts.
    pub name: String,
    /// Its value, as text.
    pub value: String,
    /// Whether something is pending, enabled or in use.
    pub active: bool,
}

/// Rows about one part of an architecture.
pub(crate) struct Part<'a> {
    rows: &'a mut Vec<Row>,
    hart: Option<usize>,
    part: String,
}

impl<'a> Part<'a> {
    /// A part whose rows are added to `rows`.
    pub fn new(rows: &'a mut Vec<Row>, hart: Option<usize>, part: impl Into<String>) -> Self {
        let part = part.into();
        Self { rows, hart, part }
    }

    /// Number of rows of all parts.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row.
    pub fn row(&mut self, active: bool, name: impl Into<String>, value: impl Into<String>) {
        self.rows.push(Row {
            hart: self.hart,
            part: self.part.clone(),
            name: name.into(),
            value: value.into(),
            active,
        });
    }

    /// Adds a row with a set of numbers, which is active unless the set is empty.
    pub fn set(&mut self, name: &str, numbers: impl IntoIterator<Item = usize>) {
        let text = ranges(numbers);
        self.row(text != NONE, name, text);
    }
}

/// An empty set.
const NONE: &str = "none";

/// Ascending numbers as ranges: `1-3, 10`.
pub(crate) fn ranges(numbers: impl IntoIterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    match ranges.as_slice() {
        [] => NONE.into(),
        ranges => ranges.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

/// Numbers of the bits that are set in words of `width` bits.
pub(crate) fn bits(
    words: impl IntoIterator<Item = u64>,
    width: usize,
) -> impl Iterator<Item = usize> {
    let set = move |(index, word): (usize, u64)| {
        (0..width)
            .filter(move |bit| word >> bit & 1 != 0)
            .map(move |bit| index * width + bit)
    };
    words.into_iter().enumerate().flat_map(set)
}

/// A list of the words that apply; `otherwise` if none does.
pub(crate) fn words(all: &[(bool, &str)], otherwise: &str) -> String {
    let applying: Vec<&str> = all.iter().filter(|(is, _)| *is).map(|(_, w)| *w).collect();
    if applying.is_empty() {
        otherwise.into()
    } else {
        applying.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_sequence_are_one_range() {
        assert_eq!(ranges([1, 2, 3, 10, 12, 13]), "1-3, 10, 12-13");
        assert_eq!(ranges([]), "none");
        let set = bits([1 << 31 | 2, 1], 32);
        assert_eq!(set.collect::<Vec<_>>(), [1, 31, 32]);
    }
}
