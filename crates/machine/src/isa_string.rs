//! ISA strings as users of Spike and riscv-arch-test write them: `rv64gc_h_zba_zbb_sstc`.

use trapless_hart::Extensions;
use trapless_isa::haiov::isa;

/// Extensions that every hart has, so naming them changes nothing.
const ALWAYS: [&str; 16] = [
    "zicsr", "zifencei", "zicntr", "zihpm", "zmmul", "zaamo", "zalrsc", "sv39", "sv48", "sv57",
    "sm", "smu", "s", "u", "su", "svade",
];

/// The name by which users switch an extension: our own have a short one besides that in ISA
/// strings.
pub fn option(name: &str) -> &str {
    match name {
        isa::XTRAPLESSUER => "xuer",
        isa::XTRAPLESSVEI => "xvei",
        isa::XTRAPLESSHCS => "xhcs",
        name => name,
    }
}

/// The extensions an ISA string names; whatever it does not name is absent.
///
/// # Errors
/// A sentence that names what the machine does not have.
pub fn parse(text: &str) -> Result<Extensions, String> {
    let lower = text.to_lowercase();
    let body = lower
        .strip_prefix("rv64")
        .ok_or_else(|| format!("{text} does not begin with rv64"))?;
    let mut e = Extensions {
        h: false,
        fd: false,
        c: false,
        b: false,
        zicbo: false,
        zicond: false,
        zawrs: false,
        svinval: false,
        svpbmt: false,
        svnapot: false,
        svadu: false,
        sstc: false,
        smstateen: false,
        xuer: false,
        xvei: false,
        xhcs: false,
    };
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
    let mut bits = [false; 3];
    for letter in letters.chars() {
        match letter {
            'i' | 'm' | 'a' | 's' | 'u' => {}
            'g' | 'f' | 'd' => e.fd = true,
            'c' => e.c = true,
            'b' => e.b = true,
            'h' => e.h = true,
            other => return Err(format!("this machine has no extension {other} (in {text})")),
        }
    }
    for name in names {
        match option(name) {
            "h" => e.h = true,
            "b" => e.b = true,
            "c" | "zca" | "zcd" => e.c = true,
            "zba" => bits[0] = true,
            "zbb" => bits[1] = true,
            "zbs" => bits[2] = true,
            "zicbom" | "zicbop" | "zicboz" => e.zicbo = true,
            "zicond" => e.zicond = true,
            "zawrs" => e.zawrs = true,
            "svinval" => e.svinval = true,
            "svpbmt" => e.svpbmt = true,
            "svnapot" => e.svnapot = true,
            "svadu" => e.svadu = true,
            "sstc" => e.sstc = true,
            "smstateen" | "ssstateen" => e.smstateen = true,
            "xuer" => e.xuer = true,
            "xvei" => e.xvei = true,
            "xhcs" => e.xhcs = true,
            known if ALWAYS.contains(&known) => {}
            other => return Err(format!("this machine has no extension {other} (in {text})")),
        }
    }
    e.b |= bits.contains(&true);
    Ok(e)
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
