//! The table of extensions: switches, names in ISA strings and device trees, dependencies, and
//! support in other implementations.

use serde::{Deserialize, Serialize};

use crate::haiov::isa;

/// Other implementations that have an extension, for comparisons with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Models {
    /// First version of QEMU that knows it by the name in ISA strings.
    pub qemu: Option<(u32, u32)>,
    /// Whether Spike knows it by that name.
    pub spike: bool,
}

impl Models {
    /// Whether every version in use supports it.
    pub fn everywhere(self) -> bool {
        self == EVERY
    }
}

/// Every version in use has it.
const EVERY: Models = Models {
    qemu: Some((7, 2)),
    spike: true,
};
/// QEMU of Debian 12 lacks it.
const NEWER: Models = Models {
    qemu: Some((10, 0)),
    spike: true,
};
/// It is not used with other implementations.
const NONE: Models = Models {
    qemu: None,
    spike: false,
};

macro_rules! extensions {
    (
        always {
            $($(#[$always_doc:meta])+ $always:ident $always_name:literal $always_models:ident;)+
        }
        $(
            $(#[$switch_doc:meta])+
            $switch:ident = $default:literal, needs [$($need:ident),*], also [$($also:literal),*] {
                $($(#[$doc:meta])+ $ext:ident $name:expr, $models:ident;)+
            }
        )+
    ) => {
        /// An extension, in the division of the specifications.
        ///
        /// No operation belongs to [`Ext::C`] because compressed instructions decode to base
        /// operations: gate it by `len == 2`. Hints (`pause`, the prefetches) count as [`Ext::I`]
        /// because a hart without Zihintpause or Zicbop executes them as the `fence` or `ori` they
        /// are encoded as.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Ext {
            $($(#[$always_doc])+ $always,)+
            $($($(#[$doc])+ $ext,)+)+
        }

        impl Ext {
            /// Every extension.
            pub const ALL: &'static [Ext] = &[$(Ext::$always,)+ $($(Ext::$ext,)+)+];

            /// Name in ISA strings and device trees, in lower case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Ext::$always => $always_name,)+
                    $($(Ext::$ext => $name,)+)+
                }
            }

            /// Other implementations that support it.
            pub const fn models(self) -> Models {
                match self {
                    $(Ext::$always => $always_models,)+
                    $($(Ext::$ext => $models,)+)+
                }
            }
        }

        /// Extensions that can be present or absent. The rest of RV64GC with Zicsr, Zifencei,
        /// Zicntr and Zihpm is always there.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Extensions {
            $($(#[$switch_doc])+ pub $switch: bool,)+
        }

        impl Default for Extensions {
            fn default() -> Self {
                Self { $($switch: $default,)+ }
            }
        }

        impl Extensions {
            /// None of them.
            pub const NONE: Self = Self { $($switch: false,)+ };

            /// Whether a hart has `ext` and the extensions that it depends on.
            pub const fn has(&self, ext: Ext) -> bool {
                match ext {
                    $(Ext::$always)|+ => true,
                    $($(Ext::$ext)|+ => self.$switch $(&& self.$need)*,)+
                }
            }

            /// The switches by name, in the order of the table, and whether they are on.
            pub fn switches(&self) -> impl Iterator<Item = (&'static str, bool)> + use<> {
                [$((stringify!($switch), self.$switch),)+].into_iter()
            }

            /// The switch with this name.
            pub fn switch(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($switch) => Some(&mut self.$switch),)+
                    _ => None,
                }
            }

            /// The switch for a name in an ISA string, in lower case.
            pub fn named(&mut self, name: &str) -> Option<&mut bool> {
                $(if [$($name,)+ $($also,)*].contains(&name) {
                    return Some(&mut self.$switch);
                })+
                None
            }
        }
    };
}

extensions! {
    always {
        /// Base integer instructions, hints, and the privileged instructions of every hart.
        I "i" EVERY;
        /// Multiplication and division.
        M "m" EVERY;
        /// Atomics.
        A "a" EVERY;
        /// Base counters and timers.
        Zicntr "zicntr" EVERY;
        /// CSR instructions.
        Zicsr "zicsr" EVERY;
        /// `fence.i`.
        Zifencei "zifencei" EVERY;
        /// Hardware performance counters.
        Zihpm "zihpm" EVERY;
        /// A clear A or needed D bit faults.
        Svade "svade" NEWER;
    }

    // A switch and its default, switches it depends on, other names in ISA strings; and its
    // extensions with their names.

    /// Hypervisor.
    h = true, needs [], also [] {
        /// Hypervisor.
        H "h", EVERY;
    }
    /// Single- and double-precision floating point.
    fd = true, needs [], also [] {
        /// Single-precision floating point.
        F "f", EVERY;
        /// Double-precision floating point.
        D "d", EVERY;
    }
    /// Compressed instructions.
    c = true, needs [], also ["zca", "zcd"] {
        /// Compressed instructions.
        C "c", EVERY;
    }
    /// Zba, Zbb, Zbs.
    b = true, needs [], also ["b"] {
        /// Address generation.
        Zba "zba", EVERY;
        /// Basic bit manipulation.
        Zbb "zbb", EVERY;
        /// Single-bit instructions.
        Zbs "zbs", EVERY;
    }
    /// Zicbom, Zicbop, Zicboz.
    zicbo = true, needs [], also [] {
        /// Cache-block management.
        Zicbom "zicbom", NEWER;
        /// Cache-block prefetch.
        Zicbop "zicbop", NEWER;
        /// Cache-block zero.
        Zicboz "zicboz", NEWER;
    }
    /// Zicond.
    zicond = true, needs [], also [] {
        /// Integer conditional operations.
        Zicond "zicond", NEWER;
    }
    /// Zawrs.
    zawrs = true, needs [], also [] {
        /// Wait on reservation set.
        Zawrs "zawrs", NEWER;
    }
    /// Svinval.
    svinval = true, needs [], also [] {
        /// Fine-grained address-translation cache invalidation. Of its instructions, the `hinval`
        /// ones need H as well.
        Svinval "svinval", EVERY;
    }
    /// Svpbmt.
    svpbmt = true, needs [], also [] {
        /// Page-based memory types.
        Svpbmt "svpbmt", EVERY;
    }
    /// Svnapot.
    svnapot = true, needs [], also [] {
        /// Naturally aligned power-of-two translation contiguity.
        Svnapot "svnapot", EVERY;
    }
    /// Hardware A/D updating can be enabled through `menvcfg.ADUE`. Without it, and while ADUE is
    /// clear, a clear A or needed D bit faults (Svade).
    svadu = true, needs [], also [] {
        /// Hardware A/D updating.
        Svadu "svadu", NEWER;
    }
    /// Supervisor timer comparators.
    sstc = true, needs [], also [] {
        /// Supervisor timer comparators.
        Sstc "sstc", EVERY;
    }
    /// Smstateen and Ssstateen.
    smstateen = true, needs [], also [] {
        /// State enable.
        Smstateen "smstateen", NEWER;
        /// State enable, as supervisors see it: a part of Smstateen.
        Ssstateen "ssstateen", NONE;
    }
    // Extensions of this project are not mentioned in the ledgers of machines without them.
    /// User-level exception redirection: needs H.
    #[serde(skip_serializing_if = "is_off")]
    xuer = false, needs [h], also ["xuer"] {
        /// User-level exception redirection: `uret`.
        Xuer isa::XTRAPLESSUER, NONE;
    }
    /// Virtual events: needs H.
    #[serde(skip_serializing_if = "is_off")]
    xvei = false, needs [h], also ["xvei"] {
        /// Virtual events.
        Xvei isa::XTRAPLESSVEI, NONE;
    }
    /// User contexts: needs Xuer and Xvei.
    #[serde(skip_serializing_if = "is_off")]
    xhcs = false, needs [h, xuer, xvei], also ["xhcs"] {
        /// User contexts.
        Xhcs isa::XTRAPLESSHCS, NONE;
    }
}

fn is_off(switch: &bool) -> bool {
    !switch
}

impl Extensions {
    /// Names of the extensions that a hart has, in the order of ISA strings.
    pub fn names(&self) -> Vec<&'static str> {
        let present = Ext::ALL.iter().copied().filter(|ext| self.has(*ext));
        let mut names: Vec<_> = present.map(Ext::name).collect();
        names.sort_by_key(|name| canonical(name));
        names
    }
}

/// Single-letter extensions in the order of ISA strings.
pub const LETTERS: &str = "imafdqlcbkjtpvnh";

/// The ISA string of the older `riscv,isa` property, of names in its order.
///
/// ```
/// use trapless_isa::extension::isa_string;
///
/// assert_eq!(isa_string(["i", "m", "a", "zicsr", "sstc"]), "rv64ima_zicsr_sstc");
/// ```
pub fn isa_string<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut isa = String::from("rv64");
    for name in names {
        if name.len() > 1 {
            isa.push('_');
        }
        isa.push_str(name);
    }
    isa
}

/// Sorts names of extensions in lower case as ISA strings have them (unprivileged specification,
/// chapter "ISA Extension Naming Conventions"): letters; then Z, by the letter it is closest to;
/// then S; each alphabetically. Extensions of vendors stay in their order at the end.
pub fn canonical(name: &str) -> (usize, &str) {
    let place = |letter: Option<char>| {
        letter
            .and_then(|l| LETTERS.find(l))
            .unwrap_or(LETTERS.len())
    };
    let mut letters = name.chars();
    match letters.next() {
        first if name.len() == 1 => (place(first), ""),
        Some('z') => (100 + place(letters.next()), name),
        Some('s') => (200, name),
        _ => (300, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_manual() {
        let names = Extensions::default().names().join(" ");
        assert_eq!(
            names,
            "i m a f d c h zicbom zicbop zicboz zicntr zicond zicsr zifencei zihpm zawrs zba zbb \
             zbs smstateen ssstateen sstc svade svadu svinval svnapot svpbmt"
        );
    }

    #[test]
    fn an_extension_needs_what_its_switch_needs() {
        let mut extensions = Extensions::default();
        for name in ["xuer", isa::XTRAPLESSVEI, "xhcs"] {
            *extensions.named(name).unwrap() = true;
        }
        assert!(extensions.has(Ext::Xhcs) && extensions.has(Ext::Xvei));
        extensions.xuer = false;
        assert!(!extensions.has(Ext::Xhcs) && extensions.has(Ext::Xvei));
        extensions.h = false;
        assert!(!extensions.has(Ext::Xvei));
        assert_eq!(
            Extensions::NONE.names().join(""),
            "imazicntrzicsrzifenceizihpmsvade"
        );
    }
}
