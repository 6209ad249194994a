//! The code that is made of typical blocks, one of each family of templates, as text, for each kind
//! of host: a change of the compiler shows what it does to the code, and code does not change by
//! accident.
//!
//! `TRAPLESS_GOLDEN=renew cargo test -p trapless-jit --test golden` writes the files anew; look at
//! the difference before you commit it.

#![cfg(compiler)]

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::sync::mpsc;

use trapless_isa::inst::{Inst, NO_REG};
use trapless_isa::{Format, decode};
use trapless_jit::{
    Context, CsrAnswer, CsrPlace, CsrRead, CsrRequest, CsrWrite, Helpers, Jit, Options, PlainCsr,
    Position, Source,
};

/// Physical address of page 0.
const BASE: u64 = 0x8000_0000;

unsafe extern "C" fn no_instruction(_: *mut Context, _: u32, _: Position) -> bool {
    false
}

unsafe extern "C" fn no_csr(_: *mut Context, _: CsrRequest, _: u64) -> CsrAnswer {
    CsrAnswer { value: 0, done: 0 }
}

const HELPERS: Helpers = Helpers {
    finish: no_instruction,
    execute: no_instruction,
    csr: no_csr,
};

/// What a hart with everything has.
fn options() -> Options {
    let plain = PlainCsr {
        place: CsrPlace::Bank(8),
        read: CsrRead::Stored,
        write: CsrWrite::Bits {
            keep: 0,
            take: -1,
            refuse: 0,
        },
    };
    Options {
        misaligned: true,
        cycles_per_tick: 100,
        status_shown: 0x8000_0003_000d_e162,
        status_written: 0x000c_6122,
        float_switchable: true,
        plain_csrs: vec![(trapless_isa::csr::SSCRATCH, plain)],
    }
}

/// Decodes as a hart does: a destination `x0` is none.
fn instruction(bits: u32) -> Inst {
    let mut inst = decode(bits);
    if inst.rd == 0 && !matches!(inst.op.format(), Format::F | Format::FRm) {
        inst.rd = NO_REG;
    }
    inst
}

/// A block at an offset of page 1.
struct Block {
    offset: u32,
    insts: Vec<Inst>,
}

fn block(offset: u32, bits: &[u32]) -> Block {
    let insts = bits.iter().map(|&bits| instruction(bits)).collect();
    Block { offset, insts }
}

/// Numbered blocks with 1 cycle for each instruction.
fn sources(blocks: &[Block]) -> Vec<Source<'_>> {
    let numbered = blocks.iter().zip(0..);
    let source = numbered.map(|(block, number)| Source {
        block: number,
        insts: &block.insts,
        cost: block.insts.len() as u32,
        page: 1,
        offset: block.offset,
        crossing: (block.offset == 0xFFE).then(|| block.insts[0].raw),
    });
    source.collect()
}

/// The text of the region of blocks that are compiled already, with the last one in its loops.
fn region(blocks: &[Block]) -> String {
    let mut jit = Jit::new(options(), &HELPERS, 1 << 20).expect("a host with a compiler");
    let sources = sources(blocks);
    let codes = jit.compile(&sources, &|_, _| None).expect("there is room");
    let (send, receive) = mpsc::channel();
    let listener = Box::new(move |text: &str| send.send(text.to_owned()).unwrap_or_default());
    jit.list(listener, BASE);
    let compiled = |offset| {
        let at = sources.iter().position(|source| source.offset == offset)?;
        Some((sources[at], codes[at]))
    };
    let last = blocks.last().expect("a block").offset;
    jit.compile_region(last, &compiled, &|_| 1).expect("a loop");
    drop(jit);
    receive.iter().collect::<Vec<_>>().join("\n")
}

/// The text of blocks that are compiled together.
fn listing(options: Options, blocks: &[Block]) -> String {
    let mut jit = Jit::new(options, &HELPERS, 1 << 20).expect("a host with a compiler");
    let (send, receive) = mpsc::channel();
    let listener = Box::new(move |text: &str| send.send(text.to_owned()).unwrap_or_default());
    jit.list(listener, BASE);
    let sources = sources(blocks);
    jit.compile(&sources, &|_, _| None).expect("there is room");
    drop(jit);
    receive.iter().collect::<Vec<_>>().join("\n")
}

