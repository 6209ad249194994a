//! The register data file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// All of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The file's path in the project.
    #[serde(skip)]
    pub source: String,
    /// Name, version and title.
    pub extension: Extension,
    /// CSRs.
    pub csr: Vec<Csr>,
    /// Encodings by name.
    #[serde(rename = "enum")]
    pub enums: BTreeMap<String, Enum>,
    /// Single numbers.
    pub constant: Vec<Constant>,
    /// Memory structures.
    #[serde(default)]
    pub structure: Vec<Structure>,
}

/// The extension as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// Lower-case name, prefix of the C names.
    pub name: String,
    /// The name in text, if it is not that with a capital letter.
    pub display: Option<String>,
    /// Version of the specification.
    pub version: String,
    /// Title of the document.
    pub title: String,
    /// Names in ISA strings: of the extension, or of each part that can be there alone.
    pub isa: Vec<String>,
}

impl Extension {
    /// The name as text has it.
    pub fn display(&self) -> String {
        let capital = || {
            let mut chars = self.name.chars();
            let first = chars.next().map(|c| c.to_uppercase().collect::<String>());
            first.unwrap_or_default() + chars.as_str()
        };
        self.display.clone().unwrap_or_else(capital)
    }
}

/// One CSR.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Csr {
    /// Name.
    pub name: String,
    /// Address, 0..=0xfff.
    pub address: u16,
    /// One sentence.
    pub summary: String,
    /// What an access does by mode.
    pub modes: BTreeMap<String, String>,
    /// Value after reset.
    pub reset: u64,
    /// Fields.
    pub fields: Vec<Field>,
}

/// Bits of a CSR or of a word in memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Highest bit.
    pub high: u32,
    /// Lowest bit.
    pub low: u32,
    /// One sentence.
    pub meaning: String,
}

impl Field {
    /// The bits of the field.
    pub fn mask(&self) -> u64 {
        (u64::MAX >> (63 - (self.high - self.low))) << self.low
    }
}

/// An encoding.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enum {
    /// One sentence.
    pub summary: String,
    /// Its values.
    pub values: Vec<Constant>,
}

/// A named number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Name.
    pub name: String,
    /// Number.
    pub value: u64,
    /// One sentence.
    pub meaning: String,
}

/// A structure in memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Structure {
    /// Name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// One sentence.
    pub summary: String,
    /// 64-bit words.
    pub words: Vec<Word>,
}

/// A 64-bit word of a structure, or an array of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// Name.
    pub name: String,
    /// Offset in bytes of the first.
    pub offset: u64,
    /// Bytes from one to the next.
    pub stride: Option<u64>,
    /// How many, if not one.
    pub count: Option<u64>,
    /// Who writes it: host, controller, both.
    pub writer: String,
    /// One sentence, if it has no fields.
    pub meaning: Option<String>,
    /// Fields.
    #[serde(default)]
    pub fields: Vec<Field>,
}
