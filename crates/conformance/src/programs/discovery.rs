//! Discovery.

use trapless_asm::reg::{A0, A1, S0, S1, S2, T0, T1, T2, ZERO};
use trapless_isa::xtrapless::{isa, wcontrol};

use super::prelude::*;
use crate::layout;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("isa-string", &["DISC-1"], isa_string)
        .needs(&[Need::Hypervisor, Need::DeviceTree]),
    Program::new("hart-numbers", &["DISC-2"], hart_numbers).harts(2),
    Program::new("version", &["DISC-3"], version),
    Program::new("largest-tables", &["DISC-4", "CSR-6"], largest_tables),
    Program::new("largest-queue", &["DISC-4", "NTF-3"], largest_queue),
    Program::new("windows-found", &["DISC-5"], windows_found)
        .needs(&[Need::Hypervisor, Need::DeviceTree]),
];

/// Leaves in `a0` how often the bytes of `text` are in the device tree. `s0` to `s2` are lost.
fn count_in_device_tree(s: &mut Script<'_>, text: &str) {
    s.load_device_tree();
    let (next, miss, out) = (s.a.label(), s.a.label(), s.a.label());
    // totalsize, big-endian.
    s.a.addi(S0, A0, 0);
    s.a.li(S1, 0);
    for byte in 4..8 {
        s.a.slli(S1, S1, 8).lbu(T0, S0, byte).or(S1, S1, T0);
    }
    s.a.add(S1, S1, S0).addi(S1, S1, -(text.len() as i32));
    s.a.li(S2, 0);
    s.a.bind(next);
    s.a.bgeu(S0, S1, out);
    for (at, byte) in text.bytes().enumerate() {
        s.a.lbu(T1, S0, at as i32).li(T2, byte.into());
        s.a.bne(T1, T2, miss);
    }
    s.a.addi(S2, S2, 1);
    s.a.bind(miss);
    s.a.addi(S0, S0, 1).j(next);
    s.a.bind(out);
    s.a.addi(A0, S2, 0);
    s.a.addi(A1, ZERO, 0);
}

fn isa_string(s: &mut Script<'_>) {
    count_in_device_tree(s, isa::XTRAPLESSVI);
    s.differs(0, "the device tree names the extension");
    count_in_device_tree(s, "trapless,virtual-interrupts\0");
    s.compare(ALL, 1, "and has the node of notification interrupts");
    count_in_device_tree(s, "trapless,ipi\0");
    s.compare(ALL, 1, "and the node of sgenipi");
}

fn hart_numbers(s: &mut Script<'_>) {
    s.world();
    for hart in 0..2 {
        let (at, id) = (s.ctl(1, hart as u64), s.id(hart));
        s.on(hart, |s| s.attach(1, hart as u64));
        s.expect_word(
            at,
            ALL,
            ctl(state::LOADED, id, 0),
            "CTL.HART is the hart ID",
        );
        s.on(hart, |s| s.write(std_csr::SIP, 0));
        s.write(csr::SGENIPI, id << sgenipi::BASE_SHIFT | 1);
        s.on(hart, |s| {
            s.expect_soon(std_csr::SIP, SS, SS, "sgenipi names it by its hart ID")
        });
    }
}

fn version(s: &mut Script<'_>) {
    let field = htlcfg::VERSION;
    s.expect_bits(csr::HTLCFG, field, VERSION, "VERSION is 1");
    for value in [0, ALL & !htlcfg::EN, field] {
        s.write(csr::HTLCFG, value);
        s.expect_bits(csr::HTLCFG, field, VERSION, "VERSION is read-only");
    }
    s.in_mode(Mode::HS, |s| {
        s.expect_bits(csr::HTLCFG, field, VERSION, "VERSION in HS-mode")
    });
}

