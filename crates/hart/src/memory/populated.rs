//! Pages of RAM that the host has populated: all others are zero.

use std::ops::Range;

use trapless_isa::page::PAGE_SIZE;

use super::ram::Ram;

impl Ram {
    /// Ranges of page numbers, from the start of RAM, that contain everything that is not zero; all
    /// of RAM if the host does not provide this.
    #[must_use]
    pub fn populated(&self) -> Vec<Range<usize>> {
        let pages = (self.size() / PAGE_SIZE) as usize;
        populated_pages(self.host_base().get(), pages)
            .unwrap_or_else(|| std::iter::once(0..pages).collect())
    }
}

/// Populated ranges by `/proc/self/pagemap` of `pages` pages from this address of the process on.
#[cfg(target_os = "linux")]
fn populated_pages(host: usize, pages: usize) -> Option<Vec<Range<usize>>> {
    use std::os::unix::fs::FileExt;

    /// A word for each page; these bits say that it is in memory, or in swap.
    const IN_MEMORY: u64 = 3 << 62;
    const AT_ONCE: usize = 1 << 16;
    let map = std::fs::File::open("/proc/self/pagemap").ok()?;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut words = vec![0; AT_ONCE * 8];
    for first in (0..pages).step_by(AT_ONCE) {
        let words = &mut words[..AT_ONCE.min(pages - first) * 8];
        let at = (host as u64 / PAGE_SIZE + first as u64) * 8;
        map.read_exact_at(words, at).ok()?;
        for (index, word) in words.as_chunks::<8>().0.iter().enumerate() {
            if u64::from_ne_bytes(*word) & IN_MEMORY == 0 {
                continue;
            }
            let page = first + index;
            match ranges.last_mut() {
                Some(range) if range.end == page => range.end += 1,
                _ => ranges.push(page..page + 1),
            }
        }
    }
    Some(ranges)
}

#[cfg(not(target_os = "linux"))]
fn populated_pages(_: usize, _: usize) -> Option<Vec<Range<usize>>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_populated() {
        let ram = Ram::new(0x8000_0000, 64 << 20).unwrap();
        for page in [3, 9000] {
            ram.store(0x8000_0000 + page * PAGE_SIZE, 8, 1);
            let holds = |range: &Range<usize>| range.contains(&(page as usize));
            assert!(ram.populated().iter().any(holds));
        }
        // Huge pages or not, not all of it was touched.
        let total: usize = ram.populated().iter().map(Range::len).sum();
        assert!(total < 64 << 8, "{total}");
    }
}
