//! Values that programs may give in the form of the command line.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use trapless_experiments::Value;

/// A value, or its text.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Given<T> {
    Text(String),
    Typed(T),
}

impl<T: FromStr<Err = String>> Given<T> {
    fn value<E: Error>(self) -> Result<T, E> {
        match self {
            Self::Text(text) => text.parse().map_err(E::custom),
            Self::Typed(value) => Ok(value),
        }
    }
}

/// One value.
pub fn one<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + FromStr<Err = String>,
{
    Given::deserialize(from)?.value()
}

/// A value that may be missing.
pub fn option<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + FromStr<Err = String>,
{
    let given = Option::<Given<T>>::deserialize(from)?;
    given.map(Given::value).transpose()
}

/// Several values, or a single one.
pub fn each<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + FromStr<Err = String>,
{
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Some<T> {
        Several(Vec<Given<T>>),
        Single(Given<T>),
    }
    match Some::deserialize(from)? {
        Some::Several(all) => all.into_iter().map(Given::value).collect(),
        Some::Single(value) => Ok(vec![value.value()?]),
    }
}

/// Settings: numbers, or words that stand for numbers too.
pub fn settings<'de, D>(from: D) -> Result<BTreeMap<String, Value>, D::Error>
where
    D: Deserializer<'de>,
{
    let given = BTreeMap::<String, serde_json::Value>::deserialize(from)?;
    let setting = |(name, value): (String, serde_json::Value)| {
        let text = match &value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Bool(on) => u8::from(*on).to_string(),
            other => other.to_string(),
        };
        let wrong = || D::Error::custom(format!("{name}={text} is not NAME=NUMBER or NAME=WORD"));
        let value = text.parse().map_err(|_| wrong())?;
        Ok((name, value))
    };
    given.into_iter().map(setting).collect()
}
