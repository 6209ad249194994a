//! Enumerations that ledgers have by name.

/// An enumeration whose variants have names in ledgers, also as keys of maps.
///
/// They are ordered by name, and a map can be queried by a name without a conversion:
/// `section.interrupts["timer"]`.
macro_rules! names {
    (
        $(#[$what:meta])*
        pub enum $enum:ident ($one:literal) {
            $($(#[$doc:meta])* $variant:ident = $name:expr),* $(,)?
        }
    ) => {
        $(#[$what])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $enum {
            $($(#[$doc])* $variant,)*
        }

        impl $enum {
            /// All of them, in index order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Name in ledgers.
            pub fn name(self) -> &'static str {
                [$($name),*][self as usize]
            }

            /// The one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl Ord for $enum {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.name().cmp(other.name())
            }
        }

        impl PartialOrd for $enum {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl std::borrow::Borrow<str> for $enum {
            fn borrow(&self) -> &str {
                self.name()
            }
        }

        impl serde::Serialize for $enum {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $enum {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<str>::deserialize(from)?;
                Self::from_name(&name).ok_or_else(|| {
                    let known = [$($name),*].join(", ");
                    serde::de::Error::custom(format!("{name:?} is no {}: {known}", $one))
                })
            }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $enum {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($enum).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($name),*] })
            }
        }
    };
}

pub(crate) use names;
