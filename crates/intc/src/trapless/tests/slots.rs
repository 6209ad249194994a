//! Attach, lookup, `htlcfg`, `vsip.SSIP`.

use trapless_isa::xtrapless::{
    csr, domain, file, hifmap, htlcfg, hvtablebase, op, sgenipi, state, vhart,
};

use super::world::*;
use crate::StepKind;

#[test]
fn attach_loads_state_and_drives_what_the_file_holds() {
    let mut w = World::new();
    w.route(1, 65, EDGE);
    w.generate(2, op::EDGE, 1, 65);
    w.set_ctl(1, 0, ctl(state::HALTED, 2, file::CTL_SOFT | file::CTL_ON));
    assert_eq!(w.level(1), 0);

    w.attach(1, 1, 0);

    assert_eq!(
        w.ctl(1, 0),
        ctl(state::LOADED, 1, file::CTL_SOFT | file::CTL_ON)
    );
    let lines = w.lines(1);
    assert_eq!(lines.level, SOFT | EXTERNAL);
    assert_eq!(lines.arrived, 0, "what waited for the vhart is no arrival");
    assert!(lines.split);
    assert_eq!((w.level(0), w.level(2)), (0, 0));
    assert_eq!(w.take_switched(), 1 << 1);
    assert!(w.take_changed() & 1 << 1 != 0);
    assert!(w.steps().contains(&StepKind::Attached { vhart: 0 }));
}

#[test]
fn attach_of_what_does_not_exist_leaves_the_slot_invalid() {
    let entry = |w: &World, value| w.ram.set(vhart_table(1), value);
    type Spoil = fn(&mut World);
    let cases: &[(u64, Spoil)] = &[
        (slot(0, 0), |_| {}),
        // Beyond the table.
        (slot(5, 0), |w| {
            for offset in (0..domain::SIZE).step_by(8) {
                let word = w.ram.get(domain_entry(1) + offset);
                w.ram.set(domain_entry(5) + offset, word);
            }
        }),
        (slot(1, VHARTS - 1), |_| {}),
        (slot(1, VHARTS), |w| {
            w.ram.set(
                vhart_table(1) + u64::from(VHARTS) * vhart::SIZE,
                vhart::ENTRY_V | RAM,
            );
        }),
        (slot(1, 0), |w| w.ram.set(domain_entry(1), 0)),
        (slot(1, 0), |w| w.ram.set(vhart_table(1), vhart::ENTRY_V)),
        (slot(1, 0), |w| {
            w.ram.set(domain_entry(1) + domain::VHART_TABLE, !7);
        }),
        (slot(1, 0), |w| w.hs(0, csr::HVTABLEBASE, RAM | 2)),
        (slot(1, 0), |w| {
            w.hs(0, csr::HVTABLEBASE, hvtablebase::V | 2)
        }),
        (slot(1, 0), |w| w.hs(0, csr::HTLCFG, 0)),
    ];
    for (i, (value, spoil)) in cases.iter().enumerate() {
        let mut w = World::new();
        spoil(&mut w);
        w.steps();
        w.hs(0, csr::HIFMAP, *value);
        assert_eq!(w.hs_read(0, csr::HIFMAP), 0, "case {i}");
        assert_eq!((w.level(0), w.steps()), (0, vec![]), "case {i}");
    }
    let mut w = World::new();
    entry(&w, vhart::ENTRY_V | file_of(1, 0));
    w.attach(0, 1, 0);
}

#[test]
fn low_bits_of_table_addresses_are_ignored() {
    let mut w = World::new();
    w.ram
        .set(domain_entry(1) + domain::VHART_TABLE, vhart_table(1) | 7);
    w.attach(0, 1, 2);
    assert_eq!(w.ctl(1, 2), ctl(state::LOADED, 0, 0));
}

#[test]
fn attach_over_another_vhart_preempts_it() {
    for target in [slot(2, 1), slot(1, 1), slot(2, 0), slot(3, 0)] {
        let mut w = World::new();
        w.attach(0, 1, 0);
        w.write_ssip(0, 2);
        w.take_switched();
        w.hs(0, csr::HIFMAP, target);
        assert_eq!(w.ctl(1, 0), ctl(state::PREEMPTED, 0, file::CTL_SOFT));
        assert_eq!(w.level(0), 0, "the next vhart has nothing pending");
        assert_eq!(w.take_switched(), 1);
        let valid = target != slot(3, 0);
        assert_eq!(w.hs_read(0, csr::HIFMAP), if valid { target } else { 0 });
    }
}

