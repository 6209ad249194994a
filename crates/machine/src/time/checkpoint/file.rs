//! The beginning of a checkpoint's file: a header that describes it, and parts, each with a
//! checksum. Pages of RAM follow.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::errors::{damaged, unreadable};
use super::source::Cursor;
use crate::error::Error;

/// Version of the format. It changes with anything that a machine saves.
pub const FORMAT: u32 = 9;

const MAGIC: &[u8; 16] = b"Trapless machine";
/// Maximum length of a header in bytes.
const HEADER: u32 = 1 << 20;
/// Maximum length of a part in bytes; one of 64 harts has about 60 MB.
const PART: u64 = 1 << 30;

/// Description of a checkpoint by the program that made it.
#[derive(Clone, Default, Serialize, Deserialize, PartialEq, Debug)]
pub struct About {
    /// The program and its version.
    pub program: String,
    /// Specification of the run in the program's form, from which a machine is built to resume it.
    pub run: Value,
}

/// Header of a checkpoint, which can be read without the rest.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Header {
    /// Description by the program that made it.
    pub about: About,
    /// The machine's configuration.
    pub machine: Value,
    /// Virtual time in cycles.
    pub cycles: u64,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// The file that it shares pages with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

impl Header {
    /// Reads it from the beginning of a file.
    ///
    /// # Errors
    /// If this is not a checkpoint, or has another format.
    pub fn read(from: &mut dyn Read) -> Result<Self, Error> {
        let magic: Option<[u8; MAGIC.len()]> = number(from).ok();
        if magic.as_ref() != Some(MAGIC) {
            return Err(Error::Invalid(
                "this is not a checkpoint; make one with trapless run --checkpoint".into(),
            ));
        }
        let format = u32::from_le_bytes(number(from)?);
        if format != FORMAT {
            return Err(Error::Invalid(format!(
                "the checkpoint has format {format}, and this program reads format {FORMAT}; make it \
                 again"
            )));
        }
        let len = u32::from_le_bytes(number(from)?);
        if len > HEADER {
            return Err(damaged("its header is too long"));
        }
        let header = checked(from, len.into())?;
        serde_json::from_slice(&header).map_err(|_| damaged("its header cannot be decoded"))
    }

    /// Checks that it can be restored into a machine with header `own`.
    pub(super) fn check(&self, own: &Self) -> Result<(), Error> {
        match difference("", &self.machine, &own.machine) {
            None => Ok(()),
            Some((name, saved, here)) => Err(Error::Invalid(format!(
                "the checkpoint is of another machine: its {name} is {saved}, not {here}; choose \
                 that, or make another checkpoint"
            ))),
        }
    }
}

/// The first place at which two descriptions differ, with both values.
fn difference(place: &str, saved: &Value, here: &Value) -> Option<(String, String, String)> {
    let named = |key: &str| match place {
        "" => key.to_owned(),
        place => format!("{place}.{key}"),
    };
    match (saved, here) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            let at = |map: &serde_json::Map<String, Value>, key: &str| {
                map.get(key).cloned().unwrap_or_default()
            };
            keys.into_iter()
                .find_map(|key| difference(&named(key), &at(a, key), &at(b, key)))
        }
        (a, b) if a == b => None,
        (a, b) => Some((place.to_owned(), a.to_string(), b.to_string())),
    }
}

fn block(to: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.write_all(&crc32fast::hash(bytes).to_le_bytes())
}

/// Writes header and parts.
pub(super) fn write(to: &mut dyn Write, header: &Header, parts: &[&[u8]]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    to.write_all(MAGIC)?;
    to.write_all(&FORMAT.to_le_bytes())?;
    to.write_all(&(header.len() as u32).to_le_bytes())?;
    block(to, &header)?;
    for part in parts {
        to.write_all(&(part.len() as u64).to_le_bytes())?;
        block(to, part)?;
    }
    Ok(())
}

fn exactly(from: &mut dyn Read, bytes: &mut [u8]) -> Result<(), Error> {
    from.read_exact(bytes).map_err(unreadable)
}

fn number<const N: usize>(from: &mut dyn Read) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    exactly(from, &mut bytes)?;
    Ok(bytes)
}

/// So many bytes and their checksum.
fn checked(from: &mut dyn Read, len: u64) -> Result<Vec<u8>, Error> {
    // The buffer grows with the data that is present: the length is not trusted.
    let mut bytes = Vec::new();
    from.take(len)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::Invalid(format!("cannot read the checkpoint: {e}")))?;
    if bytes.len() as u64 != len {
        return Err(damaged("it is cut off"));
    }
    if u32::from_le_bytes(number(from)?) != crc32fast::hash(&bytes) {
        return Err(damaged("a checksum is wrong"));
    }
    Ok(bytes)
}

/// Reads the parts that follow.
pub(super) fn read_parts<const N: usize>(from: &mut dyn Read) -> Result<[Vec<u8>; N], Error> {
    let mut parts = std::array::from_fn(|_| Vec::new());
    for part in &mut parts {
        *part = read_part(from)?;
    }
    Ok(parts)
}

/// Reads the next part.
pub(super) fn read_part(from: &mut dyn Read) -> Result<Vec<u8>, Error> {
    let len = u64::from_le_bytes(number(from)?);
    if len > PART {
        return Err(damaged("a part is too long"));
    }
    checked(from, len)
}

/// Skips a part.
pub(super) fn skip_part(from: &mut Cursor<'_>) -> Result<(), Error> {
    let len = u64::from_le_bytes(number(from)?);
    if len > PART {
        return Err(damaged("a part is too long"));
    }
    from.at += len + 4;
    Ok(())
}
