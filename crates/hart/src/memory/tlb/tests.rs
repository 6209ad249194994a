use trapless_isa::Mode;

use super::*;

fn key(mode: Mode, satp: u64, hgatp: u64) -> Key {
    Key {
        flags: 0,
        satp,
        hgatp,
        mode,
    }
}

fn insert(tlb: &mut Tlb, array: TlbArray, va: u64, host: usize, permitted: [bool; 3], span: u64) {
    let mapping = Mapping {
        host: HostAddr::new(host),
        page: PageIndex::new(0),
        permitted,
        noted: false,
        span,
        table: 0,
    };
    tlb.insert(array, va, Access::Read, &mapping);
}

fn hit(tlb: &mut Tlb, array: TlbArray, va: u64) -> bool {
    tlb.lookup(array, va, Access::Read).is_some()
}

#[test]
fn world_switch_keeps_translations_and_fences_drop_only_what_they_name() {
    let mut tlb = Tlb::new(true, 16);
    let host = tlb.intern(&key(Mode::HS, 8 << 60 | 1 << 44, 0));
    let g1 = tlb.intern(&key(Mode::VS, 8 << 60, 8 << 60 | 1 << 44));
    let g2 = tlb.intern(&key(Mode::VS, 8 << 60, 8 << 60 | 2 << 44));
    for a in [host, g1, g2] {
        insert(&mut tlb, a, 0x5000, 0x7000_0000, [true, false, false], 4096);
    }
    assert!(hit(&mut tlb, host, 0x5123) && tlb.lookup(host, 0x5000, Access::Write).is_none());
    tlb.flush(Scope::Host(Some(2)), None);
    assert!(hit(&mut tlb, host, 0x5000), "another ASID was named");
    tlb.flush(Scope::GStage(Some(1)), None);
    assert!(!hit(&mut tlb, g1, 0x5000) && hit(&mut tlb, g2, 0x5000) && hit(&mut tlb, host, 0x5000));
    tlb.flush(Scope::Guest(2, None), Some(0x6000));
    assert!(hit(&mut tlb, g2, 0x5000), "another page was named");
    tlb.flush(Scope::Guest(2, None), Some(0x5000));
    assert!(!hit(&mut tlb, g2, 0x5000));
}

#[test]
fn address_fence_inside_a_superpage_drops_all_of_it() {
    let mut tlb = Tlb::new(true, 16);
    let a = tlb.intern(&key(Mode::HS, 1, 0));
    insert(&mut tlb, a, 0x20_0000, 0x7000_0000, [true; 3], 0x20_0000);
    insert(&mut tlb, a, 0x20_1000, 0x7000_1000, [true; 3], 0x20_0000);
    tlb.flush(Scope::Host(None), Some(0x20_1000));
    assert!(!hit(&mut tlb, a, 0x20_0000));
}

#[test]
fn pages_that_share_a_slot_push_each_other_out_only_when_both_ways_are_taken() {
    let mut tlb = Tlb::new(true, 16);
    let a = tlb.intern(&key(Mode::HS, 1, 0));
    let page = |i: u64| 0x3000 + i * (ENTRIES as u64) * 4096;
    for i in 0..3 {
        insert(
            &mut tlb,
            a,
            page(i),
            0x7000_0000,
            [true, i == 1, false],
            4096,
        );
    }
    assert_eq!(
        [0, 1, 2].map(|i| hit(&mut tlb, a, page(i))),
        [false, true, true]
    );
    assert!(tlb.lookup(a, page(1), Access::Write).is_some());
    // The same page again replaces itself.
    insert(&mut tlb, a, page(2), 0x7000_0000, [true; 3], 4096);
    assert!(hit(&mut tlb, a, page(1)) && tlb.lookup(a, page(2), Access::Write).is_some());
    tlb.flush(Scope::Host(None), Some(page(1)));
    assert!(
        !hit(&mut tlb, a, page(1)),
        "named by the fence, in the second way"
    );
    insert(&mut tlb, a, page(0), 0x7000_0000, [true; 3], 4096);
    tlb.flush(Scope::Host(None), None);
    assert!(!hit(&mut tlb, a, page(0)) && !hit(&mut tlb, a, page(2)));
}

#[test]
fn page_that_is_used_stays_while_others_pass_through_its_slot() {
    for access in [Access::Read, Access::Write] {
        let mut tlb = Tlb::new(true, 16);
        let a = tlb.intern(&key(Mode::HS, 1, 0));
        let page = |i: u64| 0x3000 + i * (ENTRIES as u64) * 4096;
        for i in 0..10 {
            insert(&mut tlb, a, page(i), 0x7000_0000, [true; 3], 4096);
            if i > 0 {
                assert!(tlb.lookup(a, page(0) + 8, access).is_some());
                assert!(tlb.data(page(0)).read == page(0), "in the first way");
                assert!(hit(&mut tlb, a, page(i)) && hit(&mut tlb, a, page(0)));
            }
        }
        // What does not hit moves nothing.
        assert!(tlb.lookup(a, page(1), access).is_none());
        assert!(tlb.data(page(0)).read == page(0) && hit(&mut tlb, a, page(9)));
    }
}

#[test]
fn changes_of_sum_by_compiled_code_are_those_of_the_interpreter() {
    let sum = |on: bool| Key {
        flags: u32::from(on),
        ..key(Mode::HS, 8 << 60, 0)
    };
    // Contexts in the order in which they would be recycled, and the arrays selected.
    let state = |tlb: &Tlb| {
        let c = &tlb.contexts;
        (c.by_age(), c.fetch, c.data, c.twin)
    };
    for (start, times) in [
        (false, 1),
        (true, 1),
        (false, 2),
        (true, 2),
        (false, 3),
        (true, 5),
    ] {
        let [mut interpreted, mut compiled] = [0, 1].map(|_| {
            let mut tlb = Tlb::new(true, 16);
            for on in [!start, start] {
                tlb.select(&sum(on).for_fetches(), &sum(on));
            }
            // As an access to a guest's memory does.
            tlb.intern(&key(Mode::VS, 0, 1));
            tlb
        });
        for i in 1..=times {
            let on = start ^ (i % 2 != 0);
            interpreted.select(&sum(on).for_fetches(), &sum(on));
        }
        compiled.sum_changed(times);
        assert_ne!(compiled.contexts.twin, None);
        assert_eq!(state(&interpreted), state(&compiled), "{start} {times}");
    }
}

#[test]
fn recycled_context_starts_empty() {
    let mut tlb = Tlb::new(true, 16);
    let first = tlb.intern(&key(Mode::HS, 0, 0));
    insert(&mut tlb, first, 0x1000, 0x7000_0000, [true; 3], 4096);
    tlb.select(&key(Mode::HS, 100, 0), &key(Mode::HS, 100, 0));
    for i in 1..40 {
        tlb.intern(&key(Mode::HS, i, 0));
    }
    let again = tlb.intern(&key(Mode::HS, 0, 0));
    assert!(!hit(&mut tlb, again, 0x1000));
}
