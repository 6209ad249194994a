//! Program families: subjects of the steps of a program.

pub mod aia;
pub mod csrs;
pub mod encoding;
pub mod iommu;
pub mod memory;
pub mod ops;
pub mod pages;
pub mod translation;
pub mod traps;
pub mod user;

use crate::program::{Feature, Program};
use crate::rng::Rng;

/// A family of programs.
pub struct Family {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Relative frequency.
    pub weight: u64,
    /// Whether it covers more than user-level instructions.
    privileged: bool,
    generate: fn(&Rng, &mut Program),
}

/// All families.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "integer",
        about: "RV64IMC, Zba, Zbb, Zbs, Zicond in every mode",
        weight: 3,
        privileged: false,
        generate: user::integer,
    },
    Family {
        name: "atomic",
        about: "LR/SC with fixed outcome, AMOs",
        weight: 1,
        privileged: false,
        generate: user::atomic,
    },
    Family {
        name: "float",
        about: "F and D: all operations, rounding modes, operand classes, flags",
        weight: 4,
        privileged: false,
        generate: user::float,
    },
    Family {
        name: "misaligned",
        about: "loads and stores at any address, misaligned AMO and LR/SC",
        weight: 1,
        privileged: false,
        generate: user::misaligned,
    },
    Family {
        name: "counter",
        about: "instructions retired between reads of instret, writes to minstret, mcountinhibit",
        weight: 1,
        privileged: true,
        generate: user::counters,
    },
    Family {
        name: "encoding",
        about: "reserved encodings: valid instructions with bits flipped, random compressed ones",
        weight: 3,
        privileged: true,
        generate: encoding::encodings,
    },
    Family {
        name: "csr",
        about: "CSR instructions on all named CSRs from every mode: legality and WARL results",
        weight: 5,
        privileged: true,
        generate: csrs::csrs,
    },
    Family {
        name: "delegation",
        about: "every exception from every mode under random medeleg and hedeleg",
        weight: 3,
        privileged: true,
        generate: traps::delegation,
    },
    Family {
        name: "interrupt",
        about: "interrupts of all levels under random delegation and enables, Sstc",
        weight: 4,
        privileged: true,
        generate: traps::interrupts,
    },
    Family {
        name: "privileged",
        about: "fences, WFI, SRET, MRET under TVM, TW, TSR, VTVM, VTW, VTSR, HU",
        weight: 3,
        privileged: true,
        generate: traps::privileged,
    },
    Family {
        name: "one-stage",
        about: "Sv39/48/57 with random tables, A/D updates, Svnapot, Svpbmt, fences",
        weight: 4,
        privileged: true,
        generate: translation::single_stage,
    },
    Family {
        name: "two-stage",
        about: "vsatp x hgatp with random tables, seen from VS and VU",
        weight: 5,
        privileged: true,
        generate: translation::two_stage,
    },
    Family {
        name: "hypervisor",
        about: "hlv, hlvx, hsv, MPRV with MPV, hfence, from M, HS and U",
        weight: 4,
        privileged: true,
        generate: translation::hypervisor_access,
    },
    Family {
        name: "aia-imsic",
        about: "interrupt files: messages, registers, claims from M, HS and VS",
        weight: 1,
        privileged: true,
        generate: aia::imsic,
    },
    Family {
        name: "aia-aplic-msi",
        about: "APLIC with delegation and MSI delivery to IMSICs",
        weight: 1,
        privileged: true,
        generate: aia::aplic_msi,
    },
    Family {
        name: "aia-aplic-direct",
        about: "APLIC with delegation and direct delivery",
        weight: 1,
        privileged: true,
        generate: aia::aplic_direct,
    },
    Family {
        name: "aia-csr",
        about: "CSRs of Smaia and Ssaia from every mode under state enables",
        weight: 1,
        privileged: true,
        generate: aia::csrs,
    },
    Family {
        name: "iommu",
        about: "translations by the RISC-V IOMMU: directories, page tables of both stages, commands",
        weight: 1,
        privileged: true,
        generate: iommu::translations,
    },
    Family {
        name: "pmp",
        about: "16 PMP entries, NA4, NAPOT, TOR, locked",
        weight: 2,
        privileged: true,
        generate: memory::pmp,
    },
    Family {
        name: "cbo",
        about: "Zicbom, Zicboz, Zicbop under menvcfg, henvcfg, senvcfg",
        weight: 2,
        privileged: true,
        generate: memory::cache_blocks,
    },
    Family {
        name: "fence-i",
        about: "self-modifying code",
        weight: 1,
        privileged: false,
        generate: memory::self_modifying,
    },
];

/// The family called `name`.
pub fn by_name(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.name == name)
}

/// The program for `seed`, its family drawn from `among` by weight.
///
/// # Panics
/// If `among` is empty.
pub fn generate(seed: u64, among: &[&'static Family]) -> Program {
    let rng = Rng::new(seed);
    let mut n = rng.below(among.iter().map(|f| f.weight).sum());
    let family = among
        .iter()
        .find(|f| {
            let hit = n < f.weight;
            n = n.wrapping_sub(f.weight);
            hit
        })
        .expect("a family");
    generate_family(seed, family)
}

/// The program of a given family for `seed`.
pub fn generate_family(seed: u64, family: &'static Family) -> Program {
    let rng = Rng::new(seed ^ 0x7261_6e64);
    let mut p = Program::new(seed, family.name);
    if family.privileged {
        p.needs.insert(Feature::Privileged);
    }
    (family.generate)(&rng, &mut p);
    p
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{self, Side};
    use crate::layout;
    use crate::outcome::Outcome;

    #[test]
    fn a_seed_is_one_program() {
        for f in FAMILIES {
            let (a, b) = (generate_family(7, f), generate_family(7, f));
            assert_eq!(a.elf(), b.elf(), "{}", f.name);
            assert!(
                !a.steps.is_empty() && a.elf() != generate_family(8, f).elf(),
                "{}",
                f.name
            );
        }
    }

    /// A signature as a model without any trap would leave it.
    fn signature(p: &Program) -> Vec<u8> {
        let sig = p.signature();
        let mut bytes = vec![0; (sig.end - layout::DATA) as usize];
        for n in 0..p.steps.len() {
            let at = (sig.log - layout::DATA) as usize + n * 8 * layout::END_WORDS;
            bytes[at] = layout::kind::END as u8;
        }
        bytes
    }

    #[test]
    fn one_flipped_bit_is_a_difference() {
        let p = generate_family(1, by_name("two-stage").unwrap());
        let side = || Side {
            name: "model".into(),
            features: Feature::all(),
        };
        let clean = signature(&p);
        let a = Outcome::decode(&p, &clean).unwrap();
        let differs = |at: usize| {
            let mut bytes = clean.clone();
            bytes[at] ^= 1;
            let b = Outcome::decode(&p, &bytes).unwrap();
            compare::first_difference(&p, &[side(), side()], &a, &b)
        };
        assert!(compare::first_difference(&p, &[side(), side()], &a, &a).is_none());
        let log = (p.signature().log - layout::DATA) as usize;
        assert_eq!(differs(log + 8).unwrap().what, "x1 of final state");
        assert_eq!(differs(log + 8 * 32).unwrap().what, "f0 of final state");
        assert_eq!(
            differs(16).unwrap().what,
            format!("memory at {:#x}", layout::DATA + 16)
        );
        let table = (layout::TABLES - layout::DATA) as usize;
        assert_eq!(
            differs(table).unwrap().what,
            format!("memory at {:#x}", layout::TABLES)
        );
    }
}
