//! Current activity of the emulator, for profiles.
//!
//! Harts, code cache and bus of a machine share one [`Meter`] and set it where another kind of work
//! begins; a profiler samples it from another thread. Setting it costs a store, without an effect
//! on guests or ledgers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

macro_rules! activities {
    ($($name:ident, $key:literal, $text:literal;)*) => {
        /// A kind of work.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Activity {
            $(#[doc = $text] $name,)*
        }

        impl Activity {
            /// All activities, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Name in files.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $key,)*
                }
            }

            /// Explanation for reports.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

activities! {
    Outside, "outside", "nothing for the machine: progress, console, waiting for input";
    Compiled, "compiled", "guest code, compiled";
    Interpreted, "interpreted", "guest code, interpreted";
    Helper, "helpers", "single instructions that compiled code leaves to the interpreter";
    Csr, "csrs", "CSR accesses that compiled code leaves to the interpreter";
    Dispatch, "dispatch", "finding the next block";
    Decode, "decode", "translation: decoding blocks";
    Compile, "compile", "translation: compiling blocks";
    Walk, "walks", "TLB misses: page walks";
    Trap, "traps", "traps, and looking for interrupts";
    Interrupts, "interrupts", "interrupt architecture";
    Device, "devices", "devices";
    Ledger, "ledger", "ledger, traces and logs of events";
    Schedule, "scheduling", "whose turn it is";
}

/// The activity before [`Meter::enter`].
#[derive(Clone, Copy, Debug)]
pub struct Before(u8);

/// The activity of a machine. Clones are the same meter.
#[derive(Clone, Default, Debug)]
pub struct Meter(Arc<AtomicU8>);

impl Meter {
    /// The activity now, for other threads.
    #[must_use]
    pub fn now(&self) -> Activity {
        let number = usize::from(self.0.load(Relaxed));
        Activity::ALL
            .get(number)
            .copied()
            .unwrap_or(Activity::Outside)
    }

    /// Begins work of this kind.
    #[inline(always)]
    pub fn set(&self, activity: Activity) {
        self.0.store(activity as u8, Relaxed);
    }

    /// Begins work that is part of other work, to which [`leave`](Self::leave) returns. Only one
    /// thread sets a meter.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self, activity: Activity) -> Before {
        let before = Before(self.0.load(Relaxed));
        self.set(activity);
        before
    }

    /// Ends the part that began with [`enter`](Self::enter).
    #[inline(always)]
    pub fn leave(&self, before: Before) {
        self.0.store(before.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_work_end_where_they_began() {
        let meter = Meter::default();
        let seen = meter.clone();
        assert_eq!(seen.now(), Activity::Outside);
        for &activity in Activity::ALL {
            meter.set(activity);
            assert_eq!(seen.now(), activity);
            let before = meter.enter(Activity::Walk);
            assert_eq!(seen.now(), Activity::Walk);
            meter.leave(before);
            assert_eq!(seen.now(), activity);
        }
    }
}
