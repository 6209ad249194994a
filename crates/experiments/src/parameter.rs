//! Parameters of experiments: numbers in a range, and words of a list.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A word.
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// The text was neither a number nor a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a number nor a word")]
pub struct NoValue;

impl FromStr for Value {
    type Err = NoValue;

    /// A number, in which `_` may separate digits, or a word that begins with a letter.
    fn from_str(text: &str) -> Result<Self, NoValue> {
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Ok(Self::Word(text.to_owned()));
        }
        let number = text.replace('_', "").parse().map_err(|_| NoValue)?;
        Ok(Self::Number(number))
    }
}

/// A parameter: a whole number from `minimum` to `maximum`, or one of `choices`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Value unless set.
    pub default: Value,
    /// Smallest number allowed.
    #[serde(default)]
    pub minimum: u64,
    /// Largest number allowed.
    pub maximum: Option<u64>,
    /// Words allowed.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Whether it only affects what is started, and is not passed to the host, since the kernel's
    /// command line is short.
    #[serde(default)]
    pub outside: bool,
    /// Description with unit.
    pub explanation: String,
}

impl Parameter {
    /// Whether it may have this value.
    #[must_use]
    pub fn allows(&self, value: &Value) -> bool {
        match (value, self.maximum) {
            (Value::Number(number), Some(maximum)) => (self.minimum..=maximum).contains(number),
            (Value::Word(word), None) => self.choices.contains(word),
            _ => false,
        }
    }

    /// The allowed values as text: `1 to 5000` or `trap, native`.
    #[must_use]
    pub fn range(&self) -> String {
        self.maximum.map_or_else(
            || self.choices.join(", "),
            |maximum| format!("{} to {maximum}", self.minimum),
        )
    }

    /// Checks the description itself; errors are `KEY: reason`.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        if !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            return Err(format!(
                "parameters.{name}: a shell variable, use lower-case letters and `_`"
            ));
        }
        let word = |w: &String| w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if self.maximum.is_some() != self.choices.is_empty() || !self.choices.iter().all(word) {
            return Err(format!(
                "parameters.{name}: give either `maximum`, for a number, or `choices`, for words of letters and digits"
            ));
        }
        if !self.allows(&self.default) {
            return Err(format!(
                "parameters.{name}.default: not among {}",
                self.range()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_number_or_a_word() {
        assert_eq!("1_000".parse(), Ok(Value::Number(1000)));
        assert_eq!("native".parse(), Ok(Value::Word("native".into())));
        for text in ["", "99999999999999999999", "-1", " native"] {
            assert_eq!(text.parse::<Value>(), Err(NoValue), "{text}");
        }
    }

    #[test]
    fn only_values_of_its_kind_and_range_are_allowed() {
        let parameter = |text: &str| toml::from_str::<Parameter>(text).unwrap();
        let wfi =
            parameter("default = \"trap\"\nchoices = [\"trap\", \"native\"]\nexplanation = \"e\"");
        let guests = parameter("default = 1\nminimum = 1\nmaximum = 8\nexplanation = \"e\"");
        assert_eq!((wfi.check("wfi"), guests.check("guests")), (Ok(()), Ok(())));
        for (parameter, value, allowed) in [
            (&wfi, "native", true),
            (&wfi, "nativ", false),
            (&wfi, "1", false),
            (&guests, "8", true),
            (&guests, "0", false),
            (&guests, "native", false),
        ] {
            assert_eq!(
                parameter.allows(&value.parse().unwrap()),
                allowed,
                "{value}"
            );
        }
        let both = parameter("default = 1\nmaximum = 8\nchoices = [\"x\"]\nexplanation = \"e\"");
        assert!(both.check("both").unwrap_err().contains("either"));
    }
}
