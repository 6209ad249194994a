//! CSRs that compiled code accesses itself: [`check`](super::check) depends on nothing but the mode
//! and [`Hart::plain_csrs_open`], [`read`](super::read) has no side effects, and
//! [`write`](super::write) has none for the values that are not left to it.

use std::mem::offset_of;

use trapless_isa::csr::{self, envcfg, stateen0, status};
use trapless_jit::{CsrPlace, CsrRead, CsrWrite, PlainCsr};

use super::interrupts::VS_BITS;
use super::user::hstatus_user;
use super::write::HSTATUS;
use crate::config::HartConfig;
use crate::csr::registers::Bank;
use crate::hart::Hart;

/// All bits are written.
const ALL: CsrWrite = CsrWrite::Bits {
    keep: 0,
    take: -1,
    refuse: 0,
};
/// A program counter.
const PC: CsrWrite = CsrWrite::Bits {
    keep: 0,
    take: -2,
    refuse: 0,
};
/// A trap vector: writes of reserved modes are ignored.
const VECTOR: CsrWrite = CsrWrite::Bits {
    keep: 0,
    take: -1,
    refuse: 2,
};
const _: () = assert!(
    (HSTATUS | hstatus_user(true)) >> 31 == 0,
    "fits an immediate operand"
);
/// The guest's bank.
const GUEST: usize = offset_of!(Hart, csr.vs);

/// How `hstatus` is written.
fn hstatus_write(xuer: bool) -> CsrWrite {
    let fields = (HSTATUS | hstatus_user(xuer)) as i32;
    CsrWrite::Bits {
        keep: !fields,
        take: fields,
        refuse: 0,
    }
}

