//! Compiles decoded blocks to machine code of the host, one template per instruction.
//!
//! ```text
//! Jit                                                          (native/mod.rs)
//!  ├── buffer: memory that is writable or executable           (native/buffer.rs)
//!  ├── listing: text of what was compiled                      (native/listing.rs)
//!  ├── compile: blocks and regions into the buffer             (native/compile.rs)
//!  ├── region: loops of blocks, what they do with registers    (native/region.rs, uses.rs, bases.rs)
//!  ├── region_code: their code, as far as hosts share it       (native/region_code.rs)
//!  ├── idioms: several instructions that compute one thing     (native/idioms.rs)
//!  └── the kind of host                                        (native/x64/, native/aarch64/)
//!       ├── trampolines: in and out of compiled code, lookup   (trampolines.rs)
//!       ├── region: this host's part of a region's code        (region.rs)
//!       ├── block: one block                                   (block.rs)
//!       │    ├── host registers in long blocks                 (long.rs, lifetimes.rs)
//!       │    ├── results of which only words are seen, x86-64  (words.rs)
//!       │    ├── templates of operations                       (template.rs)
//!       │    ├── integers, anywhere and in scratch registers   (integer.rs, scratch.rs)
//!       │    ├── floating point, its host registers, atomics   (float.rs, copies.rs, atomic.rs)
//!       │    ├── loads and stores, inline TLB probe            (memory.rs, group.rs, bases.rs)
//!       │    ├── CSRs                                          (csr.rs)
//!       │    ├── virtual time and instructions, on x86-64      (counters.rs)
//!       │    └── branches, jumps, chains                       (control.rs)
//!       └── shared state: block, registers; encodings          (compiler.rs, encode.rs)
//! ```
//!
//! The compiler is independent of harts. [`Context`] is the part of a hart that compiled code uses,
//! and [`Helpers`] are the callbacks for everything it does not inline: an instruction without a
//! template, or on its slow path, is executed by the interpreter. Results and virtual time are
//! those of the interpreter bit for bit.
//!
//! Code is position-independent in the guest's address space: a block is compiled once for its
//! physical address, and finds its program counter in a register.

#[cfg(compiler)]
mod native;
#[cfg(compiler)]
pub use native::Jit;

#[cfg(not(compiler))]
mod none;
#[cfg(not(compiler))]
pub use none::Jit;

mod context;
pub use context::{Context, Counters, CsrState, FloatState, Interrupts, Reservation, Timer};

use trapless_isa::port::CsrOp;

/// Properties of a machine's harts that decide which code is emitted.
#[derive(Clone, Default)]
pub struct Options {
    /// Misaligned loads and stores that stay inside a page are supported.
    pub misaligned: bool,
    /// Cycles in a tick of `time`, 1 or more.
    pub cycles_per_tick: u64,
    /// Fields of the status register that `sstatus` shows besides SD.
    pub status_shown: u64,
    /// Fields of it that a write of `sstatus` changes: bits 0..=31.
    pub status_written: u32,
    /// FS of `sstatus` can be written.
    pub float_switchable: bool,
    /// CSRs that compiled code accesses itself, by number, besides those that it knows.
    pub plain_csrs: Vec<(u16, PlainCsr)>,
}

/// A CSR that the modes that it is for may access, without side effects but those of writes that
/// are left to a helper.
#[derive(Clone, Copy, Debug)]
pub struct PlainCsr {
    /// Location.
    pub place: CsrPlace,
    /// What a read returns.
    pub read: CsrRead,
    /// Effect of a write.
    pub write: CsrWrite,
}

/// Location of a CSR.
#[derive(Clone, Copy, Debug)]
pub enum CsrPlace {
    /// Offset in the bank at [`CsrState::bank`], in HS- and VS-mode.
    Bank(usize),
    /// Offset from the start of the structure that has the [`Context`] as its first field, in
    /// HS-mode.
    Host(usize),
    /// The same, in M-mode.
    Machine(usize),
}

/// What a read of a CSR returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsrRead {
    /// What is at its place.
    Stored,
    /// The same, and SD if FS is dirty; for registers that are written as [`CsrWrite::Same`] only.
    Status,
    /// Something else: left to a helper, unless a write has no result.
    Unknown,
}

