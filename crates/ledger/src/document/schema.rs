//! The JSON Schema of ledgers, derived from the types: when the crate is tested, since the program
//! only needs the file.

use std::{env, fs};

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

use super::{JSON_SCHEMA, LedgerFile};

/// The schema of what [`LedgerFile::to_json`] writes.
fn schema_json() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(AsWritten);
    let generator = settings.into_generator();
    let schema = generator.into_root_schema_for::<LedgerFile>();
    format!("{:#}\n", schema.to_value())
}

/// Restricts the schema to what is written, while the types also describe what is read: a missing
/// value is left out, never `null`, and no value has a default.
#[derive(Clone, Debug)]
struct AsWritten;

impl Transform for AsWritten {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        schema.remove("default");
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                let only = only.clone();
                schema.insert("type".to_string(), only);
            }
        }
        if let Some(Value::Array(any)) = schema.get_mut("anyOf") {
            any.retain(|one| *one != json!({ "type": "null" }));
            if let [Value::Object(only)] = &any[..] {
                let only = only.clone();
                schema.remove("anyOf");
                schema.ensure_object().extend(only);
            }
        }
    }
}

/// Promise: readers find every field of a ledger in the committed schema, with the meaning that the
/// code gives it.
#[test]
fn the_committed_schema_is_that_of_the_types() {
    let derived = schema_json();
    if env::var_os("TRAPLESS_GOLDEN").is_some_and(|v| v == "renew") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ledger.schema.json");
        fs::write(path, derived).unwrap();
        return;
    }
    assert!(
        derived == JSON_SCHEMA,
        "docs/ledger.schema.json is out of date; write it with\n\
         TRAPLESS_GOLDEN=renew cargo test -p trapless-ledger --lib schema"
    );
}
