//! Address translation (privileged specification, sections 12.3 ff. and 18.5): S-stage, VS-stage and
//! G-stage walks, A/D updates, and the syndromes of their faults.

use trapless_isa::csr::{envcfg, status};
use trapless_isa::{Mode, Priv, cause::exception};

use crate::pmp::Verdict;
use crate::state::HpmEvent;
use crate::tlb::{Access, Key, Mapping};
use crate::{Activity, Fault, Hart, Syndrome};

const PTE_V: u64 = 1 << 0;
const PTE_R: u64 = 1 << 1;
const PTE_W: u64 = 1 << 2;
const PTE_X: u64 = 1 << 3;
const PTE_U: u64 = 1 << 4;
const PTE_A: u64 = 1 << 6;
const PTE_D: u64 = 1 << 7;
const PTE_PBMT: u64 = 3 << 61;
const PTE_N: u64 = 1 << 63;
/// Bits 60:54, reserved for standard extensions.
const PTE_RESERVED: u64 = 0x7F << 54;

/// `htinst` pseudoinstructions for implicit accesses of VS-stage walks (H extension, "Transformed
/// Instruction or Pseudoinstruction for mtinst or htinst"), RV64.
const PSEUDO_READ: u64 = 0x3000;
const PSEUDO_WRITE: u64 = 0x3020;

/// How an explicit access is made: mode and flags that may differ from the hart's current ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effective {
    /// Effective mode.
    pub mode: Mode,
    /// `hlvx`: execute permission stands in for read permission.
    pub hlvx: bool,
    /// Array of the TLB context.
    pub array: usize,
}

/// Result of one stage for one address.
#[derive(Clone, Copy)]
struct Leaf {
    addr: u64,
    /// Bytes the mapping covers.
    span: u64,
    /// Read, write, execute permitted without changing the PTE.
    rwx: [bool; 3],
}

/// Why a walk failed, before it is turned into a cause.
enum WalkError {
    /// Invalid, not permitted, malformed.
    Page,
    /// A page-table entry could not be reached.
    AccessFault,
    /// The G-stage refused an implicit access to this guest physical address.
    Implicit { gpa: u64, write: bool },
}

/// One walk's rules.
struct Stage {
    root: u64,
    levels: u32,
    /// Extra index bits at the root (2 for x4 forms).
    wide: u32,
    privilege: Priv,
    sum: bool,
    mxr: bool,
    hardware_ad: bool,
    pbmt: bool,
    /// Page-table addresses are guest physical.
    nested: bool,
    hlvx: bool,
}

fn levels(atp: u64) -> u32 {
    match atp >> 60 {
        8 => 3,
        9 => 4,
        10 => 5,
        _ => 0,
    }
}

const fn pick(access: Access, table: [u64; 3]) -> u64 {
    table[access as usize]
}

const PAGE_FAULT: [u64; 3] = [
    exception::LOAD_PAGE,
    exception::STORE_PAGE,
    exception::FETCH_PAGE,
];
const GUEST_PAGE_FAULT: [u64; 3] = [
    exception::LOAD_GUEST_PAGE,
    exception::STORE_GUEST_PAGE,
    exception::FETCH_GUEST_PAGE,
];
const ACCESS_FAULT: [u64; 3] = [
    exception::LOAD_ACCESS,
    exception::STORE_ACCESS,
    exception::FETCH_ACCESS,
];

impl Hart {
    /// Identity of the TLB context of `mode`.
    pub(crate) fn key(&self, mode: Mode) -> Key {
        let c = &self.csr;
        let adue_pbmt = |env: u64| (env >> 61 & 3) as u32;
        let bit = |v: u64, mask: u64, to: u32| u32::from(v & mask != 0) << to;
        // It means something in HS- and VS-mode only.
        let sum = if mode.privilege() == Priv::S {
            status::SUM
        } else {
            0
        };
        match mode {
            Mode::M => Key {
                flags: 0,
                satp: 0,
                hgatp: 0,
                mode,
            },
            Mode::HS | Mode::U => Key {
                flags: bit(c.mstatus & sum, status::SUM, 0)
                    | bit(c.mstatus, status::MXR, 1)
                    | adue_pbmt(c.menvcfg) << 4,
                satp: c.s[0].atp,
                hgatp: 0,
                mode,
            },
            Mode::VS | Mode::VU => Key {
                flags: bit(c.vsstatus & sum, status::SUM, 0)
                    | bit(c.vsstatus, status::MXR, 1)
                    | bit(c.mstatus, status::MXR, 2)
                    | adue_pbmt(c.menvcfg) << 4
                    | adue_pbmt(c.henvcfg) << 6,
                satp: c.s[1].atp,
                hgatp: c.hgatp,
                mode,
            },
        }
    }

