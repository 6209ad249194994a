//! Trampolines: prologue and epilogue of compiled code, lookup of blocks, calls of helpers.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::encode::{self, ADDRESS, Alu, Assembler, LOAD_64, Width};
use super::regs::{Host, PINNED, R13, R15, RAX, RBX, RCX, RDX, at, x_at};
use crate::context::HOST_FLAGS;
use crate::native::buffer::Buffer;
use crate::native::probe::Probe;
use crate::native::{AT_LIMIT, CROSSING, UNKNOWN};
use crate::{Helpers, MARK, REGION_BASES, TLB_ENTRIES};

/// Bytes of an addition of 32 bits to [`Counters`](crate::Counters) and of the look at the limit
/// behind it, which a block that is charged first begins with.
pub(super) const CHARGE: i32 = 7 + 6;

/// Addresses of the code that all blocks share.
#[derive(Clone, Copy)]
pub(crate) struct Trampolines {
    /// `fn(context, code) -> site or -1`.
    pub enter: u64,
    /// Returns [`Exit::Unknown`](crate::Exit::Unknown), with the program counter in `r13`.
    pub leave: u64,
    /// Returns [`Exit::Limit`](crate::Exit::Limit) with the code in `rax`, with the program counter
    /// in `r13`.
    pub limit: u64,
    /// As [`limit`](Self::limit), for a block that has been charged what is in `rdx`. If that alone
    /// reaches the limit, the block goes on instead.
    pub charged: u64,
    /// Returns [`Exit::Crossing`](crate::Exit::Crossing), with the program counter in `r13`.
    pub crossing: u64,
    /// Called with the address of a page in `rax`: returns its addend in `rcx` and ZF set if the
    /// fetch TLB has it. Changes `rdx`.
    pub fetch: u64,
    /// Jumped to or called after [`Goal::find`]: goes on in the second way of the fetch TLB, or
    /// leaves.
    pub second_way: u64,
    /// Target of unlinked jumps, with [`unlinked`] in `eax`.
    pub unlinked: u64,
    /// Jumped to with the block in `ecx` and the position in `eax`: executes the block from that
    /// instruction on, then the next block.
    pub finish: u64,
    /// Called with the block in `ecx` and the position in `eax`: executes the instruction and
    /// returns, unless it traps.
    pub execute: u64,
    /// Slow TLB probes, by number of the [`Probe`]. Called after the inline probe missed, with the
    /// address in `rax` and the offset of the entry in `rcx`. Changes `rdx`. Returns what is to be
    /// added to the address in `rcx` and ZF set if either way holds the page and the access stays
    /// inside it; else changes nothing more. A hit in the second way exchanges the ways, which
    /// changes `xmm0` to `xmm3` and forgets the addresses of a region's base registers. A marked
    /// page must be in the first one.
    pub slow_probes: [u64; Probe::KINDS],
    /// Called: returns `fflags` in `eax`, with the flags raised since compiled code was entered.
    /// Changes `rcx` and `rdx`.
    pub fflags: u64,
    /// Called with a [`CsrRequest`](crate::CsrRequest) in `eax` and the operand in `rdx`: returns a
    /// [`CsrAnswer`](crate::CsrAnswer) in `rax` and `rdx`.
    pub csr: u64,
}

/// Callee-saved registers of the host's calling convention.
const SAVED: [Host; 6] = [RBX, Host(5), Host(12), R13, Host(14), R15];

/// Code at offset 0, which tables contain where no code is known: the offset in the page is in
/// `rdx`.
fn no_code(ops: &mut Assembler) {
    dynasm!(ops; .arch x64; add r13, rdx; mov rax, UNKNOWN as i32);
}

/// From the host's code to compiled code.
fn enter_compiled(ops: &mut Assembler, without_call: u64) {
    for host in SAVED {
        dynasm!(ops; .arch x64; push Rq(host));
    }
    // Six registers and the return address are seven words: an eighth aligns the stack. Then a
    // frame that only a return to address 1 matches: it goes where any other without a call does.
    dynasm!(ops
        ; .arch x64
        ; lea rbx, [rdi + BIAS]
        ; mov rax, QWORD without_call as i64
        ; sub rsp, 8
        ; push BYTE 1
        ; push rax
        ; mov rax, rsi
        ; mov [rbx + at!(stack)], rsp
        ; lea rcx, [rsp - FRAMES * FRAME]
        ; mov [rbx + at!(stack_floor)], rcx
    );
    reload(ops);
    dynasm!(ops; .arch x64; and r13, -4096; jmp rax);
}

