//! Pending and enable bits of guest and host, and timers.

use trapless_asm::csr_op;

use super::prelude::*;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("vsie-own", &["BIT-1"], own_enables),
    Program::new("vsip-terms", &["BIT-2"], terms).needs(&[Need::Hypervisor, Need::Sstc]),
    Program::new("vsip-invalid-slot", &["BIT-3"], invalid_slot),
    Program::new("vsip-write", &["BIT-4"], write_soft),
    Program::new("vsip-other-bits", &["BIT-4"], other_bits),
    Program::new("vsip-without-v", &["BIT-5"], without_v),
    Program::new("hip-latches", &["BIT-6"], latches),
    Program::new("hip-timer", &["BIT-7", "BIT-8"], timer_and_hvip)
        .needs(&[Need::Hypervisor, Need::Sstc]),
    Program::new("mip-view", &["BIT-9"], machine_view),
    Program::new("taken-by-host", &["BIT-10"], taken_by_host)
        .needs(&[Need::Hypervisor, Need::Sstc]),
    Program::new("taken-by-guest", &["BIT-11"], taken_by_guest)
        .needs(&[Need::Hypervisor, Need::Sstc]),
    Program::new("wfi", &["BIT-12"], wait_for_interrupt),
    Program::new("timer-drives", &["TIM-1"], timer).needs(&[Need::Hypervisor, Need::Sstc]),
    Program::new("timer-no-slot", &["TIM-2"], timer_without_slot)
        .needs(&[Need::Hypervisor, Need::Sstc]),
];

const VS_LEVEL: u64 = VSS | VST | VSE;

fn own_enables(s: &mut Script<'_>) {
    s.world();
    s.write(std_csr::VSIE, 0);
    s.write(std_csr::HIE, VS_LEVEL);
    s.expect(std_csr::VSIE, 0, "vsie does not show hie");
    s.write(std_csr::VSIE, SS | SE);
    s.expect_bits(std_csr::HIE, VS_LEVEL, VS_LEVEL, "hie does not show vsie");
    s.write(std_csr::HIE, 0);
    s.expect(std_csr::VSIE, SS | SE, "vsie stays as hie is cleared");
    s.write(std_csr::HIDELEG, VSE);
    s.expect(
        std_csr::VSIE,
        SE,
        "bits that are not delegated read as zero",
    );
    s.write(std_csr::VSIE, SS | SE);
    s.expect(std_csr::VSIE, SE, "and are not written");
    s.guest(|s| s.expect(std_csr::SIE, SE, "the guest's sie is vsie"));
}

fn terms(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.expect(std_csr::VSIP, 0, "nothing is pending at first");
    for (bits, vsip) in [(VSS, SS), (VST, ST), (VSE, SE)] {
        s.write(std_csr::HVIP, bits);
        s.expect(std_csr::VSIP, vsip, "hvip is a term of vsip");
    }
    s.write(std_csr::HVIP, 0);
    s.expect(std_csr::VSIP, 0, "hvip is cleared");
    s.generate(op::SOFT, 1, 0);
    s.expect(std_csr::VSIP, SS, "CTL.SOFT is a term of vsip.SSIP");
    s.generate(op::EDGE, 1, 3);
    s.expect(
        std_csr::VSIP,
        SS | SE,
        "a deliverable source is a term of vsip.SEIP",
    );
    s.write(std_csr::VSTIMECMP, 0);
    s.expect(
        std_csr::VSIP,
        SS | ST | SE,
        "vstimecmp is a term of vsip.STIP",
    );
    s.write(std_csr::HIDELEG, VST);
    s.expect(std_csr::VSIP, ST, "hideleg masks all of them");
}

fn invalid_slot(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.expect(
        std_csr::VSIP,
        SS | SE,
        "both are pending while the vhart is loaded",
    );
    s.detach(state::STOPPED);
    s.expect(
        std_csr::VSIP,
        0,
        "without a slot the terms of the file are 0",
    );
    s.write(std_csr::HVIP, VSS);
    s.expect(std_csr::VSIP, SS, "those of hvip are not");
    s.write(std_csr::HVIP, 0);
    s.attach(1, 0);
    s.expect(
        std_csr::VSIP,
        SS | SE,
        "both are pending again after an attach",
    );
}

