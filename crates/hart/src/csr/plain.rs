//! CSRs that compiled code accesses itself: [`read`](super::read) and [`write`](super::write) have
//! no side effects on them, and [`check`](super::check) depends on nothing but the mode and
//! [`Hart::plain_csrs_open`].

use std::mem::offset_of;

use trapless_isa::csr::{self, envcfg, stateen0};
use trapless_jit::{CsrPlace, CsrWrite, PlainCsr};

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
    let bank = |number, offset, write| {
        let place = CsrPlace::Bank(offset);
        (number, PlainCsr { place, write })
    };
    let host = |number, offset, write| {
        let place = CsrPlace::Host(offset);
        (number, PlainCsr { place, write })
    };
    let mut table = vec![
        bank(csr::SSCRATCH, offset_of!(Bank, scratch), ALL),
        bank(csr::SEPC, offset_of!(Bank, epc), PC),
        bank(csr::SCAUSE, offset_of!(Bank, cause), ALL),
        bank(csr::STVAL, offset_of!(Bank, tval), ALL),
        bank(csr::STVEC, offset_of!(Bank, tvec), VECTOR),
    ];
    if !extensions.h {
        return table;
    }
    table.extend([
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
        e.h && (!e.smstateen || c.mstateen[0] & needed == needed)
            && (!e.sstc || c.menvcfg & envcfg::STCE != 0 && c.mcounteren & 2 != 0)
    }
}
