//! Compares two outcomes of a program; differences that the specification permits are ignored.

use std::collections::BTreeSet;

use trapless_isa::cause::exception as exc;
use trapless_isa::csr;
use trapless_isa::extension::Ext;

use crate::layout::{self, SNAPSHOT, kind};
use crate::model::Model;
use crate::outcome::{Entry, Outcome};
use crate::program::{Feature, Program};

/// First difference between two outcomes.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Step in which it occurs, if it is not in memory.
    pub step: Option<usize>,
    /// Index in the log, if it is in the log.
    pub entry: Option<usize>,
    /// What differs: a register, CSR, memory word or the kind of an entry.
    pub what: String,
    /// Value in the first outcome.
    pub left: String,
    /// Value in the second outcome.
    pub right: String,
}

/// A deliberate difference: something that the specification leaves to the implementation.
///
/// `docs/isa-differences.md` lists them for readers; a test keeps both consistent.
pub struct Freedom {
    /// Name in that list.
    pub id: &'static str,
    /// Where the specification allows it.
    pub section: &'static str,
    same: fn(&Field<'_>, u64, u64) -> bool,
}

/// Properties of a model that a comparison depends on.
pub struct Side {
    /// `Model::name`.
    pub name: String,
    /// `Model::features`.
    pub features: BTreeSet<Feature>,
}

impl Side {
    /// The properties of `model`.
    pub fn of(model: &dyn Model) -> Self {
        Self {
            name: model.name(),
            features: model.features(),
        }
    }
}

/// One compared word and its surroundings.
struct Field<'a> {
    kind: u64,
    name: &'a str,
    sides: &'a [Side; 2],
    left: &'a Entry,
    program: &'a Program,
}

impl Field<'_> {
    fn is_trap(&self) -> bool {
        self.kind != kind::END
    }

    /// True if one of the models is `name` (a prefix) ...
    fn one_is(&self, name: &str) -> bool {
        self.sides.iter().any(|s| s.name.starts_with(name))
    }

    /// ... or lacks `feature`.
    fn one_lacks(&self, feature: Feature) -> bool {
        self.sides.iter().any(|s| !s.features.contains(&feature))
    }

    /// The instruction at the trap's `epc`, if that lies in the code window.
    fn instruction(&self) -> Option<u32> {
        let pc = *self.left.words.get(1)?;
        let off = [pc, pc.wrapping_add(layout::USER_DELTA)]
            .into_iter()
            .map(|pc| pc.wrapping_sub(layout::CODE))
            .find(|off| *off < self.program.code.len() as u64)? as usize;
        let raw = self.program.code.get(off..off + 4)?;
        Some(u32::from_le_bytes(raw.try_into().ok()?))
    }

    fn is_amo(&self) -> bool {
        self.instruction().is_some_and(|i| i & 0x7f == 0x2f)
    }

    fn cause(&self) -> u64 {
        self.left.words[0]
    }
}

/// All deliberate differences.
pub const FREEDOMS: &[Freedom] = &[
    Freedom {
        id: "tinst-optional",
        section: "H extension, \"Transformed Instruction or Pseudoinstruction for mtinst or htinst\"",
        same: |f, a, b| f.name.ends_with("tinst") && (a == 0 || b == 0),
    },
    Freedom {
        id: "tval-illegal",
        section: "Privileged, \"Machine Trap Value (mtval) Register\"",
        same: |f, a, b| {
            f.is_trap()
                && f.name.ends_with("tval")
                && matches!(f.cause(), exc::ILLEGAL | exc::VIRTUAL_INSTRUCTION)
                && (a == 0 || b == 0)
        },
    },
    Freedom {
        id: "tval-breakpoint",
        section: "Privileged, \"Machine Trap Value (mtval) Register\"",
        same: |f, a, b| {
            let pc = f.left.words.get(1).copied();
            f.is_trap()
                && f.name.ends_with("tval")
                && f.cause() == exc::BREAKPOINT
                && [a, b].iter().all(|v| *v == 0 || Some(*v) == pc)
        },
    },
    Freedom {
        id: "misaligned-atomic",
        section: "A extension: a misaligned LR, SC or AMO raises an address-misaligned exception or \
                  an access-fault exception",
        same: |f, a, b| {
            let pair = matches!((a.min(b), a.max(b)), (4, 5) | (6, 7));
            f.name.ends_with("cause") && pair && (!f.is_trap() || f.is_amo())
        },
    },
    Freedom {
        id: "fs-unchanged",
        section: "Privileged, \"Extension Context Status in mstatus Register\": whether an instruction \
                  that leaves the floating-point state as it was makes FS dirty is open",
        same: |f, a, b| {
            let fields = csr::status::FS | csr::status::SD;
            f.program.family == "csr"
                && f.name.ends_with("status")
                && (a ^ b) & !fields == 0
                && a & csr::status::FS != 0
                && b & csr::status::FS != 0
        },
    },
    Freedom {
        id: "stateen-bits",
        section: "Smstateen: bits of extensions that are not implemented are read-only zero",
        same: |f, a, b| {
            let common = csr::stateen0::SE0 | csr::stateen0::ENVCFG;
            f.name.ends_with("stateen0") && (a ^ b) & common == 0
        },
    },
    Freedom {
        id: "absent-extension",
        section: "each extension's own chapter: its CSRs exist only with it",
        same: |f, a, b| {
            let diff = a ^ b;
            match f.name {
                "stimecmp" | "vstimecmp" => f.one_lacks(Feature::Has(Ext::Sstc)),
                "mstateen0" | "hstateen0" | "sstateen0" => {
                    f.one_lacks(Feature::Has(Ext::Smstateen))
                }
                "menvcfg" | "henvcfg" => {
                    let mut free = 0;
                    if f.one_lacks(Feature::Has(Ext::Svadu)) {
                        free |= csr::envcfg::ADUE;
                    }
                    if f.one_lacks(Feature::Has(Ext::Zicbom)) {
                        free |= csr::envcfg::CBIE | csr::envcfg::CBCFE | csr::envcfg::CBZE;
                    }
                    diff & !free == 0
                }
                "senvcfg" if f.one_lacks(Feature::Has(Ext::Zicbom)) => {
                    diff & !(csr::envcfg::CBIE | csr::envcfg::CBCFE | csr::envcfg::CBZE) == 0
                }
                _ => false,
            }
        },
    },
];