/// The table, for harts that are like `config`.
pub(crate) fn plain_csrs(config: &HartConfig) -> Vec<(u16, PlainCsr)> {
    let extensions = &config.extensions;
    let stored = |number, place, write| {
        let read = CsrRead::Stored;
        (number, PlainCsr { place, read, write })
    };
    let bank = |number, offset, write| stored(number, CsrPlace::Bank(offset), write);
    let host = |number, offset, write| stored(number, CsrPlace::Host(offset), write);
    let machine = |number, offset, write| stored(number, CsrPlace::Machine(offset), write);
    // Written with many effects, but most often with the value that they have.
    let kept = |number, place, read| {
        let write = CsrWrite::Same(-1);
        (number, PlainCsr { place, read, write })
    };
    let mut table = vec![
        bank(csr::SSCRATCH, offset_of!(Bank, scratch), ALL),
        bank(csr::SEPC, offset_of!(Bank, epc), PC),
        bank(csr::SCAUSE, offset_of!(Bank, cause), ALL),
        bank(csr::STVAL, offset_of!(Bank, tval), ALL),
        bank(csr::STVEC, offset_of!(Bank, tvec), VECTOR),
        machine(csr::MSCRATCH, offset_of!(Hart, csr.mscratch), ALL),
        machine(csr::MEPC, offset_of!(Hart, csr.mepc), PC),
        machine(csr::MCAUSE, offset_of!(Hart, csr.mcause), ALL),
        machine(csr::MTVAL, offset_of!(Hart, csr.mtval), ALL),
        machine(csr::MTVEC, offset_of!(Hart, csr.mtvec), VECTOR),
        machine(csr::MHARTID, offset_of!(Hart, id), CsrWrite::Unknown),
        kept(
            csr::MSTATUS,
            CsrPlace::Machine(offset_of!(Hart, csr.mstatus)),
            CsrRead::Status,
        ),
    ];
    if !extensions.h {
        return table;
    }
    table.extend([
        machine(csr::MTVAL2, offset_of!(Hart, csr.mtval2), ALL),
        machine(csr::MTINST, offset_of!(Hart, csr.mtinst), ALL),
        kept(
            csr::VSSTATUS,
            CsrPlace::Host(offset_of!(Hart, csr.vsstatus)),
            CsrRead::Status,
        ),
        kept(
            csr::HGATP,
            CsrPlace::Host(offset_of!(Hart, csr.hgatp)),
            CsrRead::Stored,
        ),
        // Read as far as M-mode allows.
        kept(
            csr::HENVCFG,
            CsrPlace::Host(offset_of!(Hart, csr.henvcfg)),
            CsrRead::Unknown,
        ),
        host(
            csr::SCOUNTEREN,
            offset_of!(Hart, csr.scounteren),
            CsrWrite::Word,
        ),
        host(
            csr::HSTATUS,
            offset_of!(Hart, csr.hstatus),
            hstatus_write(extensions.xuer),
        ),
        host(csr::HTVAL, offset_of!(Hart, csr.htval), ALL),
        host(csr::HTINST, offset_of!(Hart, csr.htinst), ALL),
        host(
            csr::HVIP,
            offset_of!(Hart, csr.hvip),
            CsrWrite::Same(VS_BITS as i32),
        ),
        host(
            csr::HTIMEDELTA,
            offset_of!(Hart, csr.htimedelta),
            CsrWrite::Same(-1),
        ),
        host(
            csr::HEDELEG,
            offset_of!(Hart, csr.hedeleg),
            CsrWrite::Same(-1),
        ),
        host(csr::VSSCRATCH, GUEST + offset_of!(Bank, scratch), ALL),
        host(csr::VSEPC, GUEST + offset_of!(Bank, epc), PC),
        host(csr::VSCAUSE, GUEST + offset_of!(Bank, cause), ALL),
        host(csr::VSTVAL, GUEST + offset_of!(Bank, tval), ALL),
        host(csr::VSTVEC, GUEST + offset_of!(Bank, tvec), VECTOR),
        host(
            csr::VSATP,
            GUEST + offset_of!(Bank, atp),
            CsrWrite::Same(-1),
        ),
    ]);
    // CBIE = 2 is reserved: values with its higher bit are left to the helper.
    let blocks = envcfg::CBCFE | envcfg::CBZE | envcfg::CBIE;
    let (fields, refuse) = if extensions.zicbo {
        ((envcfg::FIOM | blocks) as i32, 2 << 4)
    } else {
        (envcfg::FIOM as i32, 0)
    };
    let write = CsrWrite::Bits {
        keep: !fields,
        take: fields,
        refuse,
    };
    table.push(host(csr::SENVCFG, offset_of!(Hart, csr.senvcfg), write));
    if extensions.smstateen {
        let place = CsrPlace::Host(offset_of!(Hart, csr.hstateen));
        table.push(kept(csr::HSTATEEN0, place, CsrRead::Unknown));
    }
    if extensions.smstateen && !config.has_custom_state() {
        let offset = offset_of!(Hart, csr.sstateen);
        table.push(host(csr::SSTATEEN0, offset, CsrWrite::Ignored));
    }
    if extensions.sstc {
        let offset = offset_of!(Hart, state.timer.compare) + size_of::<u64>();
        table.push(host(csr::VSTIMECMP, offset, CsrWrite::Unknown));
    }
    if config.aia.is_some() {
        // With AIA, `hstatus` selects a guest interrupt file and `hvip` has further bits, which
        // compiled code does not handle.
        table.retain(|(number, _)| !matches!(*number, csr::HSTATUS | csr::HVIP));
    }
    table
}

impl Hart {
    /// Whether M-mode permits HS-mode to access all CSRs of the table that only HS-mode has.
    #[inline]
    pub(crate) fn plain_csrs_open(&self) -> bool {
        let (e, c) = (&self.config.extensions, &self.csr);
        let needed = stateen0::SE0 | stateen0::ENVCFG;
        // TVM is about `hgatp` only, but seldom set.
        let host = e.h && c.mstatus & status::TVM == 0;
        host && (!e.smstateen || c.mstateen[0] & needed == needed)
            && (!e.sstc || c.menvcfg & envcfg::STCE != 0 && c.mcounteren & 2 != 0)
    }
}
