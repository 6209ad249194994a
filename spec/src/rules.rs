//! What the register data must obey: RISC-V conventions for CSRs, and that nothing overlaps.

use std::collections::BTreeSet;

use crate::data::{Data, Field, Structure};

/// Accesses a mode may be given in `modes`, with the words the specification uses.
pub const ACCESSES: [(&str, &str); 10] = [
    ("rw", "read, write"),
    ("ro", "read"),
    ("wo", "write"),
    ("illegal", "_illegal_"),
    ("virtual", "_virtual_"),
    ("slot", "read, write; without a valid slot _virtual_"),
    ("slot-wo", "write; without a valid slot _virtual_"),
    ("table-wo", "write; without an event table _virtual_"),
    ("hur", "read, write with `hstatus.HUR`, else _illegal_"),
    ("grant", "write inside the grant, else _illegal_"),
];

/// Modes, in the order of the tables.
pub const MODES: [&str; 5] = ["m", "hs", "u", "vs", "vu"];

/// Checks everything.
///
/// # Errors
/// One sentence about the first rule that is broken.
pub fn check(data: &Data) -> Result<(), String> {
    unique("CSR", data.csr.iter().map(|c| c.name.clone()))?;
    unique(
        "CSR address",
        data.csr.iter().map(|c| format!("{:#x}", c.address)),
    )?;
    for csr in &data.csr {
        address(&csr.name, csr.address)?;
        fields(&csr.name, &csr.fields)?;
        for mode in MODES {
            let access = csr.modes.get(mode).map_or("nothing", String::as_str);
            if !ACCESSES.iter().any(|(name, _)| *name == access) {
                return Err(format!(
                    "{}: mode {mode} has the unknown access {access}",
                    csr.name
                ));
            }
            if reaches(mode) < csr.address >> 8 & 3 && !matches!(access, "illegal" | "virtual") {
                return Err(format!(
                    "{}: mode {mode} is below the privilege in address {:#x}",
                    csr.name, csr.address
                ));
            }
        }
        if csr.modes.len() != MODES.len() {
            return Err(format!("{}: modes are {}", csr.name, MODES.join(", ")));
        }
    }
    for (name, list) in &data.enums {
        unique(name, list.values.iter().map(|v| v.name.clone()))?;
        unique(name, list.values.iter().map(|v| v.value.to_string()))?;
    }
    unique("constant", data.constant.iter().map(|c| c.name.clone()))?;
    unique("structure", data.structure.iter().map(|s| s.name.clone()))?;
    data.structure.iter().try_for_each(structure)
}

fn unique(what: &str, names: impl Iterator<Item = String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(format!("{what}: {name} occurs twice"));
        }
    }
    Ok(())
}

/// Highest privilege in CSR addresses (bits 9:8) that a mode reaches.
fn reaches(mode: &str) -> u16 {
    match mode {
        "m" => 3,
        "hs" => 2,
        "vs" => 1,
        _ => 0,
    }
}

/// Custom read/write ranges of the privileged specification ("CSR Address Mapping Conventions").
fn address(name: &str, address: u16) -> Result<(), String> {
    // By prefix as RISC-V names CSRs: user, supervisor and its guest's view, hypervisor.
    let range = match name.as_bytes().first() {
        Some(b'u') => 0x800..=0x8FF,
        Some(b'h') => 0x6C0..=0x6FF,
        _ => 0x5C0..=0x5FF,
    };
    if range.contains(&address) {
        Ok(())
    } else {
        Err(format!(
            "{name}: address {address:#x} is not in its custom range {:#x}..={:#x}",
            range.start(),
            range.end()
        ))
    }
}

fn fields(owner: &str, list: &[Field]) -> Result<(), String> {
    unique(owner, list.iter().map(|f| f.name.clone()))?;
    let mut above = 64;
    for field in list {
        if field.high < field.low || field.high >= above {
            return Err(format!(
                "{owner}: field {} ({}:{}) overlaps the one before it or is out of order",
                field.name, field.high, field.low
            ));
        }
        above = field.low;
    }
    Ok(())
}

fn structure(s: &Structure) -> Result<(), String> {
    if !s.align.is_power_of_two() || s.size % s.align != 0 {
        return Err(format!(
            "{}: size {} does not fit its alignment {}",
            s.name, s.size, s.align
        ));
    }
    unique(&s.name, s.words.iter().map(|w| w.name.clone()))?;
    let mut taken = BTreeSet::new();
    for w in &s.words {
        fields(&format!("{}.{}", s.name, w.name), &w.fields)?;
        for i in 0..w.count.unwrap_or(1) {
            let at = w.offset + i * w.stride.unwrap_or(8);
            if at % 8 != 0 || at + 8 > s.size || !taken.insert(at) {
                return Err(format!("{}.{}: no room at byte {at}", s.name, w.name));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a mistake to the real data; the rules must name `subject`.
    fn refused(mistake: impl Fn(&mut Data), subject: &str) {
        let mut data = crate::DOCUMENTS[0].load().unwrap();
        mistake(&mut data);
        let text = check(&data).unwrap_err();
        assert!(text.contains(subject), "{text}");
    }

    #[test]
    fn real_data_obeys() {
        check(&crate::DOCUMENTS[0].load().unwrap()).unwrap();
    }

    #[test]
    fn overlapping_fields_are_refused() {
        refused(|d| d.csr[5].fields[1].high = 63, "hifmap: field STATE");
        refused(
            |d| d.structure[2].words[0].fields[4].high = 16,
            "source.ENTRY: field VHART",
        );
    }

    #[test]
    fn addresses_outside_custom_ranges_are_refused() {
        // stvec's address, a hypervisor CSR in the supervisor range, an address given twice.
        refused(|d| d.csr[1].address = 0x105, "sgenipi: address 0x105");
        refused(|d| d.csr[5].address = 0x5C8, "hifmap: address 0x5c8");
        refused(
            |d| d.csr[2].address = d.csr[1].address,
            "0x5d8 occurs twice",
        );
    }

    #[test]
    fn access_below_the_address_privilege_is_refused() {
        refused(
            |d| drop(d.csr[5].modes.insert("vs".into(), "rw".into())),
            "hifmap: mode vs",
        );
    }

    #[test]
    fn names_and_encodings_used_twice_are_refused() {
        refused(|d| d.csr[3].name = "vsclaim".into(), "vsclaim occurs twice");
        refused(
            |d| d.enums.get_mut("state").unwrap().values[3].value = 2,
            "state: 2 occurs twice",
        );
    }

    #[test]
    fn words_that_share_memory_are_refused() {
        refused(|d| d.structure[3].words[2].offset = 8 + 16 * 15, "file.CTL");
        refused(
            |d| d.structure[3].words[1].count = Some(64),
            "file.THRESHOLD",
        );
    }
}