#[test]
fn attach_of_the_same_vhart_again_changes_nothing() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.write_ssip(0, 2);
    w.take_switched();
    w.steps();
    w.attach(0, 1, 0);
    assert_eq!(w.level(0), SOFT);
    assert_eq!(w.take_switched(), 0);
    assert_eq!(w.steps(), [StepKind::Attached { vhart: 0 }]);
}

#[test]
fn slots_of_one_domain_do_not_match_another() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.attach(1, 2, 1);
    w.attach(2, 1, 1);
    // Both guests know the target as vhart 1; the sender's slot determines the domain.
    w.vs(0, csr::SGENIPI, 1 << sgenipi::BASE_SHIFT | 1);
    assert_eq!((w.level(0), w.level(1), w.level(2)), (0, 0, SOFT));
    w.vs(1, csr::SGENIPI, 1 << sgenipi::BASE_SHIFT | 1);
    assert_eq!((w.level(0), w.level(1), w.level(2)), (0, SOFT, SOFT));
}

#[test]
fn two_matches_hit_the_lowest_hart_and_set_err_of_the_sender() {
    let mut w = World::new();
    w.attach(1, 1, 0);
    w.attach(2, 1, 0);
    w.generate(0, op::SOFT, 1, 0);
    assert_eq!((w.lines(1).arrived, w.lines(2).arrived), (SOFT, 0));
    assert_eq!(
        w.hs_read(0, csr::HTLCFG),
        VERSION | htlcfg::EN | htlcfg::ERR
    );
    assert_eq!(w.hs_read(1, csr::HTLCFG), VERSION | htlcfg::EN);
    w.hs(0, csr::HTLCFG, htlcfg::EN | htlcfg::ERR);
    assert_eq!(
        w.hs_read(0, csr::HTLCFG),
        VERSION | htlcfg::EN | htlcfg::ERR
    );
    w.hs(0, csr::HTLCFG, htlcfg::EN);
    assert_eq!(w.hs_read(0, csr::HTLCFG), VERSION | htlcfg::EN);
    w.hs(0, csr::HTLCFG, u64::MAX);
    assert_eq!(
        w.hs_read(0, csr::HTLCFG),
        VERSION | htlcfg::EN | htlcfg::ANY
    );
}

#[test]
fn clearing_en_detaches_and_joins_the_pending_bits() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.write_ssip(0, 2);
    w.hs(0, csr::HTLCFG, 0);
    assert_eq!(w.ctl(1, 0), ctl(state::PREEMPTED, 0, file::CTL_SOFT));
    let lines = w.lines(0);
    assert_eq!((lines.level, lines.split), (0, false));
    assert_eq!(w.hs_read(0, csr::HIFMAP), 0);
}

#[test]
fn ssip_of_a_loaded_vhart_lives_in_its_file() {
    let mut w = World::new();
    w.write_ssip(0, 2);
    assert_eq!(
        w.level(0),
        0,
        "without a slot it is the hart's own business"
    );
    w.attach(0, 1, 0);
    w.write_ssip(0, 2);
    assert_eq!(w.level(0), SOFT);
    assert_eq!(w.lines(0).arrived, 0, "the guest's own write is no arrival");
    assert_eq!(w.ctl(1, 0), ctl(state::LOADED, 0, file::CTL_SOFT));
    w.write_ssip(0, 0);
    assert_eq!(w.level(0), 0);
    assert_eq!(w.ctl(1, 0), ctl(state::LOADED, 0, 0));
    w.write_ssip(0, !2);
    assert_eq!(w.level(0), 0, "only bit 1 is SSIP");
}

#[test]
fn fields_of_registers_are_masked() {
    let mut w = World::new();
    let cases = [
        (csr::HGRANT, 0x8000_ffff_ffff_ffff),
        (csr::HVTABLEBASE, 0x80ff_ffff_ffff_f010),
        (csr::HNQBASE, 0x80ff_ffff_ffff_800c),
        (csr::HNOTIFY, 0),
        (csr::HGENVSI, 0),
        (csr::SGENIPI, 0),
    ];
    for (addr, want) in cases {
        w.hs(0, addr, u64::MAX);
        assert_eq!(w.hs_read(0, addr), want, "{addr:#x}");
    }
    w.hs(0, csr::HIFMAP, !hifmap::V);
    assert_eq!(w.hs_read(0, csr::HIFMAP), 0);
}
