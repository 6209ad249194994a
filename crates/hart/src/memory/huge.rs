//! Vectors in huge pages of the host, for tables with scattered accesses, which would thrash the
//! host's TLB in ordinary pages.

use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Minimum size of such a vector in bytes; smaller ones use ordinary pages.
const LEAST: usize = 4 << 20;

/// An empty vector with room for `capacity` elements. The host populates its memory as it is
/// filled, and it does not move while it has room.
pub(crate) fn reserve<T>(capacity: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(capacity);
    advise(vector.spare_capacity_mut());
    vector
}

/// Types of which all bytes may be 0.
///
/// # Safety
/// A value of zero bytes must be valid.
pub(crate) unsafe trait Zero {}

/// Elements of zero bytes at first. The host populates their memory as it is used, unlike that of a
/// vector, which the allocator may have to clear.
pub(crate) struct Zeroed<T> {
    memory: MmapMut,
    elements: PhantomData<T>,
}

impl<T: Zero> Zeroed<T> {
    /// `len` elements, 1 or more.
    pub fn new(len: usize) -> Self {
        const { assert!(align_of::<T>() <= trapless_isa::page::PAGE_SIZE as usize) };
        let layout = Layout::array::<T>(len).expect("less than the address space");
        let memory = MmapMut::map_anon(layout.size());
        Self {
            memory: memory.unwrap_or_else(|_| handle_alloc_error(layout)),
            elements: PhantomData,
        }
    }

    /// The same, in huge pages if that pays.
    pub fn in_huge_pages(len: usize) -> Self {
        let elements = Self::new(len);
        advise(&elements);
        elements
    }
}

impl<T: Zero> Deref for Zeroed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        let len = self.memory.len() / size_of::<T>();
        // SAFETY: the mapping, which begins with a page, has room for so many elements, whose zero
        // bytes are valid and which are written by `deref_mut` only.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), len) }
    }
}

impl<T: Zero> DerefMut for Zeroed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        let len = self.memory.len() / size_of::<T>();
        // SAFETY: as in `deref`; the mapping is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), len) }
    }
}

#[cfg(target_os = "linux")]
fn advise<T>(memory: &[T]) {
    const PAGE: usize = trapless_isa::page::PAGE_SIZE as usize;
    let start = memory.as_ptr() as usize;
    let bytes = size_of_val(memory);
    let (start, end) = (start.next_multiple_of(PAGE), (start + bytes) & !(PAGE - 1));
    if bytes >= LEAST {
        // SAFETY: whole pages of this memory. Only advice: without huge pages the
        // result is the same but slower.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &[T]) {}
