//! Interaction with other extensions.

use trapless_asm::reg::{A0, S0, S1, T0};
use trapless_asm::{NOP, r};

use super::prelude::*;
use crate::script::xor;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("state-enable", &["INT-1"], state_enable)
        .needs(&[Need::Hypervisor, Need::Smstateen]),
    Program::new("other-interrupts", &["INT-2"], other_interrupts),
    Program::new("retired-instructions", &["INT-5"], retired),
    Program::new("wait-on-reservation", &["INT-6"], reservation)
        .needs(&[Need::Hypervisor, Need::Zawrs]),
];

fn state_enable(s: &mut Script<'_>) {
    const C: u64 = std_csr::stateen0::C;
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.write(csr::HGRANT, grant(1, 3, 1));
    s.clear(std_csr::MSTATEEN0, C);
    s.expect(csr::HIFMAP, slot(1, 0), "M-mode is not affected");
    for mode in [Mode::HS, Mode::VS, Mode::U] {
        s.in_mode(mode, |s| {
            s.expect_exception(ILLEGAL, "mstateen0.C=0: sgenipi below M-mode", |s| {
                s.write(csr::SGENIPI, 0);
            });
            s.expect_exception(ILLEGAL, "mstateen0.C=0: ugenvsei below M-mode", |s| {
                s.write(csr::UGENVSEI, 3);
            });
        });
    }
    s.in_mode(Mode::HS, |s| {
        s.expect_exception(ILLEGAL, "mstateen0.C=0: hifmap", |s| {
            s.write(csr::HIFMAP, 0)
        });
    });
    s.expect(csr::HIFMAP, slot(1, 0), "the vhart stays loaded");
    s.generate(op::SOFT, 1, 0);
    s.guest(|s| {
        s.expect(std_csr::SIP, SS, "and is posted to");
        s.clear(std_csr::SIP, SS);
        s.expect(std_csr::SIP, 0, "standard CSRs are not affected");
    });
    s.set(std_csr::MSTATEEN0, C);
    s.clear(std_csr::HSTATEEN0, C);
    s.guest(|s| {
        for (register, name) in [
            (csr::SGENIPI, "sgenipi"),
            (csr::VSCLAIM, "vsclaim"),
            (csr::VSENABLE, "vsenable"),
            (csr::VSTHRESHOLD, "vsthreshold"),
        ] {
            s.expect_exception(VIRTUAL, &format!("hstateen0.C=0: {name}"), |s| {
                s.read(register)
            });
        }
    });
    s.in_mode(Mode::HS, |s| {
        s.expect_no_exception("hstateen0 does not affect HS-mode", |s| s.read(csr::HIFMAP));
    });
    s.set(std_csr::HSTATEEN0, C);
    s.clear(std_csr::SSTATEEN0, C);
    s.in_mode(Mode::U, |s| {
        s.expect_exception(ILLEGAL, "sstateen0.C=0: ugenvsei", |s| {
            s.write(csr::UGENVSEI, 3)
        });
    });
    s.in_mode(Mode::HS, |s| {
        s.expect_no_exception("sstateen0 does not affect HS-mode", |s| {
            s.read(csr::UGENVSEI)
        });
    });
    s.set(std_csr::SSTATEEN0, C);
    s.in_mode(Mode::U, |s| {
        s.expect_no_exception("with all C bits U-mode injects", |s| {
            s.write(csr::UGENVSEI, 3)
        });
    });
    s.expect_soon(std_csr::VSIP, SE, SE, "and the guest sees it");
}

/// Bits other than those of VS-level interrupts 2, 6 and 10 are the same with EN=0 and EN=1.
fn other_interrupts(s: &mut Script<'_>) {
    for (register, own, name) in [
        (std_csr::HIDELEG, 0, "hideleg"),
        (std_csr::HVIP, 0, "hvip"),
        (std_csr::HIE, 0, "hie"),
        (std_csr::MIE, 0, "mie"),
        (std_csr::VSIE, SS | ST | SE, "vsie"),
        (std_csr::VSIP, SS | ST | SE, "vsip"),
    ] {
        let own = if own == 0 { VSS | VST | VSE } else { own };
        for (enable, to) in [(0, S0), (htlcfg::EN, S1)] {
            s.write(csr::HTLCFG, enable);
            s.write(register, ALL);
            s.a.csrr(A0, register).addi(to, A0, 0);
            s.write(register, 0);
        }
        s.a.word(xor(A0, S0, S1));
        s.compare(
            !own,
            0,
            &format!("{name}: other bits are as without the extension"),
        );
    }
}

/// Operations of the controller do not count as instructions.
fn retired(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    for (name, operand) in [
        ("SOFT", command(op::SOFT, 1, 1)),
        ("SYNC", command(op::SYNC, 0, 0)),
        ("a NOP", 0),
    ] {
        s.a.li(T0, operand);
        s.a.csrr(S0, std_csr::MINSTRET);
        if operand == 0 {
            s.a.word(NOP);
        } else {
            s.a.csrw(csr::HGENVSI, T0);
        }
        s.a.csrr(S1, std_csr::MINSTRET);
        // s1 - s0.
        s.a.word(r(0x33, 0, 0x20, A0, S1, S0));
        s.compare(ALL, 2, &format!("{name} is one instruction"));
    }
}

/// `wrs.nto` at V=1 ends by an interrupt of the guest that is pending and enabled.
fn reservation(s: &mut Script<'_>) {
    const WRS_NTO: u32 = 0x00d0_0073;
    s.world();
    s.attach(1, 0);
    s.write(std_csr::VSIE, SS);
    s.generate(op::SOFT, 1, 0);
    let word = s.word(0);
    s.guest(|s| {
        // lr.d a0, (t0)
        s.a.li(T0, word).word(r(0x2f, 3, 0x08, A0, T0, 0));
        s.a.word(WRS_NTO);
    });
    s.expect_not_taken("the guest goes on");
}
