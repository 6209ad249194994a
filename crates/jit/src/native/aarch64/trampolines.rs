//! Trampolines: prologue and epilogue of compiled code, lookup of blocks, calls of helpers.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::encode::{self, Assembler, LOAD_8, LOAD_64, Logical, STORE_32, STORE_64};
use super::regs::{
    BASE, CONTEXT, CYCLES, DATA_TLB, FETCH_TLB, Host, INSTRET, LIMIT, PAGE, PINNED, X0, X2, X16,
    X17, at,
};
use crate::native::buffer::Buffer;
use crate::native::probe::Probe;
use crate::native::{AT_LIMIT, CROSSING, UNKNOWN};
use crate::{Helpers, MARK, REGION_BASES, TLB_ENTRIES};

/// Addresses of the code that all blocks share. Code that is called returns to `x30`.
#[derive(Clone, Copy)]
pub(crate) struct Trampolines {
    /// `fn(context, code) -> site or -1`.
    pub enter: u64,
    /// Returns [`Exit::Unknown`](crate::Exit::Unknown), with the program counter in `x21`.
    pub leave: u64,
    /// Returns [`Exit::Limit`](crate::Exit::Limit) with the code in `x0`, with the program counter
    /// in `x21`.
    pub limit: u64,
    /// Returns [`Exit::Crossing`](crate::Exit::Crossing), with the program counter in `x21`.
    pub crossing: u64,
    /// Called with the address of a page in `x0`: returns its addend in `x1` and Z set if the fetch
    /// TLB has it. Changes `x2`.
    pub fetch: u64,
    /// Jumped to or called after [`find`]: goes on in the second way of the fetch TLB, or leaves.
    pub second_way: u64,
    /// Target of unlinked jumps, with [`unlinked`] in `x0`.
    pub unlinked: u64,
    /// Jumped to with the block in `x1` and the position in `x0`: executes the block from that
    /// instruction on, then the next block.
    pub finish: u64,
    /// Called with the block in `x1` and the position in `x0`: executes the instruction and
    /// returns, unless it traps.
    pub execute: u64,
    /// Slow TLB probes, by number of the [`Probe`]. Called after the inline probe missed, with the
    /// address in `x0` and that of the entry of the first way in `x1`. Returns the addend in `x1`
    /// and Z set if either way holds the page and the access stays inside it; else changes `x2`,
    /// `x3` and `x16` only. A hit in the second way exchanges the ways, which changes `q0` to `q3`
    /// and forgets addresses of base registers. A marked page must be in the first one.
    pub slow_probes: [u64; Probe::KINDS],
    /// Called with a [`CsrRequest`](crate::CsrRequest) in `x0` and the operand in `x1`: returns a
    /// [`CsrAnswer`](crate::CsrAnswer) in `x0` and `x1`.
    pub csr: u64,
}

/// Registers that a function of the host keeps, of those that compiled code changes, by pairs.
const SAVED: [(Host, Host); 6] = [
    (Host(29), Host(30)),
    (CONTEXT, DATA_TLB),
    (PAGE, INSTRET),
    (CYCLES, LIMIT),
    (FETCH_TLB, BASE),
    (Host(27), Host(28)),
];

/// Code at offset 0, which tables contain where no code is known: the program counter is in `x16`.
fn no_code(ops: &mut Assembler) {
    dynasm!(ops; .arch aarch64; mov x21, x16; movn x0, 0);
    leave_compiled(ops);
}

/// From the host's code to compiled code.
fn enter_compiled(ops: &mut Assembler) {
    for (first, second) in SAVED {
        dynasm!(ops; .arch aarch64; stp X(first), X(second), [sp, -16]!);
    }
    // A frame that no return hits, because its address is odd.
    dynasm!(ops
        ; .arch aarch64
        ; mov x19, x0
        ; mov x0, 1
        ; stp x0, x0, [sp, -16]!
        ; mov x0, sp
        ; sub x2, x0, FRAMES * FRAME
    );
    encode::memory(ops, STORE_64, X0, CONTEXT, at!(stack));
    encode::memory(ops, STORE_64, X2, CONTEXT, at!(stack_floor));
    reload(ops);
    dynasm!(ops; .arch aarch64; and x21, x21, !0xFFF; br x1);
}

/// From compiled code to the host's, with the result in `x0`.
fn leave_compiled(ops: &mut Assembler) {
    spill(ops);
    drop_frames(ops);
    dynasm!(ops; .arch aarch64; add sp, sp, FRAME);
    for (first, second) in SAVED.into_iter().rev() {
        dynasm!(ops; .arch aarch64; ldp X(first), X(second), [sp], 16);
    }
    dynasm!(ops; .arch aarch64; ret);
}

