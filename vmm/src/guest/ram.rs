//! Guest RAM: one mapping of this process, in ordinary or in huge pages.

use crate::error::{Error, Result};
use crate::map;
use std::fs::File;
use std::os::fd::FromRawFd;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionCollection, GuestRegionMmap, MmapRegion,
};

/// Bytes of a huge page: what one leaf of the guest's second-stage page table maps one level above
/// the last.
pub const HUGE_PAGE: u64 = 2 << 20;

/// Kind of RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory of this process.
    Private,
    /// A file in memory, which other processes can map.
    Shared,
    /// Huge pages of hugetlbfs.
    Huge,
}

/// `bytes` of zeroes from [`map::RAM_BASE`]; of [`Kind::Huge`] a multiple of [`HUGE_PAGE`]. The
/// host allocates pages at the first access.
///
/// KVM of Linux 6.12 gives a riscv64 guest large leaves only for hugetlbfs; transparent huge pages
/// do not count.
///
/// # Errors
/// [`Error::User`] if the host does not have enough memory or huge pages.
pub fn allocate(bytes: u64, kind: Kind) -> Result<GuestMemoryMmap> {
    let huge = kind == Kind::Huge;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (file, sharing) = match kind {
        Kind::Shared => (
            Some(file_of(bytes).map_err(|e| refused(bytes, huge, &e))?),
            libc::MAP_SHARED,
        ),
        _ => (None, libc::MAP_ANONYMOUS | libc::MAP_PRIVATE),
    };
    let pages = if huge {
        // Not MAP_NORESERVE: the host reserves the pages now, since a missing one would kill the
        // VMM later. The kernel places the mapping at a multiple of a huge page; so is RAM_BASE, as
        // large leaves need it.
        libc::MAP_HUGETLB | libc::MAP_HUGE_2MB
    } else {
        libc::MAP_NORESERVE
    };
    let mapping = MmapRegion::build(file, bytes as usize, protection, sharing | pages)
        .map_err(|e| refused(bytes, huge, &e))?;
    GuestRegionMmap::new(mapping, GuestAddress(map::RAM_BASE))
        .and_then(|region| GuestRegionCollection::from_regions(vec![region]).ok())
        .ok_or_else(|| {
            Error::Failed("guest RAM does not fit into the guest's address space".into())
        })
}

fn file_of(bytes: u64) -> std::io::Result<FileOffset> {
    // SAFETY: the name is a string that ends with 0; the descriptor has no other owner.
    let file = unsafe {
        match libc::memfd_create(c"guest-ram".as_ptr(), libc::MFD_CLOEXEC) {
            fd if fd < 0 => return Err(std::io::Error::last_os_error()),
            fd => File::from_raw_fd(fd),
        }
    };
    file.set_len(bytes)?;
    Ok(FileOffset::new(file, 0))
}

/// Checks that the host has `bytes` of memory at all: it allocates pages when the guest accesses
/// them and would kill the VMM when there are no more.
///
/// # Errors
/// [`Error::User`] if it does not.
pub fn check_host(bytes: u64) -> Result<()> {
    // SAFETY: sysinfo is plain old data, for which zeroes are a valid value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` outlives the call, which writes one sysinfo.
    if unsafe { libc::sysinfo(&mut info) } < 0 {
        return Err(Error::failed(
            "cannot read the host's memory size",
            std::io::Error::last_os_error(),
        ));
    }
    let unit = u64::from(info.mem_unit);
    let host = (info.totalram + info.totalswap).saturating_mul(unit);
    if bytes > host {
        return Err(Error::user(format!(
            "the host has only {} MiB of memory; use a smaller --memory",
            host >> 20
        )));
    }
    Ok(())
}

fn refused(bytes: u64, huge: bool, cause: &dyn std::fmt::Display) -> Error {
    let mib = bytes >> 20;
    Error::user(if huge {
        let pages = bytes / HUGE_PAGE;
        format!(
            "the host has fewer than {pages} free huge pages, which {mib} MiB of guest RAM need ({cause}); \
             reserve them by `echo {pages} >/proc/sys/vm/nr_hugepages`, as many for each other guest, or leave out --hugepages"
        )
    } else {
        format!("cannot get {mib} MiB of guest RAM ({cause}); use a smaller --memory")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::{Address, Bytes, GuestMemoryBackend};

    #[test]
    fn ram_begins_at_its_base_with_zeroes() {
        for kind in [Kind::Private, Kind::Shared] {
            let ram = allocate(4 * HUGE_PAGE, kind).unwrap();
            let last = GuestAddress(map::RAM_BASE + 4 * HUGE_PAGE - 8);
            assert_eq!(ram.read_obj::<u64>(last).unwrap(), 0);
            ram.write_obj(1_u64, last).unwrap();
            assert!(!ram.address_in_range(GuestAddress(map::RAM_BASE - 1)));
            assert!(!ram.address_in_range(last.unchecked_add(8)));
        }
    }

    #[test]
    fn large_leaves_are_possible_from_the_first_byte() {
        assert_eq!(map::RAM_BASE % HUGE_PAGE, 0);
    }

    #[test]
    fn too_few_huge_pages_are_a_user_error_that_says_how_to_get_them() {
        // 2^62 bytes are beyond every address space.
        let error = allocate(1 << 62, Kind::Huge).unwrap_err();
        assert_eq!(error.code(), 2);
        let text = error.to_string();
        assert!(
            text.contains("echo 2199023255552 >/proc/sys/vm/nr_hugepages"),
            "{text}"
        );
        let error = allocate(1 << 62, Kind::Private).unwrap_err();
        assert!(error.to_string().contains("--memory"), "{error}");
    }
}