fn write_soft(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    let at = s.ctl(1, 0);
    let both = |s: &mut Script<'_>, on: bool, text: &str| {
        let (soft, hvip) = if on { (file::CTL_SOFT, VSS) } else { (0, 0) };
        s.expect_word(at, file::CTL_SOFT, soft, &format!("{text}: CTL.SOFT"));
        s.expect_bits(std_csr::HVIP, VSS, hvip, &format!("{text}: hvip.VSSIP"));
        let vsip = if on { SS } else { 0 };
        s.expect_bits(std_csr::VSIP, SS, vsip, &format!("{text}: vsip.SSIP"));
    };
    s.guest(|s| s.set(std_csr::SIP, SS));
    both(s, true, "csrs sip by the guest");
    s.guest(|s| s.clear(std_csr::SIP, SS));
    both(s, false, "csrc sip by the guest");
    s.guest(|s| s.write(std_csr::SIP, SS));
    both(s, true, "csrw sip by the guest");
    s.guest(|s| s.write(std_csr::SIP, SE));
    both(s, false, "csrw sip with another bit");
    s.guest(|s| {
        s.a.word(csr_op(6, 0, std_csr::SIP, SS as u32));
    });
    both(s, true, "csrsi sip by the guest");
    s.guest(|s| {
        s.a.word(csr_op(7, 0, std_csr::SIP, SS as u32));
    });
    both(s, false, "csrci sip by the guest");
    s.write(std_csr::VSIP, SS);
    both(s, true, "csrw vsip by the host");
    s.write(std_csr::VSIP, 0);
    both(s, false, "csrw vsip by the host again");
    s.generate(op::SOFT, 1, 0);
    s.guest(|s| s.clear(std_csr::SIP, SS));
    both(s, false, "csrc sip after a post");
    s.write(std_csr::HIDELEG, 0);
    s.guest(|s| s.set(std_csr::SIP, SS));
    both(s, false, "csrs sip without delegation");
    s.set(std_csr::VSIP, SS);
    s.write(std_csr::VSIP, SS);
    s.write(std_csr::HIDELEG, VSS);
    both(s, false, "writes of vsip by the host without delegation");
}

/// A bit that the controller has set since the last poke must not be lost by an instruction that
/// does not name it, and must be cleared by one that does.
fn other_bits(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    let at = s.ctl(1, 0);
    s.amo(Amo::Or, at, file::CTL_SOFT);
    s.guest(|s| {
        s.clear(std_csr::SIP, SE | 1 << 13);
        s.set(std_csr::SIP, SE | 1 << 13);
        s.a.word(csr_op(7, 0, std_csr::SIP, 1));
    });
    let text = "setting and clearing other bits leaves CTL.SOFT alone";
    s.expect_word(at, file::CTL_SOFT, file::CTL_SOFT, text);
    s.guest(|s| s.clear(std_csr::SIP, SS));
    let text = "clearing SSIP clears SOFT whatever vsip showed";
    s.expect_word(at, file::CTL_SOFT, 0, text);
    s.write(std_csr::HVIP, VSS);
    s.guest(|s| s.clear(std_csr::SIP, SE));
    s.expect_bits(
        std_csr::HVIP,
        VSS,
        VSS,
        "clearing another bit leaves hvip.VSSIP alone",
    );
    s.expect_word(at, file::CTL_SOFT, 0, "and does not copy it into CTL");
}

fn without_v(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.expect(std_csr::VSIP, SS, "vsip shows a post while V=0");
    s.guest(|s| {
        s.expect(
            std_csr::SIP,
            SS,
            "the guest sees it without help of software",
        );
        s.clear(std_csr::SIP, SS);
    });
    s.expect(
        std_csr::VSIP,
        0,
        "what the guest has cleared stays clear with V=0",
    );
}

