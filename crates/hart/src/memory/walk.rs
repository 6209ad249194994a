//! Page-table walks of the S-stage, VS-stage and G-stage, and A/D updates (privileged
//! specification, "Virtual Address Translation Process" and "Two-Stage Address Translation").

use trapless_isa::csr::{envcfg, status};
use trapless_isa::haiov::{leaf, limits};
use trapless_isa::page::{PAGE_SHIFT, PAGE_SIZE, PPN};
use trapless_isa::{Extensions, Mode, Priv};

use super::address::Access;
use super::ram::Ram;
use crate::csr::registers::Csrs;

const PTE_V: u64 = 1 << 0;
pub(super) const PTE_R: u64 = 1 << 1;
const PTE_W: u64 = 1 << 2;
pub(super) const PTE_X: u64 = 1 << 3;
const PTE_U: u64 = 1 << 4;
const PTE_A: u64 = 1 << 6;
const PTE_D: u64 = 1 << 7;
const PTE_PBMT: u64 = 3 << 61;
pub(super) const PTE_N: u64 = 1 << 63;
/// Bits 60:54, reserved for standard extensions.
pub(super) const PTE_RESERVED: u64 = 0x7F << 54;
/// Type of a G-stage leaf: 0 memory, 1 MMIO (Xuer), 2 doorbell (Xvei); 3 is reserved.
pub(super) const PTE_TYPE: u64 = 3 << limits::LEAF_TYPE_SHIFT;
/// Reserved in a pointer to the next table.
pub(super) const NOT_IN_POINTERS: u64 = PTE_D | PTE_A | PTE_U | PTE_N | PTE_TYPE | PTE_PBMT;
const PTE_TYPE_MMIO: u64 = leaf::MMIO << limits::LEAF_TYPE_SHIFT;
pub(super) const PTE_TYPE_DOORBELL: u64 = leaf::DOORBELL << limits::LEAF_TYPE_SHIFT;

/// Bit of a PTE at which its physical page number begins.
const PTE_PPN_SHIFT: u32 = 10;

/// Physical page number in a PTE.
fn ppn(pte: u64) -> u64 {
    pte >> PTE_PPN_SHIFT & PPN
}

/// Physical address of the page or table to which a PTE points.
pub(super) fn target(pte: u64) -> u64 {
    ppn(pte) << PAGE_SHIFT
}

/// `htinst` pseudoinstructions for implicit accesses of VS-stage walks (H extension, "Transformed
/// Instruction or Pseudoinstruction for mtinst or htinst"), RV64.
const PSEUDO_READ: u64 = 0x3000;
const PSEUDO_WRITE: u64 = 0x3020;

/// An access to translate.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// Virtual address.
    pub va: u64,
    /// Kind of access.
    pub access: Access,
    /// Effective mode.
    pub mode: Mode,
    /// `hlvx`: execute permission stands in for read permission.
    pub hlvx: bool,
}

/// Why an address does not translate.
pub(super) enum Refused {
    /// Page fault.
    Page,
    /// Access fault.
    Access,
    /// Guest-page fault at this guest physical address; `tinst` is the pseudoinstruction of an
    /// implicit access, else 0.
    Guest { gpa: u64, tinst: u64 },
    /// As [`Guest`](Self::Guest), by an explicit access that an MMIO leaf permits (Xuer).
    Mmio { gpa: u64 },
    /// As [`Guest`](Self::Guest), by an explicit access that the leaf of a doorbell page permits
    /// (Xvei); `page` is its physical address.
    Doorbell { gpa: u64, page: u64 },
}

/// Result of one stage for one address.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    /// Physical address.
    pub addr: u64,
    /// Bytes the mapping covers.
    pub span: u64,
    /// Read, write, execute permitted without changing the PTE.
    pub rwx: [bool; 3],
}

/// Why a walk of one stage failed.
enum WalkError {
    /// Invalid, not permitted, malformed.
    Page,
    /// A page-table entry could not be reached.
    AccessFault,
    /// The G-stage refused an implicit access to this guest physical address.
    Implicit { gpa: u64, write: bool },
    /// An MMIO leaf that permits the access.
    Mmio,
    /// The leaf of the doorbell page at this physical address, which permits the access.
    Doorbell(u64),
}

/// Parameters of the walk of one stage.
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
    /// Types that leaves may have; bit n stands for type n.
    types: u8,
    hlvx: bool,
}

/// Levels of page tables that `satp`, `vsatp` or `hgatp` names; 0 if there are none.
pub(super) fn levels(atp: u64) -> u32 {
    match atp >> 60 {
        8 => 3,
        9 => 4,
        10 => 5,
        _ => 0,
    }
}

