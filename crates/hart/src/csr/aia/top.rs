//! The highest-priority interrupt at a privilege level (sections "Machine top interrupt CSR",
//! "Supervisor top interrupt CSR", "Virtual supervisor top interrupt CSR").

use trapless_isa::cause::interrupt::{MEI, SEI, STI, VSEI};
use trapless_isa::csr::hvictl;
use trapless_isa::port::{CsrOp, FileAccess, FileId, FileRegister};
use trapless_isa::{Mode, Priv};

use crate::csr::interrupts::VS_BITS;
use crate::csr::priority::{RAW, first, position};
use crate::hart::Hart;
use crate::platform::Platform;

/// Rank of interrupts with priority number 0 and a default priority above external interrupts.
const HIGHEST: u16 = 0;
/// Rank of external interrupts without a number.
const UNNUMBERED: u16 = 256;
/// Rank of interrupts with priority number 0 and a default priority below external interrupts.
const LOWEST: u16 = 257;

/// A candidate: its rank is its priority number, or one of the constants above.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u16,
    /// Place in the default order.
    order: usize,
    identity: u64,
}

impl Candidate {
    /// IID and IPRIO in the format of `xtopi`.
    fn shown(self) -> u64 {
        self.identity << 16 | u64::from(self.rank.min(255))
    }
}

impl Hart {
    /// Candidates of M-mode: pending, enabled, not delegated.
    fn machine_candidates(&self) -> u64 {
        self.state.interrupts.mip & self.state.interrupts.mie & !self.mideleg()
    }

    /// Candidates of HS-mode.
    fn supervisor_candidates(&self) -> u64 {
        let taken = self.mideleg() & !self.csr.hideleg & !self.withheld();
        self.state.interrupts.mip & self.state.interrupts.mie & taken
            | self.sip_aia() & self.sie_aia()
    }

    /// Whether VS-mode has a candidate.
    fn guest_candidates(&self) -> bool {
        let delegated = self.state.interrupts.mip & self.state.interrupts.mie & self.csr.hideleg;
        match self.injected() {
            Some(_) => true,
            None if self.csr.aia.hvictl & hvictl::VTI != 0 => delegated >> VSEI & 1 != 0,
            None => delegated | self.vsip_aia() & self.vsie_aia() != 0,
        }
    }

    /// [`Hart::pending_interrupt`] of a hart with AIA: the mode that takes an interrupt.
    /// [`aia_choice`](Self::aia_choice) determines which one.
    pub(crate) fn aia_pending(&self) -> Option<Mode> {
        let c = &self.csr;
        let mie = c.mstatus & trapless_isa::csr::status::MIE != 0;
        let sie = |status: u64| status & trapless_isa::csr::status::SIE != 0;
        if self.machine_candidates() != 0 && (self.mode != Mode::M || mie) {
            return Some(Mode::M);
        }
        if self.mode == Mode::M {
            return None;
        }
        if self.supervisor_candidates() != 0 && (self.mode != Mode::HS || sie(c.mstatus)) {
            return Some(Mode::HS);
        }
        let open = match self.mode.privilege() {
            Priv::U => true,
            _ => sie(c.vsstatus),
        };
        (self.mode.v() && open && self.guest_candidates()).then_some(Mode::VS)
    }

    /// The interrupt to take to `to`, whose candidates are not empty. Those of VS-mode are marked
    /// as its own numbers.
    pub(crate) fn aia_choice(&self, to: Mode, plat: &mut dyn Platform) -> u64 {
        let plain = |level: usize, candidates: u64| {
            first(candidates).filter(|_| !self.csr.aia.prioritised[level])
        };
        match to {
            Mode::M => {
                plain(0, self.machine_candidates()).unwrap_or_else(|| self.top_m(plat) >> 16)
            }
            Mode::VS => RAW | self.top_vs(plat) >> 16,
            _ => plain(1, self.supervisor_candidates()).unwrap_or_else(|| self.top_s(plat) >> 16),
        }
    }

    /// `mtopi`.
    pub(in crate::csr) fn top_m(&self, plat: &mut dyn Platform) -> u64 {
        self.top(0, self.machine_candidates(), plat)
    }

