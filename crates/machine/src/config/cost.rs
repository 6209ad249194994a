//! The cost model as data: the price of each kind of work, and its source.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use trapless_hart::CostModel;

use crate::drive::virtual_time::VirtualTime;

/// Maximum price in cycles; a larger one is more likely a typing error than intended.
const MAX_CYCLES: u32 = 100_000;

/// Kinds of work whose price must not be 0, or virtual time could stand still.
const NEVER_FREE: [&str; 5] = ["simple", "branch", "jump", "system", "trap"];

/// A price that replaces that of a model.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "PriceText")]
pub enum Price {
    /// In cycles.
    Cycles(u32),
    /// A factor of the model's price.
    Factor(f64),
}

/// A price as users write it: cycles, or a factor as in `x0.5`.
#[derive(Serialize)]
#[serde(untagged)]
enum PriceText {
    Cycles(u64),
    Text(String),
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text} is neither cycles (0 to {MAX_CYCLES}) nor a factor as in x0.5");
        if let Some(factor) = text.strip_prefix('x') {
            let plain = factor
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
            let factor = factor.parse().ok().filter(|_| plain);
            return factor.map(Self::Factor).ok_or_else(wrong);
        }
        let cycles = text.parse().ok().filter(|cycles| *cycles <= MAX_CYCLES);
        cycles.map(Self::Cycles).ok_or_else(wrong)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycles(cycles) => cycles.fmt(f),
            Self::Factor(factor) => write!(f, "x{factor}"),
        }
    }
}

impl TryFrom<serde_json::Value> for Price {
    type Error = String;

    fn try_from(given: serde_json::Value) -> Result<Self, String> {
        match given {
            serde_json::Value::String(text) => text.parse(),
            other => other.to_string().parse(),
        }
    }
}

impl From<Price> for PriceText {
    fn from(price: Price) -> Self {
        match price {
            Price::Cycles(cycles) => Self::Cycles(cycles.into()),
            Price::Factor(_) => Self::Text(price.to_string()),
        }
    }
}

/// A price with its justification.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Price in cycles.
    pub cycles: u32,
    /// Where the figure comes from.
    #[serde(default = "unsourced")]
    pub source: String,
}

fn unsourced() -> String {
    "user's file".into()
}

fn too_many(name: &str) -> String {
    format!("{name} has more than {MAX_CYCLES} cycles")
}

/// A complete cost model, printed with every result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CostTable {
    /// Name of the model.
    pub name: String,
    /// Cycles in a second of virtual time.
    pub clock_hz: u64,
    /// Price by kind of work, the field names of [`CostModel`].
    pub figures: BTreeMap<String, Figure>,
}

#[derive(Deserialize)]
struct File {
    name: Option<String>,
    clock_hz: Option<u64>,
    #[serde(flatten)]
    figures: BTreeMap<String, Figure>,
}

impl CostTable {
    /// The default: a single-issue in-order core at 1 GHz.
    ///
    /// # Panics
    /// Never: the embedded file is tested.
    #[must_use]
    pub fn inorder() -> Self {
        let file: File = toml::from_str(include_str!("cost.toml")).expect("embedded file");
        Self {
            name: file.name.unwrap_or_default(),
            clock_hz: file.clock_hz.unwrap_or(VirtualTime::HZ),
            figures: file.figures,
        }
    }