/// A leaf PTE, and where it was found.
struct Found {
    level: u32,
    pte: u64,
    pte_addr: u64,
    /// The same as guest physical address, if the walk is nested.
    pte_gpa: u64,
}

/// Walks page tables for one access.
pub(super) struct Walker<'a> {
    csr: &'a Csrs,
    ram: &'a Ram,
    svnapot: bool,
    /// Types of G-stage leaves; none on harts with neither Xuer nor Xvei.
    types: u8,
    /// A debugger translates: permissions are not checked, and no A/D bit is written.
    probing: bool,
    /// PTEs read and written.
    pub steps: u64,
}

impl<'a> Walker<'a> {
    /// For a hart with these CSRs.
    pub fn new(csr: &'a Csrs, ram: &'a Ram, extensions: &Extensions, probing: bool) -> Self {
        Self {
            csr,
            ram,
            svnapot: extensions.svnapot,
            types: u8::from(extensions.xuer) << leaf::MMIO
                | u8::from(extensions.xvei) << leaf::DOORBELL,
            probing,
            steps: 0,
        }
    }

    /// Translates by as many stages as the mode has.
    pub fn translate(&mut self, request: &Request) -> Result<Leaf, Refused> {
        if request.mode.v() {
            self.two_stages(request)
        } else {
            self.one_stage(request)
        }
    }

    fn one_stage(&mut self, request: &Request) -> Result<Leaf, Refused> {
        let atp = self.csr.hs.atp;
        if request.mode == Mode::M || levels(atp) == 0 {
            return bare(request.va).ok_or(Refused::Access);
        }
        let stage = Stage {
            root: (atp & PPN) << PAGE_SHIFT,
            levels: levels(atp),
            wide: 0,
            privilege: request.mode.privilege(),
            sum: self.csr.mstatus & status::SUM != 0,
            mxr: self.csr.mstatus & status::MXR != 0,
            hardware_ad: self.csr.menvcfg & envcfg::ADUE != 0,
            pbmt: self.csr.menvcfg & envcfg::PBMTE != 0,
            nested: false,
            types: 0,
            hlvx: false,
        };
        let found = self.walk(&stage, request.va, request.access);
        found.map_err(|error| match error {
            WalkError::AccessFault => Refused::Access,
            _ => Refused::Page,
        })
    }

    fn vs_stage(&mut self, request: &Request) -> Result<Leaf, Refused> {
        let atp = self.csr.vs.atp;
        if levels(atp) == 0 {
            return Ok(identity(request.va));
        }
        let stage = Stage {
            root: (atp & PPN) << PAGE_SHIFT,
            levels: levels(atp),
            wide: 0,
            privilege: request.mode.privilege(),
            sum: self.csr.vsstatus & status::SUM != 0,
            mxr: (self.csr.vsstatus | self.csr.mstatus) & status::MXR != 0,
            hardware_ad: self.csr.henvcfg & self.csr.menvcfg & envcfg::ADUE != 0,
            pbmt: self.csr.henvcfg & self.csr.menvcfg & envcfg::PBMTE != 0,
            nested: true,
            types: 0,
            hlvx: request.hlvx,
        };
        let found = self.walk(&stage, request.va, request.access);
        found.map_err(|error| match error {
            // Only leaves of the G-stage have a type.
            WalkError::Page | WalkError::Mmio | WalkError::Doorbell(_) => Refused::Page,
            WalkError::AccessFault => Refused::Access,
            WalkError::Implicit { gpa, write } => Refused::Guest {
                gpa,
                tinst: if write { PSEUDO_WRITE } else { PSEUDO_READ },
            },
        })
    }

    fn two_stages(&mut self, request: &Request) -> Result<Leaf, Refused> {
        let first = self.vs_stage(request)?;
        let mxr = self.csr.mstatus & status::MXR != 0;
        match self.g_stage(first.addr, request.access, mxr, request.hlvx) {
            Ok(second) => Ok(Leaf {
                addr: second.addr,
                span: first.span,
                rwx: std::array::from_fn(|i| first.rwx[i] && second.rwx[i]),
            }),
            Err(WalkError::AccessFault) => Err(Refused::Access),
            Err(WalkError::Mmio) => Err(Refused::Mmio { gpa: first.addr }),
            Err(WalkError::Doorbell(page)) => Err(Refused::Doorbell {
                gpa: first.addr,
                page,
            }),
            Err(_) => Err(Refused::Guest {
                gpa: first.addr,
                tinst: 0,
            }),
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
            return bare(gpa).ok_or(WalkError::AccessFault);
        }
        let stage = Stage {
            root: (atp & PPN & !3) << PAGE_SHIFT,
            levels,
            wide: 2,
            privilege: Priv::U,
            sum: false,
            mxr,
            hardware_ad: self.csr.menvcfg & envcfg::ADUE != 0,
            pbmt: self.csr.menvcfg & envcfg::PBMTE != 0,
            nested: false,
            types: self.types,
            hlvx,
        };
        self.walk(&stage, gpa, access)
    }

