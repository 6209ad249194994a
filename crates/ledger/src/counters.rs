//! Declares counters: from one line each are derived the field that counts, the field of the JSON
//! form with its schema, the sum over phases, the description, the unit, and the row in reports.

use std::collections::BTreeMap;

/// Unit of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Accesses to a register.
    Accesses,
    /// System calls.
    Calls,
    /// Cycles of virtual time.
    Cycles,
    /// Entries into V=1.
    Entries,
    /// Events of guests.
    Events,
    /// Traps from V=1 that HS-mode handles.
    Exits,
    /// Interrupts.
    Interrupts,
    /// Messages to interrupt files.
    Messages,
    /// Notifications of an interrupt controller.
    Notifications,
    /// Traps.
    Traps,
    /// Times that a hart switches to another thread.
    Switches,
    /// Changes of the place of a vCPU.
    Moves,
    /// Words of memory, eight bytes each.
    Words,
}

impl Unit {
    /// Name in the schema: lower case, plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accesses => "accesses",
            Self::Calls => "system calls",
            Self::Cycles => "cycles",
            Self::Entries => "guest entries",
            Self::Events => "events",
            Self::Exits => "guest exits",
            Self::Interrupts => "interrupts",
            Self::Messages => "messages",
            Self::Notifications => "notifications",
            Self::Traps => "traps",
            Self::Switches => "context switches",
            Self::Moves => "moves",
            Self::Words => "words",
        }
    }
}

/// Whether a report has a row for a counter, among those of the part that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// If any run has counted something.
    IfAny,
    /// Even if all have 0, because 0 is the result.
    Always,
    /// Always, and also for each interrupt.
    WithRate,
    /// No: the figure has a place of its own in the report.
    Elsewhere,
}

/// One counter of `T`, a part of the JSON form.
#[derive(Debug)]
pub struct Counter<T> {
    /// Name of the field.
    pub name: &'static str,
    /// Label of its row in reports.
    pub label: &'static str,
    /// When it has a row.
    pub shown: Shown,
    /// Its unit.
    pub unit: Unit,
    /// Its documentation.
    pub description: &'static str,
    /// Its value.
    pub get: fn(&T) -> u64,
}

/// Counters that can be added up, for instance over phases.
pub(crate) trait Merge {
    /// Adds what `other` has counted.
    fn merge(&mut self, other: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }
}

impl<A: Merge, B: Merge> Merge for (A, B) {
    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
        self.1.merge(&other.1);
    }
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    fn merge(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(a, b)| a.merge(b));
    }
}

/// Entries that only `other` has are added.
impl<K: Ord + Clone, T: Merge + Default> Merge for BTreeMap<K, T> {
    fn merge(&mut self, other: &Self) {
        for (key, value) in other {
            self.entry(key.clone()).or_default().merge(value);
        }
    }
}

/// Entries that only `other` has are added.
impl<T: Merge + Clone> Merge for Vec<T> {
    fn merge(&mut self, other: &Self) {
        let both = self.len().min(other.len());
        self.iter_mut().zip(other).for_each(|(a, b)| a.merge(b));
        self.extend_from_slice(&other[both..]);
    }
}

/// A part of the JSON form (`NAME`) and its counters while a run is counted (`COUNTS`).
///
/// ```text
/// counters! {
///     /// What it is about.
///     pub struct NAME, counted as COUNTS {
///         /// What is counted.
///         field: u64 as Exits = "label in reports" shown Always,
///         /// Not a counter: in NAME only.
///         other: BTreeMap<String, u64>,
///     }
/// }
/// ```
///
/// `COUNTS` has the counters alone and is `Copy`; `NAME::from` sets them and leaves the rest empty.
/// `NAME::COUNTERS` is the table of counters. Without a label the name of the field is used in
/// reports, and without `shown` the row is left out where all are 0.
macro_rules! counters {
    (
        $(#[doc = $what:literal])*
        $(#[derive($($derive:ident),*)])?
        $(#[serde($($all:tt)*)])?
        pub struct $name:ident, counted as $counts:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($one:tt)*)])?
                $(#[schemars($($schema:tt)*)])?
                $field:ident: $ty:ty
                    $(as $unit:ident $(= $label:literal)? $(shown $shown:ident)?)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $what])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[cfg_attr(test, schemars(deny_unknown_fields))]
        $(#[derive($($derive),*)])?
        $(#[serde($($all)*)])?
        pub struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde($($one)*)])?
                $(#[cfg_attr(test, schemars($($schema)*))])?
                $(#[cfg_attr(test, schemars(extend("unit" = $crate::counters::Unit::$unit.name())))])?
                pub $field: $ty,
            )*
        }

        #[doc = concat!("The counters of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $counts {
            $($(
                #[doc = concat!("[`", stringify!($name), "::", stringify!($field), "`], in [`")]
                #[doc = concat!("Unit::", stringify!($unit), "`](crate::counters::Unit).")]
                pub $field: u64,
            )?)*
        }

        impl $crate::counters::Merge for $counts {
            fn merge(&mut self, other: &Self) {
                $($(
                    let _ = $crate::counters::Unit::$unit;
                    self.$field += other.$field;
                )?)*
            }
        }

        impl From<$counts> for $name {
            // Some have only counters.
            #[allow(clippy::needless_update)]
            fn from(counts: $counts) -> Self {
                Self {
                    $($(
                        $field: { let _ = $crate::counters::Unit::$unit; counts.$field },
                    )?)*
                    ..Self::default()
                }
            }
        }

        // The documentation of each field, under the field's name.
        #[allow(non_upper_case_globals, dead_code)]
        impl $name {
            $(const $field: &'static str = concat!($($doc),*).trim_ascii();)*
        }

        impl $name {
            /// Adds the counters of `other`; other fields are unchanged.
            #[allow(dead_code)] // Most are added up before they have this form.
            pub(crate) fn add_counters(&mut self, other: &Self) {
                $($(
                    let _ = $crate::counters::Unit::$unit;
                    self.$field += other.$field;
                )?)*
            }

            /// Its counters, in the order of the JSON form.
            pub const COUNTERS: &'static [$crate::counters::Counter<Self>] = &[
                $($(
                    $crate::counters::Counter {
                        name: stringify!($field),
                        label: $crate::counters::either!([$($label)?] [stringify!($field)]),
                        shown: $crate::counters::either!(
                            [$($crate::counters::Shown::$shown)?] [$crate::counters::Shown::IfAny]
                        ),
                        unit: $crate::counters::Unit::$unit,
                        description: Self::$field,
                        get: |part: &Self| part.$field,
                    },
                )?)*
            ];
        }
    };
}

/// The first if present, else the second.
macro_rules! either {
    ([] [$other:expr]) => {
        $other
    };
    ([$one:expr] [$other:expr]) => {
        $one
    };
}

/// A structure of counters all of whose fields are added up.
macro_rules! merged {
    (
        $(#[$what:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* $vis:vis $field:ident: $ty:ty),* $(,)?
        }
    ) => {
        $(#[$what])*
        pub struct $name {
            $($(#[$doc])* $vis $field: $ty,)*
        }

        impl $crate::counters::Merge for $name {
            fn merge(&mut self, other: &Self) {
                $($crate::counters::Merge::merge(&mut self.$field, &other.$field);)*
            }
        }
    };
}

pub(crate) use {counters, either, merged};
