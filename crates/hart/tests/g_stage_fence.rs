//! `hfence.gvma`: what the G-stage's tables say from then on is what an access gets, whichever
//! entry of them changed. The same goes for the VS-stage's, which the specification leaves open:
//! KVM expects it of a processor whose TLB holds compositions of both. When a vCPU comes to another
//! hart, KVM fences the VMID there by `hfence.gvma` alone (`kvm_riscv_local_tlb_sanitize`), lest
//! the guest meets what was left there when one of its vCPUs was there before.

mod common;

use common::Nothing;
use trapless_hart::{CodeCache, Hart, HartConfig, Ram};
use trapless_isa::Mode;
use trapless_isa::csr::{self, hstatus};

const RAM: u64 = 0x8000_0000;
const LOAD: u64 = RAM;
/// Root, level 1, level 0, and tables that take the place of the last two.
const ROOT: u64 = RAM + 0x4000;
const LEVEL1: u64 = RAM + 0x8000;
const LEVEL0: u64 = RAM + 0x9000;
const OTHER1: u64 = RAM + 0xA000;
const OTHER0: u64 = RAM + 0xB000;
/// Where the guest physical address may lead.
const PAGES: u64 = RAM + 0xC000;
const GPA: u64 = 0x4020_3000;
const VMID: u64 = 5;

const POINTER: u64 = 1;
/// V, R, W, U, A, D.
const LEAF: u64 = 0xD7;

struct Bench {
    hart: Hart,
    code: CodeCache,
    ram: Ram,
}

fn pte(address: u64, flags: u64) -> u64 {
    address >> 12 << 10 | flags
}

/// Address of the entry for [`GPA`] in a table of a level.
fn entry(table: u64, level: u64) -> u64 {
    table + (GPA >> (12 + 9 * level) & 0x1FF) * 8
}

impl Bench {
    /// A hart in M-mode whose `hlv.d` see [`GPA`] through Sv39x4; page N of [`PAGES`] holds the
    /// number N.
    fn new() -> Self {
        let ram = Ram::new(RAM, 0x20000).unwrap();
        for (table, level, to, flags) in [
            (ROOT, 2, LEVEL1, POINTER),
            (LEVEL1, 1, LEVEL0, POINTER),
            (LEVEL0, 0, PAGES, LEAF),
            (OTHER1, 1, OTHER0, POINTER),
            (OTHER0, 0, PAGES + 0x1000, LEAF),
        ] {
            ram.store(entry(table, level), 8, pte(to, flags)).unwrap();
        }
        for page in 0..4 {
            ram.store(PAGES + 0x1000 * page, 8, page).unwrap();
        }
        let config = HartConfig {
            reset_pc: LOAD,
            ..HartConfig::default()
        };
        let mut bench = Self {
            code: CodeCache::new(&ram, config.extensions, config.cost),
            hart: Hart::new(0, config, ram.clone()),
            ram,
        };
        for (addr, value) in [
            (csr::PMPADDR0, u64::MAX >> 10),
            (csr::PMPCFG0, 0x1f),
            (csr::HSTATUS, hstatus::SPVP),
            (csr::HGATP, 8 << 60 | VMID << 44 | ROOT >> 12),
        ] {
            assert!(bench.hart.poke_csr(addr, value, &mut Nothing));
        }
        bench
    }

    fn execute(&mut self, word: u32) {
        const SPIN: u32 = 0x0000_006F;
        self.ram.store(LOAD, 4, word.into()).unwrap();
        self.ram.store(LOAD + 4, 4, SPIN.into()).unwrap();
        self.code.compare(&self.ram);
        self.hart.set_pc(LOAD);
        let until = self.hart.now() + 1;
        self.hart.run(&mut self.code, &mut Nothing, until, None);
        assert_eq!(self.hart.mode(), Mode::M);
        assert_eq!(self.hart.pc(), LOAD + 4, "it trapped");
    }

    /// `hlv.d a0, (a1)`: what is at a guest's address, and the walks that this took.
    fn load(&mut self, address: u64) -> (u64, u64) {
        let before = self.hart.statistics().load_misses;
        self.hart.set_x(11, address);
        self.execute(0x6C05_C573);
        let walks = self.hart.statistics().load_misses - before;
        (self.hart.x(10), walks)
    }

    /// `hfence.gvma` with an address in a1 and a VMID in a2, or `x0` for what is `None`.
    fn fence(&mut self, gpa: Option<u64>, vmid: Option<u64>) {
        self.hart.set_x(11, gpa.unwrap_or(0) >> 2);
        self.hart.set_x(12, vmid.unwrap_or(0));
        let (rs1, rs2) = (
            if gpa.is_some() { 11 } else { 0 },
            if vmid.is_some() { 12 } else { 0 },
        );
        self.execute(0x6200_0073 | rs1 << 15 | rs2 << 20);
    }
}

#[test]
fn change_at_any_level_is_seen_after_any_fence_that_names_it() {
    let fences = [
        (None, None),
        (None, Some(VMID)),
        (Some(GPA), None),
        (Some(GPA), Some(VMID)),
    ];
    let changes = [
        (entry(LEVEL0, 0), pte(PAGES + 0x2000, LEAF), 2),
        (entry(LEVEL1, 1), pte(OTHER0, POINTER), 1),
        (entry(ROOT, 2), pte(OTHER1, POINTER), 1),
    ];
    for (gpa, vmid) in fences {
        for (at, new, found) in changes {
            let mut bench = Bench::new();
            assert_eq!(bench.load(GPA), (0, 1));
            bench.ram.store(at, 8, new).unwrap();
            bench.fence(gpa, vmid);
            assert_eq!(bench.load(GPA), (found, 1), "{gpa:x?} {vmid:?} {at:#x}");
        }
    }
}

#[test]
fn change_of_the_guests_own_tables_is_seen_after_a_fence_of_its_vmid() {
    /// The guest's tables, and the virtual address of its page.
    const TABLES: [u64; 3] = [RAM + 0x10000, RAM + 0x11000, RAM + 0x12000];
    const VA: u64 = 0x40_3000;
    for vmid in [None, Some(VMID)] {
        let mut bench = Bench::new();
        // RAM has the same addresses for the guest.
        let identity = ROOT + (RAM >> 30) * 8;
        bench.ram.store(identity, 8, pte(RAM, LEAF)).unwrap();
        let place = |level: usize| TABLES[level] + (VA >> (30 - 9 * level) & 0x1FF) * 8;
        for level in 0..2 {
            let to = pte(TABLES[level + 1], POINTER);
            bench.ram.store(place(level), 8, to).unwrap();
        }
        // Supervisor pages: U is for the G-stage.
        let leaf = |page: u64| pte(PAGES + 0x1000 * page, LEAF & !0x10);
        bench.ram.store(place(2), 8, leaf(1)).unwrap();
        let vsatp = 8 << 60 | TABLES[0] >> 12;
        assert!(bench.hart.poke_csr(csr::VSATP, vsatp, &mut Nothing));
        assert_eq!(bench.load(VA).0, 1);
        bench.ram.store(place(2), 8, leaf(2)).unwrap();
        bench.fence(None, Some(VMID + 1));
        assert_eq!(bench.load(VA), (1, 0), "another VMID was named");
        bench.fence(None, vmid);
        assert_eq!(bench.load(VA), (2, 1), "{vmid:?}");
    }
}
