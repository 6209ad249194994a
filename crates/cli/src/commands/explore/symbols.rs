//! Names and addresses of the functions of the host's KVM module.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Kernel functions and the text they are part of, from the host's `/proc/kallsyms`.
pub struct Symbols {
    by_address: BTreeMap<u64, String>,
}

impl Symbols {
    /// Reads lines `ADDRESS TYPE NAME [MODULE]`.
    pub fn parse(lines: &[String]) -> Self {
        let text = |line: &String| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            // Mapping symbols of the psABI ($x...) and local labels (.L...) have addresses of
            // functions, too.
            (matches!(kind, "t" | "T") && !name.starts_with(['$', '.']))
                .then(|| (address, name.to_string()))
        };
        Self {
            by_address: lines.iter().filter_map(text).collect(),
        }
    }

    /// Address of a function.
    ///
    /// # Errors
    /// If there is no function of that name; the message lists similar names.
    pub fn find(&self, name: &str) -> Result<u64> {
        let found = self.by_address.iter().find(|(_, n)| *n == name);
        let (&address, _) = found.with_context(|| {
            // Names differ in their beginnings: the last words say what a function does.
            let end = name.rsplit('_').next().unwrap_or(name);
            let close: Vec<&str> = self
                .by_address
                .values()
                .filter(|n| n.ends_with(end))
                .take(8)
                .map(String::as_str)
                .collect();
            if close.is_empty() {
                format!("the host's KVM module has no function {name}")
            } else {
                let close = close.join(", ");
                format!("the host's KVM module has no function {name}; it has {close}")
            }
        })?;
        Ok(address)
    }

    /// Name and offset of an address.
    pub fn name(&self, address: u64) -> String {
        match self.by_address.range(..=address).next_back() {
            Some((start, name)) => format!("{name}+{:#x}", address - start),
            None => format!("{address:#x}"),
        }
    }

    /// Name of the function that an address is in.
    pub fn function(&self, address: u64) -> &str {
        let found = self.by_address.range(..=address).next_back();
        found.map_or("", |(_, name)| name)
    }

    /// First and last function of the module.
    pub fn range(&self) -> (u64, u64) {
        let first = self.by_address.keys().next();
        let last = self.by_address.keys().next_back();
        (first.copied().unwrap_or(0), last.copied().unwrap_or(0))
    }
}
