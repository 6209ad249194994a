//! 64-bit values in JSON as text in hexadecimal: readers of JSON lose bits above 2^53.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Value of text in hexadecimal.
pub fn value(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// For `#[serde(with = "hex")]` of a field of up to 64 bits. Formats for programs only have the
/// number.
///
/// # Errors
/// Those of `to`.
pub fn serialize<N: Copy + Into<u64>, S: Serializer>(n: &N, to: S) -> Result<S::Ok, S::Error> {
    let n: u64 = (*n).into();
    if to.is_human_readable() {
        to.collect_str(&format_args!("{n:#x}"))
    } else {
        to.serialize_u64(n)
    }
}

/// Deserialises the same; also accepts a number.
///
/// # Errors
/// If it is neither, or too large for its field.
pub fn deserialize<'de, N: TryFrom<u64>, D: Deserializer<'de>>(from: D) -> Result<N, D::Error> {
    let number = if from.is_human_readable() {
        from.deserialize_any(Number)?
    } else {
        from.deserialize_u64(Number)?
    };
    let large = |_| D::Error::custom(format!("{number:#x} has too many bits"));
    N::try_from(number).map_err(large)
}

struct Number;

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or text such as \"0x1f\"")
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<u64, E> {
        Ok(n)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        value(text).ok_or_else(|| E::custom(format!("{text:?} is not a hexadecimal number")))
    }
}

/// The same of four values.
pub mod list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct One(#[serde(with = "super")] u64);

    /// As [`hex::serialize`](super::serialize).
    ///
    /// # Errors
    /// Those of `to`.
    pub fn serialize<S: Serializer>(list: &[u64; 4], to: S) -> Result<S::Ok, S::Error> {
        list.map(One).serialize(to)
    }

    /// As [`hex::deserialize`](super::deserialize).
    ///
    /// # Errors
    /// If one is not a number, or there are not four.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u64; 4], D::Error> {
        let list = <[One; 4]>::deserialize(from)?;
        Ok(list.map(|One(n)| n))
    }
}
