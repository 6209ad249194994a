//! Pages that a run is going to write, copied before it begins.
//!
//! A copy of a process shares its pages until one of the two writes them; each first write is a
//! fault, and thousands of them take a third of the time of a short run. Runs of an exploration
//! write nearly the same pages: those that the first one has written are copied at once.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
#[cfg(target_os = "linux")]
use std::ptr::NonNull;

#[cfg(target_os = "linux")]
use nix::sys::mman::{MmapAdvise, madvise};

const PAGE: u64 = 4096;
/// Bit of `/proc/self/pagemap`: no other process has this page.
const OWN: u64 = 1 << 56;

/// Pages of this process's writable memory that no other process has, as ranges of addresses: in a
/// copy, those it has written. Empty where the system does not tell.
pub fn written() -> Vec<Range<u64>> {
    look().unwrap_or_default()
}

fn look() -> io::Result<Vec<Range<u64>>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let pages = File::open("/proc/self/pagemap")?;
    let mut found: Vec<Range<u64>> = Vec::new();
    for mapping in maps.lines().filter_map(writable) {
        let mut bytes = vec![0; ((mapping.end - mapping.start) / PAGE * 8) as usize];
        if pages
            .read_exact_at(&mut bytes, mapping.start / PAGE * 8)
            .is_err()
        {
            continue;
        }
        let (entries, _) = bytes.as_chunks::<8>();
        for (at, entry) in (mapping.start..).step_by(PAGE as usize).zip(entries) {
            if u64::from_ne_bytes(*entry) & OWN == 0 {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end == at => last.end += PAGE,
                _ => found.push(at..at + PAGE),
            }
        }
    }
    Ok(found)
}

/// The addresses of a line of `/proc/self/maps`, if the process writes there and nobody else sees
/// it.
fn writable(line: &str) -> Option<Range<u64>> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let range = number(start)?..number(end)?;
    words.next()?.starts_with("rw-p").then_some(range)
}

/// Copies these pages for this process.
#[cfg(target_os = "linux")]
pub fn copy(pages: &[Range<u64>]) {
    for range in pages {
        if let Some(start) = NonNull::new(range.start as *mut _) {
            // SAFETY: it changes no content and takes no memory away: pages become this process's
            // own, as by a write. Addresses that are not mapped any more are refused, which is no
            // harm.
            let _ = unsafe {
                let length = (range.end - range.start) as usize;
                madvise(start, length, MmapAdvise::MADV_POPULATE_WRITE)
            };
        }
    }
}

/// Copies these pages for this process: elsewhere, when they are written.
#[cfg(not(target_os = "linux"))]
pub fn copy(_: &[Range<u64>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_written_are_found_and_can_be_copied() {
        let bytes = std::hint::black_box(vec![7_u8; 64 * PAGE as usize]);
        let address = bytes.as_ptr() as u64 + 8 * PAGE;
        let found = written();
        let holds = |range: &Range<u64>| range.contains(&address);
        assert!(found.is_empty() || found.iter().any(holds), "{address:x}");
        copy(&found);
        // Not mapped, and no multiple of a page.
        copy(&[0..PAGE, 4095..2 * PAGE]);
        assert!(bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn only_private_writable_memory_counts() {
        let line = "7f00-8f00 rw-p 00000000 00:00 0    [heap]";
        assert_eq!(writable(line), Some(0x7F00..0x8F00));
        for other in [
            "7f00-8f00 r-xp 0 00:00 0",
            "7f00-8f00 rw-s 0 00:00 0",
            "",
            "x",
        ] {
            assert_eq!(writable(other), None);
        }
    }
}
