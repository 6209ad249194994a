//! Prefaults memory that the guest will probably access soon, on another thread.
//!
//! At the first access, the host allocates a huge page and clears it. That takes tenths of a
//! millisecond, or milliseconds if the host is a virtual machine whose memory was reclaimed.
//! Kernels fill RAM upwards in a few places at once, so the pages after an accessed one are likely
//! to be next.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use super::address::PageIndex;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Bytes of a chunk: a huge page of most hosts.
const CHUNK: u64 = 2 << 20;
/// Pages of 4 KiB in a chunk.
const PAGES: usize = CHUNK as usize / 4096;
/// Chunks prefaulted after an accessed one: if its predecessor was accessed too, and otherwise.
const AHEAD: [usize; 2] = [8, 1];
/// RAM of fewer chunks is not prefaulted.
const LEAST: usize = 32;

/// State of a chunk.
#[derive(Default)]
struct Chunk {
    /// A hart may have written to it.
    touched: AtomicBool,
    /// The other thread is to prefault it, or has done so.
    asked: AtomicBool,
}

/// State shared by both threads, without locks, so that the process may be forked at any time; the
/// child has no second thread, and does not prefault.
struct Shared {
    chunks: Vec<Chunk>,
    /// There are new requests for the other thread.
    news: AtomicBool,
    end: AtomicBool,
}

/// Prefaulting of one machine's RAM.
pub(crate) struct Prefault {
    shared: Arc<Shared>,
    memory: Arc<GuestMemoryMmap<()>>,
    base: u64,
    /// The other thread, once there was a request; `None` inside if it could not be started.
    thread: OnceLock<Option<Thread>>,
}

impl Prefault {
    /// For the region of `memory` at `base` with `size` bytes.
    pub fn new(memory: &Arc<GuestMemoryMmap<()>>, base: u64, size: u64) -> Self {
        // Only whole chunks count.
        let count = (size / CHUNK) as usize;
        let count = if count < LEAST { 0 } else { count };
        Self {
            shared: Arc::new(Shared {
                chunks: (0..count).map(|_| Chunk::default()).collect(),
                news: AtomicBool::new(false),
                end: AtomicBool::new(false),
            }),
            memory: memory.clone(),
            base,
            thread: OnceLock::new(),
        }
    }

    /// A hart is about to write to this page of RAM for the first time, or again.
    #[inline]
    pub fn touched(&self, page: PageIndex) {
        let index = page.index() / PAGES;
        if let Some(chunk) = self.shared.chunks.get(index) {
            if !chunk.touched.load(Relaxed) {
                self.first_touch(index);
            }
        }
    }

    #[cold]
    fn first_touch(&self, index: usize) {
        let chunks = &self.shared.chunks;
        chunks[index].touched.store(true, Relaxed);
        let follows = index
            .checked_sub(1)
            .is_some_and(|before| chunks[before].touched.load(Relaxed));
        let ahead = AHEAD[usize::from(!follows)];
        let mut news = false;
        for chunk in chunks.iter().skip(index + 1).take(ahead) {
            news |= !chunk.touched.load(Relaxed) && !chunk.asked.swap(true, Relaxed);
        }
        if news {
            self.wake();
        }
    }

    /// `len` bytes from `addr` on are about to be filled: prefaults the second half.
    pub fn expect(&self, addr: u64, len: u64) {
        let chunk = |at: u64| (at.saturating_sub(self.base) / CHUNK) as usize;
        let (half, end) = (addr.saturating_add(len / 2), addr.saturating_add(len));
        let later = self.shared.chunks.get(chunk(half) + 1..=chunk(end));
        let later = later.unwrap_or_default();
        for chunk in later {
            chunk.asked.store(true, Relaxed);
        }
        if !later.is_empty() {
            self.wake();
        }
    }

    fn wake(&self) {
        self.shared.news.store(true, SeqCst);
        if let Some(thread) = self.thread.get_or_init(|| self.start()) {
            thread.unpark();
        }
    }