    /// Mode of explicit loads and stores: the current one unless MPRV says otherwise.
    pub(crate) fn data_mode(&self) -> Mode {
        let s = self.csr.mstatus;
        if s & status::MPRV != 0 && self.mode == Mode::M {
            Mode::new(Priv::from_bits(s >> 11), s & status::MPV != 0)
        } else {
            self.mode
        }
    }

    /// Selects the TLB contexts after anything that [`Self::key`] looks at has changed.
    pub(crate) fn select_contexts(&mut self) {
        let own = self.key(self.mode);
        let data_mode = self.data_mode();
        if data_mode == self.mode {
            self.tlb.select(&own.for_fetches(), &own);
        } else {
            let data = self.key(data_mode);
            self.tlb.select(&own.for_fetches(), &data);
        }
        self.data_mode = data_mode;
    }

    /// Translates `va` for one access of `len` bytes inside a page and fills the TLB if it is RAM.
    ///
    /// Errors leave the syndrome in [`Hart::syndrome`].
    #[cold]
    pub(crate) fn translate(
        &mut self,
        va: u64,
        len: u64,
        access: Access,
        eff: &Effective,
    ) -> Result<u64, Fault> {
        self.counts.miss(access);
        let before = self.meter.enter(Activity::Walk);
        let result = self.translate_page(va, len, access, eff);
        self.meter.leave(before);
        result
    }

    fn translate_page(
        &mut self,
        va: u64,
        len: u64,
        access: Access,
        eff: &Effective,
    ) -> Result<u64, Fault> {
        let before = self.state.cycles;
        if access != Access::Exec {
            self.csr.events[HpmEvent::TlbMiss as usize] += 1;
        }
        let virt = eff.mode.v();
        let leaf = if virt {
            self.two_stage(va, access, eff)
        } else {
            self.one_stage(va, access, eff)
        };
        if access == Access::Exec {
            // How often an engine walks for fetches is not visible in virtual time.
            self.state.cycles = before;
        }
        let leaf = leaf?;
        let pa = leaf.addr;
        let machine = eff.mode == Mode::M;
        let verdict = self.csr.pmp.check(pa & !0xFFF, 4096, machine);
        let pmp_rwx = match verdict {
            Verdict::Uniform(rwx) => rwx,
            Verdict::Mixed => {
                let mut rwx = [false; 3];
                for a in [Access::Read, Access::Write, Access::Exec] {
                    rwx[a as usize] = self.csr.pmp.permits(pa, len, machine, a);
                }
                rwx
            }
        };
        if self.probing {
            return Ok(pa);
        }
        if !pmp_rwx[access as usize] {
            return self.fault(pick(access, ACCESS_FAULT), va, virt);
        }
        if !eff.hlvx && verdict != Verdict::Mixed && self.ram.contains(pa & !0xFFF, 4096) {
            let both = |i: usize| leaf.rwx[i] && pmp_rwx[i];
            let host = self.ram.host(pa);
            let write = both(1) && access != Access::Exec;
            let page = self.ram.page_of(host);
            let noted = write && !self.ram.code_pages().writable(page);
            if access == Access::Write {
                self.ram.will_write(page);
            }
            let mapping = Mapping {
                host,
                page,
                permitted: [both(0), both(1), both(2)],
                noted,
                span: leaf.span,
                table: match access {
                    Access::Exec => self.native.table(page),
                    _ => 0,
                },
            };
            self.tlb.insert(eff.array, va, access, &mapping);
        }
        Ok(pa)
    }

    fn one_stage(&mut self, va: u64, access: Access, eff: &Effective) -> Result<Leaf, Fault> {
        let atp = self.csr.s[0].atp;
        if eff.mode == Mode::M || levels(atp) == 0 {
            return self.bare(va, access, false);
        }
        let stage = Stage {
            root: (atp & ((1 << 44) - 1)) << 12,
            levels: levels(atp),
            wide: 0,
            privilege: eff.mode.privilege(),
            sum: self.csr.mstatus & status::SUM != 0,
            mxr: self.csr.mstatus & status::MXR != 0,
            hardware_ad: self.csr.menvcfg & envcfg::ADUE != 0,
            pbmt: self.csr.menvcfg & envcfg::PBMTE != 0,
            nested: false,
            hlvx: false,
        };
        match self.walk(&stage, va, access) {
            Ok(leaf) => Ok(leaf),
            Err(WalkError::AccessFault) => self.fault(pick(access, ACCESS_FAULT), va, false),
            Err(_) => self.fault(pick(access, PAGE_FAULT), va, false),
        }
    }

