//! Compiles decoded blocks to machine code of the host: x86-64, one template per instruction.
//!
//! ```text
//! Jit ── buffer: memory that is writable or executable        (buffer.rs)
//!  ├──── glue: in and out of compiled code, lookup, slow paths (glue.rs)
//!  └──── block: one block                                      (block.rs)
//!         ├── integer instructions                             (integer.rs)
//!         ├── bit manipulation, floating point, atomics        (bits.rs, float.rs, atomic.rs)
//!         ├── loads and stores, inline TLB probe               (memory.rs, group.rs)
//!         ├── CSRs                                             (csr.rs)
//!         ├── branches, jumps, chains                          (control.rs)
//!         └── short forms of what is frequent                  (encode.rs)
//! ```
//!
//! The compiler knows no hart. [`Context`] is what compiled code sees of one, and [`Helpers`] are the
//! functions that do everything else: an instruction without a template, or one
//! that leaves its fast path, is executed by the interpreter. Results and virtual time are those of
//! the interpreter bit for bit.
//!
//! Code is position-independent in the guest's address space: a block is compiled once for its
//! physical address, and finds its program counter in a register.

#[cfg(all(target_arch = "x86_64", unix, not(feature = "no-compiler")))]
mod x64;
#[cfg(all(target_arch = "x86_64", unix, not(feature = "no-compiler")))]
pub use x64::Jit;

#[cfg(not(all(target_arch = "x86_64", unix, not(feature = "no-compiler"))))]
mod none;
#[cfg(not(all(target_arch = "x86_64", unix, not(feature = "no-compiler"))))]
pub use none::Jit;

mod context;
pub use context::{Context, CsrState, FloatState, Interrupts, Reservation, Timer};

use trapless_isa::port::CsrOp;

/// What harts of a machine are like, as far as it decides what code is emitted.
#[derive(Clone, Default)]
pub struct Options {
    /// Misaligned loads and stores inside a page are like others.
    pub misaligned: bool,
    /// Cycles in a tick of `time`, 1 or more.
    pub cycles_per_tick: u64,
    /// Fields of the status register that `sstatus` shows besides SD.
    pub status_shown: u64,
    /// Fields of it that a write of `sstatus` changes: bits 0..=31.
    pub status_written: u32,
    /// FS of `sstatus` can be written.
    pub float_switchable: bool,
    /// CSRs that are nothing but memory, by number.
    pub plain_csrs: Vec<(u16, PlainCsr)>,
}

/// A CSR that HS-mode (and VS-mode, if it has its own) can always access, without any effect.
#[derive(Clone, Copy, Debug)]
pub struct PlainCsr {
    /// Where it is.
    pub place: CsrPlace,
    /// What a write does.
    pub write: CsrWrite,
}

/// Where a CSR is.
#[derive(Clone, Copy, Debug)]
pub enum CsrPlace {
    /// Offset in the bank at [`CsrState::bank`].
    Bank(usize),
    /// Offset in what the [`Context`] is the first field of; HS-mode only.
    Host(usize),
}

/// What a write of a CSR does.
#[derive(Clone, Copy, Debug)]
pub enum CsrWrite {
    /// More than compiled code knows.
    Unknown,
    /// Nothing.
    Ignored,
    /// Nothing if these bits stay as they are; else more than compiled code knows.
    Same(i32),
    /// The 64 bits of `keep` stay, those of `take` come from the new value; values with a bit of `refuse`
    /// are left to a helper.
    Bits {
        /// Sign-extended.
        keep: i32,
        /// Sign-extended.
        take: i32,
        /// Sign-extended.
        refuse: i32,
    },
    /// The low 32 bits are written, the others are 0.
    Word,
}

/// Floating point is enabled, and the state dirty already.
pub const FLOAT_DIRTY: u8 = 1;
/// The same, and `frm` is to nearest, ties to even.
pub const FLOAT_NEAREST: u8 = 2;

/// Size in bytes of the block that `cbo.zero` zeroes.
pub const CACHE_BLOCK: u64 = 64;

/// Entries of one way of a TLB array, indexed by virtual page number modulo this.
pub const TLB_ENTRIES: usize = 4096;

/// Layout of an entry of the data TLB. A tag is the virtual page's address, and hits an address with
/// the same page and no misaligned low bits. What hits in the second way changes places with the first.
#[derive(Clone, Copy, Debug)]
// No entry is in two lines of the host's cache.
#[repr(C, align(32))]
pub struct DataEntry {
    /// Tag for loads.
    pub read: u64,
    /// Tag for stores.
    pub write: u64,
    /// Host address minus virtual address.
    pub addend: u64,
    /// Makes the size a power of two.
    pub pad: u64,
}

/// Layout of an entry of the fetch TLB.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct FetchEntry {
    /// Tag.
    pub exec: u64,
    /// Host address minus virtual address.
    pub addend: u64,
    /// Address of [`PARCELS`] numbers, `u32` each: for each parcel of the page, [`Jit::offset`] of the code that begins
    /// there, or 0. Not looked at without a tag.
    pub table: u64,
    /// Makes the size a power of two.
    pub pad: u64,
}

