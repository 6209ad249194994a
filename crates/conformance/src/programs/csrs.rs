//! Control and status registers.

use trapless_asm::csr_op;
use trapless_asm::reg::{A0, ZERO};
use trapless_isa::xtrapless::vsthreshold;

use super::prelude::*;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("operations-hold-nothing", &["CSR-1"], hold_nothing),
    Program::new(
        "operations-take-writes-only",
        &["CSR-1", "CSR-4"],
        writes_only,
    ),
    Program::new("effects-on-own-hart", &["CSR-2"], own_effects),
    Program::new("warl", &["CSR-3"], warl),
    Program::new("all-or-nothing", &["CSR-4"], all_or_nothing),
    Program::new("start-of-vhart", &["CSR-5"], start),
    Program::new("targets-of-guest", &["CSR-6"], targets_of_guest),
    Program::new("targets-of-host", &["CSR-6"], targets_of_host).harts(2),
    Program::new("mask-of-host", &["CSR-6", "DISC-2"], mask_of_host).harts(3),
    Program::new("grant-range", &["CSR-7"], grant_range),
    Program::new("what-reads", &["CSR-8"], what_reads),
    Program::new("threshold-register", &["CSR-3"], threshold),
];

fn hold_nothing(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.write(csr::HGRANT, grant(1, 3, 1));
    s.write(csr::HGENVSI, command(op::SYNC, 7, 9));
    for (register, name) in [
        (csr::SGENIPI, "sgenipi"),
        (csr::HGENVSI, "hgenvsi"),
        (csr::UGENVSEI, "ugenvsei"),
    ] {
        s.expect(register, 0, &format!("{name} reads as 0"));
    }
    s.swap(csr::UGENVSEI, 3);
    s.compare(ALL, 0, "csrrw of ugenvsei reads 0");
    let pending = s.pending(1, 0, 3);
    s.sync();
    s.expect_word(pending, bit(3), bit(3), "and carries the operation out");
    s.swap(csr::HGENVSI, command(op::SOFT, 1, 0));
    s.compare(ALL, 0, "csrrw of hgenvsi reads 0");
    s.expect(std_csr::VSIP, SS | SE, "and carries the operation out");
    s.guest(|s| {
        s.clear(std_csr::SIP, SS);
        s.swap(csr::SGENIPI, 1);
        s.compare(ALL, 0, "csrrw of sgenipi reads 0");
        s.expect_bits(std_csr::SIP, SS, SS, "and carries the operation out");
        s.swap(csr::VSENABLE, 3);
        s.compare(ALL, 0, "csrrw of vsenable reads 0");
        s.expect_bits(std_csr::SIP, SE, 0, "and carries the operation out");
        s.expect(csr::VSENABLE, 0, "vsenable reads as 0");
    });
}

fn writes_only(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.write(csr::HGRANT, grant(1, 3, 1));
    let soft = command(op::SOFT, 1, 1);
    let own = s.id(0) << sgenipi::BASE_SHIFT | 1;
    let refused = |s: &mut Script<'_>, cause, register: u16, operand, name: &str| {
        s.expect_exception(cause, &format!("csrrs of {name}"), |s| {
            s.set(register, operand)
        });
        s.expect_exception(cause, &format!("csrrc of {name}"), |s| {
            s.clear(register, operand)
        });
        s.expect_exception(cause, &format!("csrrsi of {name}"), |s| {
            s.a.word(csr_op(6, 0, register, 3));
        });
        s.expect_exception(cause, &format!("csrrci of {name}"), |s| {
            s.a.word(csr_op(7, 0, register, 3));
        });
        s.expect_no_exception(&format!("csrrs and csrrc of {name} with x0"), |s| {
            s.a.word(csr_op(2, ZERO, register, ZERO));
            s.a.word(csr_op(3, ZERO, register, ZERO));
            s.a.word(csr_op(6, ZERO, register, 0));
            s.a.word(csr_op(7, ZERO, register, 0));
        });
    };
    s.write(std_csr::SIP, 0);
    refused(s, ILLEGAL, csr::SGENIPI, own, "sgenipi");
    refused(s, ILLEGAL, csr::HGENVSI, soft, "hgenvsi");
    refused(s, ILLEGAL, csr::UGENVSEI, 3, "ugenvsei");
    s.in_mode(Mode::U, |s| {
        refused(s, ILLEGAL, csr::UGENVSEI, 3, "ugenvsei in U-mode")
    });
    s.guest(|s| {
        refused(s, VIRTUAL, csr::SGENIPI, 3, "sgenipi of a guest");
        refused(s, VIRTUAL, csr::VSENABLE, 3, "vsenable");
        s.expect_exception(VIRTUAL, "csrrs of vsclaim", |s| s.set(csr::VSCLAIM, 3));
        s.expect_exception(VIRTUAL, "csrrc of vsclaim", |s| s.clear(csr::VSCLAIM, 3));
    });
    s.sync();
    s.settle();
    s.expect_bits(
        std_csr::SIP,
        SS,
        0,
        "an operation that was refused sends nothing",
    );
    s.expect(std_csr::VSIP, 0, "and posts nothing");
    for vhart in [0, 1] {
        let ctl = s.ctl(1, vhart);
        s.expect_word(ctl, file::CTL_SOFT, 0, "and posts nothing to any vhart");
    }
    let (pending, enable) = (s.pending(1, 0, 3), s.enable(1, 0, 3));
    s.expect_word(pending, ALL, 0, "and no source");
    s.expect_word(enable, ALL, bit(3), "and enables and disables nothing");
}

