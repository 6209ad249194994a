//! RAM as one host mapping.
//!
//! Devices reach the same bytes through `vm-memory`; harts read and write them directly. A machine
//! runs its harts and devices on one host thread, so that accesses never race.

use std::sync::Arc;

use trapless_isa::page::{PAGE_SIZE, page_offset};

use super::address::{HostAddr, PageIndex};
use super::code_pages::CodePages;
use super::prefault::Prefault;
use super::undo::{PAGE, Page, Undo};

use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// RAM cannot be mapped.
#[derive(Debug, thiserror::Error)]
#[error("cannot map {bytes} bytes of RAM: {reason}; use a smaller --ram")]
pub struct RamError {
    /// Size asked for.
    pub bytes: u64,
    /// The host's reason.
    pub reason: String,
}

/// Physical memory of a machine: one region, allocated lazily by the host.
#[derive(Clone)]
pub struct Ram {
    mem: Arc<GuestMemoryMmap<()>>,
    base: u64,
    size: u64,
    host: HostAddr,
    pages: Arc<CodePages>,
    prefault: Arc<Prefault>,
    undo: Arc<Undo>,
}

impl Ram {
    /// Maps `size` bytes (a multiple of 4 KiB) at physical address `base`.
    ///
    /// # Errors
    /// [`RamError`] if the host refuses the mapping.
    pub fn new(base: u64, size: u64) -> Result<Self, RamError> {
        let fail = |reason: String| RamError {
            bytes: size,
            reason,
        };
        if size == 0 || page_offset(size) != 0 || page_offset(base) != 0 {
            return Err(fail("size must be a positive multiple of 4096".into()));
        }
        let bytes = usize::try_from(size).map_err(|e| fail(e.to_string()))?;
        let mem = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(base), bytes)])
            .map_err(|e| fail(e.to_string()))?;
        let host = mem
            .get_host_address(GuestAddress(base))
            .map_err(|e| fail(e.to_string()))?;
        #[cfg(target_os = "linux")]
        // SAFETY: the range is the mapping. Huge pages are only advice: without them the result is
        // the same but slower.
        unsafe {
            libc::madvise(host.cast(), bytes, libc::MADV_HUGEPAGE);
        }
        // From here on, harts access it by addresses as numbers.
        let host = HostAddr::new(host.expose_provenance());
        let mem = Arc::new(mem);
        Ok(Self {
            prefault: Arc::new(Prefault::new(&mem, base, size)),
            mem,
            base,
            size,
            host,
            pages: Arc::new(CodePages::new(bytes / PAGE_SIZE as usize)),
            undo: Arc::default(),
        })
    }

    /// The same memory for devices.
    pub fn guest_memory(&self) -> &Arc<GuestMemoryMmap<()>> {
        &self.mem
    }

    /// Physical address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether `len` bytes at physical address `addr` are RAM.
    #[inline]
    pub fn contains(&self, addr: u64, len: u64) -> bool {
        let offset = addr.wrapping_sub(self.base);
        offset < self.size && len <= self.size - offset
    }

    /// Which pages hold decoded code.
    #[inline]
    pub(crate) fn code_pages(&self) -> &CodePages {
        &self.pages
    }

    /// Called before some TLB entry lets stores to `page` hit for the first time.
    #[inline]
    pub(crate) fn will_write(&self, page: PageIndex) {
        self.prefault.touched(page);
    }

    /// Host address of the first byte.
    pub(crate) fn host_base(&self) -> HostAddr {
        self.host
    }

    /// Host address of the byte at `offset` of RAM, if there is one.
    pub(crate) fn host_at(&self, offset: u64) -> Option<HostAddr> {
        (offset < self.size).then(|| self.host.add(offset as usize))
    }

    /// Page of a host address inside the mapping.
    #[inline]
    pub(crate) fn page_of(&self, host: HostAddr) -> PageIndex {
        PageIndex::new(host.offset_from(self.host) / PAGE_SIZE as usize)
    }

    /// Page of a physical address inside RAM.
    #[inline]
    pub(crate) fn page_at(&self, addr: u64) -> PageIndex {
        PageIndex::new(((addr - self.base) / PAGE_SIZE) as usize)
    }

    /// Physical address of a page.
    #[inline]
    pub(crate) fn address_of(&self, page: PageIndex) -> u64 {
        self.base + page.index() as u64 * PAGE_SIZE
    }

    /// Whether a host address lies in the mapping.
    #[inline]
    pub(crate) fn holds(&self, host: HostAddr) -> bool {
        (host.offset_from(self.host) as u64) < self.size
    }

    /// Announces that `len` bytes from `addr` on will be filled, so that the host can populate
    /// memory ahead. Addresses outside RAM are ignored.
    pub fn expect_writes(&self, addr: u64, len: u64) {
        self.prefault.expect(addr, len);
    }

    /// Records that a device may have written any part of RAM.
    pub fn written_by_device(&self) {
        self.pages.anything_written();
        self.undo.lose();
    }

    /// Marks the present state as the one that [`undo`](Self::undo) restores; returns its number.
    /// Harts must not be running. From now on the first store to each page is slower.
    pub fn begin_undo(&self) -> u64 {
        let (moment, copied) = self.undo.begin();
        match copied {
            Some(pages) => pages.into_iter().for_each(|page| self.pages.watch(page)),
            None => self.pages.watch_all(),
        }
        moment
    }

    /// Restores the content of RAM at the moment with this number, which stays the marked one.
    /// Harts must not be running, and their TLBs must be replaced. `false`: another moment was
    /// marked since, or a device may have written; nothing has changed.
    #[must_use]
    pub fn undo(&self, moment: u64) -> bool {
        self.undo.put_back(moment, |page, then| {
            // SAFETY: the page is in the mapping, which lives as long as `self`; no hart and no
            // device accesses it now.
            let now = unsafe { &mut *self.bytes_of(page) };
            if now != then {
                self.pages.written(page, 0, PAGE);
                *now = *then;
            }
            self.pages.watch(page);
        })
    }

    /// The pages that differ from the moment with this number: their indices, in order, and present
    /// content. Harts must not be running. `None`: another moment was marked since, or a device may
    /// have written.
    #[must_use]
    pub fn changed_since(&self, moment: u64) -> Option<Vec<(u64, Box<[u8]>)>> {
        let pages = self.undo.each(moment, |page, then| {
            // SAFETY: the page is in the mapping, which lives as long as `self`; nothing is written
            // now.
            let now = unsafe { &*self.bytes_of(page) };
            (now != then).then(|| (u64::from(page.number()), Box::from(&now[..])))
        })?;
        let mut changed: Vec<_> = pages.into_iter().flatten().collect();
        changed.sort_unstable_by_key(|&(page, _)| page);
        Some(changed)
    }

    /// Called before a store to `len` bytes at `offset` of `page`. Returns whether they contain
    /// code.
    #[inline]
    pub(crate) fn will_store(&self, page: PageIndex, offset: usize, len: usize) -> bool {
        if self.pages.watched(page) {
            self.keep(page);
        }
        self.pages.written(page, offset, len)
    }

    #[cold]
    fn keep(&self, page: PageIndex) {
        // SAFETY: the page is in the mapping, which lives as long as `self`; harts take turns, and
        // this one does not write now.
        self.undo.keep(page, unsafe { &*self.bytes_of(page) });
        self.pages.unwatch(page);
    }

    fn bytes_of(&self, page: PageIndex) -> *mut Page {
        self.host.add(page.index() * PAGE).as_ptr()
    }

    /// Host address of a physical address; the caller has checked [`contains`](Self::contains).
    #[inline]
    pub(crate) fn host(&self, addr: u64) -> HostAddr {
        debug_assert!(self.contains(addr, 1));
        self.host.add((addr - self.base) as usize)
    }

    /// Physical address of a host address inside the mapping.
    #[inline]
    pub(crate) fn physical(&self, host: HostAddr) -> u64 {
        self.base + host.offset_from(self.host) as u64
    }

    /// Clears RAM, and returns the memory to the host.
    pub fn clear(&self) {
        let pages = self.size as usize;
        #[cfg(target_os = "linux")]
        // SAFETY: the range is the mapping, which is private and of no file: it reads as zero then.
        // Harts and devices are not running, as the caller has the machine.
        let given = unsafe { libc::madvise(self.host.as_ptr(), pages, libc::MADV_DONTNEED) == 0 };
        #[cfg(not(target_os = "linux"))]
        let given = false;
        if !given {
            // SAFETY: as above.
            unsafe { self.host.as_ptr::<u8>().write_bytes(0, pages) };
        }
        self.written_by_device();
    }

    /// Loads `size` (1, 2, 4, 8) bytes, zero-extended; `None` outside RAM.
    #[inline]
    pub fn load(&self, addr: u64, size: u8) -> Option<u64> {
        if !self.contains(addr, u64::from(size)) {
            return None;
        }
        // SAFETY: the range was checked to lie inside the mapping, which lives as long as `self`.
        Some(unsafe { load(self.host(addr), size) })
    }

    /// Stores the low `size` (1, 2, 4, 8) bytes; `None` outside RAM.
    #[inline]
    pub fn store(&self, addr: u64, size: u8, value: u64) -> Option<()> {
        if !self.contains(addr, u64::from(size)) {
            return None;
        }
        let host = self.host(addr);
        self.will_store(self.page_of(host), page_offset(addr) as usize, size.into());
        // SAFETY: the range was checked to lie inside the mapping, which lives as long as `self`.
        unsafe { store(host, size, value) };
        Some(())
    }
}

