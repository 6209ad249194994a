//! Compiled code computes what `trapless_isa::semantics` says, for every operation there that has a
//! template, with operands in registers of the host, in memory, and `x0`; alone and in blocks,
//! where several may be compiled together and registers move.

#![cfg(compiler)]

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
    unsafe { (*context).limit = 0 };
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

/// Offset in its page of a block; long ones begin early enough.
const OFFSET: u64 = 0xD00;

/// Runs instructions as a block of their own, with these values in registers, and checks every
/// register. `false` if one has no template.
fn check(jit: &mut Jit, insts: &[Inst], registers: [u64; 32]) -> bool {
    let insts: Vec<Inst> = insts.iter().copied().chain([decode(0x0080_006f)]).collect();
    let source = Source {
        block: 0,
        insts: &insts,
        cost: 2,
        page: 1,
        offset: OFFSET as u32,
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
    context.x[..32].copy_from_slice(&registers);
    let mut expected = context.x;
    let mut pc = PAGE + OFFSET;
    for inst in &insts[..insts.len() - 1] {
        let of = |x: u8| expected[usize::from(x)];
        let (a, b) = (of(inst.rs1), of(inst.rs2));
        let result = semantics::result(inst.op, a, b, inst.imm as i64 as u64, pc);
        expected[usize::from(inst.rd)] = result.expect("it computes");
        pc += u64::from(inst.len);
    }
    // SAFETY: without loads, CSRs and jumps to other pages no pointer of the context is used.
    unsafe { jit.enter(&raw mut context, code) };
    if context.limit == 0 {
        return false;
    }
    assert_eq!(
        context.x[..32],
        expected[..32],
        "{:#?} of {registers:#x?}",
        &insts[..insts.len() - 1]
    );
    assert_eq!(context.instret, insts.len() as u64);
    true
}

fn compiler() -> Jit {
    let helpers = Helpers {
        finish: no_template,
        execute: no_template,
        csr: no_csr,
    };
    Jit::new(Options::default(), &helpers, 4 << 20).expect("a compiler")
}

#[test]
fn code_computes_what_operations_mean() {
    let mut jit = compiler();
    let mut compiled = 0;
    for &op in Op::ALL.iter().filter(|op| semantics::computes(**op)) {
        for (number, registers) in registers().enumerate() {
            // Not all pairs with all registers: that takes minutes.
            for (i, &a) in OPERANDS.iter().enumerate() {
                let b = OPERANDS[(i * 7 + number) % OPERANDS.len()];
                let immediate = OPERANDS[(i + number) % OPERANDS.len()] as u32;
                if let Some(inst) = with_registers(op, immediate, registers) {
                    let mut values = std::array::from_fn(|x| 0x1111 * x as u64);
                    for (x, value) in [(inst.rs2, b), (inst.rs1, a)] {
                        values[usize::from(x)] = if x == 0 { 0 } else { value };
                    }
                    compiled += usize::from(check(&mut jit, &[inst], values));
                }
            }
        }
    }
    assert!(compiled > 100_000, "{compiled}");
}

/// Numbers by Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn any(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.any() % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Operations of which a part is left out, depending on what follows.
const SHIFTS: [Op; 6] = [
    Op::Slli,
    Op::Srli,
    Op::Srai,
    Op::Slliw,
    Op::Srliw,
    Op::Sraiw,
];
const WORDS: [Op; 4] = [Op::Addiw, Op::Addw, Op::Subw, Op::Mulw];
/// Operations that are compiled together if both write the same register.
const PAIRS: [(Op, Op); 8] = [
    (Op::Slli, Op::Srli),
    (Op::Slli, Op::Srai),
    (Op::Slliw, Op::Srliw),
    (Op::Slliw, Op::Sraiw),
    (Op::Lui, Op::Addi),
    (Op::Lui, Op::Addiw),
    (Op::Auipc, Op::Addi),
    (Op::Slli, Op::Sraiw),
];
const DISTANCES: [u32; 10] = [0, 1, 8, 16, 24, 31, 32, 40, 48, 56];

fn random_operand(random: &mut Random, op: Op) -> u32 {
    match op.format() {
        Format::Shift | Format::ShiftW => random.pick(&DISTANCES),
        // With what is added, these are the smallest and the largest.
        Format::U => random.pick(&[0x8_0000, 0x7_FFFF, 0, 0x1_2345]),
        _ if op == Op::Addi && random.below(4) == 0 => 0x7FF,
        _ => random.pick(&OPERANDS) as u32,
    }
}

/// One or two instructions, with operands `among` these registers, and often the last result.
fn random_instructions(
    random: &mut Random,
    all: &[Op],
    among: &[u32],
    last: u32,
) -> [Option<Inst>; 2] {
    let ops = match random.below(6) {
        0 => vec![random.pick(all)],
        1 => vec![random.pick(&WORDS)],
        2 | 3 => vec![random.pick(&SHIFTS)],
        _ => {
            let (first, second) = random.pick(&PAIRS);
            vec![first, second]
        }
    };
    let register = |random: &mut Random, chance| match random.below(chance) {
        0 => last,
        _ => random.pick(among),
    };
    let rd = register(random, 2);
    let mut insts = [None; 2];
    for (index, (op, inst)) in ops.into_iter().zip(&mut insts).enumerate() {
        // Now and then a pair has other registers.
        let same = random.below(8) != 0;
        let rs1 = match index {
            1 if same => rd,
            _ => register(random, 2),
        };
        let rd = if index == 0 || random.below(8) != 0 {
            rd
        } else {
            rs1
        };
        let rs2 = register(random, 4);
        let immediate = random_operand(random, op);
        *inst = with_registers(op, immediate, (rd, rs1, rs2)).filter(|inst| !inst.moves_to_tp());
    }
    insts
}

/// Instructions that may compute one thing together, if the registers are the right ones.
fn random_idiom(random: &mut Random, among: &[u32]) -> Vec<Inst> {
    let [one, other, from, to] = [(); 4].map(|()| random.pick(among));
    // Most rotations overwrite one of their parts.
    let to = random.pick(&[one, other, to]);
    let (left, right, width) = random.pick(&[
        (Op::Slliw, Op::Srliw, 32),
        (Op::Slli, Op::Srli, 64),
        (Op::Slli, Op::Srli, 32),
    ]);
    let distance = 1 + random.below(width as usize - 1) as u32;
    let shift = |op, distance, rd| with_registers(op, distance, (rd, from, 0));
    let mut insts = if random.below(3) == 0 {
        let distance = random.below(5) as u32;
        let operands = random.pick(&[(to, one, other), (to, other, one)]);
        vec![
            shift(Op::Slli, distance, one),
            with_registers(Op::Add, 0, operands),
        ]
    } else {
        let mut parts = [
            shift(left, distance, one),
            shift(right, width - distance, other),
        ];
        if random.below(2) == 0 {
            parts.swap(0, 1);
        }
        let operands = random.pick(&[(to, one, other), (to, other, one)]);
        parts
            .into_iter()
            .chain([with_registers(Op::Or, 0, operands)])
            .collect()
    };
    // Often a part, or what they are made of, changes meanwhile.
    if random.below(2) == 0 {
        let x = random.pick(&[from, one, other]);
        let at = 1 + random.below(insts.len());
        insts.insert(at, with_registers(Op::Addi, 0x7F, (x, x, 0)));
    }
    for part in [one, other] {
        if random.below(3) != 0 {
            insts.push(with_registers(Op::Lui, 1, (part, 0, 0)));
        }
    }
    let insts = insts.into_iter().flatten();
    insts.filter(|inst| !inst.moves_to_tp()).collect()
}

/// Promise: a result that is a word has all its bits wherever more than the word is seen: for each
/// operation that makes one and each that reads it, whatever else is in the registers.
#[test]
fn words_have_their_signs_where_they_are_seen() {
    let mut jit = compiler();
    let random = &mut Random(0x9E37_79B9_7F4A_7C15);
    // Registers with the host's and without.
    let registers = [10, 11, 5, 20];
    let mut compiled = 0;
    for &makes in Op::ALL.iter().filter(|op| semantics::computes(**op)) {
        for &reads in Op::ALL.iter().filter(|op| semantics::computes(**op)) {
            // It is the first or the second operand; of its own result all is seen, or the word.
            for (second, of_result) in [(false, 64), (true, 64), (false, 32), (true, 32)] {
                let [a, b] = [0, 1].map(|_| random.pick(&registers));
                let word = random.pick(&registers);
                let rest: Vec<u32> = registers.into_iter().filter(|&x| x != word).collect();
                let (other, seen) = (random.pick(&rest), random.pick(&rest));
                let operands = match second {
                    true => (seen, other, word),
                    false => (seen, word, other),
                };
                let [one, two] = [(); 2].map(|()| random.pick(&DISTANCES));
                let mut insts = vec![
                    with_registers(makes, one, (word, a, b)),
                    with_registers(reads, two, operands),
                    // Then nothing else sees it.
                    with_registers(Op::Lui, 1, (word, 0, 0)),
                ];
                if of_result == 32 {
                    insts.push(with_registers(Op::Addiw, 1, (seen, seen, 0)));
                }
                let Some(insts) = insts.into_iter().collect::<Option<Vec<_>>>() else {
                    continue;
                };
                let mut values: [u64; 32] = std::array::from_fn(|_| random.any());
                values[0] = 0;
                compiled += usize::from(check(&mut jit, &insts, values));
            }
        }
    }
    assert!(compiled > 10_000, "{compiled}");
}

/// Promise: what surrounds an instruction does not change what it computes: in blocks of up to 120
/// instructions with few or all registers every register is right at the end.
#[test]
fn blocks_compute_what_their_instructions_mean() {
    let mut jit = compiler();
    let with_template = |op: &Op| {
        let alone = with_registers(*op, 1, (10, 15, 5)).filter(|_| semantics::computes(*op));
        alone.is_some_and(|inst| check(&mut jit, &[inst], [0; 32]))
    };
    let all: Vec<Op> = Op::ALL.iter().copied().filter(with_template).collect();
    assert!(all.len() > 50, "{}", all.len());
    for seed in 1..4000_u64 {
        let random = &mut Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let count = random.pick(&[2, 4, 12, 31]);
        let among: Vec<u32> = (0..count).map(|_| random.below(32) as u32).collect();
        let (mut insts, mut last) = (Vec::new(), 0);
        // Often something else comes between the instructions of a pair or an idiom.
        let apart = random.below(2) == 0;
        for _ in 0..2 + random.below(30) {
            let together = if random.below(4) == 0 {
                random_idiom(random, &among)
            } else {
                let some = random_instructions(random, &all, &among, last);
                some.into_iter().flatten().collect()
            };
            for inst in together {
                last = u32::from(inst.rd % 32);
                insts.push(inst);
                if apart && random.below(3) == 0 {
                    insts.extend(random_instructions(random, &all, &among, last)[0]);
                }
            }
        }
        insts.truncate(120);
        let mut values: [u64; 32] = std::array::from_fn(|_| match random.below(2) {
            0 => random.pick(&OPERANDS),
            _ => random.any(),
        });
        values[0] = 0;
        assert!(check(&mut jit, &insts, values), "all have templates");
    }
}

/// Promise: in long blocks that use all registers, results and operands keep out of each other's
/// host registers, also where one instruction reads and writes the same register.
#[test]
fn many_values_at_once_are_kept_apart() {
    let mut jit = compiler();
    for seed in 1..6000_u64 {
        let random = &mut Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut insts = Vec::new();
        for _ in 0..16 + random.below(60) {
            let [rd, rs1, rs2] = [(); 3].map(|()| 1 + random.below(31) as u32);
            let rs1 = random.pick(&[rd, rs1]);
            insts.extend(with_registers(Op::Add, 0, (rd, rs1, rs2)));
        }
        insts.retain(|inst| !inst.moves_to_tp());
        let mut values: [u64; 32] = std::array::from_fn(|_| random.any());
        values[0] = 0;
        assert!(check(&mut jit, &insts, values));
    }
}