fn own_effects(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    let (ctl, pending) = (s.ctl(1, 0), s.pending(1, 0, 3));
    s.guest(|s| {
        s.write(csr::SGENIPI, 1);
        s.expect(std_csr::SIP, SS, "a post to oneself shows in sip at once");
        s.load(ctl);
        s.compare(file::CTL_SOFT, file::CTL_SOFT, "and in the file");
        s.clear(std_csr::SIP, SS);
        s.expect(std_csr::SIP, 0, "so does clearing it");
    });
    s.generate(op::EDGE, 1, 3);
    s.guest(|s| {
        s.expect(std_csr::SIP, SE, "a source shows at once");
        s.guest_enables(3, false);
        s.expect(std_csr::SIP, 0, "disabling it shows at once");
        s.guest_enables(3, true);
        s.expect(std_csr::SIP, SE, "enabling it shows at once");
        s.write(csr::VSTHRESHOLD, 1);
        s.expect(std_csr::SIP, 0, "raising the threshold shows at once");
        s.write(csr::VSTHRESHOLD, 0);
        s.expect(std_csr::SIP, SE, "lowering it shows at once");
        s.expect_claim(3, "the claim");
        s.expect(std_csr::SIP, 0, "a claim shows at once");
        s.load(pending);
        s.compare(ALL, 0, "and in the file");
    });
}

fn warl(s: &mut Script<'_>) {
    let low = hgrant::V | hgrant::DOM | hgrant::COUNT | hgrant::FIRST;
    s.write(csr::HGRANT, ALL);
    s.expect(
        csr::HGRANT,
        low,
        "hgrant holds every value of its fields, and nothing else",
    );
    s.write(csr::HGRANT, 0);
    s.expect(csr::HGRANT, 0, "hgrant holds 0");
    let queue = s.at(crate::layout::LARGE);
    s.write(csr::HNQBASE, hnqbase::EN | queue | 15);
    s.expect(
        csr::HNQBASE,
        hnqbase::EN | queue | 12,
        "a queue of 2^15 entries becomes one of 2^12",
    );
    for size in [0, 9, 10, 12] {
        let bytes = 8u64 << size;
        s.write(csr::HNQBASE, hnqbase::EN | queue | 0x7000 | size);
        let base = (queue | 0x7000) & !(bytes - 1);
        s.expect(
            csr::HNQBASE,
            hnqbase::EN | base | size,
            "PPN is aligned to the size of the queue",
        );
    }
    s.write(csr::HNQBASE, hnqbase::EN | queue | 0xff0);
    s.expect(
        csr::HNQBASE,
        hnqbase::EN | queue,
        "reserved bits of hnqbase are 0",
    );
    s.write(csr::HNQBASE, 0);
    let tables = s.at(crate::layout::TABLES);
    for (size, becomes) in [(0, 0), (16, 16), (17, 16), (31, 16)] {
        s.write(csr::HVTABLEBASE, hvtablebase::V | tables | 0xfe0 | size);
        let want = hvtablebase::V | tables | becomes;
        s.expect(
            csr::HVTABLEBASE,
            want,
            "SIZE of hvtablebase, and reserved bits",
        );
    }
    s.write(csr::HVTABLEBASE, tables | 3);
    s.expect(
        csr::HVTABLEBASE,
        tables | 3,
        "the fields hold their values with V=0",
    );
    s.write(csr::HTLCFG, ALL);
    let want = VERSION | htlcfg::EN | htlcfg::ANY;
    s.expect(
        csr::HTLCFG,
        want,
        "software cannot set FLT, ERR or VERSION of htlcfg",
    );
    s.write(csr::HTLCFG, htlcfg::ANY);
    s.expect(csr::HTLCFG, VERSION | htlcfg::ANY, "ANY without EN");
    s.write(csr::HTLCFG, 0);
    s.world();
    s.write(
        csr::HIFMAP,
        slot(1, 2) | hifmap::STATE | 0x7cff_0000_ffff_0000,
    );
    s.expect(
        csr::HIFMAP,
        slot(1, 2),
        "STATE and reserved bits of hifmap read as 0",
    );
    s.write(csr::HIFMAP, slot(1, 2) & !hifmap::V);
    s.expect(csr::HIFMAP, 0, "an invalid slot reads as 0");
    s.write(csr::HNOTIFY, ALL);
    s.expect(csr::HNOTIFY, 0, "writes of hnotify are ignored");
}