    /// Untranslated addresses: physical addresses are 56 bits wide.
    fn bare(&mut self, va: u64, access: Access, virt: bool) -> Result<Leaf, Fault> {
        if va >> 56 != 0 {
            return self.fault(pick(access, ACCESS_FAULT), va, virt);
        }
        Ok(Leaf {
            addr: va,
            span: 4096,
            rwx: [true; 3],
        })
    }

    fn two_stage(&mut self, va: u64, access: Access, eff: &Effective) -> Result<Leaf, Fault> {
        let atp = self.csr.s[1].atp;
        let first = if levels(atp) == 0 {
            Leaf {
                addr: va,
                span: 4096,
                rwx: [true; 3],
            }
        } else {
            let stage = Stage {
                root: (atp & ((1 << 44) - 1)) << 12,
                levels: levels(atp),
                wide: 0,
                privilege: eff.mode.privilege(),
                sum: self.csr.vsstatus & status::SUM != 0,
                mxr: (self.csr.vsstatus | self.csr.mstatus) & status::MXR != 0,
                hardware_ad: self.csr.henvcfg & self.csr.menvcfg & envcfg::ADUE != 0,
                pbmt: self.csr.henvcfg & self.csr.menvcfg & envcfg::PBMTE != 0,
                nested: true,
                hlvx: eff.hlvx,
            };
            match self.walk(&stage, va, access) {
                Ok(leaf) => leaf,
                Err(WalkError::Page) => return self.fault(pick(access, PAGE_FAULT), va, true),
                Err(WalkError::AccessFault) => {
                    return self.fault(pick(access, ACCESS_FAULT), va, true);
                }
                Err(WalkError::Implicit { gpa, write }) => {
                    let tinst = if write { PSEUDO_WRITE } else { PSEUDO_READ };
                    return self.guest_fault(pick(access, GUEST_PAGE_FAULT), va, gpa, tinst);
                }
            }
        };
        let mxr = self.csr.mstatus & status::MXR != 0;
        match self.g_stage(first.addr, access, mxr, eff.hlvx) {
            Ok(second) => Ok(Leaf {
                addr: second.addr,
                span: first.span,
                rwx: std::array::from_fn(|i| first.rwx[i] && second.rwx[i]),
            }),
            Err(WalkError::AccessFault) => self.fault(pick(access, ACCESS_FAULT), va, true),
            Err(_) => self.guest_fault(pick(access, GUEST_PAGE_FAULT), va, first.addr, 0),
        }
    }

    fn g_stage(
        &mut self,
        gpa: u64,
        access: Access,
        mxr: bool,
        hlvx: bool,
    ) -> Result<Leaf, WalkError> {
        let atp = self.csr.hgatp;
        let levels = levels(atp);
        if levels == 0 {
            if gpa >> 56 != 0 {
                return Err(WalkError::AccessFault);
            }
            return Ok(Leaf {
                addr: gpa,
                span: 4096,
                rwx: [true; 3],
            });
        }
        let stage = Stage {
            root: (atp & ((1 << 44) - 1) & !3) << 12,
            levels,
            wide: 2,
            privilege: Priv::U,
            sum: false,
            mxr,
            hardware_ad: self.csr.menvcfg & envcfg::ADUE != 0,
            pbmt: self.csr.menvcfg & envcfg::PBMTE != 0,
            nested: false,
            hlvx,
        };
        self.walk(&stage, gpa, access)
    }

    /// The walk of section 12.3.2, one stage.
    fn walk(&mut self, stage: &Stage, va: u64, access: Access) -> Result<Leaf, WalkError> {
        let bits = 12 + 9 * stage.levels + stage.wide;
        let canonical = if stage.wide != 0 {
            va >> bits == 0
        } else {
            let shift = 64 - bits;
            ((va << shift) as i64 >> shift) as u64 == va
        };
        if !canonical {
            return Err(WalkError::Page);
        }
        let mut table = stage.root;
        for level in (0..stage.levels).rev() {
            let index_bits = if level + 1 == stage.levels {
                9 + stage.wide
            } else {
                9
            };
            let index = va >> (12 + 9 * level) & ((1 << index_bits) - 1);
            let pte_gpa = table + index * 8;
            let pte_addr = if stage.nested {
                self.implicit(pte_gpa, Access::Read)?
            } else {
                pte_gpa
            };
            let pte = self.read_pte(pte_addr)?;
            if pte & PTE_V == 0 || pte & (PTE_R | PTE_W) == PTE_W || pte & PTE_RESERVED != 0 {
                return Err(WalkError::Page);
            }
            let pbmt = pte & PTE_PBMT;
            if pbmt == PTE_PBMT || (pbmt != 0 && !stage.pbmt) {
                return Err(WalkError::Page);
            }
            if pte & PTE_N != 0 && !self.config.extensions.svnapot {
                return Err(WalkError::Page);
            }
            let ppn = pte >> 10 & ((1 << 44) - 1);
            if pte & (PTE_R | PTE_X) == 0 {
                // Pointer to the next level: A, D, U, PBMT and N are reserved here.
                if pte & (PTE_D | PTE_A | PTE_U | PTE_N) != 0 || pbmt != 0 {
                    return Err(WalkError::Page);
                }
                table = ppn << 12;
                continue;
            }
            return self.leaf(stage, va, access, level, pte, pte_addr, pte_gpa);
        }
        Err(WalkError::Page)
    }

