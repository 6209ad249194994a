//! Memory for code, never writable and executable at once.

use std::io;
use std::ptr;

/// One private mapping: data that compiled code reads at the front, code behind it.
///
/// It is private so that a forked process has its own.
pub(super) struct Buffer {
    /// The mapping, in which `base` is aligned to a huge page.
    mapping: *mut libc::c_void,
    mapped: usize,
    base: *mut u8,
    data: usize,
    size: usize,
    used: usize,
}

// SAFETY: the mapping belongs to this value alone; raw pointers to it are used under `&mut self`, or
// by code that runs under `&self` and writes nothing of it.
unsafe impl Send for Buffer {}

const PAGE: usize = 4096;
/// Code is asked to be in pages of this size, and changes its protection as such: much code is executed
/// with few entries of the host's TLB.
const HUGE_PAGE: usize = 2 << 20;

impl Buffer {
    /// Maps `data` bytes of data (a multiple of the size of a huge page) and `code` bytes of code, lazily.
    pub fn new(data: usize, code: usize) -> io::Result<Self> {
        let code = code.checked_next_multiple_of(PAGE);
        let size = code.and_then(|code| code.checked_add(data));
        let (Some(code), Some(size)) = (code, size) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let mapped = size
            .checked_add(HUGE_PAGE)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), mapped, rw, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base: *mut u8 = mapping.cast();
        let base = base.wrapping_add(base.align_offset(HUGE_PAGE));
        // SAFETY: the range lies in the new mapping. Failure changes nothing but speed.
        unsafe { libc::madvise(base.wrapping_add(data).cast(), code, libc::MADV_HUGEPAGE) };
        let buffer = Self {
            mapping,
            mapped,
            base,
            data,
            size,
            used: 0,
        };
        buffer.protect(0, code, libc::PROT_READ | libc::PROT_EXEC)?;
        Ok(buffer)
    }

    /// Address of the data.
    pub fn data(&self) -> usize {
        self.base as usize
    }

    /// Address of the first code.
    pub fn code(&self) -> usize {
        self.base as usize + self.data
    }

    /// Address at which the next code will be.
    pub fn next(&self) -> usize {
        self.code() + self.used
    }

    /// Most bytes of code.
    pub fn capacity(&self) -> usize {
        self.size - self.data
    }

    /// Bytes of code.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Forgets the code from `used` on.
    pub fn truncate(&mut self, used: usize) {
        self.used = used.min(self.used);
    }

    /// Appends code that was assembled for [`next`](Self::next); `None` if there is no room.
    pub fn append(&mut self, code: &[u8]) -> Option<usize> {
        let room = self.size - self.data - self.used;
        if code.len() > room {
            return None;
        }
        let (from, to) = (self.used, self.used + code.len());
        let start = from & !(HUGE_PAGE - 1);
        let len = to.next_multiple_of(HUGE_PAGE).min(self.capacity()) - start;
        self.protect(start, len, libc::PROT_READ | libc::PROT_WRITE)
            .ok()?;
        let at = self.next();
        // SAFETY: `code.len()` bytes from `at` on lie in the mapping, are writable now, and no compiled
        // code runs while `self` is borrowed mutably.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
        self.protect(start, len, libc::PROT_READ | libc::PROT_EXEC)
            .ok()?;
        // What follows begins at a cache line's quarter, as branch targets like it.
        self.used = (to + 15) & !15;
        self.used = self.used.min(self.size - self.data);
        Some(at)
    }

    /// Changes the protection of code.
    fn protect(&self, offset: usize, len: usize, protection: i32) -> io::Result<()> {
        // SAFETY: the range lies in the mapping, behind the data.
        let done =
            unsafe { libc::mprotect(self.base.add(self.data + offset).cast(), len, protection) };
        if done == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no code of it runs any more.
        unsafe { libc::munmap(self.mapping, self.mapped) };
    }
}
