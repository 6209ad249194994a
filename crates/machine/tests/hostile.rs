//! Broken guests and broken files: an error the user understands or the fault the architecture asks
//! for, never a crash.

mod common;

use common::*;
use trapless_machine::{Content, Limits, Machine, Outcome, Payload};

/// Stores `mcause` and `mtval` of the first trap and powers off.
fn with_handler(body: impl FnOnce(&mut Asm)) -> Machine {
    let mut a = Asm::new(RAM);
    let (start, handler) = (a.label(), a.label());
    a.j(start);
    a.bind(handler);
    a.li(T1, DATA)
        .csrr(T0, MCAUSE)
        .sd(T0, T1, 0)
        .csrr(T0, MTVAL)
        .sd(T0, T1, 8);
    a.power_off();
    a.bind(start);
    let vector = a.address(handler);
    a.li(T0, vector).csrw(MTVEC, T0);
    body(&mut a);
    a.power_off();
    let mut machine = Machine::boot(config("sbi", 1), &a.payload(), quiet()).unwrap();
    let limits = Limits {
        instret: 1_000_000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::PoweredOff);
    machine
}

fn trap(machine: &Machine) -> (u64, u64) {
    let word = |index: u64| machine.ram().load(DATA + 8 * index, 8).unwrap();
    (word(0), word(1))
}

#[test]
fn access_to_nowhere_is_an_access_fault() {
    let beyond = RAM + (32 << 20);
    for addr in [
        0,
        0x3000_0000,
        0x1000_9000,
        beyond,
        beyond - 4,
        u64::MAX - 7,
    ] {
        let machine = with_handler(|a| {
            a.li(S0, addr).ld(T0, S0, 0);
        });
        assert_eq!(trap(&machine), (5, addr), "load at {addr:#x}");
        let machine = with_handler(|a| {
            a.li(S0, addr).sd(ZERO, S0, 0);
        });
        assert_eq!(trap(&machine), (7, addr), "store at {addr:#x}");
    }
}

#[test]
fn rom_cannot_be_written_and_plic_wants_words() {
    let store = |addr: u64| {
        trap(&with_handler(|a| {
            a.li(S0, addr).sw(ZERO, S0, 0);
        }))
    };
    let load = |addr: u64| {
        trap(&with_handler(|a| {
            a.li(S0, addr).ld(T0, S0, 0);
        }))
    };
    assert_eq!(store(0x1000), (7, 0x1000));
    assert_eq!(load(0xc00_0000), (5, 0xc00_0000));
    // The last bytes of a window do not reach into the next.
    assert_eq!(load(0x1000_00f9), (5, 0x1000_00f9));
    assert_eq!(load(0x1000_0100), (5, 0x1000_0100));
}

#[test]
fn sstc_registers_exist_only_where_the_machine_has_them() {
    let machine = with_handler(|a| {
        a.csrr(T0, 0x14d);
    });
    assert_eq!(trap(&machine).0, 2);
}

#[test]
fn double_fault_in_machine_mode_continues_forever_but_stops_at_the_limit() {
    let mut a = Asm::new(RAM);
    a.csrw(MTVEC, ZERO).word(0);
    let mut machine = Machine::boot(config("sbi", 1), &a.payload(), quiet()).unwrap();
    let limits = Limits {
        until: 10_000_000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::Limit);
    assert_eq!(machine.harts()[0].pc(), 0);
}

#[test]
fn finisher_and_stop_handle_end_a_run() {
    let mut a = Asm::new(RAM);
    a.li(T0, 0x10_0000).li(T1, 0x3333 | 42 << 16).sw(T1, T0, 0);
    let mut machine = Machine::boot(config("sbi", 1), &a.payload(), quiet()).unwrap();
    assert_eq!(machine.run(&Limits::default()), Outcome::Exit(42));

    let mut a = Asm::new(RAM);
    let forever = a.here();
    a.j(forever);
    let mut machine = Machine::boot(config("sbi", 1), &a.payload(), quiet()).unwrap();
    machine
        .stop_handle()
        .store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(machine.run(&Limits::default()), Outcome::Stopped);
}

#[test]
fn unusable_files_are_explained() {
    let fw = || Some(vec![0x13, 0, 0, 0]);
    let mut image = vec![0; 4096];
    image[56..60].copy_from_slice(b"RSC\x05");
    let cases: Vec<(Payload, &str)> = vec![
        (Payload::default(), "nothing to boot"),
        (
            Payload {
                firmware: Some(vec![]),
                ..Payload::default()
            },
            "firmware file is empty",
        ),
        (
            Payload {
                firmware: Some(vec![0; 33 << 20]),
                ..Payload::default()
            },
            "larger --ram",
        ),
        (
            Payload {
                firmware: Some(b"\x7fELFxx".to_vec()),
                ..Payload::default()
            },
            "64-bit",
        ),
        (
            Payload {
                kernel: Some(Content::Bytes(b"hello".to_vec())),
                ..Payload::default()
            },
            "neither",
        ),
        (
            Payload {
                firmware: fw(),
                initrd: Some(Content::Bytes(vec![])),
                ..Payload::default()
            },
            "initrd",
        ),
        (
            Payload {
                firmware: fw(),
                kernel: Some(Content::Bytes(image.clone())),
                initrd: Some(Content::Bytes(vec![1; 17 << 20])),
                ..Payload::default()
            },
            "the initrd does not fit",
        ),
        (
            Payload {
                firmware: fw(),
                dtb: Some(b"/dts-v1/;".to_vec()),
                ..Payload::default()
            },
            "not a flattened device tree",
        ),
        (
            Payload {
                firmware: fw(),
                dtb: Some(vec![]),
                ..Payload::default()
            },
            "device tree",
        ),
    ];
    for (payload, part) in cases {
        let error = Machine::boot(config("sbi", 1), &payload, quiet()).err();
        let error = error.map_or("no error".into(), |e| e.to_string());
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

#[test]
fn device_tree_override_reaches_the_guest_with_boot_arguments() {
    let own = Machine::boot(
        config("sbi", 2),
        &Payload {
            firmware: Some(vec![0x13, 0, 0, 0]),
            ..Payload::default()
        },
        quiet(),
    )
    .unwrap();
    let payload = Payload {
        firmware: Some(vec![0x13, 0, 0, 0]),
        dtb: Some(own.device_tree().to_vec()),
        append: "quiet".into(),
        ..Payload::default()
    };
    let machine = Machine::boot(config("sbi", 1), &payload, quiet()).unwrap();
    let tree = trapless_machine::boot::dtb::Tree::parse(machine.device_tree()).unwrap();
    assert_eq!(
        tree.root.at("chosen").unwrap().text("bootargs"),
        Some("quiet")
    );
    assert!(
        tree.root.at("cpus/cpu@1").is_some(),
        "the override describes two harts"
    );
}
