//! Maps in checkpoints: in the order of their keys, so that equal ledgers have equal bytes.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

/// For `#[serde(serialize_with = ...)]`.
pub(crate) fn serialize<K: Serialize + Ord, V: Serialize, S: Serializer>(
    map: &HashMap<K, V>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(map.iter().collect::<BTreeMap<_, _>>())
}