/// Loads `size` bytes at a host address.
///
/// # Safety
/// `host..host + size` must lie inside the mapping of a live [`Ram`].
#[inline(always)]
pub(crate) unsafe fn load(host: HostAddr, size: u8) -> u64 {
    // SAFETY: promised by the caller; unaligned reads carry no alignment requirement.
    unsafe {
        match size {
            1 => u64::from(host.as_ptr::<u8>().read()),
            2 => u64::from(host.as_ptr::<u16>().read_unaligned()),
            4 => u64::from(host.as_ptr::<u32>().read_unaligned()),
            _ => host.as_ptr::<u64>().read_unaligned(),
        }
    }
}

/// Stores `size` bytes at a host address.
///
/// # Safety
/// `host..host + size` must lie inside the mapping of a live [`Ram`].
#[inline(always)]
pub(crate) unsafe fn store(host: HostAddr, size: u8, value: u64) {
    // SAFETY: promised by the caller; unaligned writes carry no alignment requirement.
    unsafe {
        match size {
            1 => host.as_ptr::<u8>().write(value as u8),
            2 => host.as_ptr::<u16>().write_unaligned(value as u16),
            4 => host.as_ptr::<u32>().write_unaligned(value as u32),
            _ => host.as_ptr::<u64>().write_unaligned(value),
        }
    }
}

