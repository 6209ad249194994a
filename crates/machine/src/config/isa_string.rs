//! ISA strings as in Spike and riscv-arch-test: `rv64gc_h_zba_zbb_sstc`.

use trapless_isa::Extensions;
use trapless_isa::extension::Ext;

/// Modes and extensions that every hart has: they are accepted and change nothing.
const PARTS: [&str; 11] = [
    "zmmul", "zaamo", "zalrsc", "sv39", "sv48", "sv57", "sm", "smu", "s", "u", "su",
];

/// The name by which options enable and disable an extension: our own extensions have a longer name
/// in ISA strings, too.
pub fn switch<'a>(extensions: &'a mut Extensions, name: &str) -> Option<&'a mut bool> {
    if name.starts_with('x') {
        return extensions.named(name);
    }
    extensions.switch(name)
}

/// The extensions that an ISA string names; all others are absent.
///
/// # Errors
/// If the machine does not have one of them; the message names it.
pub fn parse(text: &str) -> Result<Extensions, String> {
    let lower = text.to_lowercase();
    let body = lower
        .strip_prefix("rv64")
        .ok_or_else(|| format!("{text} does not begin with rv64"))?;
    let mut parts = body.split('_');
    let mut letters = parts.next().unwrap_or_default();
    // Multi-letter names may follow the letters without an underscore.
    let mut names: Vec<&str> = Vec::new();
    if let Some(at) = letters
        .find(['s', 'x', 'z'])
        .filter(|at| letters.len() > at + 1)
    {
        names.push(&letters[at..]);
        letters = &letters[..at];
    }
    names.extend(parts.filter(|p| !p.is_empty()));
    let letters = letters.split_inclusive(|_| true);
    let mut extensions = Extensions::NONE;
    for name in letters.chain(names) {
        // G is F and D, and extensions that every hart has.
        let name = if name == "g" { "d" } else { name };
        match extensions.named(name) {
            Some(switch) => *switch = true,
            None if is_always(name) => {}
            None => return Err(format!("this machine has no extension {name} (in {text})")),
        }
    }
    Ok(extensions)
}

fn is_always(name: &str) -> bool {
    let mut always = Ext::ALL.iter().filter(|ext| Extensions::NONE.has(**ext));
    PARTS.contains(&name) || always.any(|ext| ext.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_switch_on_and_absence_switches_off() {
        let e = parse("RV64GC_Zba_zbb_zbs_sstc").unwrap();
        assert!(e.fd && e.c && e.b && e.sstc && !e.h && !e.zicond);
        let e = parse("rv64imah_zicsr_svinval").unwrap();
        assert!(e.h && e.svinval && !e.fd && !e.c);
        assert!(parse("rv64imaczba").unwrap().b);
        let e = parse("rv64gc_h_xuer_xtraplessvei").unwrap();
        assert!(e.xuer && e.xvei && !e.xhcs);
    }

    #[test]
    fn unknown_extensions_are_refused() {
        assert!(parse("rv64gcv").unwrap_err().contains("extension v"));
        assert!(parse("rv64gc_zvkg").unwrap_err().contains("zvkg"));
        assert!(parse("rv32i").is_err());
    }
}
