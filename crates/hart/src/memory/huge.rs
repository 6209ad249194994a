//! Vectors in huge pages of the host, for tables with scattered accesses, which would thrash the
//! host's TLB in ordinary pages.

/// Minimum size of such a vector in bytes; smaller ones use ordinary pages.
const LEAST: usize = 4 << 20;

/// An empty vector with room for `capacity` elements. The host populates its memory as it is
/// filled, and it does not move while it has room.
pub(crate) fn reserve<T>(capacity: usize) -> Vec<T> {
    let vector = Vec::with_capacity(capacity);
    advise(&vector);
    vector
}

#[cfg(target_os = "linux")]
fn advise<T>(vector: &Vec<T>) {
    const PAGE: usize = trapless_isa::page::PAGE_SIZE as usize;
    let start = vector.as_ptr() as usize;
    let bytes = vector.capacity() * size_of::<T>();
    let (start, end) = (start.next_multiple_of(PAGE), (start + bytes) & !(PAGE - 1));
    if bytes >= LEAST {
        // SAFETY: whole pages of the vector's own memory. Only advice: without huge pages the
        // result is the same but slower.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &Vec<T>) {}