/// Effect of a write of a CSR.
#[derive(Clone, Copy, Debug)]
pub enum CsrWrite {
    /// It has side effects: left to a helper.
    Unknown,
    /// Nothing.
    Ignored,
    /// Nothing while these bits keep their value, with SD as it is read; else it is left to a
    /// helper.
    Same(i32),
    /// The 64 bits of `keep` stay, those of `take` come from the new value; values with a bit of
    /// `refuse` are left to a helper.
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

/// Floating point is enabled, and FS is dirty already.
pub const FLOAT_DIRTY: u8 = 1;
/// [`FLOAT_DIRTY`], and `frm` is round to nearest, ties to even.
pub const FLOAT_NEAREST: u8 = 2;

/// Base registers of a region whose pages are looked up when it is entered.
pub const REGION_BASES: usize = 4;

/// Size in bytes of the block that `cbo.zero` zeroes.
pub const CACHE_BLOCK: u64 = 64;

/// Entries of one way of a TLB array, indexed by virtual page number modulo this.
pub const TLB_ENTRIES: usize = 4096;

/// Layout of an entry of the data TLB. A tag is the virtual page's address, and hits an address
/// with the same page and no misaligned low bits. A hit in the second way exchanges the entries of
/// both ways. Tags with other low bits never hit, but for [`MARK`].
#[derive(Clone, Copy, Debug)]
// Alignment keeps an entry in one cache line of the host.
#[repr(C, align(32))]
pub struct DataEntry {
    /// Tag for loads.
    pub read: u64,
    /// Tag for stores.
    pub write: u64,
    /// Host address minus virtual address.
    pub addend: u64,
    /// Of a marked page: offsets of the first (bits 0..=15) and the last byte (bits 16..=31) that
    /// accesses do not hit.
    pub window: u64,
}

/// In a tag of a [`DataEntry`]: accesses to the page hit only outside its window, and only after a
/// miss of the inline probe, as single accesses.
pub const MARK: u64 = 1 << 10;

/// Layout of an entry of the fetch TLB.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct FetchEntry {
    /// Tag.
    pub exec: u64,
    /// Host address minus virtual address.
    pub addend: u64,
    /// Address of [`PARCELS`] numbers, `u32` each: for each parcel of the page, [`Jit::offset`] of
    /// the code that begins there, or 0. Not used without a tag.
    pub table: u64,
    /// Pads the size to a power of two.
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

/// Loops that were compiled together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Numbers of all blocks.
    pub blocks: Vec<u32>,
    /// The blocks where loops begin.
    pub heads: Vec<Head>,
}

/// A block whose code is diverted to a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its number.
    pub block: u32,
    /// Offset in the page.
    pub offset: u32,
    /// The way into the region.
    pub code: Code,
}

/// A jump inside a page that [`Jit::link`] can patch to go to its target. Jumps to blocks that are
/// compiled already, or in the same batch, are direct from the start.
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

    /// Offset in the page in bytes.
    #[must_use]
    pub fn offset(self) -> u64 {
        u64::from(self.0 >> 8)
    }
}

/// Executes one instruction. Called with current registers in the context, the whole block charged,
/// and the program counter at the start of the page. Cycles and instructions are current between
/// [`Context::end_counting`] and [`Context::begin_counting`], which a helper that needs them calls
/// first and last.
pub type Helper = unsafe extern "C" fn(context: *mut Context, block: u32, at: Position) -> bool;

/// A CSR access without its operand: the CSR's number in the low 12 bits, and the operation above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct CsrRequest(u32);

impl CsrRequest {
    /// Number of the CSR.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0 as u16 & 0xFFF
    }

    /// The access, with this operand.
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

/// Result of a CSR access.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CsrAnswer {
    /// The value that was read.
    pub value: u64,
    /// [`CSR_REFUSED`], [`CSR_DONE`] or [`CSR_MOVED`].
    pub done: u64,
}

/// Not handled: the caller executes the instruction by [`Helpers::finish`].
pub const CSR_REFUSED: u64 = 0;
/// Done.
pub const CSR_DONE: u64 = 1;
/// Done, and the program counter may translate differently now.
pub const CSR_MOVED: u64 = 2;

/// Executes a CSR access. Called like a [`Helper`].
pub type CsrHelper =
    unsafe extern "C" fn(context: *mut Context, request: CsrRequest, operand: u64) -> CsrAnswer;

/// Callbacks for everything compiled code does not inline.
#[derive(Clone, Copy, Debug)]
pub struct Helpers {
    /// Executes a block from an instruction on, and sets the program counter to the next one.
    pub finish: Helper,
    /// Executes an instruction inside a block. `false`: it trapped, and the program counter is at
    /// the handler.
    pub execute: Helper,
    /// Executes a CSR access.
    pub csr: CsrHelper,
}

/// What to compile.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Number that [`Helpers`] are given.
    pub block: u32,
    /// Its instructions, at most 64. Destination [`NO_REG`](trapless_isa::inst::NO_REG) discards
    /// the result.
    pub insts: &'a [trapless_isa::Inst],
    /// Its price in cycles.
    pub cost: u32,
    /// Number of its page: blocks of the same page are linked.
    pub page: u32,
    /// Offset of its first instruction in its page.
    pub offset: u32,
    /// The bits of a single instruction that straddles two pages. Its code serves every page that
    /// ends with these bits: it checks memory at its start, and is never linked.
    pub crossing: Option<u32>,
}

/// Why compiled code returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Before the block with this code the limit is reached, or what is counted at once
    /// ([`Counters`]).
    Limit(Code),
    /// The next block is not compiled.
    Unknown,
    /// The next block is not compiled, at a jump that [`Jit::link`] can patch.
    Jump(Site),
    /// The instruction that straddles two pages at the program counter has other bits than the code
    /// was made for, or is not in the TLB.
    Crossing,
}

/// Callback with the text of each block that is compiled.
pub type CodeListener = Box<dyn FnMut(&str) + Send>;

/// Code of the block at an offset of a page, if it is compiled.
pub type Known<'a> = &'a dyn Fn(u32, u32) -> Option<Code>;
