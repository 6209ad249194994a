//! How often the VMM interrupted its guest, by way of injection.

use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the counters: their names, their places in the statistics, and the kind of their system
/// calls.
macro_rules! injections {
    ($($(#[doc = $doc:literal])* $name:ident in $place:ident $(, $calls:ident)?;)*) => {
        /// Counts of injections of the VMM.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Injections {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        /// [`Injections`] that all threads count, since the guest's start.
        #[derive(Default, Debug)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: AtomicU64,)*
        }

        impl Injections {
            /// Adds those of another run.
            pub fn add(&mut self, more: &Self) {
                $(self.$name += more.$name;)*
            }

            fn all(&self) -> Vec<Counted> {
                vec![$(Counted {
                    name: stringify!($name),
                    place: Place::$place,
                    calls: None$(.or(Some(stringify!($calls))))?,
                    count: self.$name,
                }),*]
            }
        }

        impl Counters {
            /// The current numbers.
            pub fn totals(&self) -> Injections {
                Injections {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }
        }
    };
}

injections! {
    /// External-interrupt lines of vCPUs raised by `KVM_INTERRUPT`, one system call each.
    raised in Lines, inject;
    /// External-interrupt lines of vCPUs lowered by `KVM_INTERRUPT`, one system call each.
    lowered in Lines, inject;
    /// Executions of `ugenvsei`, without a system call.
    ugenvsei in Injections;
    /// Writes of irqfds, one system call each.
    irqfd in Injections, inject;
    /// Calls of `KVM_IRQ_LINE` and `KVM_SIGNAL_MSI`.
    ioctl in Injections, inject;
    /// Resample notifications received; reading one is a system call.
    resampled in Injections, resample;
    /// Sources or messages routed for the guest, one system call each.
    routed in Injections, route;
    /// Grants that threads took, one system call each.
    grants in Injections, grant;
    /// Injections that the system refused.
    failed in Injections;
}

/// Object of the statistics that a counter is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Lines,
    Injections,
}

/// A counter and its value.
struct Counted {
    name: &'static str,
    place: Place,
    /// Its name in `interrupt_system_calls`.
    calls: Option<&'static str>,
    count: u64,
}

impl Injections {
    fn of(&self, place: Place) -> Value {
        let counted = self.all().into_iter().filter(|one| one.place == place);
        let counted: Map<_, _> = counted
            .map(|one| (one.name.to_string(), one.count.into()))
            .collect();
        counted.into()
    }

    /// `injections` in the statistics. Lines of vCPUs are `external_interrupts` there.
    pub fn json(&self) -> Value {
        self.of(Place::Injections)
    }

    /// `external_interrupts` in the statistics.
    pub fn lines_json(&self) -> Value {
        self.of(Place::Lines)
    }

    /// `interrupt_system_calls` in the statistics.
    pub fn system_calls_json(&self) -> Value {
        let mut sums = Map::new();
        for one in self.all() {
            if let Some(calls) = one.calls {
                let sum = sums.get(calls).and_then(Value::as_u64).unwrap_or(0);
                sums.insert(calls.to_string(), (sum + one.count).into());
            }
        }
        sums.into()
    }
}

/// Counts one.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
