//! User-level exception redirection (Xuer): a guest's access to a page marked MMIO is handled in
//! U-mode, in the address space that `satp` names, and HS-mode is not involved. Each test runs on
//! the interpreter and on compiled code.

mod two_stages;

use trapless_asm as asm;
use trapless_isa::cause::exception;
use trapless_isa::csr::{self, envcfg, hstatus};
use trapless_isa::haiov::ustatus;
use trapless_isa::{Mode, Priv};
use two_stages::*;

/// `lbu a0, 5(a1)` and `sb a2, 3(a1)` in the guest; the handler answers loads with 0x41, keeps
/// what is stored in s0, steps over the instruction and returns.
fn answering(bench: &mut Bench) {
    let guest = [
        asm::i(0x03, 4, 10, 11, 5),
        asm::s(0x23, 0, 11, 12, 3),
        asm::addi(13, 13, 1),
    ];
    program(&bench.ram, GUEST, &guest);
    let handler = [
        asm::csrr(5, csr::UCAUSE),
        asm::addi(5, 5, -(exception::LOAD_MMIO_PAGE as i32)),
        asm::bne(5, 0, 12),
        asm::addi(10, 0, 0x41),
        asm::jal(0, 12),
        asm::addi(8, 12, 0),
        asm::csrr(9, csr::UTVAL),
        asm::csrr(6, csr::UEPC),
        asm::addi(6, 6, 4),
        asm::csrw(csr::UEPC, 6),
        asm::csrr(7, csr::UTINST),
        URET,
    ];
    program(&bench.ram, HANDLER, &handler);
    bench.hart.set_x(11, DEVICE);
    bench.hart.set_x(12, 0x7E);
}

#[test]
fn a_handler_in_user_mode_answers_and_returns_to_the_guest() {
    for compiled in [false, true] {
        for privilege in [Priv::S, Priv::U] {
            let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, compiled);
            answering(&mut bench);
            bench.run(privilege);
            let hart = &bench.hart;
            assert_eq!(hart.mode(), Mode::new(privilege, true));
            assert_eq!(hart.pc(), GUEST + 12, "the guest went on");
            assert_eq!((hart.x(10), hart.x(8)), (0x41, 0x7E));
            assert_eq!(hart.x(9), DEVICE + 3, "utval is the guest physical address");
            // Store of a byte from a2, by a word of 32 bits: as `htinst` reports it.
            assert_eq!(hart.x(7), 0x00C0_0023);
            assert_eq!(bench.csr(csr::USTATUS), ustatus::UPIE);
            assert_eq!(bench.csr(csr::SCAUSE), 0, "no trap to HS-mode");
        }
    }
}

#[test]
fn the_handler_can_read_where_it_came_from() {
    for compiled in [false, true] {
        let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, compiled);
        answering(&mut bench);
        program(&bench.ram, HANDLER, &[]);
        bench.run(Priv::S);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::U, HANDLER));
        let expected = ustatus::UH | ustatus::UPV | ustatus::UPP;
        assert_eq!(bench.csr(csr::USTATUS), expected);
        assert_eq!(bench.csr(csr::UCAUSE), exception::LOAD_MMIO_PAGE);
        assert_eq!(bench.csr(csr::UEPC), GUEST);
    }
}

/// Where the access goes with a leaf, HUR and delegation as given.
fn ends_in(leaf: u64, hur: bool, delegated: bool, store: bool) -> (Mode, u64) {
    let mut bench = Bench::new(leaf, true, false);
    let access = if store {
        asm::s(0x23, 0, 11, 12, 0)
    } else {
        asm::i(0x03, 4, 10, 11, 0)
    };
    program(&bench.ram, GUEST, &[access]);
    program(&bench.ram, HANDLER, &[]);
    program(&bench.ram, HOST, &[]);
    bench.hart.set_x(11, DEVICE);
    if !hur {
        bench.poke(csr::HSTATUS, 0);
    }
    if !delegated {
        bench.poke(csr::HUEDELEG, 0);
    }
    bench.run(Priv::S);
    let cause = match bench.hart.mode() {
        Mode::U => bench.csr(csr::UCAUSE),
        _ => bench.csr(csr::SCAUSE),
    };
    (bench.hart.mode(), cause)
}

