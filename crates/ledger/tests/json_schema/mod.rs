//! The part of JSON Schema (2020-12) that `docs/ledger.schema.json` uses.
//!
//! Full validators pull in a hundred crates; this one refuses a schema with a keyword it does not
//! know, so that none is skipped silently.

use regex_lite::Regex;
use serde_json::{Map, Value};

/// Every place where `value` breaks `schema`, as a sentence.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = Check {
        root: schema,
        found: Vec::new(),
    };
    check.value(schema, value, "");
    check.found
}

struct Check<'a> {
    root: &'a Value,
    found: Vec<String>,
}

impl<'a> Check<'a> {
    fn wrong(&mut self, at: &str, what: String) {
        self.found.push(format!("{at}: {what}"));
    }

    fn value(&mut self, schema: &'a Value, value: &Value, at: &str) {
        let rules = match schema {
            Value::Bool(true) => return,
            Value::Object(rules) => rules,
            _ => return self.wrong(at, "nothing is allowed here".into()),
        };
        for (key, rule) in rules {
            let ok = match (key.as_str(), value) {
                ("$schema" | "$defs" | "title" | "description" | "format" | "unit", _) => true,
                ("$ref", _) => {
                    let name = rule
                        .as_str()
                        .and_then(|r| r.strip_prefix("#/$defs/"))
                        .unwrap();
                    self.value(&self.root["$defs"][name], value, at);
                    true
                }
                ("type", _) => match rule.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "number" => value.is_number(),
                    "integer" => value.is_i64() || value.is_u64(),
                    other => panic!("type {other} is not known"),
                },
                ("const", _) => rule == value,
                ("enum", _) => rule.as_array().unwrap().contains(value),
                ("minimum", Value::Number(n)) => n.as_f64() >= rule.as_f64(),
                ("maximum", Value::Number(n)) => n.as_f64() <= rule.as_f64(),
                ("pattern", Value::String(s)) => {
                    Regex::new(rule.as_str().unwrap()).unwrap().is_match(s)
                }
                ("required", Value::Object(o)) => rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|n| o.contains_key(n.as_str().unwrap())),
                ("properties" | "patternProperties" | "additionalProperties", Value::Object(_)) => {
                    true
                }
                ("propertyNames", Value::Object(o)) => {
                    o.keys()
                        .for_each(|k| self.value(rule, &Value::String(k.clone()), at));
                    true
                }
                ("items", Value::Array(list)) => {
                    let skip = rules
                        .get("prefixItems")
                        .map_or(0, |p| p.as_array().unwrap().len());
                    for (i, item) in list.iter().enumerate().skip(skip) {
                        self.value(rule, item, &format!("{at}/{i}"));
                    }
                    true
                }
                ("prefixItems", Value::Array(list)) => {
                    for (i, (rule, item)) in rule.as_array().unwrap().iter().zip(list).enumerate() {
                        self.value(rule, item, &format!("{at}/{i}"));
                    }
                    true
                }
                ("minItems", Value::Array(list)) => list.len() as u64 >= rule.as_u64().unwrap(),
                ("maxItems", Value::Array(list)) => list.len() as u64 <= rule.as_u64().unwrap(),
                // Rules for another type than this value's say nothing about it.
                ("minimum" | "maximum" | "pattern" | "required" | "properties", _) => true,
                ("patternProperties" | "additionalProperties" | "propertyNames", _) => true,
                ("items" | "prefixItems" | "minItems" | "maxItems", _) => true,
                (other, _) => panic!("keyword {other} is not known"),
            };
            if !ok {
                self.wrong(at, format!("breaks {key} {rule}"));
            }
        }
        if let Value::Object(object) = value {
            self.members(rules, object, at);
        }
    }

    fn members(&mut self, rules: &'a Map<String, Value>, object: &Map<String, Value>, at: &str) {
        for (name, member) in object {
            let own = rules.get("properties").and_then(|p| p.get(name));
            let patterns = rules.get("patternProperties").and_then(Value::as_object);
            let matching = patterns.into_iter().flatten();
            let matching = matching.filter(|(p, _)| Regex::new(p).unwrap().is_match(name));
            let own = own.or(matching.map(|(_, rule)| rule).next());
            if let Some(rule) = own.or(rules.get("additionalProperties")) {
                self.value(rule, member, &format!("{at}/{name}"));
            }
        }
    }
}