fn all_or_nothing(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL);
    s.route(1, 4, LEVEL);
    s.world();
    s.attach(1, 0);
    s.write(csr::HGRANT, grant(1, 3, 1));
    let assert = op::ASSERT << 60;
    for (value, what) in [
        (assert | 4, "a source outside of the grant"),
        (assert | 2, "a source below the grant"),
        (op::SOFT << 60 | 3, "SOFT"),
        (op::EVAL << 60 | 3, "EVAL"),
        (op::SYNC << 60 | 3, "SYNC"),
        (6 << 60 | 3, "a reserved operation"),
        (15 << 60 | 3, "the last reserved operation"),
    ] {
        let text = format!("ugenvsei: {what}");
        s.expect_exception(ILLEGAL, &text, |s| s.write(csr::UGENVSEI, value));
    }
    s.expect_no_exception("reserved operations of hgenvsi do nothing", |s| {
        for operation in 6..16 {
            s.generate(operation, 1, 3);
        }
    });
    s.sync();
    let (line, pending, ctl) = (s.line(1, 3), s.pending(1, 0, 3), s.ctl(1, 0));
    s.expect_word(line, ALL, 0, "no line has changed");
    s.expect_word(pending, ALL, 0, "nothing was posted");
    s.expect_word(ctl, file::CTL_SOFT, 0, "no software interrupt was posted");
    s.expect(std_csr::VSIP, 0, "and the guest sees nothing");
    s.guest(|s| {
        s.expect_exception(VIRTUAL, "the guest writes hifmap", |s| {
            s.write(csr::HIFMAP, slot(2, 0));
        });
        s.expect_exception(VIRTUAL, "the guest writes htlcfg", |s| {
            s.write(csr::HTLCFG, 0)
        });
    });
    s.expect(csr::HIFMAP, slot(1, 0), "the slot has not changed");
    s.expect(
        csr::HTLCFG,
        VERSION | htlcfg::EN,
        "the configuration has not changed",
    );
}

fn start(s: &mut Script<'_>) {
    s.route_only(1, 3, EDGE.priority(3));
    s.world();
    s.attach(1, 0);
    s.guest(|s| {
        s.guest_enables(3, true);
        s.write(csr::VSTHRESHOLD, 2);
    });
    s.detach(state::STOPPED);
    s.attach(2, 0);
    s.guest(|s| s.expect(csr::VSTHRESHOLD, 0, "another vhart has its own threshold"));
    s.generate(op::EDGE, 1, 3);
    s.attach(1, 0);
    s.guest(|s| {
        s.expect(csr::VSTHRESHOLD, 2, "the threshold is as it was left");
        s.expect(std_csr::SIP, SE, "the source is enabled as it was left");
        s.expect_claim(3, "and can be claimed");
    });
}

