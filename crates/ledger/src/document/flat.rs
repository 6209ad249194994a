//! All figures of a section in one list: for tables, and for comparing many runs.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::{JSON_SCHEMA, Section};

/// One number of a section.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Names from the section to the number, joined by dots: `exits.timer_set.firmware_traps`,
    /// `harts.0.cycles.VS`. An element of a list is named by its identifying fields.
    pub name: String,
    /// Its unit in the plural, if known ([`Unit::name`](crate::counters::Unit)).
    pub unit: Option<String>,
    /// The number.
    pub value: f64,
}

impl Section {
    /// Every number, in the order of the JSON form.
    pub fn flatten(&self) -> Vec<Figure> {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        let schema = SCHEMA.get_or_init(|| serde_json::from_str(JSON_SCHEMA).unwrap_or_default());
        let value = serde_json::to_value(self).unwrap_or_default();
        let mut found = Vec::new();
        let walk = Walk { root: schema };
        walk.below(
            String::new(),
            &value,
            schema["properties"].get("total"),
            None,
            &mut found,
        );
        found
    }
}

/// Traversal with lookups in the schema.
struct Walk<'s> {
    root: &'s Value,
}

impl<'s> Walk<'s> {
    /// Numbers below `value`, which `schema` describes as far as it is known.
    fn below(
        &self,
        name: String,
        value: &Value,
        schema: Option<&'s Value>,
        unit: Option<&'s str>,
        found: &mut Vec<Figure>,
    ) {
        let schema = schema.and_then(|schema| self.resolved(schema));
        let unit = schema.and_then(|s| s["unit"].as_str()).or(unit);
        let join = |key: &str| match name.as_str() {
            "" => key.to_string(),
            name => format!("{name}.{key}"),
        };
        match value {
            Value::Number(n) => found.push(Figure {
                name,
                unit: unit.map(Into::into),
                value: n.as_f64().unwrap_or(f64::NAN),
            }),
            Value::Object(map) => {
                for (key, value) in map {
                    // Maps of cycles have no unit of their own.
                    let unit = unit.or((key == "cycles").then_some("cycles"));
                    let schema = schema.and_then(|s| member(s, key));
                    self.below(join(key), value, schema, unit, found);
                }
            }
            Value::Array(list) => {
                let schema = schema.and_then(|s| s.get("items"));
                for map in list.iter().filter_map(Value::as_object) {
                    let (key, value) = keyed(map);
                    self.below(join(&key), &value, schema, unit, found);
                }
            }
            _ => {}
        }
    }

    /// The definition that a `$ref` of the schema names.
    fn resolved(&self, schema: &'s Value) -> Option<&'s Value> {
        match schema["$ref"].as_str() {
            Some(path) => self.root.pointer(path.strip_prefix('#')?),
            None => Some(schema),
        }
    }
}

/// Schema of a member of an object.
fn member<'s>(schema: &'s Value, key: &str) -> Option<&'s Value> {
    let patterns = || schema["patternProperties"].as_object()?.values().next();
    let property = schema["properties"].get(key).or_else(patterns);
    property.or_else(|| schema.get("additionalProperties"))
}

/// An element of a list: its identifying fields as a name, and the rest.
fn keyed(map: &Map<String, Value>) -> (String, Value) {
    // The name of a cause is redundant with its number.
    const KEYS: [&str; 6] = ["hart", "from", "to", "cause", "mode", "number"];
    const NO_FIGURES: [&str; 4] = ["interrupt", "code", "pid", "process"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
    let key: Vec<String> = KEYS
        .iter()
        .filter_map(|key| map.get(*key))
        .map(text)
        .collect();
    let figures = map
        .iter()
        .filter(|(key, _)| !KEYS.contains(&key.as_str()) && !NO_FIGURES.contains(&key.as_str()));
    let figures = figures.map(|(key, value)| (key.clone(), value.clone()));
    (key.join("."), figures.collect())
}