    /// `stopi`.
    pub(in crate::csr) fn top_s(&self, plat: &mut dyn Platform) -> u64 {
        self.top(1, self.supervisor_candidates(), plat)
    }

    fn top(&self, level: usize, candidates: u64, plat: &mut dyn Platform) -> u64 {
        let (external, file) = match level {
            0 => (MEI, FileId::Machine),
            _ => (SEI, FileId::Supervisor),
        };
        let mut best: Option<Candidate> = None;
        let mut rest = candidates;
        while rest != 0 {
            let identity = u64::from(rest.trailing_zeros());
            rest &= rest - 1;
            let number = self.csr.aia.priorities[level][identity as usize];
            let order = position(identity);
            let rank = match number {
                _ if identity == external => match self.inputs.lines().level >> external & 1 {
                    0 => UNNUMBERED,
                    _ => self.external_rank(file, plat),
                },
                0 if order < position(external) => HIGHEST,
                0 => LOWEST,
                number => number.into(),
            };
            let candidate = Candidate {
                rank,
                order,
                identity,
            };
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        }
        best.map_or(0, Candidate::shown)
    }

    /// Rank of the external interrupt of a file: the identity of its top interrupt.
    fn external_rank(&self, file: FileId, plat: &mut dyn Platform) -> u16 {
        let access = FileAccess {
            hart: self.id,
            mode: self.mode,
            now: self.state.cycles,
            file,
            register: FileRegister::Top,
            op: CsrOp::Read,
        };
        match plat.interrupt_file(&access) {
            Ok(0) | Err(_) => UNNUMBERED,
            Ok(top) => (top as u16 & 0x7FF).min(UNNUMBERED),
        }
    }

    /// `vstopi`.
    pub(in crate::csr) fn top_vs(&self, plat: &mut dyn Platform) -> u64 {
        let c = &self.csr;
        let control = c.aia.hvictl;
        let delegated =
            (self.state.interrupts.mip & self.state.interrupts.mie & c.hideleg & VS_BITS) >> 1;
        let external = (delegated >> SEI & 1 != 0).then(|| {
            let vgein = c.hstatus & trapless_isa::csr::hstatus::VGEIN;
            let number = (control & hvictl::IPRIO) as u16;
            let rank = match self.guest_file() {
                Some(file) => self.external_rank(FileId::Guest(file), plat),
                None if vgein == 0 && (control & hvictl::IID) >> 16 == SEI && number != 0 => number,
                None => UNNUMBERED,
            };
            Candidate {
                rank,
                order: 1,
                identity: SEI,
            }
        });
        let other = match self.injected() {
            Some(identity) => {
                let lower = control & hvictl::DPR != 0;
                let rank = match (control & hvictl::IPRIO) as u16 {
                    0 if lower => LOWEST,
                    0 => HIGHEST,
                    number => number,
                };
                Some(Candidate {
                    rank,
                    order: 2 * usize::from(lower),
                    identity,
                })
            }
            None if control & hvictl::VTI != 0 => None,
            None => {
                let mut rest = delegated & !(1 << SEI) | self.vsip_aia() & self.vsie_aia();
                let mut best: Option<Candidate> = None;
                while rest != 0 {
                    let identity = u64::from(rest.trailing_zeros());
                    rest &= rest - 1;
                    let candidate = Candidate {
                        rank: match self.guest_priority(identity) {
                            0 => LOWEST,
                            number => number.into(),
                        },
                        // All come after external interrupts.
                        order: 2 + position(identity),
                        identity,
                    };
                    best = Some(best.map_or(candidate, |best| best.min(candidate)));
                }
                best
            }
        };
        let Some(best) = external.into_iter().chain(other).min() else {
            return 0;
        };
        if control & hvictl::IPRIOM == 0 {
            best.identity << 16 | 1
        } else {
            best.shown()
        }
    }

    /// Priority number of a VS-level interrupt in `hviprio1` and `hviprio2`.
    fn guest_priority(&self, identity: u64) -> u8 {
        let [low, high] = self.csr.aia.hviprio;
        let (word, byte) = match identity {
            1 => (low, 1),
            STI => (low, 3),
            13..=15 => (low, identity - 8),
            16..=23 => (high, identity - 16),
            _ => return 0,
        };
        (word >> (8 * byte)) as u8
    }
}
