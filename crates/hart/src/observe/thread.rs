//! Which thread of the host's kernel a hart executes, for observers.
//!
//! Linux keeps the address of a thread's `task_struct` in `tp` while it is in the kernel, with 0 in
//! `sscratch`; while a program runs, `tp` is the program's and the address is in `sscratch`. Where
//! `sscratch` is something else in HS-mode, the kernel is between the two, or KVM is about to enter
//! a guest or has just left it: then the thread is unknown and taken as unchanged.
//!
//! A switch is `mv tp, REG` in HS-mode, so none is missed, however many there are between two
//! traps. The registers are also checked at traps to HS-mode and returns from it: this finds the
//! first thread, and threads of kernels other than Linux.

use trapless_isa::Mode;
use trapless_isa::inst::TP;
use trapless_ledger::event::{Event, Switch};

use crate::hart::Hart;
use crate::platform::Platform;

/// Kernels live in the upper half of an address space.
const KERNEL: u64 = 1 << 63;

impl Hart {
    /// Records the thread if it has changed, at a trap or return between HS-mode and `other`.
    #[inline]
    pub(crate) fn note_thread(&mut self, other: Mode, plat: &mut dyn Platform) {
        match other {
            Mode::HS => self.note_kernel_thread(plat),
            // A handler runs in place of a guest, and `sscratch` is KVM's.
            Mode::U if !self.handles(Mode::U) => {
                let task = self.csr.hs.scratch;
                self.record_thread(task, plat);
            }
            _ => {}
        }
    }

    /// Executes `mv tp, REG`, by which a kernel switches to another thread.
    #[cold]
    pub(crate) fn move_to_tp(&mut self, value: u64, plat: &mut dyn Platform) {
        // The first thread may not have been seen yet.
        self.note_kernel_thread(plat);
        self.state.x[usize::from(TP)] = value;
        self.note_kernel_thread(plat);
    }

    /// Records the thread inside the kernel.
    #[inline]
    fn note_kernel_thread(&mut self, plat: &mut dyn Platform) {
        if self.mode == Mode::HS && self.csr.hs.scratch == 0 {
            let task = self.state.x[usize::from(TP)];
            self.record_thread(task, plat);
        }
    }

    #[inline]
    fn record_thread(&mut self, to: u64, plat: &mut dyn Platform) {
        let from = self.watch.thread;
        // Before it has an address space of its own, Linux has its first thread elsewhere.
        if to != from && to >= KERNEL {
            self.watch.thread = to;
            plat.record(&Event::Switch(Switch {
                time: self.state.cycles,
                hart: self.id,
                from,
                to,
                satp: self.csr.hs.atp,
            }));
        }
    }
}
