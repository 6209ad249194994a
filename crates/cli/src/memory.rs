//! Memory that cannot be had is told in a sentence.
//!
//! What needs much of it, tables of harts and of compiled code, needs it in the middle of a run,
//! far from whoever could return an error. Guest RAM is mapped elsewhere, where that may fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// Exit status, as after an option that cannot be used.
const STATUS: i32 = 2;

/// The system's allocator, whose refusals end the program with a sentence.
pub struct Told;

/// `memory`, unless there is none.
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

// SAFETY: all is passed on to the system's allocator; null is never returned.
unsafe impl GlobalAlloc for Told {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is the one that is asked for.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; `memory` is the system's, as all that this returns.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}