/// The last domain of the largest table, with the last vhart and the last source.
fn largest_tables(s: &mut Script<'_>) {
    const DOMAIN: u64 = 0xffff;
    s.world();
    // The tables of the last domain lie behind the domain table of 2 MiB.
    let table = s.at(layout::LARGE);
    let own = table + 0x20_0000;
    let entry = table + DOMAIN * domain::SIZE;
    let (vharts, sources, lines) = (own, own + 0x2000, own + 0x4000);
    let file = own + 0x8000;
    let clear = |s: &mut Script<'_>, from: u64, bytes: u64| {
        let out = s.a.label();
        s.a.li(T0, from).li(T1, from + bytes);
        let again = s.a.here();
        s.a.bgeu(T0, T1, out)
            .sd(ZERO, T0, 0)
            .addi(T0, T0, 8)
            .j(again);
        s.a.bind(out);
    };
    clear(s, own, 0x8000 + file::SIZE);
    // Limits of the entry above what there is act as what there is.
    s.store(entry + domain::CONFIG, config(0xffff, 0xffff));
    s.store(entry + domain::VHART_TABLE, vharts | 5);
    s.store(entry + domain::SOURCE_TABLE, sources | 3);
    s.store(entry + domain::LINES, lines | 7);
    s.store(vharts + 1023 * vhart::SIZE, vhart::ENTRY_V | file);
    let word = 1023 / 64 * file::PENDING_STRIDE;
    s.store(file + file::ENABLE + word, bit(1023));
    s.store(sources + 1023 * 8, LEVEL.vhart(1023).entry());
    s.write(csr::HVTABLEBASE, hvtablebase::V | table | 16);
    s.attach(DOMAIN, 1023);
    s.expect(
        csr::HIFMAP,
        slot(DOMAIN, 1023),
        "the last vhart of the last domain",
    );
    s.generate(op::ASSERT, DOMAIN, 1023);
    s.sync();
    s.expect_word(file + word, ALL, bit(1023), "the last source is posted");
    s.expect_word(
        lines + 1023 / 64 * 8,
        ALL,
        bit(1023),
        "and its line is high",
    );
    s.expect_soon(std_csr::VSIP, SE, SE, "and shows in vsip");
    s.guest(|s| {
        s.write(csr::SGENIPI, 1 << 31 | (1023 - 31) << sgenipi::BASE_SHIFT);
        s.expect_bits(std_csr::SIP, SS, SS, "sgenipi reaches the last vhart");
        s.expect_claim(1023, "the last source is claimed");
        s.expect_claim(0, "once");
        s.write(csr::VSCLAIM, 1023);
        s.expect_claim(
            1023,
            "and posted again by its completion, as its line is high",
        );
    });
    // Nothing is beyond.
    s.store(vharts + 1024 * vhart::SIZE, vhart::ENTRY_V | file);
    s.store(sources + 1024 * 8, EDGE.vhart(1023).entry());
    s.generate(op::EDGE, DOMAIN, 1024);
    s.sync();
    s.expect_word(file + 1024 / 64 * 16, ALL, 0, "there is no source 1024");
    s.write(csr::HIFMAP, slot(DOMAIN, 1024));
    s.expect(csr::HIFMAP, 0, "there is no vhart 1024");
}

fn largest_queue(s: &mut Script<'_>) {
    const ENTRIES: u64 = 1 << 12;
    s.world();
    let ring = s.at(layout::LARGE);
    s.write(csr::HNQBASE, hnqbase::EN | ring | 12);
    let at = s.ctl(1, 0);
    let post = |s: &mut Script<'_>, vhart: u64| {
        let at = s.ctl(1, vhart);
        s.store(at, ctl(state::PREEMPTED, s.id(0), 0));
        s.generate(op::SOFT, 1, vhart);
    };
    post(s, 1);
    s.repeat(ENTRIES - 2, |s| {
        s.store(at, ctl(state::HALTED, s.id(0), 0));
        s.generate(op::SOFT, 1, 0);
    });
    s.sync();
    post(s, 2);
    s.sync();
    s.settle();
    s.expect(
        csr::HNOTIFY,
        notification(kind::YIELD, 1, 1),
        "the first of 4096",
    );
    s.repeat(ENTRIES - 2, |s| {
        s.expect_notification(notification(kind::WAKE, 1, 0), "those in between");
    });
    s.expect_only_notification(notification(kind::YIELD, 1, 2), "the last of 4096");
}

fn windows_found(s: &mut Script<'_>) {
    count_in_device_tree(s, "trapless,message-windows\0");
    let windows = s.platform().windows;
    let there = u64::from(windows.is_some());
    s.compare(
        ALL,
        there,
        "the node is there if and only if there are message windows",
    );
    if let Some(windows) = windows {
        s.load(windows.control + wcontrol::CAP);
        let version = limits::VERSION << wcontrol::CAP_VERSION_SHIFT;
        s.compare(wcontrol::CAP_VERSION, version, "VERSION in CAP");
        for value in [0, ALL] {
            s.store(windows.control + wcontrol::CAP, value);
            s.load(windows.control + wcontrol::CAP);
            s.compare(wcontrol::CAP_VERSION, version, "CAP is read-only");
        }
    }
}
