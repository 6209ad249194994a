//! How often the VMM interrupted its guest, by the way it took.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the VMM did to interrupt a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injections {
    /// External-interrupt lines of vCPUs raised by `KVM_INTERRUPT`, one system call each.
    pub raised: u64,
    /// External-interrupt lines of vCPUs lowered by `KVM_INTERRUPT`, one system call each.
    pub lowered: u64,
    /// Executions of `ugenvsei`, without a system call.
    pub ugenvsei: u64,
    /// Writes of irqfds, one system call each.
    pub irqfd: u64,
    /// Calls of `KVM_IRQ_LINE` and `KVM_SIGNAL_MSI`.
    pub ioctl: u64,
    /// Resample notifications read, one system call each.
    pub resampled: u64,
    /// Sources or messages routed for the guest, one system call each.
    pub routed: u64,
    /// Grants taken, one system call each.
    pub grants: u64,
    /// Injections that the system refused.
    pub failed: u64,
}

impl Injections {
    /// Adds those of another run.
    pub fn add(&mut self, more: &Self) {
        self.raised += more.raised;
        self.lowered += more.lowered;
        self.ugenvsei += more.ugenvsei;
        self.irqfd += more.irqfd;
        self.ioctl += more.ioctl;
        self.resampled += more.resampled;
        self.routed += more.routed;
        self.grants += more.grants;
        self.failed += more.failed;
    }

    /// `injections` in the statistics. Lines of vCPUs are `external_interrupts` there.
    pub fn json(&self) -> Value {
        json!({
            "ugenvsei": self.ugenvsei,
            "irqfd": self.irqfd,
            "ioctl": self.ioctl,
            "resampled": self.resampled,
            "routed": self.routed,
            "grants": self.grants,
            "failed": self.failed,
        })
    }

    /// `external_interrupts` in the statistics.
    pub fn lines_json(&self) -> Value {
        json!({ "raised": self.raised, "lowered": self.lowered })
    }

    /// `interrupt_system_calls` in the statistics.
    pub fn system_calls_json(&self) -> Value {
        json!({
            "inject": self.raised + self.lowered + self.irqfd + self.ioctl,
            "resample": self.resampled,
            "route": self.routed,
            "grant": self.grants,
        })
    }
}

/// [`Injections`] that all threads count, since the guest's start.
#[derive(Default, Debug)]
pub struct Counters {
    /// Executions of `ugenvsei`.
    pub ugenvsei: AtomicU64,
    /// Writes of an irqfd.
    pub irqfd: AtomicU64,
    /// Calls of `KVM_IRQ_LINE` and `KVM_SIGNAL_MSI`.
    pub ioctl: AtomicU64,
    /// Threads that took a grant.
    pub grants: AtomicU64,
    /// Resample notifications received; reading one is a system call.
    pub resampled: AtomicU64,
    /// Sources or messages routed for the guest.
    pub routed: AtomicU64,
    /// Injections that the system refused.
    pub failed: AtomicU64,
}

impl Counters {
    /// The current numbers.
    pub fn totals(&self) -> Injections {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Injections {
            raised: 0,
            lowered: 0,
            ugenvsei: load(&self.ugenvsei),
            irqfd: load(&self.irqfd),
            ioctl: load(&self.ioctl),
            resampled: load(&self.resampled),
            routed: load(&self.routed),
            grants: load(&self.grants),
            failed: load(&self.failed),
        }
    }
}

/// Counts one.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
