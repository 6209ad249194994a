//! What registers hold of a value that is written to them, and ranges that do not wrap around.

use trapless_isa::Mode;
use trapless_isa::xtrapless::{
    csr, domain, hgrant, hnqbase, htlcfg, hvtablebase, op, sgenipi, vhart,
};

use super::world::*;
use crate::{CsrFault, CsrOp};

#[test]
fn a_register_reads_back_what_the_controller_uses() {
    let mut w = World::new();
    let wide = |high: u32, low: u32| u64::MAX >> (63 - high) & u64::MAX << low;
    for (register, want) in [
        (csr::HGRANT, wide(63, 63) | wide(47, 0)),
        // Sizes become the largest there is, and the queue is aligned to its 32 KiB.
        (csr::HNQBASE, hnqbase::EN | wide(55, 15) | 12),
        (csr::HVTABLEBASE, hvtablebase::V | wide(55, 12) | 16),
        (csr::HTLCFG, VERSION | htlcfg::EN | htlcfg::ANY),
    ] {
        w.hs(0, register, u64::MAX);
        assert_eq!(w.hs_read(0, register), want, "{register:#x}");
    }
    // One page is the least that PPN can name.
    w.hs(0, csr::HNQBASE, hnqbase::EN | wide(55, 12) | 3);
    assert_eq!(w.hs_read(0, csr::HNQBASE), hnqbase::EN | wide(55, 12) | 3);
}

#[test]
fn a_grant_ends_at_the_last_source_number() {
    let mut w = World::new();
    let last = u64::from(u16::MAX);
    w.hs(
        0,
        csr::HGRANT,
        hgrant::V | 1 << hgrant::DOM_SHIFT | last << 16 | last,
    );
    let mut inject = |source| w.access(0, Mode::U, csr::UGENVSEI, CsrOp::Write(source));
    assert_eq!(inject(last), Ok(0));
    for outside in [0, 1, last - 1] {
        assert_eq!(inject(outside), Err(CsrFault::Illegal), "{outside}");
    }
}

#[test]
fn targets_of_an_ipi_end_at_the_last_number() {
    let mut w = World::new();
    w.attach(0, 1, 3);
    // Without an end, bits 1 to 4 would stand for 0 to 3.
    let value = 0xFFFF << sgenipi::BASE_SHIFT | 0b1_1111;
    w.vs(0, csr::SGENIPI, value);
    for vhart in 0..VHARTS - 1 {
        assert_eq!(w.ctl(1, vhart) & 1, 0, "{vhart}");
    }
    w.hs(0, csr::SGENIPI, value);
    assert!((0..HARTS).all(|hart| w.lines(hart).pulse == 0));
}

/// MEM-7: the sender's table says where to post, that of the hart with the slot where to look.
#[test]
fn each_hart_uses_the_domain_table_of_its_own() {
    let mut w = World::new();
    // A second table, in which vhart 0 of domain 1 has the file of vhart 1.
    let (table, vharts) = (RAM + 0x1_8000, RAM + 0x1_9000);
    for word in 0..4 {
        let value = w.ram.get(domain_entry(1) + 8 * word);
        w.ram.set(table + domain::SIZE + 8 * word, value);
    }
    w.ram
        .set(table + domain::SIZE + domain::VHART_TABLE, vharts);
    w.ram.set(vharts, vhart::ENTRY_V | file_of(1, 1));
    w.attach(0, 1, 0);
    w.hs(1, csr::HVTABLEBASE, hvtablebase::V | table | 2);
    w.generate(1, op::SOFT, 1, 0);
    assert_eq!((w.ctl(1, 0) & 1, w.ctl(1, 1) & 1), (0, 1));
    // The lookup hit hart 0, which looked into the file it knows.
    assert_eq!(w.level(0), 0);
    w.generate(2, op::SOFT, 1, 0);
    assert_eq!(w.level(0), SOFT);
}