#[test]
fn without_permission_delegation_or_hur_it_is_a_guest_page_fault() {
    use exception::{LOAD_GUEST_PAGE, LOAD_MMIO_PAGE, STORE_GUEST_PAGE, STORE_MMIO_PAGE};
    let leaf = MMIO | V | R | W | U | AD;
    assert_eq!(ends_in(leaf, true, true, false), (Mode::U, LOAD_MMIO_PAGE));
    assert_eq!(ends_in(leaf, true, true, true), (Mode::U, STORE_MMIO_PAGE));
    let host = |store| {
        let cause = if store {
            STORE_GUEST_PAGE
        } else {
            LOAD_GUEST_PAGE
        };
        (Mode::HS, cause)
    };
    for store in [false, true] {
        assert_eq!(ends_in(leaf, false, true, store), host(store), "HUR is 0");
        assert_eq!(ends_in(leaf, true, false, store), host(store), "huedeleg");
        assert_eq!(ends_in(leaf & !U, true, true, store), host(store), "no U");
        assert_eq!(ends_in(leaf & !V, true, true, store), host(store), "no V");
        let reserved = leaf | 1 << 58;
        assert_eq!(ends_in(reserved, true, true, store), host(store), "type 3");
    }
    assert_eq!(ends_in(leaf & !W, true, true, true), host(true), "no W");
    assert_eq!(ends_in(leaf & !W, true, true, false).0, Mode::U, "R alone");
}

#[test]
fn without_the_extension_nothing_of_it_exists() {
    let mut bench = Bench::new(MMIO | V | R | W | U | AD, false, false);
    program(&bench.ram, GUEST, &[asm::i(0x03, 4, 10, 11, 0)]);
    program(&bench.ram, HOST, &[]);
    bench.hart.set_x(11, DEVICE);
    bench.poke(csr::HSTATUS, hstatus::HUR);
    assert_eq!(bench.csr(csr::HSTATUS) & hstatus::HUR, 0);
    bench.run(Priv::S);
    assert_eq!(bench.hart.mode(), Mode::HS);
    assert_eq!(bench.csr(csr::SCAUSE), exception::LOAD_GUEST_PAGE);
    for register in [csr::USTATUS, csr::UTVEC, csr::UTINST, csr::HUEDELEG] {
        assert_eq!(bench.hart.peek_csr(register), None);
    }
}

/// Promise: sstateen0 is the guest's while a handler runs, and withholds nothing from it.
#[test]
fn the_guests_state_enables_do_not_concern_the_handler() {
    let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, false);
    bench.poke(csr::SSTATEEN0, 0);
    program(&bench.ram, GUEST, &[asm::i(0x03, 4, 10, 11, 0)]);
    program(
        &bench.ram,
        HANDLER,
        &[asm::csrw(CUSTOM, 0), asm::addi(12, 0, 9)],
    );
    program(&bench.ram, HOST, &[]);
    bench.hart.set_x(11, DEVICE);
    bench.run(Priv::S);
    assert_eq!((bench.hart.mode(), bench.hart.x(12)), (Mode::U, 9));
}

/// What the handler's `word` traps with, if it does.
fn in_handler(word: u32) -> Option<u64> {
    let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, false);
    program(&bench.ram, GUEST, &[asm::i(0x03, 4, 10, 11, 0)]);
    program(&bench.ram, HANDLER, &[word]);
    program(&bench.ram, HOST, &[]);
    bench.hart.set_x(11, DEVICE);
    bench.run(Priv::S);
    let trapped = bench.hart.mode() == Mode::HS;
    if trapped {
        assert_eq!(bench.csr(csr::HSTATUS) & hstatus::SPV, 0, "not the guest's");
        assert_ne!(bench.csr(csr::USTATUS) & ustatus::UH, 0, "still a handler");
    }
    trapped.then(|| bench.csr(csr::SCAUSE))
}

#[test]
fn a_handler_may_use_its_registers_and_nothing_of_the_guest_or_host() {
    assert_eq!(in_handler(asm::csrw(csr::USCRATCH, 10)), None);
    assert_eq!(in_handler(asm::csrr(10, csr::USTATUS)), None);
    assert_eq!(in_handler(0x0000_0073), Some(exception::ECALL_U));
    // fadd.s: the registers are the guest's, although sstatus.FS is on.
    assert_eq!(in_handler(0x0000_0053), Some(exception::ILLEGAL));
    for register in [csr::HUEDELEG, csr::VSSTATUS, csr::HSTATUS, csr::SSCRATCH] {
        let read = asm::csrr(10, register);
        assert_eq!(in_handler(read), Some(exception::ILLEGAL), "{register:#x}");
    }
}