    /// The default model with the prices of a TOML file, given as its text.
    ///
    /// # Errors
    /// If the file is malformed or has unknown names.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.message().to_string())?;
        let table = Self::inorder();
        if let Some(clock) = file.clock_hz {
            if clock != table.clock_hz {
                return Err("clock_hz must be 1000000000: virtual time is in nanoseconds".into());
            }
        }
        table.changed(file.name.unwrap_or_else(|| "custom".into()), file.figures)
    }

    /// This model with other prices and another name.
    fn changed(mut self, name: String, figures: BTreeMap<String, Figure>) -> Result<Self, String> {
        self.name = name;
        for (key, figure) in figures {
            if figure.cycles > MAX_CYCLES {
                return Err(too_many(&key));
            }
            match self.figures.get_mut(&key) {
                Some(known) => *known = figure,
                None => return Err(self.unknown(&key)),
            }
        }
        let free = |key: &str| self.figures[key].cycles == 0;
        if NEVER_FREE.into_iter().any(free) {
            return Err(
                "simple, branch, jump, system and trap cost at least 1 cycle, or time could \
                        stand still"
                    .into(),
            );
        }
        Ok(self)
    }

    /// The default model with these prices in cycles, by name.
    ///
    /// # Errors
    /// As [`from_text`](Self::from_text).
    pub fn with_prices(prices: &BTreeMap<String, u64>) -> Result<Self, String> {
        let figure = |(name, cycles): (&String, &u64)| {
            let cycles = u32::try_from(*cycles).map_err(|_| too_many(name))?;
            let source = unsourced();
            Ok((name.clone(), Figure { cycles, source }))
        };
        let figures = prices.iter().map(figure).collect::<Result<_, String>>()?;
        Self::inorder().changed("custom".into(), figures)
    }

    /// This model with other prices, by name.
    ///
    /// # Errors
    /// As [`from_text`](Self::from_text).
    pub fn repriced(&self, prices: &BTreeMap<String, Price>) -> Result<Self, String> {
        let mut figures = BTreeMap::new();
        for (name, price) in prices {
            let usual = self.figures.get(name).ok_or_else(|| self.unknown(name))?;
            let cycles = match price {
                Price::Cycles(cycles) => *cycles,
                Price::Factor(factor) => {
                    let least = u32::from(NEVER_FREE.contains(&name.as_str()));
                    ((f64::from(usual.cycles) * factor + 0.5) as u32).max(least)
                }
            };
            let source = format!("the user's, in place of {}", self.name);
            figures.insert(name.clone(), Figure { cycles, source });
        }
        self.clone().changed("custom".into(), figures)
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<_> = self.figures.keys().map(String::as_str).collect();
        format!("there is no {name}; use {}", known.join(", "))
    }

    /// The prices in the hart's form.
    ///
    /// # Panics
    /// If a price is missing, which constructors rule out.
    #[must_use]
    pub fn model(&self) -> CostModel {
        let prices: serde_json::Map<_, _> = self
            .figures
            .iter()
            .map(|(k, f)| (k.clone(), f.cycles.into()))
            .collect();
        serde_json::from_value(prices.into()).expect("one figure for each field")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: prices change by cycles or factors, and time never stands still.
    #[test]
    fn single_prices_change() {
        let table = CostTable::inorder();
        let with = |price: &str| {
            let prices = [("trap".to_string(), price.parse().unwrap())];
            table.repriced(&prices.into())
        };
        let cycles = |price: &str| with(price).unwrap().figures["trap"].cycles;
        let usual = table.figures["trap"].cycles;
        assert_eq!((cycles("7"), cycles("x2"), cycles("x0")), (7, 2 * usual, 1));
        assert!(with("0").unwrap_err().contains("at least 1 cycle"));
        for wrong in ["", "-1", "x", "x-1", "xinf", "100001", "much"] {
            assert!(wrong.parse::<Price>().is_err(), "{wrong}");
        }
        let json = serde_json::to_string(&["7", "x0.5"].map(|p| p.parse::<Price>().unwrap()));
        assert_eq!(json.unwrap(), r#"[7,"x0.5"]"#);
    }

    #[test]
    fn default_model_prices_every_kind_of_work_and_names_sources() {
        let table = CostTable::inorder();
        assert_eq!(table.model().div, 33);
        assert!(table.figures.values().all(|f| !f.source.is_empty()));
    }

    #[test]
    fn user_file_overrides_single_figures() {
        let table = CostTable::from_text("name = 'mine'\n[trap]\ncycles = 60\n").unwrap();
        assert_eq!((table.model().trap, table.model().mul), (60, 4));
        assert_eq!(table.name, "mine");
    }

    #[test]
    fn user_file_errors_are_explained() {
        for (text, part) in [
            ("[tarp]\ncycles = 1", "there is no tarp"),
            ("[trap]\ncycles = 4000000000", "more than"),
            ("[trap]\ncycles = -1", "invalid"),
            ("[simple]\ncycles = 0", "at least 1"),
            // A trap vector where nothing can be fetched.
            ("[trap]\ncycles = 0", "at least 1"),
            ("clock_hz = 5", "clock_hz"),
            ("[trap", ""),
        ] {
            let error = CostTable::from_text(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