/// Known faults of a reference, where it contradicts the specification.
pub const ERRATA: &[Freedom] = &[
    Freedom {
        id: "qemu-gva",
        section: "H extension, hstatus and mstatus.GVA: 1 exactly if a guest virtual address is \
                  written to xtval; QEMU sets it for other causes and forgets it for hlv from M",
        same: |f, a, b| {
            let bit = match f.name {
                "mstatus" => csr::status::GVA,
                "hstatus" => csr::hstatus::GVA,
                _ => return false,
            };
            f.one_is("qemu") && a ^ b == bit
        },
    },
    Freedom {
        id: "qemu-htval-vs",
        section: "H extension, htval and htinst: written by traps into HS-mode only; QEMU writes \
                  them on a trap into VS-mode, too",
        same: |f, a, b| {
            let _ = (a, b);
            f.one_is("qemu") && !f.is_trap() && matches!(f.name, "htval" | "htinst")
        },
    },
    Freedom {
        id: "qemu-stale-tval2",
        section: "H extension, htval, mtval2, htinst, mtinst: zero for access faults; QEMU leaves what \
                  an earlier guest-page fault wrote",
        same: |f, a, b| {
            f.one_is("qemu")
                && f.is_trap()
                && matches!(f.name, "htval" | "mtval2" | "htinst" | "mtinst")
                && matches!(
                    f.cause(),
                    exc::FETCH_ACCESS | exc::LOAD_ACCESS | exc::STORE_ACCESS
                )
                && a.min(b) == 0
        },
    },
    Freedom {
        id: "qemu-hvip",
        section: "H extension, hvip: only VSSIP, VSTIP and VSEIP; QEMU shows other bits of mip, too",
        same: |f, a, b| f.one_is("qemu") && f.name == "hvip" && (a ^ b) & 0x444 == 0,
    },
    Freedom {
        id: "qemu-sip-stip",
        section: "Privileged, sip: shows mip.STIP where mideleg delegates it; QEMU 10.0 with AIA and \
                  Sstc reads it as 0",
        same: |f, a, b| f.one_is("qemu-10") && f.name == "sip" && a ^ b == 0x20,
    },
    Freedom {
        id: "qemu-vsstatus-sd",
        section: "H extension, vsstatus: SD summarizes FS; QEMU reads it as 0 from M and HS",
        same: |f, a, b| f.one_is("qemu") && f.name == "vsstatus" && a ^ b == csr::status::SD,
    },
    Freedom {
        id: "qemu-7-amo-misaligned",
        section: "A extension: AMO and SC raise store/AMO exceptions; QEMU 7.2 raises load ones",
        same: |f, a, b| {
            f.one_is("qemu-7")
                && f.name.ends_with("cause")
                && (!f.is_trap() || f.is_amo())
                && a.max(b) <= 7
                && a.min(b) == 4
        },
    },
];

fn same(field: &Field<'_>, a: u64, b: u64) -> bool {
    a == b || FREEDOMS.iter().chain(ERRATA).any(|f| (f.same)(field, a, b))
}