/// UER-11: `senvcfg` and `scounteren` are the guest's while a handler runs; they neither permit the
/// handler anything nor withhold anything from it.
#[test]
fn the_guests_environment_is_not_the_handlers() {
    const CBO_ZERO: u32 = 4 << 20 | 12 << 15 | 2 << 12 | 0x0F;
    let cycle = asm::csrr(10, csr::CYCLE);
    let time = asm::csrr(10, csr::TIME);
    for compiled in [false, true] {
        for guest in [0, u64::MAX] {
            for (word, legal) in [(CBO_ZERO, false), (cycle, false), (time, true)] {
                let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, compiled);
                for (register, value) in [
                    (csr::MENVCFG, envcfg::CBZE),
                    (csr::HENVCFG, envcfg::CBZE),
                    (csr::MCOUNTEREN, u64::MAX),
                    (csr::HCOUNTEREN, u64::MAX),
                    (csr::SENVCFG, guest),
                    (csr::SCOUNTEREN, guest),
                ] {
                    bench.poke(register, value);
                }
                program(&bench.ram, GUEST, &[asm::i(0x03, 4, 10, 11, 0)]);
                program(&bench.ram, HANDLER, &[asm::addi(12, 2, 0), word]);
                program(&bench.ram, HOST, &[]);
                bench.hart.set_x(2, HANDLER + 0x800);
                bench.hart.set_x(11, DEVICE);
                bench.run(Priv::S);
                let seen = (bench.hart.mode(), bench.csr(csr::SCAUSE));
                let expected = if legal {
                    (Mode::U, 0)
                } else {
                    (Mode::HS, exception::ILLEGAL)
                };
                assert_eq!(seen, expected, "{word:#x} with {guest:#x}");
            }
        }
    }
}

#[test]
fn a_process_of_the_host_is_no_handler_whatever_ustatus_holds() {
    let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, false);
    // fadd.s is legal, the registers are not there.
    let program_words = [
        0x0000_0053,
        asm::addi(10, 0, 7),
        asm::csrr(11, csr::USTATUS),
    ];
    program(&bench.ram, GUEST, &program_words);
    program(&bench.ram, HOST, &[]);
    bench.poke(csr::USTATUS, ustatus::UH | ustatus::UPV);
    bench.poke(csr::HSTATUS, 0);
    bench.enter(false, 0);
    assert_eq!((bench.hart.mode(), bench.hart.x(10)), (Mode::HS, 7));
    assert_eq!(bench.csr(csr::SCAUSE), exception::ILLEGAL);
    assert_eq!(bench.csr(csr::SEPC), GUEST + 8);
}

#[test]
fn a_handler_cannot_choose_where_it_returns_to() {
    let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, false);
    program(&bench.ram, GUEST, &[asm::i(0x03, 4, 10, 11, 0)]);
    program(&bench.ram, HANDLER, &[asm::csrw(csr::USTATUS, 0)]);
    bench.hart.set_x(11, DEVICE);
    bench.run(Priv::S);
    let expected = ustatus::UH | ustatus::UPV | ustatus::UPP;
    assert_eq!(bench.csr(csr::USTATUS), expected);
}

#[test]
fn the_guest_does_not_see_the_registers() {
    for privilege in [Priv::S, Priv::U] {
        for word in [asm::csrr(10, csr::USTATUS), asm::csrw(csr::UTVEC, 10)] {
            let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, false);
            bench.poke(csr::MEDELEG, 1 << exception::VIRTUAL_INSTRUCTION);
            program(&bench.ram, GUEST, &[word]);
            program(&bench.ram, HOST, &[]);
            bench.run(privilege);
            assert_eq!(bench.csr(csr::SCAUSE), exception::VIRTUAL_INSTRUCTION);
        }
        // `uret` is no instruction of a guest.
        let mut bench = Bench::new(MMIO | V | R | W | U | AD, true, false);
        program(&bench.ram, GUEST, &[URET]);
        program(&bench.ram, HOST, &[]);
        bench.run(privilege);
        assert_eq!(bench.csr(csr::SCAUSE), exception::ILLEGAL);
    }
}