fn latches(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    for (name, operation, id, latch) in [
        ("software", op::SOFT, 0, VSS),
        ("external", op::EDGE, 3, VSE),
    ] {
        let arrive = |s: &mut Script<'_>| {
            // Only what rises arrives.
            let (ctl, pending) = (s.ctl(1, 0), s.pending(1, 0, 3));
            s.amo(Amo::And, ctl, !file::CTL_SOFT);
            s.amo(Amo::And, pending, !bit(3));
            s.generate(op::EVAL, 1, 0);
            s.generate(operation, 1, id);
            let text = format!("an arrival of a {name} interrupt sets its latch");
            s.expect_soon(std_csr::HIP, VSS | VSE, latch, &text);
        };
        arrive(s);
        s.write(std_csr::HIP, VSS | VSE);
        let text = format!("{name}: writing 1 leaves latches as they are");
        s.expect_bits(std_csr::HIP, VSS | VSE, latch, &text);
        s.write(std_csr::HIP, 0);
        let text = format!("{name}: writing 0 to hip clears the latch");
        s.expect_bits(std_csr::HIP, VSS | VSE, 0, &text);
        s.write(std_csr::HIP, VSS | VSE);
        let text = format!("{name}: writing 1 does not set a latch");
        s.expect_bits(std_csr::HIP, VSS | VSE, 0, &text);
        s.expect_bits(std_csr::VSIP, SS | SE, latch >> 1, "the guest's bit stays");
        arrive(s);
        s.clear(std_csr::HIP, VST | (VSS | VSE) & !latch);
        s.set(std_csr::HIP, VST | (VSS | VSE) & !latch);
        let text = format!("{name}: setting and clearing other bits of hip leaves the latch");
        s.expect_bits(std_csr::HIP, VSS | VSE, latch, &text);
        s.clear(std_csr::MIP, latch);
        let text = format!("{name}: writing 0 to mip clears the latch");
        s.expect_bits(std_csr::HIP, VSS | VSE, 0, &text);
        arrive(s);
        s.guest(|_| ());
        let text = format!("{name}: the latch is cleared when V becomes 1");
        s.expect_bits(std_csr::HIP, VSS | VSE, 0, &text);
        s.write(std_csr::HIP, 0);
    }
}

fn timer_and_hvip(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    s.write(std_csr::VSTIMECMP, 0);
    s.expect_bits(std_csr::HIP, VS_LEVEL, VST, "hip.VSTIP is the comparison");
    s.write(std_csr::HIP, 0);
    s.expect_bits(std_csr::HIP, VST, VST, "which writing hip does not change");
    s.write(std_csr::VSTIMECMP, ALL);
    s.expect_bits(std_csr::HIP, VS_LEVEL, 0, "it is a level");
    s.write(std_csr::HVIP, VS_LEVEL);
    s.expect_bits(std_csr::HIP, VS_LEVEL, 0, "hvip has no influence on hip");
    s.expect_bits(std_csr::MIP, VS_LEVEL, 0, "nor on mip");
}

fn machine_view(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    s.write(std_csr::HVIP, VSE);
    s.generate(op::SOFT, 1, 0);
    s.expect_soon(std_csr::MIP, VS_LEVEL, VSS, "mip shows the host's bits");
    s.write(std_csr::VSIE, 0);
    s.write(std_csr::HIE, VS_LEVEL);
    s.expect_bits(std_csr::MIE, VS_LEVEL, VS_LEVEL, "mie shows hie");
    s.clear(std_csr::MIE, VSE);
    s.expect_bits(std_csr::HIE, VS_LEVEL, VSS | VST, "hie shows mie");
    s.write(std_csr::VSIE, SE);
    s.expect_bits(std_csr::MIE, VS_LEVEL, VSS | VST, "mie does not show vsie");
}

fn taken_by_host(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.set(std_csr::SSTATUS, status::SIE);
    s.write(std_csr::HVIP, VS_LEVEL);
    s.write(std_csr::VSIE, SS | ST | SE);
    s.write(std_csr::HIE, VS_LEVEL);
    s.wait_in(Mode::HS);
    s.expect_not_taken("what is pending for the guest only is not taken at V=0");
    s.write(std_csr::HVIP, 0);
    for (cause, name) in [(2, "software"), (6, "timer"), (10, "external")] {
        s.write(std_csr::HIE, 0);
        match cause {
            2 => s.generate(op::SOFT, 1, 0),
            6 => s.write(std_csr::VSTIMECMP, 0),
            _ => s.generate(op::EDGE, 1, 3),
        }
        s.expect_soon(
            std_csr::HIP,
            VS_LEVEL,
            1 << cause,
            &format!("{name}: it is pending"),
        );
        for hideleg in [0, VS_LEVEL] {
            s.write(std_csr::HIDELEG, hideleg);
            s.write(std_csr::HIE, 0);
            s.wait_in(Mode::U);
            s.expect_not_taken(&format!("{name}: not without hie"));
            s.write(std_csr::HIE, 1 << cause);
            s.clear(std_csr::SSTATUS, status::SIE);
            s.wait_in(Mode::HS);
            s.expect_not_taken(&format!("{name}: not in HS-mode without SIE"));
            s.wait_in(Mode::U);
            s.expect_taken(Level::Hs, cause, &format!("{name}: in U-mode without SIE"));
            s.set(std_csr::SSTATUS, status::SIE);
            s.wait_in(Mode::HS);
            s.expect_taken(Level::Hs, cause, &format!("{name}: in HS-mode"));
            s.set(std_csr::SSTATUS, status::SIE);
        }
        s.write(std_csr::HIP, 0);
        s.write(std_csr::VSTIMECMP, ALL);
    }
}

