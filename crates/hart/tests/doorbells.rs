//! Doorbell pages (Xvei): a guest's loads and stores go to the platform without a trap, unless
//! nothing there answers. Each test runs on the interpreter and on compiled code.

mod two_stages;

use trapless_asm as asm;
use trapless_hart::DoorbellPage;
use trapless_isa::cause::exception;
use trapless_isa::csr;
use trapless_isa::port::DoorbellFault;
use trapless_isa::{Mode, Priv};
use two_stages::*;

/// The doorbell page.
const PAGE: u64 = RAM + 0xB000;
const DOORBELL: u64 = 2 << 57 | PAGE >> 12 << 10 | V | R | W | U | AD;
const MISS: DoorbellFault = DoorbellFault { mmio: false };

const LOAD: u32 = asm::i(0x03, 2, 10, 11, 0x60);
const STORE: u32 = asm::s(0x23, 2, 11, 12, 0x50);

/// A guest that executes `inst` with the device's address in a1 and 0x17e in a2.
fn guest(inst: u32, leaf: u64, answer: Result<u64, DoorbellFault>, compiled: bool) -> Bench {
    let mut bench = Bench::new(leaf, true, compiled);
    program(&bench.ram, GUEST, &[inst]);
    program(&bench.ram, HANDLER, &[]);
    program(&bench.ram, HOST, &[]);
    bench.hart.set_x(11, DEVICE);
    bench.hart.set_x(12, 0x17E);
    bench.platform.answer = answer;
    bench.run(Priv::S);
    bench
}

#[test]
fn accesses_that_are_answered_do_not_trap() {
    for compiled in [false, true] {
        let bench = guest(STORE, DOORBELL, Ok(0), compiled);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::VS, GUEST + 4));
        let access = bench.platform.rung[0];
        assert_eq!(bench.platform.rung.len(), 1);
        assert_eq!((access.page, access.offset, access.size), (PAGE, 0x50, 4));
        assert_eq!((access.stored, access.mode), (Some(0x17E), Mode::VS));

        let bench = guest(LOAD, DOORBELL, Ok(0xFFFF_FFFF), compiled);
        assert_eq!(bench.hart.x(10), u64::MAX, "LW extends the sign");
        assert_eq!(bench.platform.rung[0].stored, None);
        assert_eq!(bench.csr(csr::SCAUSE) | bench.csr(csr::UCAUSE), 0);
    }
}

#[test]
fn the_others_fault_as_if_nothing_were_there() {
    for compiled in [false, true] {
        let store = guest(STORE, DOORBELL, Err(MISS), compiled);
        assert_eq!(store.hart.mode(), Mode::HS);
        assert_eq!(store.csr(csr::SCAUSE), exception::STORE_GUEST_PAGE);
        assert_eq!(store.csr(csr::HTVAL), (DEVICE + 0x50) >> 2);
        assert_ne!(store.csr(csr::HTINST), 0, "the host need not fetch it");
        let load = guest(LOAD, DOORBELL, Err(MISS), compiled);
        assert_eq!(load.csr(csr::SCAUSE), exception::LOAD_GUEST_PAGE);
    }
}

#[test]
fn a_page_can_leave_the_others_to_user_mode() {
    for compiled in [false, true] {
        let answer = Err(DoorbellFault { mmio: true });
        let bench = guest(STORE, DOORBELL, answer, compiled);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::U, HANDLER));
        assert_eq!(bench.csr(csr::UCAUSE), exception::STORE_MMIO_PAGE);
        assert_eq!(bench.csr(csr::UTVAL), DEVICE + 0x50);
    }
}

/// What is no plain load or store of the guest through a permitted 4 KiB leaf never gets there.
#[test]
fn other_accesses_are_guest_page_faults() {
    let amo = asm::r(0x2F, 2, 0, 10, 11, 12);
    let lr = asm::r(0x2F, 2, 0x08, 10, 11, 0);
    let fetch = asm::i(0x67, 0, 0, 11, 0);
    let across = asm::i(0x03, 3, 10, 11, -4);
    for (inst, leaf, cause) in [
        (amo, DOORBELL, exception::STORE_GUEST_PAGE),
        (lr, DOORBELL, exception::LOAD_GUEST_PAGE),
        (fetch, DOORBELL, exception::FETCH_GUEST_PAGE),
        (across, DOORBELL, exception::LOAD_GUEST_PAGE),
        (STORE, DOORBELL & !W, exception::STORE_GUEST_PAGE),
        (LOAD, DOORBELL & !U, exception::LOAD_GUEST_PAGE),
        (LOAD, DOORBELL | 1 << 63, exception::LOAD_GUEST_PAGE),
    ] {
        let bench = guest(inst, leaf, Ok(0), false);
        assert_eq!(bench.csr(csr::SCAUSE), cause, "{inst:#x}");
        assert!(bench.platform.rung.is_empty(), "{inst:#x}");
    }
}

#[test]
fn without_the_extension_the_type_is_reserved() {
    let mut bench = Bench::with_extensions(DOORBELL, false, false, false);
    program(&bench.ram, GUEST, &[STORE]);
    program(&bench.ram, HOST, &[]);
    bench.hart.set_x(11, DEVICE);
    bench.platform.answer = Ok(0);
    bench.run(Priv::S);
    assert_eq!(bench.csr(csr::SCAUSE), exception::STORE_GUEST_PAGE);
    assert!(bench.platform.rung.is_empty());
}

/// Promise: a debugger finds the doorbell pages of a guest, and tables that refer to themselves do
/// not keep it for ever.
#[test]
fn doorbell_pages_are_found_in_page_tables() {
    let bench = Bench::new(DOORBELL, true, false);
    let found = bench.hart.doorbell_pages();
    let page = DoorbellPage {
        gpa: DEVICE,
        page: PAGE,
    };
    assert_eq!((found.pages, found.more), (vec![page], false));
    let without = Bench::with_extensions(DOORBELL, true, false, false);
    assert_eq!(without.hart.doorbell_pages().pages, []);
    assert_eq!(
        Bench::new(MMIO | V, true, false)
            .hart
            .doorbell_pages()
            .pages,
        []
    );
    // Each entry of the table at level 1 leads to the same table of doorbells.
    for index in 0..512 {
        let pointer = LEVEL0 >> 12 << 10 | POINTER;
        bench.ram.store(LEVEL1 + 8 * index, 8, pointer).unwrap();
        bench.ram.store(LEVEL0 + 8 * index, 8, DOORBELL).unwrap();
    }
    let found = bench.hart.doorbell_pages();
    assert!(found.more && found.pages.len() < 2048);
}
