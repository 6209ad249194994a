//! Compiled code computes what `trapless_isa::semantics` says, for every operation there that has a
//! template, with operands in registers of the host, in memory, and `x0`.

#![cfg(all(
    any(
        all(target_arch = "x86_64", unix),
        all(target_arch = "aarch64", target_os = "linux")
    ),
    not(feature = "no-compiler")
))]

use trapless_isa::inst::{Inst, NO_REG};
use trapless_isa::{Format, Op, decode, semantics};
use trapless_jit::{Context, CsrAnswer, CsrRequest, Helpers, Jit, Options, Position, Source};

/// Address of the page that code is in.
const PAGE: u64 = 0x8000_1000;
/// Two registers that are pinned to the host's, two in memory, and `x0`.
const REGISTERS: [u32; 5] = [10, 15, 5, 20, 0];
/// Operands at which something changes.
const OPERANDS: [u64; 10] = [
    0,
    1,
    7,
    63,
    0x8000_0000,
    0xFFFF_FFFF,
    0x1234_5678_9ABC_DEF0,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];

unsafe extern "C" fn no_csr(_: *mut Context, _: CsrRequest, _: u64) -> CsrAnswer {
    CsrAnswer { value: 0, done: 0 }
}

/// The interpreter would execute an operation without a template.
unsafe extern "C" fn no_template(context: *mut Context, _: u32, _: Position) -> bool {
    // SAFETY: compiled code passes the context that it runs with.
    unsafe { (*context).cycles = u64::MAX };
    true
}

fn registers() -> impl Iterator<Item = (u32, u32, u32)> {
    let each = || REGISTERS.into_iter();
    each().flat_map(move |rd| each().flat_map(move |rs1| each().map(move |rs2| (rd, rs1, rs2))))
}

/// `None`: with `x0` as its destination it is a hint, encoded as another operation.
fn with_registers(op: Op, immediate: u32, (rd, rs1, rs2): (u32, u32, u32)) -> Option<Inst> {
    let (bits, mask) = op.encoding();
    let fields = match op.format() {
        Format::R | Format::Unary => rs2 << 20 | rs1 << 15,
        Format::U => immediate << 12,
        _ => immediate << 20 | rs1 << 15,
    };
    let mut inst = decode(bits | (fields | rd << 7) & !mask);
    if inst.rd == 0 {
        inst.rd = NO_REG;
    }
    (inst.op == op).then_some(inst)
}

/// Runs `inst` alone, with values for `rs1` and `rs2`, and checks every register. `false` if it has
/// no template.
fn check(jit: &mut Jit, inst: &Inst, a: u64, b: u64) -> bool {
    let insts = [*inst, decode(0x0080_006f)];
    let source = Source {
        block: 0,
        insts: &insts,
        cost: 2,
        page: 1,
        offset: 0x10,
        crossing: None,
    };
    let code = match jit.compile(&[source], &|_, _| None) {
        Some(code) => code[0],
        None => {
            jit.reset();
            jit.compile(&[source], &|_, _| None).expect("room")[0]
        }
    };
    let mut context = Context {
        pc: PAGE,
        limit: 1,
        ..Context::default()
    };
    for (x, value) in context.x.iter_mut().enumerate().skip(1) {
        *value = 0x1111 * x as u64;
    }
    for (x, value) in [(inst.rs2, b), (inst.rs1, a)] {
        context.x[usize::from(x)] = if x == 0 { 0 } else { value };
    }
    let mut expected = context.x;
    let (a, b) = (
        expected[usize::from(inst.rs1)],
        expected[usize::from(inst.rs2)],
    );
    let result = semantics::result(inst.op, a, b, inst.imm as i64 as u64, PAGE + 0x10);
    expected[usize::from(inst.rd)] = result.expect("it computes");
    // SAFETY: without loads, CSRs and jumps to other pages no pointer of the context is used.
    unsafe { jit.enter(&raw mut context, code) };
    if context.cycles == u64::MAX {
        return false;
    }
    assert_eq!(
        context.x[..32],
        expected[..32],
        "{inst:?} of {a:#x} and {b:#x}"
    );
    true
}

#[test]
fn code_computes_what_operations_mean() {
    let helpers = Helpers {
        finish: no_template,
        execute: no_template,
        csr: no_csr,
    };
    let mut jit = Jit::new(Options::default(), &helpers, 4 << 20).expect("a compiler");
    let mut compiled = 0;
    for &op in Op::ALL.iter().filter(|op| semantics::computes(**op)) {
        for (number, registers) in registers().enumerate() {
            // Not all pairs with all registers: that takes minutes.
            for (i, &a) in OPERANDS.iter().enumerate() {
                let b = OPERANDS[(i * 7 + number) % OPERANDS.len()];
                let immediate = OPERANDS[(i + number) % OPERANDS.len()] as u32;
                if let Some(inst) = with_registers(op, immediate, registers) {
                    compiled += usize::from(check(&mut jit, &inst, a, b));
                }
            }
        }
    }
    assert!(compiled > 100_000, "{compiled}");
}