fn taken_by_guest(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.set(std_csr::VSSTATUS, status::SIE);
    s.write(std_csr::HIE, VS_LEVEL);
    s.write(std_csr::VSIE, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.write(std_csr::VSTIMECMP, 0);
    s.wait_in(Mode::VS);
    s.expect_not_taken("hie has no effect at V=1");
    for (enable, cause) in [(SS, 1), (ST, 5), (SE, 9)] {
        s.write(std_csr::HIE, 0);
        s.write(std_csr::VSIE, enable);
        s.set(std_csr::VSSTATUS, status::SIE);
        s.wait_in(Mode::VS);
        s.expect_taken(Level::Vs, cause, "taken in VS-mode");
        s.clear(std_csr::VSSTATUS, status::SIE);
        s.wait_in(Mode::VS);
        s.expect_not_taken("not in VS-mode without SIE");
        s.wait_in(Mode::VU);
        s.expect_taken(Level::Vs, cause, "taken in VU-mode without SIE");
        s.write(std_csr::HIDELEG, VS_LEVEL & !(enable << 1));
        s.write(std_csr::HIE, enable << 1);
        s.wait_in(Mode::VU);
        s.expect_not_taken("not taken if it is not delegated");
        s.write(std_csr::HIDELEG, VS_LEVEL);
    }
}

fn wait_for_interrupt(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    s.write(std_csr::VSIE, SS);
    s.generate(op::SOFT, 1, 0);
    s.expect_soon(std_csr::HIP, VSS, VSS, "the latch is set");
    s.write(std_csr::HIE, VSS);
    s.in_mode(Mode::HS, |s| {
        s.a.wfi();
    });
    s.expect_not_taken("WFI of HS-mode ends by hip and hie, without SIE");
    s.write(std_csr::HIE, 0);
    s.guest(|s| {
        s.a.wfi();
    });
    s.expect_not_taken("WFI of the guest ends by vsip and vsie, without SIE");
}

fn timer(s: &mut Script<'_>) {
    const FAR: u64 = 1 << 62;
    s.world();
    s.write(std_csr::VSTIMECMP, FAR);
    s.expect(std_csr::VSIP, 0, "the deadline is far away: vsip");
    s.expect_bits(std_csr::HIP, VST, 0, "the deadline is far away: hip");
    s.write(std_csr::HTIMEDELTA, FAR);
    s.expect(std_csr::VSIP, ST, "time + htimedelta has passed it: vsip");
    s.expect_bits(
        std_csr::HIP,
        VST,
        VST,
        "time + htimedelta has passed it: hip",
    );
    s.write(std_csr::HTIMEDELTA, 0);
    s.expect(std_csr::VSIP, 0, "and has not passed it again");
    s.guest(|s| {
        s.write(std_csr::STIMECMP, 0);
        s.expect(std_csr::SIP, ST, "the guest sets its timer");
    });
    s.expect_bits(std_csr::HIP, VST, VST, "and the host sees it");
    s.set(std_csr::SSTATUS, status::SIE);
    s.set(std_csr::VSSTATUS, status::SIE);
    s.write(std_csr::HIE, VST);
    s.write(std_csr::VSIE, 0);
    s.wait_in(Mode::VS);
    s.expect_not_taken("enable bits are separate: the guest's is 0");
    s.wait_in(Mode::HS);
    s.expect_taken(Level::Hs, 6, "enable bits are separate: the host's is 1");
    s.write(std_csr::HIE, 0);
    s.write(std_csr::VSIE, ST);
    s.wait_in(Mode::VS);
    s.expect_taken(Level::Vs, 5, "enable bits are separate: the guest's is 1");
}

fn timer_without_slot(s: &mut Script<'_>) {
    s.world();
    s.write(std_csr::VSTIMECMP, 0);
    s.expect(std_csr::VSIP, ST, "pending without a slot");
    s.attach(1, 0);
    s.expect(std_csr::VSIP, ST, "pending after an attach");
    s.attach(2, 1);
    s.expect(std_csr::VSIP, ST, "pending with another vhart");
    s.detach(state::HALTED);
    s.expect(std_csr::VSIP, ST, "pending after a detach");
    s.expect_no_notification("a timer is nothing deliverable");
}