    /// One stage: the steps of "Virtual Address Translation Process".
    fn walk(&mut self, stage: &Stage, va: u64, access: Access) -> Result<Leaf, WalkError> {
        let bits = PAGE_SHIFT + 9 * stage.levels + stage.wide;
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
            let index = va >> (PAGE_SHIFT + 9 * level) & ((1 << index_bits) - 1);
            let pte_gpa = table + index * 8;
            let pte_addr = if stage.nested {
                self.implicit(pte_gpa, Access::Read)?
            } else {
                pte_gpa
            };
            let pte = self.read_pte(pte_addr)?;
            let reserved = if stage.types == 0 {
                PTE_RESERVED
            } else {
                PTE_RESERVED & !PTE_TYPE
            };
            if !valid(pte, reserved, stage.pbmt) {
                return Err(WalkError::Page);
            }
            if pte & PTE_N != 0 && !self.svnapot {
                return Err(WalkError::Page);
            }
            if pte & (PTE_R | PTE_X) == 0 {
                if pte & NOT_IN_POINTERS != 0 {
                    return Err(WalkError::Page);
                }
                table = target(pte);
                continue;
            }
            let found = Found {
                level,
                pte,
                pte_addr,
                pte_gpa,
            };
            return self.leaf(stage, va, access, &found);
        }
        Err(WalkError::Page)
    }

    fn leaf(
        &mut self,
        stage: &Stage,
        va: u64,
        access: Access,
        found: &Found,
    ) -> Result<Leaf, WalkError> {
        let Found { level, pte, .. } = *found;
        let ppn = ppn(pte);
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
        if pte & PTE_TYPE != 0 {
            return Err(typed(stage, level, pte, access));
        }
        let mut span = PAGE_SIZE << (9 * level);
        let mut base = ppn << PAGE_SHIFT;
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
                self.implicit(found.pte_gpa, Access::Write)?
            } else {
                found.pte_addr
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
        // MXR affects explicit loads only.
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
        self.steps += 1;
        if !self.csr.pmp.permits(addr, 8, Priv::S, Access::Read) {
            return Err(WalkError::AccessFault);
        }
        self.ram.load(addr, 8).ok_or(WalkError::AccessFault)
    }

    fn write_pte(&mut self, addr: u64, pte: u64) -> Result<(), WalkError> {
        self.steps += 1;
        if !self.csr.pmp.permits(addr, 8, Priv::S, Access::Write) {
            return Err(WalkError::AccessFault);
        }
        self.ram.store(addr, 8, pte).ok_or(WalkError::AccessFault)
    }
}

/// Whether a PTE is valid and has no `reserved` bit set; `pbmt`: Svpbmt is enabled.
pub(super) fn valid(pte: u64, reserved: u64, pbmt: bool) -> bool {
    let kind = pte & PTE_PBMT;
    pte & PTE_V != 0
        && pte & (PTE_R | PTE_W) != PTE_W
        && pte & reserved == 0
        && (kind == 0 || kind != PTE_PBMT && pbmt)
}

/// Result of an access through a leaf that is not memory.
fn typed(stage: &Stage, level: u32, pte: u64, access: Access) -> WalkError {
    let kind = (pte & PTE_TYPE) >> limits::LEAF_TYPE_SHIFT;
    if access == Access::Exec || stage.types >> kind & 1 == 0 {
        return WalkError::Page;
    }
    match pte & PTE_TYPE {
        PTE_TYPE_MMIO => WalkError::Mmio,
        PTE_TYPE_DOORBELL if level == 0 && pte & PTE_N == 0 => WalkError::Doorbell(target(pte)),
        _ => WalkError::Page,
    }
}

/// An address that is not translated.
fn identity(addr: u64) -> Leaf {
    Leaf {
        addr,
        span: PAGE_SIZE,
        rwx: [true; 3],
    }
}

/// As [`identity`], for an address that must be a valid physical address: these have 56 bits.
fn bare(addr: u64) -> Option<Leaf> {
    (addr >> 56 == 0).then(|| identity(addr))
}