/// From compiled code to the host's, with the result in `rax`.
fn leave_compiled(ops: &mut Assembler) {
    spill(ops);
    drop_frames(ops);
    dynasm!(ops; .arch x64; add rsp, 8 + FRAME);
    for host in SAVED.into_iter().rev() {
        dynasm!(ops; .arch x64; pop Rq(host));
    }
    dynasm!(ops; .arch x64; ret);
}

/// Goes on where a return leads that does not match the last call, to the address in `rcx`.
pub(super) fn return_elsewhere(ops: &mut Assembler, second_way: u64) {
    drop_frames(ops);
    dynasm!(ops; .arch x64; and rcx, -2; mov r13, rcx);
    lookup(ops, second_way);
}

/// [`Trampolines::fetch`].
fn fetch(ops: &mut Assembler) {
    dynasm!(ops
        ; .arch x64
        ; mov rdx, rax
        ; shr rdx, FETCH_SHIFT
        ; and edx, FETCH_MASK
        ; add rdx, [rbx + at!(fetch_tlb)]
        ; cmp [rdx], rax
        ; mov rcx, [rdx + 8]
        ; je >found
        ; cmp [rdx + WAY], rax
        ; mov rcx, [rdx + WAY + 8]
        ; found:
        ; ret
    );
}

/// [`Trampolines::second_way`].
fn look_in_second_way(ops: &mut Assembler, leave: usize) {
    // The ways are not exchanged: their order determines replacement, and the interpreter does not
    // change it either.
    dynasm!(ops
        ; .arch x64
        ; cmp [rdx + WAY], rax
        ; jne extern leave
        ; add rdx, WAY
    );
    Goal::Address.read_table(ops);
    dynasm!(ops; .arch x64; jmp rcx);
}

/// [`Trampolines::unlinked`].
fn leave_unlinked(ops: &mut Assembler, out: usize) {
    dynasm!(ops
        ; .arch x64
        ; mov ecx, eax
        ; and ecx, 4095
        ; add r13, rcx
        ; shr eax, 12
        ; jmp extern out
    );
}

/// [`Trampolines::execute`]. The block is abandoned if the instruction traps.
fn execute(ops: &mut Assembler, helper: i64, resume: usize) {
    call_instruction(ops, helper, 8);
    dynasm!(ops; .arch x64; test al, al; jz >trapped);
    reload(ops);
    return_without_frames(ops);
    dynasm!(ops; .arch x64; trapped:; jmp extern resume);
}

/// [`Trampolines::csr`].
fn csr(ops: &mut Assembler, helper: i64) {
    spill(ops);
    dynasm!(ops; .arch x64; mov esi, eax);
    call(ops, helper, 8);
    reload(ops);
    return_without_frames(ops);
}

/// Maximum number of frames of a guest's calls on the host's stack.
const FRAMES: i32 = 256;
/// Bytes of a frame: the guest's return address, and the host's.
const FRAME: i32 = 16;

/// Drops the frames of the guest's calls: where they lead to may have changed.
pub(super) fn drop_frames(ops: &mut Assembler) {
    dynasm!(ops; .arch x64; mov rsp, [rbx + at!(stack)]);
}

/// Returns from a trampoline after a helper, without the frames of the guest's calls, by the host's
/// return: a jump would be one for all blocks, which the host predicts badly. Changes `rcx`.
fn return_without_frames(ops: &mut Assembler) {
    dynasm!(ops; .arch x64; pop rcx);
    drop_frames(ops);
    dynasm!(ops; .arch x64; push rcx; ret);
}

/// Spills registers to the context.
fn spill(ops: &mut Assembler) {
    for (guest, host) in PINNED {
        dynasm!(ops; .arch x64; mov [rbx + x_at(guest)], Rq(host));
    }
    dynasm!(ops
        ; .arch x64
        ; mov [rbx + at!(pc)], r13
        ; mov [rbx + at!(counters.count)], r15
        ; cmp BYTE [rbx + at!(float.used)], 0
        ; je >integers
        ; stmxcsr [rbx + at!(float.host_flags)]
        ; integers:
    );
}

