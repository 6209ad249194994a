//! Reports failed allocations of memory with a message.
//!
//! Large allocations, for tables of harts and of compiled code, happen in the middle of a run,
//! where no error can be returned. Guest RAM is mapped elsewhere, where errors are returned.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// Exit status, as after an option that cannot be used.
const STATUS: i32 = 2;

/// The system's allocator, whose failures end the program with a message.
pub struct ReportingAllocator;

/// `memory`, unless it is null.
fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        refused(size);
    }
    memory
}

#[cold]
fn refused(size: usize) -> ! {
    let megabytes = size.div_ceil(1 << 20);
    // Standard error has no buffer: this takes no memory.
    let _ = writeln!(
        std::io::stderr(),
        "trapless: no memory is left ({megabytes} MiB more are needed); choose less --ram or fewer \
         --harts, make fewer runs at once, or raise the limit (ulimit -v)"
    );
    std::process::exit(STATUS)
}

// SAFETY: all calls are forwarded to the system's allocator; null is never returned.
unsafe impl GlobalAlloc for ReportingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what the system's allocator requires of `layout`.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; `memory` came from the system's allocator, as all that this returns.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}
