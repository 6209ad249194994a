//! Access from each mode, and reset.

use super::prelude::*;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("access-host", &["ACC-1"], host),
    Program::new("access-guest", &["ACC-1", "INT-9"], guest),
    Program::new("access-user", &["ACC-1"], user),
    Program::new("access-off", &["ACC-1"], off),
    Program::new("access-tvm", &["ACC-3"], other_traps),
    Program::new("access-no-hypervisor", &["ACC-2"], no_hypervisor).needs(&[Need::NoHypervisor]),
    Program::new("reset", &["ACC-4"], reset).needs(&[Need::Hypervisor, Need::Reset]),
];

const GUEST: [(u16, &str); 3] = [
    (csr::VSCLAIM, "vsclaim"),
    (csr::VSENABLE, "vsenable"),
    (csr::VSTHRESHOLD, "vsthreshold"),
];
const OPERATIONS: [(u16, &str); 2] = [(csr::SGENIPI, "sgenipi"), (csr::HGENVSI, "hgenvsi")];
const HOST: [(u16, &str); 6] = [
    (csr::HIFMAP, "hifmap"),
    (csr::HTLCFG, "htlcfg"),
    (csr::HNOTIFY, "hnotify"),
    (csr::HGRANT, "hgrant"),
    (csr::HNQBASE, "hnqbase"),
    (csr::HVTABLEBASE, "hvtablebase"),
];

/// Reads and writes of these raise an exception with this cause. What would be written is what a
/// register holds after reset, or asks for nothing.
fn refuses(s: &mut Script<'_>, list: &[(u16, &str)], cause: u64, who: &str) {
    for (register, name) in list {
        s.expect_exception(cause, &format!("{who} reads {name}"), |s| s.read(*register));
        s.expect_exception(cause, &format!("{who} writes {name}"), |s| {
            s.write(*register, 0);
        });
    }
}

fn host(s: &mut Script<'_>) {
    s.world();
    s.write(csr::HGRANT, grant(1, 1, 1));
    for mode in [Mode::M, Mode::HS] {
        let who = if mode == Mode::M { "M-mode" } else { "HS-mode" };
        s.in_mode(mode, |s| {
            for (register, name) in OPERATIONS.iter().chain(&HOST) {
                let text = format!("{who} reads {name}");
                s.expect_no_exception(&text, |s| s.read(*register));
            }
            s.expect_no_exception(&format!("{who} reads ugenvsei"), |s| s.read(csr::UGENVSEI));
            s.expect_no_exception(&format!("{who} writes what it may"), |s| {
                s.write(csr::SGENIPI, 0);
                s.write(csr::HGENVSI, command(op::SYNC, 0, 0));
                s.write(csr::UGENVSEI, 1);
                s.write(csr::HNOTIFY, 0);
                s.write(csr::HIFMAP, 0);
                s.write(csr::HTLCFG, htlcfg::EN);
            });
            refuses(s, &GUEST, ILLEGAL, who);
            s.write(csr::HGRANT, 0);
            refuses(
                s,
                &[(csr::UGENVSEI, "ugenvsei without a grant")],
                ILLEGAL,
                who,
            );
            s.write(csr::HGRANT, grant(1, 1, 1));
        });
    }
}

fn guest(s: &mut Script<'_>) {
    s.world();
    s.write(csr::HGRANT, grant(1, 1, 1));
    s.guest(|s| {
        refuses(s, &GUEST, VIRTUAL, "VS-mode without a slot");
        refuses(s, &OPERATIONS, VIRTUAL, "VS-mode without a slot");
    });
    s.attach(1, 0);
    s.guest(|s| {
        for (register, name) in GUEST.iter().chain(&OPERATIONS[..1]) {
            s.expect_no_exception(&format!("VS-mode reads {name}"), |s| s.read(*register));
            s.expect_no_exception(&format!("VS-mode writes {name}"), |s| {
                s.write(*register, 0);
            });
        }
        refuses(s, &HOST, VIRTUAL, "VS-mode");
        refuses(s, &OPERATIONS[1..], VIRTUAL, "VS-mode");
        refuses(s, &[(csr::UGENVSEI, "ugenvsei")], VIRTUAL, "VS-mode");
    });
    s.expect(
        csr::HIFMAP,
        slot(1, 0),
        "writes of the guest have not changed the slot",
    );
    s.in_mode(Mode::VU, |s| {
        refuses(s, &GUEST, VIRTUAL, "VU-mode");
        refuses(s, &OPERATIONS, VIRTUAL, "VU-mode");
        refuses(s, &HOST, VIRTUAL, "VU-mode");
        refuses(s, &[(csr::UGENVSEI, "ugenvsei")], VIRTUAL, "VU-mode");
    });
}

