//! Register assignment of compiled code.
//!
//! | host | holds |
//! |---|---|
//! | `x0` .. `x3`, `x16`, `x17` | scratch |
//! | `x4` .. `x15`, `x27`, `x28` | the guest registers of [`PINNED`] |
//! | `x19` | context |
//! | `x20` | data TLB |
//! | `x21` | address of the page that the program counter is in |
//! | `x22` | retired instructions |
//! | `x23` | virtual time in cycles |
//! | `x24` | limit |
//! | `x25` | fetch TLB |
//! | `x26` | base of code |
//! | `x30` | return address, inside the trampolines |
//! | `sp` | frames of the guest's calls ([`control`](super::control)) |
//! | `d0` .. `d3` | scratch |
//!
//! `x18` belongs to the platform, and `x29` to whoever unwinds the stack.

/// A register of the host, by the number that instructions have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Host(pub u8);

/// The assembler's macro takes registers by their numbers.
impl From<Host> for u8 {
    fn from(host: Host) -> Self {
        host.0
    }
}

pub(super) const X0: Host = Host(0);
pub(super) const X1: Host = Host(1);
pub(super) const X2: Host = Host(2);
pub(super) const X3: Host = Host(3);
pub(super) const X16: Host = Host(16);
pub(super) const X17: Host = Host(17);
pub(super) const CONTEXT: Host = Host(19);
pub(super) const DATA_TLB: Host = Host(20);
pub(super) const PAGE: Host = Host(21);
pub(super) const INSTRET: Host = Host(22);
pub(super) const CYCLES: Host = Host(23);
pub(super) const LIMIT: Host = Host(24);
pub(super) const FETCH_TLB: Host = Host(25);
pub(super) const BASE: Host = Host(26);
/// Reads as 0 where instructions do not take the stack pointer.
pub(super) const ZERO: Host = Host(31);

/// Two guest registers with consecutive numbers, of which this is the first, in two host registers.
pub(super) struct Pair {
    pub guest: u8,
    pub hosts: (Host, Host),
}

const fn pair(guest: u8, first: u8, second: u8) -> Pair {
    Pair {
        guest,
        hosts: (Host(first), Host(second)),
    }
}

/// Guest registers that are pinned to host registers, by pairs, which one instruction loads or
/// stores: `ra`, `sp`, `t0`, `t1`, `s0`, `s1`, `a0` .. `a7`.
pub(super) const PINNED: [Pair; 7] = [
    pair(1, 13, 12),
    pair(5, 14, 15),
    pair(8, 27, 28),
    pair(10, 4, 5),
    pair(12, 6, 7),
    pair(14, 8, 9),
    pair(16, 10, 11),
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

/// Place of guest register `x` (0..=32).
pub(super) fn place(x: u8) -> Place {
    if x == 0 {
        return Place::Zero;
    }
    for Pair { guest, hosts } in &PINNED {
        if x == *guest {
            return Place::Host(hosts.0);
        }
        if x == guest + 1 {
            return Place::Host(hosts.1);
        }
    }
    Place::Memory(x)
}

/// Offset of a field of [`Context`](crate::Context).
macro_rules! at {
    ($($field:tt)+) => {
        const { std::mem::offset_of!($crate::Context, $($field)+) as u32 }
    };
}
pub(super) use at;

/// Offset of integer register `x` (0..=32).
pub(super) fn x_at(x: u8) -> u32 {
    at!(x) + 8 * u32::from(x)
}

/// Offset of floating-point register `f` (0..=31).
pub(super) fn f_at(f: u8) -> u32 {
    at!(f) + 8 * u32::from(f)
}