    fn start(&self) -> Option<Thread> {
        let (shared, memory, base) = (self.shared.clone(), self.memory.clone(), self.base);
        let thread = thread::Builder::new().name("prefault".into());
        let handle = thread.spawn(move || shared.serve(&memory, base)).ok()?;
        Some(handle.thread().clone())
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.shared.end.store(true, SeqCst);
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Shared {
    /// Body of the other thread.
    fn serve(&self, memory: &GuestMemoryMmap<()>, base: u64) {
        let mut done = vec![false; self.chunks.len()];
        while !self.end.load(SeqCst) {
            if !self.news.swap(false, SeqCst) {
                thread::park();
                continue;
            }
            for (index, done) in done.iter_mut().enumerate() {
                let chunk = &self.chunks[index];
                if *done || !chunk.asked.load(Relaxed) || self.end.load(Relaxed) {
                    continue;
                }
                *done = true;
                if !chunk.touched.load(Relaxed) {
                    touch(memory, GuestAddress(base + index as u64 * CHUNK));
                }
            }
        }
    }
}

/// Populates the page at `address` for writing, as a huge page if possible; its content stays. Does
/// nothing on old hosts.
#[cfg(target_os = "linux")]
fn touch(memory: &GuestMemoryMmap<()>, address: GuestAddress) {
    if let Ok(host) = memory.get_host_address(address) {
        // SAFETY: the page lies in the mapping, which lives as long as `memory`. Nothing is
        // written: the host does what it would do before a write.
        unsafe { libc::madvise(host.cast(), 4096, libc::MADV_POPULATE_WRITE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn touch(_: &GuestMemoryMmap<()>, _: GuestAddress) {}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::Ram;

    use super::*;

    const BASE: u64 = 0x8000_0000;

    /// Whether the host has given memory for the first page of a chunk.
    fn resident(ram: &Ram, chunk: u64) -> bool {
        let page = ram.host(BASE + chunk * CHUNK);
        let mut answer = 0u8;
        // SAFETY: the page lies in the mapping of `ram`, and the answer is one byte for one page.
        let done = unsafe { libc::mincore(page.as_ptr(), 4096, &raw mut answer) };
        done == 0 && answer & 1 != 0
    }

    fn wait(done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "nothing was done ahead"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn memory_after_a_growing_area_is_there_before_it_is_touched_and_no_more() {
        let ram = Ram::new(BASE, 256 << 20).unwrap();
        ram.store(BASE + 20 * CHUNK + 8, 8, 7).unwrap();
        ram.store(BASE + 21 * CHUNK, 8, 9).unwrap();
        for chunk in 20..22 {
            ram.will_write(PageIndex::new(chunk * PAGES));
        }
        wait(|| (22..30).all(|chunk| resident(&ram, chunk)));
        assert!(!resident(&ram, 30) && !resident(&ram, 19));
        assert_eq!(ram.load(BASE + 20 * CHUNK + 8, 8), Some(7));
        assert_eq!(ram.load(BASE + 22 * CHUNK, 8), Some(0));
    }

    #[test]
    fn second_half_of_what_is_filled_is_there_early() {
        let ram = Ram::new(BASE, 256 << 20).unwrap();
        ram.expect_writes(BASE + 8 * CHUNK, 8 * CHUNK);
        wait(|| (13..16).all(|chunk| resident(&ram, chunk)));
        assert!(!resident(&ram, 8) && !resident(&ram, 17));
        ram.expect_writes(BASE - 4096, u64::MAX);
        ram.expect_writes(u64::MAX, 1);
    }

    #[test]
    fn last_chunk_and_small_memories_have_nothing_ahead() {
        let ram = Ram::new(BASE, 256 << 20).unwrap();
        ram.will_write(PageIndex::new(256 * 256 - 1));
        Ram::new(BASE, 1 << 20)
            .unwrap()
            .will_write(PageIndex::new(0));
    }
}
