//! User contexts (Xhcs): a handler in U-mode interrupts a guest, in an address space of its own,
//! and HS-mode is not involved. Each test runs on the interpreter and on compiled code.

mod two_stages;

use trapless_asm as asm;
use trapless_isa::cause::{INTERRUPT, exception};
use trapless_isa::csr::{self, hstatus};
use trapless_isa::haiov::{limits, ustatus};
use trapless_isa::port::{Exchanged, Lines};
use trapless_isa::{Mode, Priv};
use two_stages::*;

/// S-stage of the other process: the handler's page, at an address that the first does not have.
const OTHER: u64 = RAM + 0xC000;
const MAPPED: u64 = 0x4000_0000 + (HANDLER - RAM);
const IRQ: u64 = 1 << limits::VEI_IRQ;
const LEAF: u64 = MMIO | V | R | W | U | AD;

/// A guest that counts in x15, which the handler at [`MAPPED`] is about to interrupt.
fn interrupted(handler: &[u32], compiled: bool) -> Bench {
    let mut bench = Bench::new(LEAF, true, compiled);
    let identity = RAM >> 12 << 10 | V | R | W | X | U | AD;
    let kernel = RAM + KERNEL;
    for (address, entry) in [(MAPPED, identity), (kernel, identity & !U)] {
        bench
            .ram
            .store(OTHER + (address >> 30) * 8, 8, entry)
            .unwrap();
    }
    program(&bench.ram, GUEST, &[asm::addi(15, 15, 1), asm::jal(0, -4)]);
    program(&bench.ram, HANDLER, handler);
    program(&bench.ram, HOST, &[]);
    bench.platform.context = Some(Exchanged {
        pc: 0,
        x: [0; 32],
        ustatus: 0,
        utvec: MAPPED,
        uscratch: 0x55,
        satp: 8 << 60 | 7 << 44 | OTHER >> 12,
        sscratch: 0,
    });
    bench.platform.lines = due();
    bench.poke(csr::MIE, IRQ);
    bench.poke(csr::MIDELEG, IRQ);
    bench.hart.set_x(15, 0);
    bench.hart.set_x(20, 0x1234);
    bench
}

fn due() -> Lines {
    Lines {
        level: IRQ,
        context: true,
        withheld: IRQ,
        ..Lines::default()
    }
}

/// Leaves what it finds in the page of the handler, behind it.
const NOTES: u64 = HANDLER + 0x400;

fn noting() -> Vec<u32> {
    let at = (NOTES - HANDLER) as i32;
    vec![
        5 << 7 | 0x17,
        asm::csrr(6, csr::UTVAL),
        asm::s(0x23, 3, 5, 6, at),
        asm::csrr(6, csr::UCAUSE),
        asm::s(0x23, 3, 5, 6, at + 8),
        asm::s(0x23, 3, 5, 20, at + 16),
        asm::csrr(6, csr::USCRATCH),
        asm::s(0x23, 3, 5, 6, at + 24),
        asm::csrr(6, csr::UEPC),
        asm::s(0x23, 3, 5, 6, at + 32),
        // Where the guest continues is not the handler's business.
        asm::csrw(csr::UEPC, 5),
        URET,
    ]
}

#[test]
fn a_handler_runs_between_two_instructions_of_the_guest() {
    for compiled in [false, true] {
        for privilege in [Priv::S, Priv::U] {
            let mut bench = interrupted(&noting(), compiled);
            bench.run(privilege);
            let note = |n: u64| bench.ram.load(NOTES + 8 * n, 8).unwrap();
            assert_eq!((note(0), note(1)), (PENDING, INTERRUPT | 8));
            assert_eq!((note(2), note(3)), (0, 0x55), "nothing of the guest");
            assert_eq!((note(4), bench.csr(csr::UEPC)), (0, 0));
            assert_eq!(bench.hart.mode(), Mode::new(privilege, true));
            assert_eq!(bench.hart.x(20), 0x1234);
            assert!(bench.hart.x(15) > 100, "the guest went on");
            assert_eq!(bench.csr(csr::UTVEC), HANDLER);
            assert_eq!(bench.csr(csr::SCAUSE), 0, "no trap to HS-mode");
        }
    }
}

