//! Memory for code, never writable and executable at once.
//!
//! On x86-64 with Linux it is never writable: code is written through `/proc/self/mem`, as
//! debuggers set breakpoints. Changing the protection twice takes several microseconds, and more
//! while another thread of the process runs; it is the fallback where the kernel refuses such
//! writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::process;
use std::ptr;

/// One private mapping: data that compiled code reads at the front, code behind it.
///
/// It is private, so that a forked process has its own copy.
pub(super) struct Buffer {
    /// The mapping, in which `base` is aligned to a huge page.
    mapping: *mut libc::c_void,
    mapped: usize,
    base: *mut u8,
    data: usize,
    size: usize,
    used: usize,
    writer: Writer,
}

/// How code is written.
enum Writer {
    /// Through the file that is the memory of the process with this id.
    Kernel(u32, File),
    /// By making it writable for the time of the write.
    Protection,
}

impl Writer {
    /// For the process that runs now.
    fn new() -> Self {
        // Emulators of aarch64 hosts may not see what the kernel writes: they notice changed code
        // by its protection (QEMU before version 8.1).
        if cfg!(target_arch = "aarch64") {
            return Self::Protection;
        }
        let memory = OpenOptions::new().write(true).open("/proc/self/mem");
        memory.map_or(Self::Protection, |file| Self::Kernel(process::id(), file))
    }
}

// SAFETY: the mapping belongs to this value alone; raw pointers to it are used under `&mut self`,
// or by code that runs under `&self` and writes nothing of it.
unsafe impl Send for Buffer {}

/// Size of a page of the host, by which the layout is aligned.
const PAGE: usize = 4096;
/// Code is kept in huge pages, to reduce misses of the host's TLB, and its protection changes by
/// whole ones.
const HUGE_PAGE: usize = 2 << 20;

impl Buffer {
    /// Maps `data` bytes of data (a multiple of the size of a huge page) and `code` bytes of code,
    /// lazily.
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
            writer: Writer::new(),
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

    /// Maximum size of code in bytes.
    pub fn capacity(&self) -> usize {
        self.size - self.data
    }

    /// Bytes of code.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Drops the code from `used` on.
    pub fn truncate(&mut self, used: usize) {
        self.used = used.min(self.used);
    }

    /// Appends code that was assembled for [`next`](Self::next); `None` if there is no room.
    pub fn append(&mut self, code: &[u8]) -> Option<usize> {
        let room = self.size - self.data - self.used;
        if code.len() > room {
            return None;
        }
        let at = self.next();
        if !self.overwrite(at, code) {
            return None;
        }
        let to = self.used + code.len();
        // Align the next code to 16 bytes, as suits branch targets.
        self.used = (to + 15) & !15;
        self.used = self.used.min(self.size - self.data);
        Some(at)
    }

    /// Writes `code` at address `at`, from which on there is room for it in the buffer. `false` if
    /// the host refuses.
    pub fn overwrite(&mut self, at: usize, code: &[u8]) -> bool {
        let offset = at.wrapping_sub(self.code());
        let room = self.capacity().checked_sub(offset);
        let fits = room.is_some_and(|room| code.len() <= room);
        if !fits || !(self.write_by_kernel(code, at) || self.write(code, offset).is_ok()) {
            return false;
        }
        // SAFETY: the range lies in the mapping, and nothing writes it while `self` is borrowed.
        let written = unsafe { std::slice::from_raw_parts(at as *const u8, code.len()) };
        // Hosts whose caches of instructions do not follow memory have to be told.
        dynasmrt::cache_control::synchronize_icache(written);
        true
    }

    /// Writes `code` at address `at` by the kernel; `false` if it refuses.
    fn write_by_kernel(&mut self, code: &[u8], at: usize) -> bool {
        // In a forked process, the inherited file is its parent's memory.
        if matches!(&self.writer, Writer::Kernel(owner, _) if *owner != process::id()) {
            self.writer = Writer::new();
        }
        let Writer::Kernel(_, file) = &self.writer else {
            return false;
        };
        // A write to memory by address, though no `unsafe` shows it: the caller has checked that
        // the mapping has room for `code.len()` bytes, and no compiled code runs while `self` is
        // borrowed mutably.
        let done = file.write_all_at(code, at as u64).is_ok();
        if !done {
            self.writer = Writer::Protection;
        }
        done
    }

    /// Writes `code` at `offset` bytes from the start of code.
    fn write(&mut self, code: &[u8], offset: usize) -> io::Result<()> {
        let start = offset & !(HUGE_PAGE - 1);
        let end = (offset + code.len()).next_multiple_of(HUGE_PAGE);
        let len = end.min(self.capacity()) - start;
        self.protect(start, len, libc::PROT_READ | libc::PROT_WRITE)?;
        let at = (self.code() + offset) as *mut u8;
        // SAFETY: the caller has seen that there is room for `code.len()` bytes, they are writable
        // now, and no compiled code runs while `self` is borrowed mutably.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), at, code.len()) };
        self.protect(start, len, libc::PROT_READ | libc::PROT_EXEC)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const DATA: usize = HUGE_PAGE;
    const CODE: usize = 2 * HUGE_PAGE;

    /// What the kernel says of the mapping around `address`: like `r-xp`.
    fn permissions(address: usize) -> String {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let holds = |line: &&str| {
            let (range, _) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(from)..number(to)).contains(&address)
        };
        let line = maps.lines().find(holds).expect("the address is mapped");
        line.split(' ').nth(1).unwrap().to_owned()
    }

    fn read(at: usize, len: usize) -> Vec<u8> {
        // SAFETY: tests read what they have appended.
        unsafe { std::slice::from_raw_parts(at as *const u8, len) }.to_vec()
    }

    fn written_over_the_border_of_two_huge_pages(writer: Writer) {
        let mut buffer = Buffer::new(DATA, CODE).unwrap();
        buffer.writer = writer;
        let filling = vec![0x90; HUGE_PAGE - 32];
        let first = buffer.append(&filling).unwrap();
        let code: Vec<u8> = (0..255).collect();
        let second = buffer.append(&code).unwrap();
        assert_eq!(read(first, filling.len()), filling);
        assert_eq!(read(second, code.len()), code);
        for at in [first, second, second + code.len()] {
            assert_eq!(permissions(at), "r-xp");
        }
        assert_eq!(permissions(buffer.data()), "rw-p");
        assert!(buffer.append(&vec![0; HUGE_PAGE]).is_none(), "it is full");
    }

    #[test]
    fn code_is_never_writable_and_executable_at_once_either_way() {
        written_over_the_border_of_two_huge_pages(Writer::new());
        written_over_the_border_of_two_huge_pages(Writer::Protection);
    }

    #[test]
    fn memory_that_the_kernel_does_not_write_is_written_nevertheless() {
        let refused = OpenOptions::new().write(true).open("/dev/full").unwrap();
        written_over_the_border_of_two_huge_pages(Writer::Kernel(process::id(), refused));
    }

    #[test]
    fn forked_process_writes_its_own_memory() {
        let mut buffer = Buffer::new(DATA, CODE).unwrap();
        let at = buffer.append(&[1, 2, 3, 4]).unwrap();
        buffer.truncate(0);
        // SAFETY: the child allocates nothing of note, and ends without running anything of its
        // parent.
        match unsafe { libc::fork() } {
            0 => {
                let done = buffer.append(&[5, 6, 7, 8]) == Some(at) && read(at, 4) == [5, 6, 7, 8];
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!done)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: `status` is valid for the call.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "the child does not find its own code");
                assert_eq!(read(at, 4), [1, 2, 3, 4]);
            }
        }
    }
}
