//! The JSON Schema of ledgers, derived from the types.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

use super::LedgerFile;

/// The schema (JSON Schema 2020-12) of what [`LedgerFile::to_json`] writes, as in
/// `docs/ledger.schema.json`. Counters carry their unit under the keyword `unit`.
pub fn schema_json() -> String {
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