/// HCS-7 and HCS-10: neither the handler nor the guest after it has the guest's reservation.
#[test]
fn handlers_end_reservations() {
    const WORD: u64 = NOTES + 0x100;
    let amo = |funct5: u32, rd, rs1, rs2| asm::r(0x2F, 3, funct5 << 2, rd, rs1, rs2);
    let handler = [
        asm::auipc(5, 0),
        asm::addi(5, 5, (WORD - HANDLER) as i32),
        amo(3, 6, 5, 0),
        asm::sd(6, 5, 8),
        URET,
    ];
    for compiled in [false, true] {
        for interrupts in [false, true] {
            let mut bench = interrupted(&handler, compiled);
            let guest = [amo(2, 5, 8, 0), asm::beq(14, 0, 0), amo(3, 7, 8, 5)];
            program(&bench.ram, GUEST, &guest);
            bench.platform.lines = Lines::default();
            for (register, value) in [(7, 5), (8, WORD), (14, 0)] {
                bench.hart.set_x(register, value);
            }
            bench.run(Priv::S);
            if interrupts {
                bench.platform.lines = due();
            }
            for x14 in [0, 1] {
                bench.hart.set_x(14, x14);
                let until = bench.hart.now() + 1000;
                bench
                    .hart
                    .run(&mut bench.code, &mut bench.platform, until, None);
            }
            let failed = u64::from(interrupts);
            assert_eq!(bench.ram.load(WORD + 8, 8), Some(failed), "the handler's");
            assert_eq!(bench.hart.x(7), failed, "the guest's");
        }
    }
}

/// The same without `hstatus.HUR` or with the interrupt disabled: nothing is interrupted.
#[test]
fn contexts_need_hur_and_the_interrupt() {
    for compiled in [false, true] {
        for (register, value) in [(csr::HSTATUS, 0), (csr::MIE, 0)] {
            let mut bench = interrupted(&noting(), compiled);
            bench.poke(register, value);
            bench.run(Priv::S);
            assert_eq!(bench.hart.mode(), Mode::VS);
            assert_eq!(bench.ram.load(NOTES, 8), Some(0));
        }
    }
}

#[test]
fn a_trap_of_the_handler_finds_everything_as_the_handler_has_it() {
    for compiled in [false, true] {
        let mut bench = interrupted(&[asm::addi(20, 0, 7), asm::ECALL], compiled);
        bench.poke(
            csr::MEDELEG,
            bench.csr(csr::MEDELEG) | 1 << exception::ECALL_U,
        );
        bench.run(Priv::S);
        assert_eq!(bench.hart.mode(), Mode::HS);
        assert_eq!(bench.csr(csr::SCAUSE), exception::ECALL_U);
        assert_eq!(bench.csr(csr::SEPC), MAPPED + 4);
        assert_eq!(bench.csr(csr::HSTATUS) & hstatus::SPV, 0);
        assert_eq!(
            (bench.hart.x(20), bench.csr(csr::SATP) >> 44 & 0xFFFF),
            (7, 7)
        );
        let from = ustatus::UC | ustatus::UH | ustatus::UPV | ustatus::UPP;
        assert_eq!(bench.csr(csr::USTATUS), from);
    }
}

/// Interrupt 25 waits for the end of the handler, unless the controller says that it must not.
#[test]
fn the_event_interrupt_waits_for_the_handler() {
    for compiled in [false, true] {
        let mut bench = interrupted(&[], compiled);
        bench.run(Priv::S);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::U, MAPPED));
        bench.platform.lines.withheld = 0;
        let until = bench.hart.now() + 100;
        bench
            .hart
            .run(&mut bench.code, &mut bench.platform, until, None);
        assert_eq!(bench.hart.mode(), Mode::HS);
        assert_eq!(bench.csr(csr::SCAUSE), INTERRUPT | limits::VEI_IRQ);
    }
}