/// [`Trampolines::fetch`].
fn fetch(ops: &mut Assembler) {
    dynasm!(ops
        ; .arch aarch64
        ; ubfx x1, x0, 12, TLB_BITS
        ; add x2, x25, x1, lsl 5
        ; ldr x1, [x2]
        ; cmp x1, x0
        ; b.eq >found
        ; add x2, x2, WAY >> 12, lsl 12
        ; ldr x1, [x2]
        ; cmp x1, x0
        ; found:
        ; ldr x1, [x2, 8]
        ; ret
    );
}

/// [`Trampolines::second_way`].
fn look_in_second_way(ops: &mut Assembler) {
    // The ways are not exchanged: their order determines replacement, and the interpreter does not
    // change it either.
    dynasm!(ops
        ; .arch aarch64
        ; add x1, x1, WAY >> 12, lsl 12
        ; ldr x2, [x1]
        ; cmp x2, x21
        ; b.ne >no
    );
    read_table(ops);
    dynasm!(ops; .arch aarch64; br x2; no: ; mov x21, x16; movn x0, 0);
    leave_compiled(ops);
}

/// [`Trampolines::unlinked`].
fn leave_unlinked(ops: &mut Assembler, out: usize) {
    dynasm!(ops
        ; .arch aarch64
        ; and x1, x0, 0xFFF
        ; add x21, x21, x1
        ; lsr w0, w0, 12
    );
    ops.jump(out);
}

/// [`Trampolines::execute`]. The block is abandoned if the instruction traps.
fn execute(ops: &mut Assembler, helper: u64, resume: usize) {
    dynasm!(ops; .arch aarch64; str x30, [sp, -16]!);
    call_instruction(ops, helper);
    dynasm!(ops; .arch aarch64; ldr x30, [sp], 16; tst w0, 0xFF; b.eq >trapped);
    drop_frames(ops);
    reload(ops);
    dynasm!(ops; .arch aarch64; ret; trapped:);
    ops.jump(resume);
}

/// [`Trampolines::csr`].
fn csr(ops: &mut Assembler, helper: u64) {
    dynasm!(ops; .arch aarch64; str x30, [sp, -16]!);
    spill(ops);
    dynasm!(ops; .arch aarch64; mov x2, x1; mov w1, w0);
    call(ops, helper);
    dynasm!(ops; .arch aarch64; ldr x30, [sp], 16);
    drop_frames(ops);
    reload(ops);
    dynasm!(ops; .arch aarch64; ret);
}

/// Maximum number of frames of a guest's calls on the host's stack.
const FRAMES: u32 = 128;
/// Bytes of a frame: the guest's return address, and the host's.
const FRAME: u32 = 16;

/// Drops the frames of the guest's calls: where they lead to may have changed. Changes `x16`.
pub(super) fn drop_frames(ops: &mut Assembler) {
    encode::memory(ops, LOAD_64, X16, CONTEXT, at!(stack));
    dynasm!(ops; .arch aarch64; mov sp, x16);
}

/// What lies in a field of the context while other code than compiled code runs.
const FIELDS: [(Host, u32); 3] = [
    (PAGE, at!(pc)),
    (INSTRET, at!(instret)),
    (CYCLES, at!(cycles)),
];

/// Spills registers to the context. Changes `x16` and `x17`.
fn spill(ops: &mut Assembler) {
    encode::add(ops, X16, CONTEXT, at!(x).into());
    for pair in &PINNED {
        let ((first, second), at) = (pair.hosts, 8 * i32::from(pair.guest));
        dynasm!(ops; .arch aarch64; stp X(first), X(second), [x16, at]);
    }
    for (host, field) in FIELDS {
        encode::memory(ops, STORE_64, host, CONTEXT, field);
    }
    encode::memory(ops, LOAD_8, X16, CONTEXT, at!(float.used));
    dynasm!(ops; .arch aarch64; cbz w16, >integers; mrs x16, FPSR);
    encode::memory(ops, STORE_32, X16, CONTEXT, at!(float.host_flags));
    dynasm!(ops; .arch aarch64; integers:);
}

/// Reloads registers after the hart may have changed them. Changes `x16` and `x17`.
fn reload(ops: &mut Assembler) {
    encode::add(ops, X16, CONTEXT, at!(x).into());
    for pair in &PINNED {
        let ((first, second), at) = (pair.hosts, 8 * i32::from(pair.guest));
        dynasm!(ops; .arch aarch64; ldp X(first), X(second), [x16, at]);
    }
    let only_read = [
        (LIMIT, at!(limit)),
        (DATA_TLB, at!(data_tlb)),
        (FETCH_TLB, at!(fetch_tlb)),
        (BASE, at!(base)),
    ];
    for (host, field) in FIELDS.into_iter().chain(only_read) {
        encode::memory(ops, LOAD_64, host, CONTEXT, field);
    }
    // The host's code has raised flags of its own.
    encode::memory(ops, LOAD_8, X16, CONTEXT, at!(float.used));
    dynasm!(ops; .arch aarch64; cbz w16, >integers; msr FPSR, xzr; integers:);
}