/// Clears `len` bytes at a host address.
///
/// # Safety
/// `host..host + len` must lie inside the mapping of a live [`Ram`].
#[inline]
pub(crate) unsafe fn zero(host: HostAddr, len: usize) {
    // SAFETY: promised by the caller.
    unsafe { host.as_ptr::<u8>().write_bytes(0, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn words(ram: &Ram) -> [u64; 4] {
        std::array::from_fn(|page| ram.load(BASE + (page * PAGE) as u64, 8).unwrap())
    }

    fn write(ram: &Ram, page: usize, word: u64) {
        ram.store(BASE + (page * PAGE) as u64, 8, word).unwrap();
    }

    /// Promise: `undo` brings back what was there at the moment chosen last, as often as one likes,
    /// and no other.
    #[test]
    fn the_last_moment_comes_back() {
        let ram = Ram::new(BASE, 4 << 20).unwrap();
        write(&ram, 0, 1);
        let first = ram.begin_undo();
        for word in 2..4 {
            write(&ram, 0, word);
            write(&ram, 1, word);
            assert!(ram.undo(first));
            assert_eq!(words(&ram), [1, 0, 0, 0]);
        }
        write(&ram, 1, 5);
        let second = ram.begin_undo();
        write(&ram, 1, 6);
        write(&ram, 2, 6);
        assert!(!ram.undo(first));
        assert_eq!(words(&ram), [1, 6, 6, 0]);
        assert!(ram.undo(second));
        assert_eq!(words(&ram), [1, 5, 0, 0]);
    }

    #[test]
    fn what_a_device_may_have_written_does_not_come_back() {
        let ram = Ram::new(BASE, 4 << 20).unwrap();
        let first = ram.begin_undo();
        write(&ram, 0, 1);
        ram.written_by_device();
        assert!(!ram.undo(first));
        assert_eq!(words(&ram), [1, 0, 0, 0]);
        let second = ram.begin_undo();
        write(&ram, 0, 2);
        assert!(ram.undo(second));
        assert_eq!(words(&ram), [1, 0, 0, 0]);
    }
}