fn targets_of_guest(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    s.guest(|s| {
        s.expect_no_exception("targets that do not exist are ignored", |s| {
            s.write(csr::SGENIPI, 0b1_0101 | 1 << 31);
        });
    });
    s.sync();
    for vhart in 0..VHARTS {
        let (at, own, other) = (s.ctl(1, vhart), vhart == 0 || vhart == 2, s.ctl(2, vhart));
        let want = if own { file::CTL_SOFT } else { 0 };
        s.expect_word(
            at,
            file::CTL_SOFT,
            want,
            &format!("vhart {vhart} of the own domain"),
        );
        s.expect_word(
            other,
            file::CTL_SOFT,
            0,
            &format!("vhart {vhart} of another domain"),
        );
    }
    let posts = |s: &mut Script<'_>, operand: u64, vhart: u64, text: &str| {
        let at = s.ctl(1, vhart);
        for vhart in 0..VHARTS - 1 {
            let at = s.ctl(1, vhart);
            s.amo(Amo::And, at, !file::CTL_SOFT);
        }
        s.guest(|s| s.write(csr::SGENIPI, operand));
        s.sync();
        s.expect_word(at, file::CTL_SOFT, file::CTL_SOFT, text);
        for other in (0..VHARTS - 1).filter(|other| *other != vhart) {
            let at = s.ctl(1, other);
            s.expect_word(
                at,
                file::CTL_SOFT,
                0,
                &format!("{text}: and vhart {other} is not"),
            );
        }
    };
    let base = 1 << sgenipi::BASE_SHIFT;
    posts(s, base | 0b100, 3, "BASE is added to the number of the bit");
    posts(
        s,
        3 << sgenipi::BASE_SHIFT | 0b11,
        3,
        "the vhart after the last is ignored",
    );
    posts(s, 1 | 0xffff << 48, 0, "reserved bits are ignored");
    let at = s.ctl(1, 0);
    s.amo(Amo::And, at, !file::CTL_SOFT);
    s.guest(|s| s.write(csr::SGENIPI, sgenipi::BASE | 0xffff_fffe));
    s.sync();
    s.expect_word(at, file::CTL_SOFT, 0, "BASE + i does not wrap around");
}

fn targets_of_host(s: &mut Script<'_>) {
    s.world();
    for (from, mode) in [(0, Mode::M), (0, Mode::HS), (1, Mode::HS)] {
        for to in 0..2 {
            for hart in 0..2 {
                s.on(hart, |s| s.write(std_csr::SIP, 0));
            }
            let operand = s.id(to) << sgenipi::BASE_SHIFT | 1;
            s.on(from, |s| {
                s.in_mode(mode, |s| s.write(csr::SGENIPI, operand))
            });
            let text = format!("hart {from} sends to hart {to}");
            s.on(to, |s| s.expect_soon(std_csr::SIP, SS, SS, &text));
            let text = format!("{text}, and to no other");
            s.on(1 - to, |s| s.expect_still(std_csr::SIP, SS, 0, &text));
        }
    }
    for hart in 0..2 {
        s.on(hart, |s| s.write(std_csr::SIP, 0));
    }
    let lowest = s.id(0).min(s.id(1));
    if lowest < 31 {
        s.write(csr::SGENIPI, sgenipi::BASE | 0xffff_fffe);
        for hart in 0..2 {
            let text = "BASE + i does not wrap around";
            s.on(hart, |s| s.expect_still(std_csr::SIP, SS, 0, text));
        }
    }
}

/// Each bit of `MASK` stands for a hart: `BASE` is 0.
fn mask_of_host(s: &mut Script<'_>) {
    let near = |s: &Script<'_>, hart: usize| s.id(hart) < 32;
    for to in 0..3 {
        if !near(s, to) {
            continue;
        }
        for hart in 0..3 {
            s.on(hart, |s| s.write(std_csr::SIP, 0));
        }
        s.write(csr::SGENIPI, 1 << s.id(to));
        s.on(to, |s| {
            s.expect_soon(std_csr::SIP, SS, SS, "the hart of the bit")
        });
        for other in (0..3).filter(|other| *other != to) {
            s.on(other, |s| {
                s.expect_still(std_csr::SIP, SS, 0, "and no other")
            });
        }
    }
    s.write(csr::SGENIPI, sgenipi::MASK);
    for hart in (0..3).filter(|hart| near(s, *hart)).collect::<Vec<_>>() {
        s.on(hart, |s| {
            s.expect_soon(std_csr::SIP, SS, SS, "all bits at once")
        });
    }
}