/// True if the word of a final state is not compared at all.
fn ignored(name: &str) -> bool {
    // Copies of values in the log; a skipped CSR of the harness overwrites them.
    matches!(name, "mepc" | "mcause" | "mtval" | "mtval2" | "mtinst")
}

/// The first difference that the specification does not allow, if any.
pub fn first_difference(
    program: &Program,
    sides: &[Side; 2],
    a: &Outcome,
    b: &Outcome,
) -> Option<Difference> {
    for (n, (l, r)) in a.log.iter().zip(&b.log).enumerate() {
        let at = |what: String, left: String, right: String| {
            Some(Difference {
                step: Some(l.step),
                entry: Some(n),
                what,
                left,
                right,
            })
        };
        if l.kind != r.kind {
            return at("what happens next".into(), l.summary(), r.summary());
        }
        for (w, (x, y)) in l.words.iter().zip(&r.words).enumerate() {
            let name = l.field(w);
            if l.kind == kind::END && ignored(&name) {
                continue;
            }
            let field = Field {
                kind: l.kind,
                name: &name,
                sides,
                left: l,
                program,
            };
            if !same(&field, *x, *y) {
                return at(
                    format!("{name} of {}", l.title()),
                    format!("{x:#018x}{}", note(l, w, *x)),
                    format!("{y:#018x}{}", note(r, w, *y)),
                );
            }
        }
    }
    for (o, side) in [(a, &sides[0]), (b, &sides[1])] {
        if side.name.starts_with("qemu") {
            continue;
        }
        if let Some((n, e, gva)) = o
            .log
            .iter()
            .enumerate()
            .find_map(|(n, e)| wrong_gva(e).map(|g| (n, e, g)))
        {
            return Some(Difference {
                step: Some(e.step),
                entry: Some(n),
                what: format!("GVA of {} on {}", e.title(), side.name),
                left: gva.to_string(),
                right: "the opposite is specified".into(),
            });
        }
    }
    if a.log.len() != b.log.len() {
        return Some(Difference {
            step: None,
            entry: Some(a.log.len().min(b.log.len())),
            what: "length of the log".into(),
            left: a.log.len().to_string(),
            right: b.log.len().to_string(),
        });
    }
    let memory = [
        (layout::DATA, &a.data, &b.data),
        (layout::TABLES, &a.tables, &b.tables),
    ];
    for (base, x, y) in memory {
        let free = |n: usize| {
            let pte = x[n] | y[n];
            // QEMU marks a reserved Svnapot leaf as accessed (and dirty) before it faults.
            base == layout::TABLES && pte >> 63 == 1 && (x[n] ^ y[n]) & !0xc0 == 0
        };
        if let Some(n) = (0..x.len().min(y.len())).find(|n| x[*n] != y[*n] && !free(*n)) {
            return Some(Difference {
                step: None,
                entry: None,
                what: format!("memory at {:#x}", base + 8 * n as u64),
                left: format!("{:#018x}", x[n]),
                right: format!("{:#018x}", y[n]),
            });
        }
    }
    None
}

/// GVA of a trap from V=1, if it violates the H extension: 1 exactly for exceptions that write an
/// address to `xtval`.
fn wrong_gva(e: &Entry) -> Option<bool> {
    let (v, gva) = match e.kind {
        kind::M => (
            e.words[5] & csr::status::MPV != 0,
            e.words[5] & csr::status::GVA != 0,
        ),
        kind::HS => (
            e.words[6] & csr::hstatus::SPV != 0,
            e.words[6] & csr::hstatus::GVA != 0,
        ),
        _ => return None,
    };
    let address = match e.words[0] {
        exc::ILLEGAL | exc::VIRTUAL_INSTRUCTION => false,
        exc::BREAKPOINT => e.words[2] != 0,
        exc::ECALL_U..=exc::ECALL_M => false,
        c => c >> 63 == 0,
    };
    (v && gva != address).then_some(gva)
}

fn note(e: &Entry, word: usize, value: u64) -> String {
    if e.kind != kind::END && word == 0 {
        return format!(
            " ({})",
            trapless_isa::cause::name(value).unwrap_or("unknown")
        );
    }
    if e.kind == kind::END && word >= 64 && SNAPSHOT[word - 64] == csr::MCAUSE {
        return format!(
            " ({})",
            trapless_isa::cause::name(value).unwrap_or("unknown")
        );
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deliberate_difference_is_documented() {
        let text = include_str!("../../../docs/isa-differences.md");
        for f in FREEDOMS.iter().chain(ERRATA) {
            assert!(
                text.contains(&format!("`{}`", f.id)),
                "docs/isa-differences.md lacks {}",
                f.id
            );
        }
    }
}
