//! Register assignment of compiled code.
//!
//! | host | holds |
//! |---|---|
//! | `rax`, `rcx`, `rdx` | scratch |
//! | `rbx` | context |
//! | `rbp` | data TLB |
//! | `rsp` | frames of the guest's calls ([`control`](super::control)) |
//! | `rsi`, `rdi`, `r8` .. `r12`, `r14` | the guest registers of [`PINNED`] |
//! | `r13` | address of the page that the program counter is in |
//! | `r15` | virtual time and retired instructions ([`Counters`](crate::Counters)) |
//! | `xmm0` .. `xmm3` | scratch |
//! | `xmm4` .. `xmm15` | [copies](super::copies) of floating-point registers |
//!
//! A region assigns `rsi`, `rdi`, `r8` .. `r14` anew, to the guest registers that it uses most, and
//! a long block these and `r15` at each instruction.
//!
//! The host's divisions and wide multiplications use `rax` and `rdx` implicitly, so these are
//! scratch registers.

use std::mem::offset_of;

use crate::Context;
use crate::native::uses::Uses;

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
pub(super) const R15: Host = Host(15);

/// Guest registers that are pinned to host registers: `sp`, `s1` and `a0` .. `a5` make up most
/// operands of compiled C.
pub(super) const PINNED: [(u8, Host); 8] = [
    (2, Host(12)),
    (9, Host(14)),
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

/// Host registers that a region may assign anew, those last that cost least to assign.
const FREE: [Host; PINNED.len() + 1] = {
    let mut free = [R13; PINNED.len() + 1];
    let mut at = 0;
    while at < PINNED.len() {
        free[at] = PINNED[at].1;
        at += 1;
    }
    free
};

/// What has a place like guest registers, after these and 32 for discarded results: the address of
/// the page, and [`Counters::count`](crate::Counters::count).
const PAGE: u8 = 33;
const COUNT: u8 = 34;

/// Numbers of all that has a place.
pub(super) const NUMBERS: usize = 35;

/// What is in host registers between blocks, and where.
pub(super) const HOMES: [(u8, Host); PINNED.len() + 2] = {
    let mut homes = [(PAGE, R13); PINNED.len() + 2];
    let mut at = 0;
    while at < PINNED.len() {
        homes[at] = PINNED[at];
        at += 1;
    }
    homes[at + 1] = (COUNT, R15);
    homes
};

/// Location of all guest registers, and of the rest of [`HOMES`].
#[derive(Clone)]
pub(super) struct Registers {
    places: [Place; NUMBERS],
    /// What is in each host register; 0: nothing.
    contents: [u8; 16],
    /// Bit `x`: `x` is in a host register, and its slot in the context has an older value.
    stale: u64,
}

impl Registers {
    /// Those of blocks: [`PINNED`].
    pub fn of_blocks() -> Self {
        let mut registers = Self::in_memory();
        for (x, host) in HOMES {
            registers.assign(x, host);
        }
        registers
    }

    /// Those of a region, by how often it uses each guest register, about.
    pub fn of_region(uses: &Uses) -> Self {
        let order = uses.most(FREE.len());
        let pinned = |x| PINNED.iter().find(|(guest, _)| *guest == x);
        let mut registers = Self::in_memory();
        let mut free = FREE.to_vec();
        // What stays in its place need not be moved when the region is entered and left.
        let (stay, others): (Vec<u8>, Vec<u8>) = order.iter().partition(|&&x| pinned(x).is_some());
        for (guest, host) in stay.into_iter().filter_map(pinned) {
            registers.assign(*guest, *host);
            free.retain(|other| other != host);
        }
        for x in others {
            if let Some(host) = free.pop() {
                registers.assign(x, host);
            }
        }
        for (x, host) in HOMES {
            if free.contains(&host) {
                registers.assign(x, host);
            }
        }
        registers
    }

    fn in_memory() -> Self {
        let mut places = std::array::from_fn(|x| Place::Memory(x as u8));
        places[0] = Place::Zero;
        Self {
            places,
            contents: [0; 16],
            stale: 0,
        }
    }

    /// From now on `x` is in a host register, its slot in the context out of date.
    pub fn assign(&mut self, x: u8, host: Host) {
        self.loaded(x, host);
        self.stale |= 1 << x;
    }

    /// A host register has the value that the slot of `x` has.
    pub fn loaded(&mut self, x: u8, host: Host) {
        self.places[usize::from(x)] = Place::Host(host);
        self.contents[usize::from(host.0)] = x;
        self.stale &= !(1 << x);
    }

    /// From now on `x` is in its slot only.
    pub fn free(&mut self, x: u8) {
        if let Place::Host(host) = self.place(x) {
            self.contents[usize::from(host.0)] = 0;
        }
        self.places[usize::from(x)] = Place::Memory(x);
        self.stale &= !(1 << x);
    }

    /// Whether the slot of `x` has an older value than its host register.
    pub fn stale(&self, x: u8) -> bool {
        self.stale & 1 << x != 0
    }

    /// What is in a host register.
    pub fn content(&self, host: Host) -> Option<u8> {
        let x = self.contents[usize::from(host.0)];
        (x != 0).then_some(x)
    }

    /// Location of guest register `x` (0..=32).
    pub fn place(&self, x: u8) -> Place {
        self.places[usize::from(x)]
    }

    /// Whether `r13` holds the address of the page.
    pub fn page(&self) -> bool {
        self.place(PAGE) == Place::Host(R13)
    }

    /// Guest registers in host registers.
    fn hosts(&self) -> impl Iterator<Item = (u8, Host)> {
        (1..32).filter_map(|x| match self.place(x) {
            Place::Host(host) => Some((x, host)),
            _ => None,
        })
    }

    /// All that is in host registers.
    pub fn all(&self) -> impl Iterator<Item = (u8, Host)> {
        let hosts = HOMES.into_iter().map(|(_, host)| host);
        hosts.filter_map(|host| self.content(host).map(|x| (x, host)))
    }

    /// Guest registers that are in host registers here, and elsewhere with `other`.
    pub fn moved_from(&self, other: &Self) -> impl Iterator<Item = (u8, Host)> {
        self.hosts()
            .filter(|&(x, host)| other.place(x) != Place::Host(host))
    }
}

/// Offset in [`Context`] of what `rbx` points to: `fetch_tlb` and `base`, which come before the
/// integer registers, and all but the last two of these have displacements of 8 bits.
pub(super) const BIAS: usize = offset_of!(Context, fetch_tlb) + 128;

const _: () = {
    assert!(offset_of!(Context, x) - offset_of!(Context, fetch_tlb) == 2 * 8);
    assert!(offset_of!(Context, x) + 29 * 8 - BIAS < 128);
};

/// Displacement from `rbx` of a field of [`Context`].
macro_rules! at {
    ($($field:tt)+) => {
        const { std::mem::offset_of!($crate::Context, $($field)+) as i32 - $crate::native::x64::regs::BIAS as i32 }
    };
}
pub(super) use at;

/// Displacement of integer register `x` (0..=32).
pub(super) fn x_at(x: u8) -> i32 {
    at!(x) + 8 * i32::from(x)
}

/// Displacement of the slot of anything that has a place.
pub(super) fn slot_at(x: u8) -> i32 {
    match x {
        PAGE => at!(pc),
        COUNT => at!(counters.count),
        x => x_at(x),
    }
}

/// Displacement of floating-point register `f` (0..=31).
pub(super) fn f_at(f: u8) -> i32 {
    at!(f) + 8 * i32::from(f)
}