/// Reloads registers after the hart may have changed them.
fn reload(ops: &mut Assembler) {
    for (guest, host) in PINNED {
        dynasm!(ops; .arch x64; mov Rq(host), [rbx + x_at(guest)]);
    }
    dynasm!(ops
        ; .arch x64
        ; mov r13, [rbx + at!(pc)]
        ; mov r15, [rbx + at!(counters.count)]
        ; mov rbp, [rbx + at!(data_tlb)]
        ; cmp BYTE [rbx + at!(float.used)], 0
        ; je >integers
        ; ldmxcsr [rbx + at!(float.clean)]
        ; integers:
    );
}

/// Displacement of the context's start, negated.
const BIAS: i32 = super::regs::BIAS as i32;

/// Calls a helper, whose other arguments are in their registers. `pad` aligns the stack.
fn call(ops: &mut Assembler, helper: i64, pad: i32) {
    if pad != 0 {
        dynasm!(ops; .arch x64; sub rsp, BYTE pad as i8);
    }
    dynasm!(ops
        ; .arch x64
        ; lea rdi, [rbx - BIAS]
        ; mov rax, QWORD helper
        ; call rax
    );
    if pad != 0 {
        dynasm!(ops; .arch x64; add rsp, BYTE pad as i8);
    }
}

/// Calls a helper that executes the instruction whose block is in `ecx`, its index in `eax`.
fn call_instruction(ops: &mut Assembler, helper: i64, pad: i32) {
    spill(ops);
    dynasm!(ops; .arch x64; mov esi, ecx; mov edx, eax);
    call(ops, helper, pad);
}

/// From a page in the fetch TLB to its entry: 32 bytes each.
const FETCH_SHIFT: i8 = 7;
const FETCH_MASK: i32 = ((TLB_ENTRIES - 1) << 5) as i32;
/// From an entry of the first way to that of the second, in either TLB.
const WAY: i32 = (TLB_ENTRIES << 5) as i32;

/// From the start of an entry of the data TLB to its window.
const WINDOW: i32 = std::mem::offset_of!(crate::DataEntry, window) as i32;

/// Where a jump goes that looks up its target.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// To the address in `r13`.
    Address,
    /// To this offset from the start of the page, whose address is in `r13`.
    Offset(i32),
}

impl Goal {
    /// Offset from the page in `r13` of the page it leads to, and offset in that page.
    fn split(offset: i32) -> (i32, i32) {
        (offset & -4096, offset & 4095)
    }

    /// Emits a search of the first way of the fetch TLB: the page is in `rax`, its entry at `rdx`
    /// if ZF is set. Otherwise [`Trampolines::second_way`] goes on, with the program counter in
    /// `r13`.
    pub fn find(self, ops: &mut Assembler) {
        match self {
            Self::Address => dynasm!(ops; .arch x64; rorx edx, r13d, FETCH_SHIFT),
            Self::Offset(offset) => {
                encode::memory(ops, ADDRESS, RAX, R13, Self::split(offset).0);
                dynasm!(ops; .arch x64; rorx edx, eax, FETCH_SHIFT);
            }
        }
        dynasm!(ops; .arch x64; and edx, FETCH_MASK);
        encode::alu_memory(ops, Alu::Add, Width::Bits64, RDX, RBX, at!(fetch_tlb));
        if let Self::Address = self {
            dynasm!(ops; .arch x64; mov rax, r13; and rax, -4096);
        }
        dynasm!(ops; .arch x64; cmp [rdx], rax);
    }

    /// Emits a look at the page's table, after [`find`](Self::find): the address of the code is in
    /// `rcx`, that of its page in `r13`. Tables have offset 0 where no code is known, which leaves.
    pub fn read_table(self, ops: &mut Assembler) {
        encode::memory(ops, LOAD_64, RCX, RDX, 16);
        match self {
            Self::Address => dynasm!(ops; .arch x64; mov edx, r13d; xor edx, eax),
            Self::Offset(offset) => dynasm!(ops; .arch x64; mov edx, Self::split(offset).1),
        }
        dynasm!(ops; .arch x64; mov ecx, [rcx + rdx * 2]; mov r13, rax);
        encode::alu_memory(ops, Alu::Add, Width::Bits64, RCX, RBX, at!(base));
    }
}

