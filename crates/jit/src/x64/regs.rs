//! Register assignment of compiled code.
//!
//! | host | holds |
//! |---|---|
//! | `rax`, `rcx`, `rdx` | scratch |
//! | `rbx` | context |
//! | `rbp` | data TLB |
//! | `rsp` | frames of the guest's calls ([`control`](super::control)) |
//! | `rsi`, `rdi`, `r8` .. `r12` | the guest registers of [`PINNED`] |
//! | `r13` | address of the page that the program counter is in |
//! | `r14` | retired instructions |
//! | `r15` | virtual time in cycles |
//!
//! The host's divisions and wide multiplications use `rax` and `rdx` implicitly, so these are
//! scratch registers.

use std::mem::offset_of;

use crate::Context;

/// A register of the host, by the number that instructions have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Host(pub u8);

/// The assembler's macro takes registers by their numbers.
impl From<Host> for u8 {
    fn from(host: Host) -> Self {
        host.0
    }
}

pub(super) const RAX: Host = Host(0);
pub(super) const RCX: Host = Host(1);
pub(super) const RDX: Host = Host(2);
pub(super) const RBX: Host = Host(3);
const RSI: Host = Host(6);
const RDI: Host = Host(7);
pub(super) const R13: Host = Host(13);
pub(super) const R14: Host = Host(14);
pub(super) const R15: Host = Host(15);

/// Guest registers that are pinned to host registers: `sp` and `a0` .. `a5` make up most operands
/// of compiled C.
pub(super) const PINNED: [(u8, Host); 7] = [
    (2, Host(12)),
    (10, RDI),
    (11, RSI),
    (12, Host(11)),
    (13, Host(9)),
    (14, Host(10)),
    (15, Host(8)),
];

/// Place of a guest register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// `x0`.
    Zero,
    /// Host register.
    Host(Host),
    /// Slot in the context.
    Memory(u8),
}

/// Location of guest register `x` (0..=32).
pub(super) fn place(x: u8) -> Place {
    if x == 0 {
        return Place::Zero;
    }
    match PINNED.iter().find(|(guest, _)| *guest == x) {
        Some((_, host)) => Place::Host(*host),
        None => Place::Memory(x),
    }
}

/// Offset in [`Context`] of what `rbx` points to: `fetch_tlb`, `base` and `limit`, which come
/// before the integer registers, and all but the last of these have displacements of 8 bits.
pub(super) const BIAS: usize = offset_of!(Context, fetch_tlb) + 128;

const _: () = {
    assert!(offset_of!(Context, x) - offset_of!(Context, fetch_tlb) == 3 * 8);
    assert!(offset_of!(Context, x) + 28 * 8 - BIAS < 128);
};

/// Displacement from `rbx` of a field of [`Context`].
macro_rules! at {
    ($($field:tt)+) => {
        const { std::mem::offset_of!($crate::Context, $($field)+) as i32 - $crate::x64::regs::BIAS as i32 }
    };
}
pub(super) use at;

/// Displacement of integer register `x` (0..=32).
pub(super) fn x_at(x: u8) -> i32 {
    at!(x) + 8 * i32::from(x)
}

/// Displacement of floating-point register `f` (0..=31).
pub(super) fn f_at(f: u8) -> i32 {
    at!(f) + 8 * i32::from(f)
}