fn grant_range(s: &mut Script<'_>) {
    for source in [3, 4, 5, 6] {
        s.route(1, source, EDGE);
    }
    s.world();
    s.attach(1, 0);
    s.write(csr::HGRANT, grant(1, 4, 2));
    s.in_mode(Mode::U, |s| {
        for source in [0, 3, 6, 70, 0xffff] {
            s.expect_exception(ILLEGAL, "outside of the grant", |s| {
                s.write(csr::UGENVSEI, source);
            });
        }
        s.expect_no_exception("the first and the last that it covers", |s| {
            s.write(csr::UGENVSEI, 4);
            s.write(csr::UGENVSEI, 5);
        });
    });
    let pending = s.pending(1, 0, 4);
    s.sync();
    s.expect_word(
        pending,
        ALL,
        bit(4) | bit(5),
        "these are posted, and no others",
    );
    s.write(csr::HGRANT, grant(1, 4, 0));
    s.expect_exception(ILLEGAL, "COUNT=0 covers none", |s| {
        s.write(csr::UGENVSEI, 4)
    });
    s.write(csr::HGRANT, grant(1, 4, 2) & !hgrant::V);
    s.expect_exception(ILLEGAL, "V=0 covers none", |s| s.write(csr::UGENVSEI, 4));
    s.expect_exception(ILLEGAL, "V=0: not to be read", |s| s.read(csr::UGENVSEI));
    s.write(csr::HGRANT, grant(1, 0xffff, 5));
    s.expect_no_exception("what it covers need not exist", |s| {
        s.write(csr::UGENVSEI, 0xffff);
    });
    s.expect_exception(ILLEGAL, "the sum does not wrap around", |s| {
        s.write(csr::UGENVSEI, 3);
    });
    s.write(csr::HGRANT, grant(3, 0, 0xffff));
    s.expect_no_exception("nor need the domain exist", |s| s.write(csr::UGENVSEI, 6));
    s.write(csr::HGRANT, grant(1, 0, 100));
    s.expect_no_exception("sources 0, without an entry, and beyond SOURCES", |s| {
        for source in [0, 7, SOURCES + 1] {
            s.write(csr::UGENVSEI, source);
        }
    });
    s.sync();
    s.expect_word(pending, ALL, bit(4) | bit(5), "nothing else is posted");
    let next = s.pending(1, 0, 64);
    s.expect_word(next, ALL, 0, "nothing else is posted in the second word");
}

fn what_reads(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route(1, 4, EDGE);
    s.world();
    for vhart in [1, 2, 3] {
        s.leave(1, vhart, state::HALTED);
        s.generate(op::SOFT, 1, vhart);
    }
    s.expect_soon(std_csr::MIP, NOTIFY, NOTIFY, "notifications have come");
    s.sync();
    s.settle();
    s.write(csr::HNOTIFY, 0);
    s.a.word(csr_op(5, ZERO, csr::HNOTIFY, 1));
    s.expect_notification(
        notification(kind::WAKE, 1, 1),
        "csrrw with rd=x0 does not read",
    );
    s.a.word(csr_op(2, ZERO, csr::HNOTIFY, ZERO));
    s.expect_notification(notification(kind::WAKE, 1, 3), "csrrs with rd=x0 reads");
    s.attach(1, 0);
    s.generate(op::EDGE, 1, 3);
    s.generate(op::EDGE, 1, 4);
    let pending = s.pending(1, 0, 3);
    s.guest(|s| {
        s.write(csr::VSCLAIM, 0);
        s.load(pending);
        s.compare(
            ALL,
            bit(3) | bit(4),
            "csrrw of vsclaim with rd=x0 does not claim",
        );
        s.a.word(csr_op(2, ZERO, csr::VSCLAIM, ZERO));
        s.load(pending);
        s.compare(ALL, bit(4), "csrrs of vsclaim with rd=x0 claims");
        s.swap(csr::VSCLAIM, 3);
        s.compare(ALL, 4, "csrrw completes, then claims");
        s.a.word(csr_op(5, A0, csr::VSCLAIM, 4));
        s.compare(ALL, 0, "csrrwi, too");
    });
}

fn threshold(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    let word = s.file(1, 0) + file::THRESHOLD;
    s.store(word, 0xabcd_ef01_2345_6788);
    s.guest(|s| {
        s.expect(csr::VSTHRESHOLD, 0, "only the lowest three bits are read");
        s.write(csr::VSTHRESHOLD, 0xf5);
        s.expect(
            csr::VSTHRESHOLD,
            5,
            "only the lowest three bits are written",
        );
        s.swap(csr::VSTHRESHOLD, 2);
        s.compare(ALL, 5, "csrrw returns the old value");
        s.set(csr::VSTHRESHOLD, 5);
        s.expect(csr::VSTHRESHOLD, 7, "csrrs sets bits");
        s.clear(csr::VSTHRESHOLD, 3);
        s.expect(csr::VSTHRESHOLD, 4, "csrrc clears bits");
    });
    let want = 0xabcd_ef01_2345_6788 | 4;
    s.expect_word(word, ALL, want, "other bits of the word stay");
    const { assert!(vsthreshold::PRIO == 7) };
}