    #[allow(clippy::too_many_arguments)]
    fn leaf(
        &mut self,
        stage: &Stage,
        va: u64,
        access: Access,
        level: u32,
        pte: u64,
        pte_addr: u64,
        pte_gpa: u64,
    ) -> Result<Leaf, WalkError> {
        let ppn = pte >> 10 & ((1 << 44) - 1);
        let user_ok = match stage.privilege {
            Priv::U => pte & PTE_U != 0,
            // SUM never lets S-mode execute from user pages.
            _ => pte & PTE_U == 0 || (stage.sum && access != Access::Exec),
        };
        let readable = pte & PTE_R != 0 || (stage.mxr && pte & PTE_X != 0);
        let executable = pte & PTE_X != 0 && (stage.privilege == Priv::U || pte & PTE_U == 0);
        let rwx = [readable, pte & PTE_W != 0, executable];
        let permitted = if stage.hlvx {
            pte & PTE_X != 0
        } else {
            rwx[access as usize]
        };
        if !self.probing && (!user_ok || !permitted) {
            return Err(WalkError::Page);
        }
        let mut span = 4096u64 << (9 * level);
        let mut base = ppn << 12;
        if pte & PTE_N != 0 {
            // Svnapot: only 64 KiB is defined.
            if level != 0 || ppn & 0xF != 8 {
                return Err(WalkError::Page);
            }
            span = 0x1_0000;
            base &= !(span - 1);
        } else if base & (span - 1) != 0 {
            return Err(WalkError::Page);
        }
        let mut dirty = pte & PTE_D != 0;
        let needed = PTE_A | if access == Access::Write { PTE_D } else { 0 };
        if pte & needed != needed && !self.probing {
            if !stage.hardware_ad {
                return Err(WalkError::Page);
            }
            let target = if stage.nested {
                self.implicit(pte_gpa, Access::Write)?
            } else {
                pte_addr
            };
            self.write_pte(target, pte | needed)?;
            dirty |= access == Access::Write;
        }
        Ok(Leaf {
            addr: base | (va & (span - 1)),
            span,
            rwx: [rwx[0], rwx[1] && dirty, rwx[2]],
        })
    }

    /// Guest physical address of a VS-stage PTE -> physical address.
    fn implicit(&mut self, gpa: u64, access: Access) -> Result<u64, WalkError> {
        // MXR is about explicit loads only.
        match self.g_stage(gpa, access, false, false) {
            Ok(leaf) => Ok(leaf.addr),
            Err(WalkError::AccessFault) => Err(WalkError::AccessFault),
            Err(_) => Err(WalkError::Implicit {
                gpa,
                write: access == Access::Write,
            }),
        }
    }

    fn read_pte(&mut self, addr: u64) -> Result<u64, WalkError> {
        self.state.cycles += u64::from(self.config.cost.walk_step);
        if !self.csr.pmp.permits(addr, 8, false, Access::Read) {
            return Err(WalkError::AccessFault);
        }
        self.ram.load(addr, 8).ok_or(WalkError::AccessFault)
    }

    fn write_pte(&mut self, addr: u64, pte: u64) -> Result<(), WalkError> {
        self.state.cycles += u64::from(self.config.cost.walk_step);
        if !self.csr.pmp.permits(addr, 8, false, Access::Write) {
            return Err(WalkError::AccessFault);
        }
        self.ram.store(addr, 8, pte).ok_or(WalkError::AccessFault)
    }

    /// Records an exception with an address in `xtval` and fails.
    pub(crate) fn fault<T>(&mut self, cause: u64, tval: u64, gva: bool) -> Result<T, Fault> {
        self.syndrome = Syndrome {
            cause,
            tval,
            gva,
            ..Syndrome::default()
        };
        Err(Fault)
    }

    fn guest_fault<T>(&mut self, cause: u64, tval: u64, gpa: u64, tinst: u64) -> Result<T, Fault> {
        self.syndrome = Syndrome {
            cause,
            tval,
            gva: true,
            gpa,
            tinst,
            insn: 0,
        };
        Err(Fault)
    }
}
