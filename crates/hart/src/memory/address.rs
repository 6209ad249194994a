//! Host addresses, pages of RAM, and kinds of access.

use std::ptr;

use trapless_isa::page::PAGE_MASK;

/// An address in this process, in the mapping of RAM.
///
/// It is a number and not a pointer, because TLB entries hold the difference between host and
/// virtual addresses. The mapping's provenance is exposed when RAM is created, and
/// [`as_ptr`](Self::as_ptr) picks it up again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HostAddr(usize);

impl HostAddr {
    /// From an address as a number.
    #[inline(always)]
    pub const fn new(address: usize) -> Self {
        Self(address)
    }

    /// Host address of virtual address `va`, by the addend of the TLB entry of its page.
    #[inline(always)]
    pub const fn of(va: u64, addend: u64) -> Self {
        Self(va.wrapping_add(addend) as usize)
    }

    /// Addend of a TLB entry that maps the page of `va` to the page of this address.
    #[inline]
    pub const fn addend(self, va: u64) -> u64 {
        (self.page().0 as u64).wrapping_sub(va & PAGE_MASK)
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> usize {
        self.0
    }

    /// First byte of the page that it is in.
    #[inline]
    pub const fn page(self) -> Self {
        Self(self.0 & PAGE_MASK as usize)
    }

    /// The address `bytes` further.
    #[inline]
    pub const fn add(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Bytes from `base` to this address, modulo 2^64 if it is before it.
    #[inline]
    pub const fn offset_from(self, base: Self) -> usize {
        self.0.wrapping_sub(base.0)
    }

    /// A pointer to this address.
    #[inline(always)]
    pub fn as_ptr<T>(self) -> *mut T {
        ptr::with_exposed_provenance_mut(self.0)
    }
}

/// Number of a page of RAM; that at the base is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PageIndex(u32);

impl PageIndex {
    /// Page `index`; RAM has less than 2^32 of them.
    #[inline]
    pub const fn new(index: usize) -> Self {
        Self(index as u32)
    }

    /// The number, for tables by page.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number, for the compiler.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Kind of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Load.
    Read,
    /// Store or AMO.
    Write,
    /// Instruction fetch.
    Exec,
}
