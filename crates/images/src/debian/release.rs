//! The releases of Debian that packages come from.

use crate::debian::mirror::{ALIAS, SUITE};

/// A release of Debian.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// The stable one: all packages, unless another release is named.
    #[default]
    Stable,
    /// The next one, with what is on its way there: kernels only.
    Testing,
}

/// A suite of an archive, by its name below `dists`.
pub(crate) struct Suite {
    /// Its name.
    pub name: String,
    /// Whether it is in the archive of security fixes.
    pub security: bool,
}

impl Release {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Stable, Self::Testing];

    /// Name in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Testing => "testing",
        }
    }

    /// The release of this [`name`](Self::name).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|release| release.name() == name)
    }

    /// The name of an image, or of a file of one (`NAME/FILE`), that is made for its kernel.
    #[must_use]
    pub fn image(self, artefact: &str) -> String {
        if self == Self::Stable {
            return artefact.to_owned();
        }
        let (image, file) = artefact.split_at(artefact.find('/').unwrap_or(artefact.len()));
        format!("{image}@{}{file}", self.name())
    }

    /// Folder of the cache with its package lists.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Stable => "apt",
            Self::Testing => "apt-testing",
        }
    }

    /// Whether package lists are refused after the time that their signed index names. Testing's
    /// are meant for a week, and a mirror that is a snapshot has older ones.
    pub(crate) const fn expires(self) -> bool {
        match self {
            Self::Stable => true,
            Self::Testing => false,
        }
    }

    /// Sets of suites to take packages from, the best first. A mirror may not carry all suites, or
    /// be amid a change; each release has another name, whose folder a mirror may have brought up
    /// to date earlier or later.
    pub(crate) fn suites(self) -> Vec<Vec<Suite>> {
        let suite = |name: &str| Suite {
            name: name.into(),
            security: false,
        };
        match self {
            Self::Stable => {
                let security = Suite {
                    name: format!("{SUITE}-security"),
                    security: true,
                };
                let updates = suite(&format!("{SUITE}-updates"));
                vec![
                    vec![updates, security, suite(SUITE)],
                    vec![suite(SUITE)],
                    vec![suite(ALIAS)],
                ]
            }
            Self::Testing => vec![
                vec![suite("testing"), suite("unstable")],
                vec![suite("testing")],
            ],
        }
    }

    /// Whether the text of an `InRelease` file is that of one of its suites.
    pub(crate) fn has(self, text: &str) -> bool {
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name));
            found.unwrap_or_default().trim()
        };
        match self {
            Self::Stable => {
                let name = field("Codename: ");
                let fixes = name.strip_prefix(SUITE).unwrap_or("-");
                ["", "-updates", "-security"].contains(&fixes)
            }
            Self::Testing => ["testing", "unstable"].contains(&field("Suite: ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_with_its_release() {
        assert_eq!(Release::Stable.image("kvm/kvm.ko"), "kvm/kvm.ko");
        assert_eq!(Release::Testing.image("kvm/kvm.ko"), "kvm@testing/kvm.ko");
        assert_eq!(Release::Testing.image("kernel"), "kernel@testing");
    }

    #[test]
    fn lists_of_another_release_are_told_apart() {
        let of = |suite: &str, codename: &str| {
            format!("Origin: Debian\nSuite: {suite}\nCodename: {codename}\nDate: Sat\n")
        };
        for codename in ["trixie", "trixie-updates", "trixie-security"] {
            assert!(Release::Stable.has(&of("stable", codename)));
        }
        for (suite, codename) in [("testing", "forky"), ("unstable", "sid")] {
            assert!(!Release::Stable.has(&of(suite, codename)));
            assert!(Release::Testing.has(&of(suite, codename)));
        }
        assert!(!Release::Testing.has(&of("stable", "trixie")));
        assert!(!Release::Stable.has("") && !Release::Testing.has(""));
    }
}
