//! Names of exit reasons in ledgers.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use trapless_isa::csr;

use crate::config::DeviceMap;
use crate::reason::{FIXED, Reason, cause_name, extension_name};

/// [`Reason`] with names instead of the indices that are used during a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExitReason {
    /// A reason without a name in it: all but the ones below.
    Fixed(Reason),
    /// Access to an emulated device.
    Mmio {
        /// Name of its window ([`DeviceMap::name`](crate::DeviceMap::name)).
        device: String,
        /// Store or load.
        write: bool,
    },
    /// Another SBI call: the extension in lower case.
    SbiOther(String),
    /// A CSR the guest may not use directly: its name.
    Csr(String),
    /// Anything else: the cause in lower case with `_` between words.
    Other(String),
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(reason) => f.write_str(FIXED[reason.index()].1),
            Self::Mmio { device, write } => {
                let way = if *write { "write" } else { "read" };
                write!(f, "mmio.{device}.{way}")
            }
            Self::SbiOther(extension) => write!(f, "sbi_other.{extension}"),
            Self::Csr(name) => write!(f, "csr.{name}"),
            Self::Other(cause) => write!(f, "other.{cause}"),
        }
    }
}

/// Key of a reason in ledgers, for instance `mmio.uart.write`: a class, and after a dot its member.
/// It is ordered by the text and can be looked up by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReasonKey {
    text: String,
    reason: ExitReason,
}

impl ReasonKey {
    /// The reason.
    pub fn reason(&self) -> &ExitReason {
        &self.reason
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part before the first dot.
    pub fn class(&self) -> &str {
        let end = self.text.find('.').unwrap_or(self.text.len());
        &self.text[..end]
    }
}

impl From<ExitReason> for ReasonKey {
    fn from(reason: ExitReason) -> Self {
        let text = reason.to_string();
        Self { text, reason }
    }
}

impl FromStr for ReasonKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fixed = FIXED.iter().find(|(_, key)| *key == text);
        let named = |(class, name): (&str, &str)| {
            let name = name.to_string();
            Some(match class {
                "mmio" => {
                    let (device, way) = name.rsplit_once('.')?;
                    let write = match way {
                        "read" => false,
                        "write" => true,
                        _ => return None,
                    };
                    let device = device.to_string();
                    ExitReason::Mmio { device, write }
                }
                "sbi_other" => ExitReason::SbiOther(name),
                "csr" => ExitReason::Csr(name),
                "other" => ExitReason::Other(name),
                _ => return None,
            })
        };
        let reason = match fixed {
            Some((reason, _)) => Some(ExitReason::Fixed(*reason)),
            None => text.split_once('.').and_then(named),
        };
        let reason = reason.ok_or_else(|| format!("{text:?} is not a reason of an exit"))?;
        Ok(Self::from(reason))
    }
}

impl fmt::Display for ReasonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Deref for ReasonKey {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Borrow<str> for ReasonKey {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl Ord for ReasonKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialOrd for ReasonKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for ReasonKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ReasonKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
impl JsonSchema for ReasonKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "reason".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let fixed: Vec<String> = FIXED
            .iter()
            .map(|(_, key)| key.replace('.', r"\."))
            .collect();
        let pattern = format!(
            r"^({}|mmio\.[a-z0-9_-]+\.(read|write)|(sbi_other|csr|other)\.[a-z0-9_]+)$",
            fixed.join("|")
        );
        json_schema!({ "type": "string", "pattern": pattern })
    }
}

impl Reason {
    /// Stable name in ledgers.
    pub fn key(self, guest_devices: &DeviceMap) -> ReasonKey {
        let reason = match self {
            Self::Mmio(device, write) => ExitReason::Mmio {
                device: guest_devices.name(device).to_string(),
                write,
            },
            Self::SbiOther(e) => ExitReason::SbiOther(snake(extension_name(e))),
            Self::Csr(c) => ExitReason::Csr(csr::name(c).to_string()),
            Self::Other(c) => ExitReason::Other(snake(&cause_name(c))),
            fixed => ExitReason::Fixed(fixed),
        };
        reason.into()
    }
}

fn snake(text: &str) -> String {
    text.to_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::table_len;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_its_own_key_which_reads_back() {
        let devices = DeviceMap::virt();
        let mut keys = BTreeSet::new();
        for index in 0..table_len(devices.len()) {
            let key = Reason::from_index(index).key(&devices);
            assert_eq!(key.as_str().parse(), Ok(key.clone()));
            assert!(keys.insert(key.clone()), "key {key} twice");
        }
    }

    #[test]
    fn what_is_no_reason_is_refused() {
        for text in ["", "mmio.uart", "mmio.uart.both", "wfi.x", "sideways.x"] {
            assert!(text.parse::<ReasonKey>().is_err(), "{text}");
        }
    }
}
