//! Memory for tables with scattered accesses: in huge pages of the host, because they would thrash
//! the host's TLB in ordinary pages, or populated only where it is used.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Minimum size in bytes of what is in huge pages.
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

/// Elements of zero bytes at first. The host populates their memory as it is used: for bytes,
/// unlike for what is aligned to more than 16 of them, the allocator asks the host for zeros.
pub(crate) struct Zeroed<T> {
    memory: Vec<u8>,
    /// Where the first element is.
    start: usize,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Zero> Zeroed<T> {
    /// `len` elements.
    pub fn new(len: usize) -> Self {
        let size = len.checked_mul(size_of::<T>());
        let size = size.and_then(|size| size.checked_add(align_of::<T>()));
        let memory = vec![0; size.expect("less than the address space")];
        Self {
            start: memory.as_ptr().align_offset(align_of::<T>()),
            memory,
            len,
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
        // SAFETY: from the aligned start on, the vector, which never changes its size, has room for
        // the elements. Its zeros are valid elements, and only elements are written there.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.start).cast(), self.len) }
    }
}

impl<T: Zero> DerefMut for Zeroed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        let start = self.memory.as_mut_ptr();
        // SAFETY: as in `deref`; the vector is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start.add(self.start).cast(), self.len) }
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