/// Parcels of a page: places where an instruction can begin.
pub const PARCELS: usize = 2048;

/// Compiled code of a block: an address in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub(crate) std::num::NonZeroU64);

impl Code {
    /// The address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0.get()
    }
}

/// A jump inside a page that [`Jit::link`] can connect to its target. Jumps to blocks that are compiled
/// already, or together with this one, are connected from the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site(pub(crate) u32);

/// An instruction of a block: its number in the low byte, and its offset in the page above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Position(u32);

impl Position {
    /// Instruction `index` (0..=255) at `offset` bytes (0..=4095).
    #[must_use]
    pub fn new(index: u8, offset: u32) -> Self {
        Self(offset << 8 | u32::from(index))
    }

    /// Number of the instruction.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize & 0xFF
    }

    #[cfg(all(target_arch = "x86_64", unix, not(feature = "no-compiler")))]
    pub(crate) fn bits(self) -> i32 {
        self.0 as i32
    }

    /// Offset in the page in bytes.
    #[must_use]
    pub fn offset(self) -> u64 {
        u64::from(self.0 >> 8)
    }
}

/// Executes one instruction. Called with registers, cycles and instructions of the context up to
/// date, the whole block charged, and the program counter at the start of the page.
pub type Helper = unsafe extern "C" fn(context: *mut Context, block: u32, at: Position) -> bool;

/// A CSR access without its operand: the CSR's number in the low 12 bits, and what is done above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CsrRequest(u32);

impl CsrRequest {
    #[cfg(all(target_arch = "x86_64", unix, not(feature = "no-compiler")))]
    pub(crate) fn new(number: u16, op: CsrOp) -> Self {
        let kind = match op {
            CsrOp::Read => 0,
            CsrOp::Write(_) => 1,
            CsrOp::Swap(_) => 2,
            CsrOp::Set(_) => 3,
            CsrOp::Clear(_) => 4,
        };
        Self(u32::from(number & 0xFFF) | kind << 12)
    }

    #[cfg(all(target_arch = "x86_64", unix, not(feature = "no-compiler")))]
    pub(crate) fn bits(self) -> i32 {
        self.0 as i32
    }

    /// Number of the CSR.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0 as u16 & 0xFFF
    }

    /// What is done, with this operand.
    #[must_use]
    pub fn op(self, operand: u64) -> CsrOp {
        match self.0 >> 12 {
            0 => CsrOp::Read,
            1 => CsrOp::Write(operand),
            2 => CsrOp::Swap(operand),
            3 => CsrOp::Set(operand),
            _ => CsrOp::Clear(operand),
        }
    }
}

/// What became of a CSR access.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CsrAnswer {
    /// The value that was read.
    pub value: u64,
    /// [`CSR_REFUSED`], [`CSR_DONE`] or [`CSR_MOVED`].
    pub done: u64,
}

/// Nothing was done: the instruction has to be executed by [`Helpers::finish`].
pub const CSR_REFUSED: u64 = 0;
/// Done.
pub const CSR_DONE: u64 = 1;
/// Done, and the next instruction may be elsewhere in memory.
pub const CSR_MOVED: u64 = 2;

/// Does a CSR access. Called like a [`Helper`].
pub type CsrHelper =
    unsafe extern "C" fn(context: *mut Context, request: CsrRequest, operand: u64) -> CsrAnswer;

/// What the rest of a program does for compiled code.
#[derive(Clone, Copy, Debug)]
pub struct Helpers {
    /// Executes the block's last instruction, and leaves the program counter at what comes next.
    pub finish: Helper,
    /// Executes an instruction inside a block. `false`: it trapped, and the program counter says where
    /// to go on.
    pub execute: Helper,
    /// Does what a CSR instruction does.
    pub csr: CsrHelper,
}

/// What to compile.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Number by which [`Helpers`] know it.
    pub block: u32,
    /// Its instructions, at most 64. Destination 32 means that the result is not wanted.
    pub insts: &'a [trapless_isa::Inst],
    /// Its price in cycles.
    pub cost: u32,
    /// Number of its page: blocks of the same page are linked.
    pub page: u32,
    /// Offset of its first instruction in its page.
    pub offset: u32,
    /// It is a single instruction across pages, with these bits, wherever that may be: at offset 0xFFE of
    /// any page. It finds out itself whether it is there, and is never linked.
    pub crossing: Option<u32>,
}

/// Why compiled code came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The limit is reached, or it does not know the next block.
    Unknown,
    /// The same, at a jump that [`Jit::link`] can connect.
    Jump(Site),
    /// The instruction across pages at the program counter is another one than it knows, or is not
    /// in the TLB.
    Crossing,
}

/// Code of the block at an offset of a page, if it is compiled.
pub type Known<'a> = &'a dyn Fn(u32, u32) -> Option<Code>;
