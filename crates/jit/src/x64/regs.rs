//! Where guest registers live while compiled code runs.
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

pub(super) const RAX: u8 = 0;
pub(super) const RCX: u8 = 1;
pub(super) const RDX: u8 = 2;
pub(super) const RBX: u8 = 3;
const RSI: u8 = 6;
const RDI: u8 = 7;
pub(super) const R13: u8 = 13;
pub(super) const R14: u8 = 14;
pub(super) const R15: u8 = 15;

/// Guest registers with a host register of their own: `sp`, `a0` .. `a5`, which make up most operands
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