/// Jumps to the code for the program counter in `r13`, or leaves.
pub(super) fn lookup(ops: &mut Assembler, second_way: u64) {
    let second_way = second_way as usize;
    Goal::Address.find(ops);
    dynasm!(ops; .arch x64; jne extern second_way);
    Goal::Address.read_table(ops);
    dynasm!(ops; .arch x64; jmp rcx);
}

/// Exchanges the entry at `rdx` with that of the second way: of two pages that share a slot, one is
/// often used all the time and the other one once. Leaves the second half of the new first way in
/// `xmm3`.
fn exchange_ways(ops: &mut Assembler) {
    dynasm!(ops
        ; .arch x64
        ; movups xmm0, [rdx]
        ; movups xmm1, [rdx + 16]
        ; movups xmm2, [rdx + WAY]
        ; movups xmm3, [rdx + (WAY + 16)]
        ; movups [rdx], xmm2
        ; movups [rdx + 16], xmm3
        ; movups [rdx + WAY], xmm0
        ; movups [rdx + (WAY + 16)], xmm1
    );
}

const _: () = assert!(REGION_BASES % 2 == 0, "two are stored at once");

/// See [`Trampolines::slow_probes`].
fn slow_probe(ops: &mut Assembler, probe: Probe) {
    let tag = if probe.write { 8 } else { 0 };
    if probe.aligned {
        let low_bits = (probe.size - 1) as i8;
        dynasm!(ops; .arch x64; test al, low_bits; jnz >no);
    } else {
        dynasm!(ops
            ; .arch x64
            ; mov edx, eax
            ; and edx, 4095
            ; cmp edx, 4096 - probe.size
            ; ja >no
        );
    }
    dynasm!(ops
        ; .arch x64
        ; mov rdx, rax
        ; and rdx, -4096
        ; cmp [rbp + rcx + tag], rdx
        ; jne >second
        ; mov rcx, [rbp + rcx + 16]
        ; xor edx, edx
        ; ret
        ; second:
        ; cmp [rbp + rcx + (WAY + tag)], rdx
        ; jne >marked
        ; lea rdx, [rbp + rcx]
    );
    exchange_ways(ops);
    // Another access by a base register of the region must exchange them back.
    dynasm!(ops; .arch x64; pxor xmm0, xmm0);
    for at in (0..REGION_BASES as i32).step_by(2) {
        dynasm!(ops; .arch x64; movups [rbx + at!(region_hosts) + 8 * at], xmm0);
    }
    dynasm!(ops
        ; .arch x64
        ; movq rcx, xmm3
        ; xor edx, edx
        ; ret
        ; marked:
        ; or rdx, MARK as i32
        ; cmp [rbp + rcx + tag], rdx
        ; jne >no
        // Hit after the last byte of the window, or before the first.
        ; mov edx, eax
        ; and edx, 4095
        ; cmp dx, [rbp + rcx + WINDOW + 2]
        ; ja >beside
        ; add edx, probe.size - 1
        ; cmp dx, [rbp + rcx + WINDOW]
        ; jb >beside
        ; or edx, 1
        ; ret
        ; beside:
        ; mov rcx, [rbp + rcx + 16]
        ; xor edx, edx
        ; no:
        ; ret
    );
}

/// Exception flags of RISC-V for the low bits of the host's floating-point control register.
const FLAGS: [u8; 64] = {
    let mut flags = [0; 64];
    let mut host = 0;
    while host < 64 {
        let mut at = 0;
        while at < HOST_FLAGS.len() {
            let (bit, flag) = HOST_FLAGS[at];
            if host >> bit & 1 != 0 {
                flags[host] |= flag;
            }
            at += 1;
        }
        host += 1;
    }
    flags
};

/// See [`Trampolines::fflags`].
fn fflags(ops: &mut Assembler, table: i64) {
    dynasm!(ops
        ; .arch x64
        ; movzx eax, BYTE [rbx + at!(float.fflags)]
        ; cmp BYTE [rbx + at!(float.used)], 0
        ; je >unused
        ; stmxcsr [rbx + at!(float.host_flags)]
        ; mov ecx, [rbx + at!(float.host_flags)]
        ; and ecx, FLAGS.len() as i32 - 1
        ; mov rdx, QWORD table
        ; or al, [rdx + rcx]
        ; unused:
        ; ret
    );
}