/// Calls a helper, whose other arguments are in their registers.
fn call(ops: &mut Assembler, helper: u64) {
    encode::set(ops, X17, helper);
    dynasm!(ops; .arch aarch64; mov x0, x19; blr x17);
}

/// Calls a helper that executes the instruction whose block is in `x1`, its position in `x0`.
fn call_instruction(ops: &mut Assembler, helper: u64) {
    spill(ops);
    dynasm!(ops; .arch aarch64; mov w2, w0);
    call(ops, helper);
}

/// The system register FPSR, as instructions name it, and its bit for underflow.
pub(super) const FPSR: u32 = 0x5A21;
pub(super) const UNDERFLOW: u32 = 3;

/// Bits of an index of a TLB.
pub(super) const TLB_BITS: u32 = TLB_ENTRIES.trailing_zeros();
/// From an entry of the first way to that of the second, in either TLB.
const WAY: u32 = (TLB_ENTRIES << 5) as u32;

/// From the start of an entry of the data TLB to its window.
const WINDOW: u32 = std::mem::offset_of!(crate::DataEntry, window) as u32;

/// Searches the first way of the fetch TLB for the page of the program counter in `x16`: the page
/// is in `x21`, its entry at `x1` if Z is set. Otherwise [`Trampolines::second_way`] goes on.
fn find(ops: &mut Assembler) {
    dynasm!(ops
        ; .arch aarch64
        ; ubfx x1, x16, 12, TLB_BITS
        ; add x1, x25, x1, lsl 5
        ; and x21, x16, !0xFFF
        ; ldr x2, [x1]
        ; cmp x2, x21
    );
}

/// After [`find`], reads the page's table: the address of the code is in `x2`. Tables have offset 0
/// where no code is known, which leaves.
fn read_table(ops: &mut Assembler) {
    dynasm!(ops
        ; .arch aarch64
        ; ldr x2, [x1, 16]
        ; ubfx x3, x16, 1, 11
        ; ldr w2, [x2, x3, lsl 2]
        ; add x2, x26, x2
    );
}

/// Jumps to the code for the program counter in `x16`, or leaves.
pub(super) fn lookup(ops: &mut Assembler, second_way: u64) {
    find(ops);
    dynasm!(ops; .arch aarch64; b.eq >found);
    ops.jump(second_way as usize);
    dynasm!(ops; .arch aarch64; found:);
    read_table(ops);
    dynasm!(ops; .arch aarch64; br x2);
}

/// Calls the code for the program counter in `x16`, or leaves. Each call has its own lookup: the
/// host predicts badly where one jump goes that all of them share.
pub(super) fn call_by_lookup(ops: &mut Assembler, second_way: u64) {
    find(ops);
    dynasm!(ops; .arch aarch64; b.eq >found);
    ops.call(second_way as usize);
    dynasm!(ops; .arch aarch64; b >returned; found:);
    read_table(ops);
    dynasm!(ops; .arch aarch64; blr x2; returned:);
}

/// Exchanges the entry at `x1` with that of the second way at `x16`: of two pages that share a
/// slot, one is often used all the time and the other one once.
fn exchange_ways(ops: &mut Assembler) {
    dynasm!(ops
        ; .arch aarch64
        ; ldp q0, q1, [x1]
        ; ldp q2, q3, [x16]
        ; stp q2, q3, [x1]
        ; stp q0, q1, [x16]
    );
    // Where base registers of regions point is known of the first way only.
    encode::add(ops, X2, CONTEXT, at!(region_hosts).into());
    for at in (0..8 * REGION_BASES as u32).step_by(16) {
        dynasm!(ops; .arch aarch64; stp xzr, xzr, [x2, at as i32]);
    }
}

const _: () = assert!(REGION_BASES.is_multiple_of(2), "two are stored at once");

