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
//!
//! A region assigns the host registers of guest registers, `x21`, `x25` and `x26` anew, to the
//! guest registers that it uses most.

use crate::native::uses::Uses;

/// Offset of a field of [`Context`](crate::Context).
macro_rules! at {
    ($($field:tt)+) => {
        const { std::mem::offset_of!($crate::Context, $($field)+) as u32 }
    };
}
pub(super) use at;

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

/// Host registers that only lookups of blocks need, besides instructions relative to the program
/// counter: a region may assign them anew. Then their value is in this field of the context.
const LOOKUP: [(Host, u32); 3] = [
    (PAGE, at!(pc)),
    (FETCH_TLB, at!(fetch_tlb)),
    (BASE, at!(base)),
];

/// Location of all guest registers.
pub(super) struct Registers {
    /// By number; 32 is that of discarded results.
    places: [Place; 33],
    /// Bit `n`: host register `n` has a guest register.
    taken: u32,
}

impl Registers {
    /// Those of blocks: [`PINNED`].
    pub fn of_blocks() -> Self {
        let mut registers = Self::in_memory();
        for (x, host) in pinned() {
            registers.assign(x, host);
        }
        registers
    }

    /// Those of a region, which uses guest registers like this.
    pub fn of_region(uses: &Uses) -> Self {
        let mut registers = Self::in_memory();
        // Those last that cost least to assign: nothing, or a guest register, or the page has to be
        // stored when the region is entered.
        let mut free = vec![PAGE];
        free.extend(pinned().map(|(_, host)| host));
        free.extend([FETCH_TLB, BASE]);
        let order = uses.most(free.len());
        let home = |x| pinned().find(|&(guest, _)| guest == x);
        // What stays in its place need not be moved when the region is entered and left.
        let (stay, others): (Vec<u8>, Vec<u8>) = order.iter().partition(|&&x| home(x).is_some());
        for (x, host) in stay.into_iter().filter_map(home) {
            registers.assign(x, host);
            free.retain(|&other| other != host);
        }
        for x in others {
            if let Some(host) = free.pop() {
                registers.assign(x, host);
            }
        }
        for (x, host) in pinned().filter(|(_, host)| free.contains(host)) {
            registers.assign(x, host);
        }
        registers
    }

    fn in_memory() -> Self {
        let mut places = std::array::from_fn(|x| Place::Memory(x as u8));
        places[0] = Place::Zero;
        Self { places, taken: 0 }
    }

    fn assign(&mut self, x: u8, host: Host) {
        self.places[usize::from(x)] = Place::Host(host);
        self.taken |= 1 << host.0;
    }

    /// Location of guest register `x` (0..=32).
    pub fn place(&self, x: u8) -> Place {
        self.places[usize::from(x)]
    }

    /// Whether [`PAGE`] holds the address of the page.
    pub fn page(&self) -> bool {
        self.taken & 1 << PAGE.0 == 0
    }

    /// Those of [`LOOKUP`] that have guest registers.
    pub fn lookup(&self) -> impl Iterator<Item = (Host, u32)> {
        let taken = |&(host, _): &(Host, u32)| self.taken & 1 << host.0 != 0;
        LOOKUP.into_iter().filter(taken)
    }

    /// Guest registers that are in host registers here, and elsewhere with `other`.
    pub fn moved_from(&self, other: &Self) -> impl Iterator<Item = (u8, Host)> {
        (1..32).filter_map(|x| match self.place(x) {
            Place::Host(host) if other.place(x) != Place::Host(host) => Some((x, host)),
            _ => None,
        })
    }
}

/// Guest registers of blocks, and their host registers.
fn pinned() -> impl Iterator<Item = (u8, Host)> {
    let both = |pair: &Pair| [(pair.guest, pair.hosts.0), (pair.guest + 1, pair.hosts.1)];
    PINNED.iter().flat_map(both)
}

/// Offset of integer register `x` (0..=32).
pub(super) fn x_at(x: u8) -> u32 {
    at!(x) + 8 * u32::from(x)
}

/// Offset of floating-point register `f` (0..=31).
pub(super) fn f_at(f: u8) -> u32 {
    at!(f) + 8 * u32::from(f)
}