/// Compares with the file `name`, or writes it.
fn golden(name: &str, text: &str) {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{ARCH}/{name}.txt"));
    if std::env::var_os("TRAPLESS_GOLDEN").is_some_and(|value| value == "renew") {
        fs::write(&file, text).expect("the folder is writable");
        return;
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    for (number, (now, then)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(now, then, "line {} of {}", number + 1, file.display());
    }
    let lines = |text: &str| text.lines().count();
    assert_eq!(lines(text), lines(&expected), "lines of {}", file.display());
}

macro_rules! golden {
    ($($name:ident: $($offset:literal $bits:expr),+;)*) => {
        $(
            #[test]
            fn $name() {
                golden(stringify!($name), &listing(options(), &[$(block($offset, &$bits)),+]));
            }
        )*
    };
}

// The last instruction of each block but the loop's is `j +8`, a jump that is linked later.
golden! {
    // addi a0,a0,5; add t0,a0,s1; xori a1,t0,-1; lui a2,0x12345; slt a3,a0,a1; addiw t1,a0,-3; j
    integer: 0x000 [0x0055_0513, 0x0095_02b3, 0xfff2_c593, 0x1234_5637, 0x00b5_26b3, 0xffd5_031b, 0x0080_006f];
    // slli a0,a0,12; sra a1,a0,a2; srlw t0,t1,a2; mul a3,a4,t2; div a4,a5,a1; remuw s2,a0,a1; j
    shifts_and_division: 0x000 [0x00c5_1513, 0x40c5_55b3, 0x00c3_52bb, 0x0277_06b3, 0x02b7_c733, 0x02b5_793b, 0x0080_006f];
    // andn a0,a0,a1; clz a2,a0; rev8 t0,a2; bseti a3,a3,40; sh2add a4,a0,a1; czero.eqz s1,a0,a1; j
    bits: 0x000 [0x40b5_7533, 0x6005_1613, 0x6b86_5293, 0x2a86_9693, 0x20b5_4733, 0x0eb5_54b3, 0x0080_006f];
    // slli a5,a4,32; addi a0,a0,1; srli a5,a5,30; srliw a3,a1,7; slliw a2,a1,25; or a3,a3,a2;
    // lui a2,1; addw a4,a1,a0; addiw a4,a4,1; j
    idioms: 0x000 [0x0207_1793, 0x0015_0513, 0x01e7_d793, 0x0075_d69b, 0x0195_961b, 0x00c6_e6b3, 0x0000_1637, 0x00a5_873b, 0x0017_071b, 0x0080_006f];
    // ld a0,8(a1); sb a2,-1(t0); j
    loads_and_stores: 0x000 [0x0085_b503, 0xfec2_8fa3, 0x0080_006f];
    // sd ra,24(sp); sd s0,16(sp); sd s1,8(sp); j
    grouped_stores: 0x000 [0x0011_3c23, 0x0081_3823, 0x0091_3423, 0x0080_006f];
    // lr.w a0,(a1); sc.w a2,a3,(a1); amoadd.d t0,a2,(a1); amominu.w a4,a5,(a1); j
    atomics: 0x000 [0x1005_a52f, 0x18d5_a62f, 0x00c5_b2af, 0xc0f5_a72f, 0x0080_006f];
    // fld fa0,0(a0); fmadd.d fa1,fa0,fa0,fa2; fadd.s fa3,fa3,fa4; flt.d a1,fa0,fa1; fcvt.w.d
    // a2,fa1,rtz; fsw fa3,4(a0); j
    floating_point: 0x000 [0x0005_3507, 0x62a5_75c3, 0x00e6_f6d3, 0xa2b5_15d3, 0xc205_9653, 0x00d5_2227, 0x0080_006f];
    // csrrw sp,sscratch,sp; then csrrsi x0,sstatus,2; then rdtime a0; then csrw stimecmp,a0; then
    // csrr a0,frm
    csrs: 0x000 [0x1401_1173], 0x004 [0x1001_6073], 0x008 [0xc010_2573], 0x00c [0x14d5_1073], 0x010 [0x0020_2573];
    // satp is not known to the compiler: csrw satp,a0
    unknown_csr: 0x000 [0x1805_1073];
    // addi a0,a0,-1; bnez a0,-4; then j -8, back to it
    linked_loop: 0x100 [0xfff5_0513, 0xfe05_1ee3], 0x108 [0xff9f_f06f];
    // jal ra,+2048 out of the page; then ret; then jalr a0,16(a1)
    jumps: 0xffa [0x0010_00ef], 0x200 [0x0000_8067], 0x204 [0x0105_8567];
    // jal ra,+4096; jalr ra,0(a1)
    calls: 0x100 [0x0000_10ef], 0x110 [0x0005_80e7];
    // ecall: the last instruction is a helper's; cbo.zero (a0); hlv.d a0,(a1), a helper's inside a
    // block; j
    helpers: 0x000 [0x0000_0073], 0x004 [0x0045_200f, 0x6c05_c573, 0x0080_006f];
    // An instruction across pages: ld a0,8(a1)
    crossing: 0xffe [0x0085_b503];
}

/// A hart on which misaligned accesses trap checks alignment before it probes for a group.
#[test]
fn aligned_group() {
    let options = Options {
        misaligned: false,
        ..options()
    };
    // ld ra,24(sp); ld s0,16(sp); ret
    let block = block(0, &[0x0181_3083, 0x0101_3403, 0x0000_8067]);
    golden("aligned_group", &listing(options, &[block]));
}

/// A loop with its way in, its checks and charges, its slow path and its ways out.
#[test]
fn region_of_three_blocks() {
    let blocks = [
        // lbu t0,0(s0); addi s0,s0,1; beq t0,t1,+12
        block(0x100, &[0x0004_4283, 0x0014_0413, 0x0062_8663]),
        // addi s3,s3,1; j +4
        block(0x10c, &[0x0019_8993, 0x0040_006f]),
        // bne s0,s2,-20
        block(0x114, &[0xff24_16e3]),
    ];
    golden("region_of_three_blocks", &region(&blocks));
}

/// A loop whose base register does not change, with a floating-point register that it keeps.
#[test]
fn region_with_a_base_register() {
    // ld a0,16(s0); add a1,a1,a0; fadd.d fa0,fa0,fa1; sd a1,24(s0); addi t0,t0,-1; bnez t0,-20
    let bits = [
        0x0104_3503,
        0x00a5_85b3,
        0x02b5_7553,
        0x00b4_3c23,
        0xfff2_8293,
        0xfe02_96e3,
    ];
    golden(
        "region_with_a_base_register",
        &region(&[block(0x100, &bits)]),
    );
}

/// Blocks may be compiled anywhere in memory, but the text says nothing of where.
#[test]
fn text_is_the_same_every_time() {
    let text = || listing(options(), &[block(0, &[0x0085_b503, 0x0080_006f])]);
    assert_eq!(text(), text());
    let text = text();
    assert!(
        text.starts_with("block 0x80001000, 2 cycles\n  0x80001000: ld a0,8(a1)\n"),
        "{text}"
    );
}
