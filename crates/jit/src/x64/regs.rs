//! Register assignment of compiled code.
//!
//! | host | holds |
//! |---|---|
//! | `rax`, `rcx`, `rdx` | scratch |
//! | `rbx` | context |
//! | `rbp` | data TLB |
//! | `rsi`, `rdi`, `r8` .. `r12` | the guest registers of [`PINNED`] |
//! | `r13` | address of the page that the program counter is in |
//! | `r14` | retired instructions |
//! | `r15` | virtual time in cycles |

use std::mem::offset_of;

use crate::Context;

pub(super) const RAX: u8 = 0;
pub(super) const RCX: u8 = 1;
pub(super) const RDX: u8 = 2;
pub(super) const RBX: u8 = 3;
const RSI: u8 = 6;
const RDI: u8 = 7;
pub(super) const R13: u8 = 13;
pub(super) const R14: u8 = 14;
pub(super) const R15: u8 = 15;

/// Guest registers that are pinned to host registers: `sp` and `a0` .. `a5` make up most operands
/// of compiled C.
pub(super) const PINNED: [(u8, u8); 7] = [
    (2, 12),
    (10, RDI),
    (11, RSI),
    (12, 11),
    (13, 9),
    (14, 10),
    (15, 8),
];

/// Place of a guest register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// `x0`.
    Zero,
    /// Host register.
    Host(u8),
    /// Slot in the context.
    Memory(u8),
}

/// Where guest register `x` (0..=32) is.
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