/// Identity of an unlinked jump: its site, and the offset in the page that it goes to (0..=4095).
pub(super) fn unlinked(site: i32, offset: i32) -> i32 {
    site << 12 | offset
}

impl Trampolines {
    /// Addresses and names, for listings.
    pub fn names(&self) -> Vec<(u64, String)> {
        let named = [
            (self.enter, "enter"),
            (self.leave, "leave"),
            (self.limit, "leave_at_limit"),
            (self.charged, "leave_or_begin"),
            (self.crossing, "leave_crossing"),
            (self.fetch, "probe_fetch"),
            (self.second_way, "second_way"),
            (self.unlinked, "unlinked"),
            (self.finish, "finish"),
            (self.execute, "execute"),
            (self.fflags, "fflags"),
            (self.csr, "csr"),
        ];
        let named = named.map(|(address, name)| (address, name.to_owned()));
        let probes = self.slow_probes.iter().enumerate();
        let probes = probes.map(|(number, &address)| (address, Probe::from_number(number).name()));
        named.into_iter().chain(probes).collect()
    }
}

impl Trampolines {
    pub fn new(buffer: &mut Buffer, helpers: &Helpers) -> Option<Self> {
        let mut piece = |emit: &dyn Fn(&mut Assembler)| -> Option<u64> {
            let mut ops = Assembler::new(buffer.next());
            emit(&mut ops);
            let code = ops.finalize().ok()?;
            buffer.append(&code).map(|at| at as u64)
        };
        piece(&|ops| {
            no_code(ops);
            leave_compiled(ops);
        })?;
        let out = piece(&leave_compiled)? as usize;
        let leave = piece(&|ops| {
            dynasm!(ops; .arch x64; mov rax, UNKNOWN as i32; jmp extern out);
        })?;
        let limit = piece(&|ops| {
            dynasm!(ops; .arch x64; bts rax, BYTE AT_LIMIT as i8; jmp extern out);
        })?;
        let charged = piece(&|ops| {
            dynasm!(ops
                ; .arch x64
                ; cmp r15, rdx
                ; jl >begins
                ; sub r15, rdx
                ; jmp extern limit as usize
                ; begins:
                ; and r13, -4096
                ; add rax, CHARGE
                ; jmp rax
            );
        })?;
        let crossing = piece(&|ops| {
            dynasm!(ops; .arch x64; mov rax, CROSSING as i32; jmp extern out);
        })?;
        let fetch = piece(&fetch)?;
        let second_way = piece(&|ops| look_in_second_way(ops, leave as usize))?;
        let without_call = piece(&|ops| return_elsewhere(ops, second_way))?;
        let enter = piece(&|ops| enter_compiled(ops, without_call))?;
        let unlinked = piece(&|ops| leave_unlinked(ops, out))?;
        let resume = piece(&|ops| {
            drop_frames(ops);
            reload(ops);
            lookup(ops, second_way);
        })? as usize;
        let helper = helpers.finish as *const () as i64;
        let finish = piece(&|ops| {
            call_instruction(ops, helper, 0);
            dynasm!(ops; .arch x64; jmp extern resume);
        })?;
        let helper = helpers.execute as *const () as i64;
        let execute = piece(&|ops| execute(ops, helper, resume))?;
        let mut slow_probes = [0; Probe::KINDS];
        for (number, at) in slow_probes.iter_mut().enumerate() {
            *at = piece(&|ops| slow_probe(ops, Probe::from_number(number)))?;
        }
        let table = piece(&|ops| dynasm!(ops; .arch x64; .bytes FLAGS))? as i64;
        let fflags = piece(&|ops| fflags(ops, table))?;
        let helper = helpers.csr as *const () as i64;
        let csr = piece(&|ops| csr(ops, helper))?;
        Some(Self {
            enter,
            leave,
            limit,
            charged,
            crossing,
            fetch,
            second_way,
            unlinked,
            finish,
            execute,
            slow_probes,
            fflags,
            csr,
        })
    }
}
