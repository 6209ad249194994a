//! Fields of events by name, as the event stream has them: for logs, traces and other languages.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::events::event::{Event, StepKind};
use crate::events::hex;

/// Names and values, in the order of the declaration.
pub type Fields = Vec<(String, Field)>;

/// Value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    /// A number, whether the stream has it in decimal or in hexadecimal.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// A name.
    Name(String),
    /// No value.
    Nothing,
    /// Several values.
    List(Vec<Field>),
    /// Several with names.
    Group(Fields),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Flag(flag) => u8::from(*flag).fmt(f),
            Self::Name(name) => f.write_str(name),
            Self::Nothing => f.write_str("none"),
            Self::List(list) => {
                let list: Vec<String> = list.iter().map(Self::to_string).collect();
                write!(f, "[{}]", list.join(" "))
            }
            Self::Group(fields) => write!(f, "{{{}}}", text(fields).trim_start()),
        }
    }
}

/// ` name=value` for each field.
pub fn text(fields: &[(String, Field)]) -> String {
    let one = |(name, field): &(String, Field)| format!(" {name}={field}");
    fields.iter().map(one).collect()
}

/// All fields of an event: `event` ([`Event::name`]), `time`, `hart`, and those of its kind.
pub fn all(event: &Event) -> Fields {
    members(event)
}

/// Fields of an event besides its kind, its time and its hart.
pub fn of(event: &Event) -> Fields {
    let mut fields = all(event);
    fields.retain(|(name, _)| !matches!(name.as_str(), "event" | "time" | "hart"));
    fields
}

/// Name of a step, for instance `post_soft`, and its fields.
pub fn of_step(kind: &StepKind) -> (String, Fields) {
    let mut fields = members(kind);
    let (_, name) = fields.remove(0);
    (name.to_string(), fields)
}

/// Members of the serialised form, which is an object.
fn members(object: &impl Serialize) -> Fields {
    let text = serde_json::to_string(object).unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(Field::Group(fields)) => fields,
        _ => Fields::new(),
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyField)
    }
}

struct AnyField;

impl<'de> Visitor<'de> for AnyField {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of an event")
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Field, E> {
        Ok(Field::Number(n))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Field, E> {
        Ok(Field::Flag(flag))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Field, E> {
        let number = hex::value(text).map(Field::Number);
        Ok(number.unwrap_or_else(|| Field::Name(text.to_string())))
    }

    fn visit_unit<E: Error>(self) -> Result<Field, E> {
        Ok(Field::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Field, A::Error> {
        let mut list = Vec::new();
        while let Some(field) = from.next_element()? {
            list.push(field);
        }
        Ok(Field::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Field, A::Error> {
        let mut fields = Fields::new();
        while let Some(field) = from.next_entry()? {
            fields.push(field);
        }
        Ok(Field::Group(fields))
    }
}