fn user(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.in_mode(Mode::U, |s| {
        refuses(s, &GUEST, ILLEGAL, "U-mode");
        refuses(s, &OPERATIONS, ILLEGAL, "U-mode");
        refuses(s, &HOST, ILLEGAL, "U-mode");
        refuses(
            s,
            &[(csr::UGENVSEI, "ugenvsei without a grant")],
            ILLEGAL,
            "U-mode",
        );
    });
    s.write(csr::HGRANT, grant(1, 3, 1));
    s.in_mode(Mode::U, |s| {
        s.expect_no_exception("U-mode injects what its grant covers", |s| {
            s.write(csr::UGENVSEI, 3);
        });
    });
    s.expect_soon(std_csr::VSIP, SE, SE, "and the guest sees it");
}

fn off(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.write(csr::HTLCFG, 0);
    s.write(csr::HGRANT, grant(1, 3, 1));
    s.expect(
        csr::HGRANT,
        grant(1, 3, 1),
        "M-mode is not affected by EN=0",
    );
    s.in_mode(Mode::U, |s| {
        refuses(
            s,
            &[(csr::UGENVSEI, "ugenvsei, with a grant and EN=0,")],
            ILLEGAL,
            "U-mode",
        );
    });
    for mode in [Mode::VS, Mode::VU] {
        s.in_mode(mode, |s| {
            for list in [&GUEST[..], &OPERATIONS, &HOST] {
                refuses(s, list, VIRTUAL, "a guest with EN=0");
            }
            refuses(
                s,
                &[(csr::UGENVSEI, "ugenvsei")],
                VIRTUAL,
                "a guest with EN=0",
            );
        });
    }
    s.in_mode(Mode::HS, |s| {
        s.expect_no_exception("HS-mode injects with EN=0", |s| s.write(csr::UGENVSEI, 3));
        s.expect(
            csr::HGRANT,
            grant(1, 3, 1),
            "HS-mode is not affected by EN=0",
        );
    });
    s.sync();
    let pending = s.pending(1, 0, 3);
    s.expect_word(
        pending,
        bit(3),
        bit(3),
        "what HS-mode injects with EN=0 is in the file",
    );
}

fn other_traps(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    s.set(std_csr::MSTATUS, status::TVM | status::TW);
    s.set(std_csr::HSTATUS, hstatus::VTVM | hstatus::VTW);
    s.in_mode(Mode::HS, |s| {
        s.expect_no_exception("TVM and TW leave HS-mode's accesses alone", |s| {
            for (register, _) in OPERATIONS.iter().chain(&HOST) {
                s.read(*register);
            }
        });
    });
    s.guest(|s| {
        s.expect_no_exception("VTVM and VTW leave the guest's accesses alone", |s| {
            for (register, _) in GUEST.iter().chain(&OPERATIONS[..1]) {
                s.read(*register);
                s.write(*register, 0);
            }
        });
    });
}

fn no_hypervisor(s: &mut Script<'_>) {
    s.write(std_csr::SIP, 0);
    let own = s.id(0) << sgenipi::BASE_SHIFT | 1;
    s.write(csr::SGENIPI, own);
    s.expect_soon(std_csr::SIP, SS, SS, "M-mode sends to its own hart");
    s.write(std_csr::SIP, 0);
    s.in_mode(Mode::HS, |s| {
        s.expect_no_exception("S-mode sends", |s| s.write(csr::SGENIPI, own));
        s.expect_soon(std_csr::SIP, SS, SS, "S-mode sends to its own hart");
        for list in [&GUEST[..], &HOST, &OPERATIONS[1..]] {
            refuses(s, list, ILLEGAL, "S-mode");
        }
    });
    for list in [&GUEST[..], &HOST, &OPERATIONS[1..]] {
        refuses(s, list, ILLEGAL, "M-mode");
    }
    s.in_mode(Mode::U, |s| {
        refuses(s, &OPERATIONS[..1], ILLEGAL, "U-mode");
        refuses(s, &[(csr::UGENVSEI, "ugenvsei")], ILLEGAL, "U-mode");
    });
}

fn reset(s: &mut Script<'_>) {
    for (register, name) in OPERATIONS.iter().chain(&HOST) {
        let want = if *register == csr::HTLCFG { VERSION } else { 0 };
        s.expect(*register, want, &format!("{name} after reset"));
    }
    s.expect_bits(
        std_csr::MIP,
        NOTIFY | VSS | VSE,
        0,
        "no interrupt is pending after reset",
    );
    s.expect_exception(ILLEGAL, "there is no grant after reset", |s| {
        s.write(csr::UGENVSEI, 1);
    });
}