/// ASIDs are recycled without a word to those who keep a `satp` for later: every SFENCE.VMA and
/// SINVAL.VMA drops the translations of user contexts, whatever ASID it names (HCS-8).
#[test]
fn any_fence_drops_the_translations_of_contexts() {
    for compiled in [false, true] {
        for funct7 in [None, Some(0x09), Some(0x0B)] {
            let mut bench = interrupted(&noting(), compiled);
            let again = bench.platform.context;
            bench.run(Priv::S);
            // The page of the handler goes away, and HS-mode fences another ASID.
            bench.ram.store(OTHER + (MAPPED >> 30) * 8, 8, 0).unwrap();
            let fence = funct7.map(|funct7| asm::r(0x73, 0, funct7, 0, 0, 11));
            let host = [
                fence.unwrap_or(asm::addi(0, 0, 0)),
                asm::csrr(6, csr::SEPC),
                asm::addi(6, 6, 4),
                asm::csrw(csr::SEPC, 6),
                asm::csrw(csr::SIE, 12),
                asm::SRET,
            ];
            program(&bench.ram, HOST, &host);
            program(&bench.ram, GUEST, &[asm::ECALL]);
            bench.code.compare(&bench.ram);
            bench.platform.context = again;
            bench.platform.lines = due();
            bench.poke(csr::MIE, 0);
            bench.poke(
                csr::MEDELEG,
                bench.csr(csr::MEDELEG) | 1 << exception::ECALL_VS,
            );
            bench.hart.set_x(11, 3);
            bench.hart.set_x(12, IRQ);
            bench.hart.set_pc(GUEST);
            let until = bench.hart.now() + 2000;
            bench
                .hart
                .run(&mut bench.code, &mut bench.platform, until, None);
            if fence.is_some() {
                assert_ne!(bench.hart.mode(), Mode::VS);
                assert_eq!(bench.csr(csr::SCAUSE), exception::FETCH_PAGE);
            } else {
                assert_eq!(bench.hart.mode(), Mode::VS, "the handler ran");
                assert_eq!(bench.platform.context, None);
            }
        }
    }
}

/// HS-mode can begin a handler, in a thread of its process, and is notified of its end.
#[test]
fn the_end_of_a_handler_that_hs_mode_began_is_an_exception() {
    for compiled in [false, true] {
        let mut bench = Bench::new(LEAF, true, compiled);
        program(&bench.ram, GUEST, &[URET]);
        program(&bench.ram, HOST, &[]);
        bench.poke(csr::USTATUS, ustatus::UH | ustatus::UPP);
        bench.poke(
            csr::MEDELEG,
            bench.csr(csr::MEDELEG) | 1 << exception::ECALL_U,
        );
        bench.enter(false, 0);
        assert_eq!(bench.hart.mode(), Mode::HS);
        assert_eq!(bench.csr(csr::SCAUSE), exception::HANDLER_END);
        assert_eq!(bench.csr(csr::SEPC), GUEST);
    }
}

/// HCS-15: only HS- or M-mode can have written UC, or taken the context from the hart, where no
/// handler of a context runs. There is no guest to continue, wherever the block with URET began.
#[test]
fn uret_without_a_context_is_illegal() {
    for compiled in [false, true] {
        let mut bench = Bench::new(LEAF, true, compiled);
        let counts = [
            asm::addi(15, 15, -1),
            asm::bne(15, 0, -4),
            asm::addi(16, 16, 1),
            URET,
        ];
        program(&bench.ram, GUEST, &counts);
        program(&bench.ram, HOST, &[]);
        let status = ustatus::UC | ustatus::UH | ustatus::UPV | ustatus::UPP;
        bench.poke(csr::USTATUS, status);
        bench.poke(csr::UEPC, GUEST);
        let delegated = bench.csr(csr::MEDELEG) | 1 << exception::ILLEGAL;
        bench.poke(csr::MEDELEG, delegated);
        bench.hart.set_x(15, 200);
        bench.enter(false, 0);
        assert_eq!(bench.hart.mode(), Mode::HS);
        assert_eq!(bench.csr(csr::SCAUSE), exception::ILLEGAL);
        assert_eq!(bench.csr(csr::SEPC), GUEST + 12);
        assert_eq!(bench.hart.x(16), 1, "executed once");
        assert_eq!(
            (bench.csr(csr::USTATUS), bench.csr(csr::UEPC)),
            (status, GUEST)
        );
    }
}