/// See [`Trampolines::slow_probes`].
fn slow_probe(ops: &mut Assembler, probe: Probe) {
    let tag = if probe.write { 8 } else { 0 };
    let size = probe.size as u32;
    if probe.aligned && size > 1 {
        let low_bits = u64::from(size - 1);
        dynasm!(ops; .arch aarch64; tst x0, low_bits; b.ne >no);
    } else if size > 1 {
        dynasm!(ops
            ; .arch aarch64
            ; and x2, x0, 0xFFF
            ; mov w3, 4096 - size
            ; cmp w2, w3
            ; b.hi >no
        );
    }
    encode::logical(ops, Logical::And, X2, X0, !0xFFF);
    dynasm!(ops
        ; .arch aarch64
        ; ldr x3, [x1, tag]
        ; cmp x3, x2
        ; b.ne >second
        ; ldr x1, [x1, 16]
        ; ret
        ; second:
        ; add x16, x1, WAY >> 12, lsl 12
        ; ldr x3, [x16, tag]
        ; cmp x3, x2
        ; b.ne >marked
    );
    exchange_ways(ops);
    dynasm!(ops
        ; .arch aarch64
        ; ldr x1, [x1, 16]
        ; ret
        ; marked:
        ; orr x2, x2, MARK
        ; ldr x3, [x1, tag]
        ; cmp x3, x2
        ; b.ne >no
        // Hit after the last byte of the window, or before the first.
        ; and x2, x0, 0xFFF
        ; ldrh w3, [x1, WINDOW + 2]
        ; cmp w2, w3
        ; b.hi >beside
        ; add w2, w2, size - 1
        ; ldrh w3, [x1, WINDOW]
        ; cmp w2, w3
        ; b.lo >beside
        // This clears Z: the context's address is not 0.
        ; cmp x19, xzr
        ; ret
        ; beside:
        ; ldr x1, [x1, 16]
        ; cmp x1, x1
        ; no:
        ; ret
    );
}

/// Identity of an unlinked jump: its site, and the offset in the page that it goes to (0..=4095).
pub(super) fn unlinked(site: u32, offset: u32) -> u64 {
    u64::from(site << 12 | offset)
}

impl Trampolines {
    /// Addresses and names, for listings.
    pub fn names(&self) -> Vec<(u64, String)> {
        let named = [
            (self.enter, "enter"),
            (self.leave, "leave"),
            (self.limit, "leave_at_limit"),
            (self.crossing, "leave_crossing"),
            (self.fetch, "probe_fetch"),
            (self.second_way, "second_way"),
            (self.unlinked, "unlinked"),
            (self.finish, "finish"),
            (self.execute, "execute"),
            (self.csr, "csr"),
        ];
        let named = named.map(|(address, name)| (address, name.to_owned()));
        let probes = self.slow_probes.iter().enumerate();
        let probes = probes.map(|(number, &address)| (address, Probe::from_number(number).name()));
        named.into_iter().chain(probes).collect()
    }

    pub fn new(buffer: &mut Buffer, helpers: &Helpers) -> Option<Self> {
        let mut piece = |emit: &dyn Fn(&mut Assembler)| -> Option<u64> {
            let mut ops = Assembler::new(buffer.next());
            emit(&mut ops);
            let code = ops.finalize()?;
            buffer.append(&code).map(|at| at as u64)
        };
        piece(&no_code)?;
        let out = piece(&leave_compiled)? as usize;
        let leave_with = |ops: &mut Assembler, exit: i64| {
            encode::set(ops, X0, exit as u64);
            ops.jump(out);
        };
        let enter = piece(&enter_compiled)?;
        let leave = piece(&|ops| leave_with(ops, UNKNOWN))?;
        let limit = piece(&|ops| {
            dynasm!(ops; .arch aarch64; orr x0, x0, 1 << AT_LIMIT);
            ops.jump(out);
        })?;
        let crossing = piece(&|ops| leave_with(ops, CROSSING))?;
        let fetch = piece(&fetch)?;
        let second_way = piece(&look_in_second_way)?;
        let unlinked = piece(&|ops| leave_unlinked(ops, out))?;
        let resume = piece(&|ops| {
            drop_frames(ops);
            reload(ops);
            encode::copy(ops, X16, PAGE);
            lookup(ops, second_way);
        })? as usize;
        let helper = helpers.finish as *const () as u64;
        let finish = piece(&|ops| {
            call_instruction(ops, helper);
            ops.jump(resume);
        })?;
        let helper = helpers.execute as *const () as u64;
        let execute = piece(&|ops| execute(ops, helper, resume))?;
        let mut slow_probes = [0; Probe::KINDS];
        for (number, at) in slow_probes.iter_mut().enumerate() {
            *at = piece(&|ops| slow_probe(ops, Probe::from_number(number)))?;
        }
        let helper = helpers.csr as *const () as u64;
        let csr = piece(&|ops| csr(ops, helper))?;
        Some(Self {
            enter,
            leave,
            limit,
            crossing,
            fetch,
            second_way,
            unlinked,
            finish,
            execute,
            slow_probes,
            csr,
        })
    }
}
