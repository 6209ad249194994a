//! The cost model as data: what each kind of work costs, and where the figure comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trapless_hart::CostModel;

use crate::virtual_time::VirtualTime;

/// Most cycles a single figure may have; beyond that a typing error is more likely than intent.
const MAX_CYCLES: u32 = 100_000;

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

    /// The default with the figures of a TOML file, whose text this is, in place of its own.
    ///
    /// # Errors
    /// What the file says that the model does not know.
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

    /// This one with other figures, and with a name of its own.
    fn changed(mut self, name: String, figures: BTreeMap<String, Figure>) -> Result<Self, String> {
        self.name = name;
        for (key, figure) in figures {
            if figure.cycles > MAX_CYCLES {
                return Err(too_many(&key));
            }
            match self.figures.get_mut(&key) {
                Some(known) => *known = figure,
                None => {
                    let known: Vec<_> = self.figures.keys().map(String::as_str).collect();
                    return Err(format!("there is no {key}; use {}", known.join(", ")));
                }
            }
        }
        let free = |key: &str| self.figures[key].cycles == 0;
        if ["simple", "branch", "jump", "system", "trap"]
            .into_iter()
            .any(free)
        {
            return Err(
                "simple, branch, jump, system and trap cost at least 1 cycle, or time could \
                        stand still"
                    .into(),
            );
        }
        Ok(self)
    }

    /// The default with these prices in cycles, by name, in place of its own.
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

    /// The prices as the hart takes them.
    ///
    /// # Panics
    /// If a figure is missing, which constructors rule out.
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
