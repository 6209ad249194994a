//! What physical memory protection forbids those accesses that are neither plain loads nor stores.

#[path = "common/mod.rs"]
mod common;

use common::Nothing;
use trapless_asm as asm;
use trapless_hart::{CodeCache, Hart, HartConfig, Ram};
use trapless_isa::csr::{self, envcfg, hstatus, status};

const RAM: u64 = 0x8000_0000;
const TRAP: u64 = RAM + 0x800;
const ROOT: u64 = RAM + 0x1000;
/// The page that an entry of PMP is about, and the address that programs access.
const PAGE: u64 = RAM + 0x2000;
const ADDRESS: u64 = PAGE + 0x85;
const BLOCK: u64 = PAGE + 0x80;
const R: u64 = 1;
const W: u64 = 2;
const X: u64 = 4;
const NAPOT: u64 = 3 << 3;

const HLV_WU: u32 = asm::r(0x73, 4, 0x34, 10, 8, 1);
const HLVX_HU: u32 = asm::r(0x73, 4, 0x32, 10, 8, 3);
const HLVX_WU: u32 = asm::r(0x73, 4, 0x34, 10, 8, 3);
const CBO_INVAL: u32 = 8 << 15 | 2 << 12 | 0x0F;
const CBO_CLEAN: u32 = 1 << 20 | CBO_INVAL;
const CBO_FLUSH: u32 = 2 << 20 | CBO_INVAL;
const CBO_ZERO: u32 = 4 << 20 | CBO_INVAL;
const LOAD_ACCESS: u64 = 5;
const STORE_ACCESS: u64 = 7;

/// A hart whose loads and stores are those of S-mode, with x8 = [`ADDRESS`], and PMP that permits
/// `rwx` in the naturally aligned `size` bytes at `at`, and everything elsewhere.
struct Bench {
    hart: Hart,
    code: CodeCache,
    ram: Ram,
}

impl Bench {
    fn new(at: u64, size: u64, rwx: u64) -> Self {
        let ram = Ram::new(RAM, 0x4000).unwrap();
        let config = HartConfig {
            reset_pc: RAM,
            ..HartConfig::default()
        };
        let code = CodeCache::new(&ram, config.extensions, config.cost);
        let mut hart = Hart::new(0, config, ram.clone());
        for (csr, value) in [
            (csr::MTVEC, TRAP),
            (csr::PMPADDR0, (at | (size / 2 - 1)) >> 2),
            (csr::PMPADDR0 + 1, u64::MAX >> 10),
            (csr::PMPCFG0, (NAPOT | R | W | X) << 8 | NAPOT | rwx),
            (csr::HSTATUS, hstatus::SPVP),
            (csr::MENVCFG, envcfg::CBZE | envcfg::CBCFE | envcfg::CBIE),
            (csr::MSTATUS, status::MPRV | 1 << 11),
        ] {
            assert!(hart.poke_csr(csr, value, &mut Nothing), "{csr:#x}");
        }
        for at in (PAGE..PAGE + 0x1000).step_by(8) {
            ram.store(at, 8, u64::MAX).unwrap();
        }
        ram.store(TRAP, 4, asm::jal(0, 0).into()).unwrap();
        ram.store(RAM + 4, 4, asm::jal(0, 0).into()).unwrap();
        hart.set_x(8, ADDRESS);
        Self { hart, code, ram }
    }

    /// Cause and `mtval` of the exception that the instruction raises, if it does.
    fn run(&mut self, instruction: u32) -> Option<(u64, u64)> {
        self.ram.store(RAM, 4, instruction.into()).unwrap();
        self.hart.run(&mut self.code, &mut Nothing, 20, None);
        let csr = |number| self.hart.peek_csr_as_m(number).unwrap();
        (self.hart.pc() == TRAP).then(|| (csr(csr::MCAUSE), csr(csr::MTVAL)))
    }
}

/// "The supervisor physical memory attributes must grant both execute and read permissions."
#[test]
fn hlvx_needs_memory_that_can_be_read_and_executed() {
    for (instruction, rwx, permitted) in [
        (HLVX_WU, R, false),
        (HLVX_WU, R | W, false),
        (HLVX_WU, X, false),
        (HLVX_WU, R | X, true),
        (HLVX_HU, R, false),
        (HLVX_HU, R | W | X, true),
        (HLV_WU, R, true),
        (HLV_WU, X, false),
    ] {
        let address = PAGE + 0x84;
        let mut bench = Bench::new(PAGE, 0x1000, rwx);
        bench.hart.set_x(8, address);
        let fault = (!permitted).then_some((LOAD_ACCESS, address));
        assert_eq!(bench.run(instruction), fault, "{instruction:#x} {rwx}");
    }
}

/// CMO extensions, "Traps": faults are those of stores, access faults where translation permits any
/// access, and have the address that the program gave.
#[test]
fn cache_block_operations_need_all_of_their_block() {
    let fault = Some((STORE_ACCESS, ADDRESS));
    for (instruction, rwx, expected) in [
        (CBO_ZERO, R | W, None),
        (CBO_ZERO, R, fault),
        (CBO_FLUSH, R, None),
        (CBO_FLUSH, X, fault),
        (CBO_CLEAN, 0, fault),
        (CBO_INVAL, 0, fault),
    ] {
        for paged in [false, true] {
            // The whole page, and the second half of the block.
            for (at, size) in [(PAGE, 0x1000), (BLOCK + 32, 32)] {
                let mut bench = Bench::new(at, size, rwx);
                if paged {
                    // A page that S-mode may read only: stores would be page faults.
                    let write = if instruction == CBO_ZERO { 4 } else { 0 };
                    let leaf = RAM >> 12 << 10 | 0xC0 | 3 | write;
                    bench.ram.store(ROOT + 2 * 8, 8, leaf).unwrap();
                    let satp = 8 << 60 | ROOT >> 12;
                    bench.hart.poke_csr(csr::SATP, satp, &mut Nothing);
                }
                assert_eq!(bench.run(instruction), expected, "{instruction:#x} {rwx}");
                let zero = instruction == CBO_ZERO && expected.is_none();
                let value = if zero { 0 } else { u64::MAX };
                for at in (BLOCK..BLOCK + 64).step_by(8) {
                    assert_eq!(bench.ram.load(at, 8), Some(value), "all or nothing");
                }
            }
        }
    }
}
