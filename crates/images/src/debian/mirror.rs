//! Which Debian mirror to use: the machine's own, or `TRAPLESS_MIRROR`.

use crate::error::{Error, Result};
use std::path::Path;

/// Debian release all packages come from.
pub const SUITE: &str = "trixie";

/// Another name that the release has, or had.
pub const ALIAS: &str = "stable";

/// Addresses of a Debian archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Folder that holds `dists/trixie`.
    pub main: String,
    /// Folder that holds `dists/trixie-security`, if one is configured.
    pub security: Option<String>,
}

impl Mirror {
    /// The mirror named by `TRAPLESS_MIRROR`, else the one in the machine's apt configuration.
    ///
    /// # Errors
    /// [`Error::NoMirror`] if there is neither.
    pub fn find() -> Result<Self> {
        if let Ok(main) = std::env::var("TRAPLESS_MIRROR") {
            return Ok(Self {
                main,
                security: None,
            });
        }
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        Self::from_sources(&read_sources(Path::new("/etc/apt")), &release).ok_or(Error::NoMirror)
    }

    /// Picks the archive of the running Debian release among `sources`; `os_release` is the text of
    /// `/etc/os-release`.
    fn from_sources(sources: &[Source], os_release: &str) -> Option<Self> {
        let codename = os_release
            .lines()
            .find_map(|l| l.strip_prefix("VERSION_CODENAME="))?
            .trim_matches('"');
        if !os_release
            .lines()
            .any(|l| l.trim_matches('"') == "ID=debian")
        {
            return None;
        }
        let aliases = [
            codename,
            SUITE,
            "stable",
            "oldstable",
            "testing",
            "unstable",
            "sid",
        ];
        let with = |suffix: &str| {
            let named = |s: &Source| {
                aliases
                    .iter()
                    .any(|a| s.suite.trim_end_matches('/') == format!("{a}{suffix}"))
            };
            sources.iter().find(|s| named(s)).map(|s| s.uri.clone())
        };
        Some(Self {
            main: with("")?,
            security: with("-security"),
        })
    }
}

/// One (address, suite) pair of an apt configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    uri: String,
    suite: String,
}

/// Reads `sources.list` and `sources.list.d` below `apt` (apt's `sources.list(5)`).
fn read_sources(apt: &Path) -> Vec<Source> {
    let mut files = vec![apt.join("sources.list")];
    if let Ok(folder) = std::fs::read_dir(apt.join("sources.list.d")) {
        let mut parts: Vec<_> = folder.flatten().map(|e| e.path()).collect();
        parts.sort();
        files.extend(parts);
    }
    let mut sources = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => sources.extend(parse_one_line(&text)),
            Some("sources") => sources.extend(parse_deb822(&text)),
            _ => {}
        }
    }
    sources.retain(|s| {
        ["http:", "https:", "file:", "copy:", "mirror"]
            .iter()
            .any(|p| s.uri.starts_with(p))
    });
    sources
}

/// `deb [options] URI suite components`.
fn parse_one_line(text: &str) -> Vec<Source> {
    text.lines()
        .filter_map(|line| {
            let rest = line.trim().strip_prefix("deb ")?.trim_start();
            let rest = if rest.starts_with('[') {
                rest.split_once(']')?.1
            } else {
                rest
            };
            let mut words = rest.split_whitespace();
            Some(Source {
                uri: words.next()?.to_owned(),
                suite: words.next()?.to_owned(),
            })
        })
        .collect()
}

/// Stanzas with `URIs:` and `Suites:` fields.
fn parse_deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| -> Vec<String> {
            let mut inside = false;
            let mut words = Vec::new();
            for line in stanza.lines().filter(|l| !l.starts_with('#')) {
                if line.starts_with([' ', '\t']) {
                    if inside {
                        words.extend(line.split_whitespace().map(str::to_owned));
                    }
                } else if let Some((key, value)) = line.split_once(':') {
                    inside = key.eq_ignore_ascii_case(name);
                    if inside {
                        words.extend(value.split_whitespace().map(str::to_owned));
                    }
                }
            }
            words
        };
        if field("Enabled").first().is_some_and(|v| v == "no")
            || !field("Types").iter().any(|t| t == "deb")
        {
            continue;
        }
        for uri in field("URIs") {
            sources.extend(field("Suites").into_iter().map(|suite| Source {
                uri: uri.clone(),
                suite,
            }));
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "ID=debian\nVERSION_CODENAME=bookworm\n";

    #[test]
    fn deb822_stanzas_give_main_and_security() {
        let text = "Types: deb\n# old: x\nURIs: http://mirror.test/debian\nSuites: bookworm\n bookworm-updates\nComponents: main\n\n\
                    Types: deb\nURIs: http://mirror.test/node\nSuites: nodistro\n\n\
                    Types: deb\nURIs: http://mirror.test/sec\nSuites: bookworm-security\n";
        let mirror = Mirror::from_sources(&parse_deb822(text), DEBIAN).unwrap();
        assert_eq!(mirror.main, "http://mirror.test/debian");
        assert_eq!(mirror.security.as_deref(), Some("http://mirror.test/sec"));
    }

    #[test]
    fn one_line_entries_skip_options_and_source_packages() {
        let text = "# deb http://no.test/ bookworm main\ndeb-src http://no.test/ bookworm main\n\
                    deb [arch=amd64 signed-by=/k] http://mirror.test/debian/ bookworm main\n";
        let mirror = Mirror::from_sources(&parse_one_line(text), DEBIAN).unwrap();
        assert_eq!(
            mirror,
            Mirror {
                main: "http://mirror.test/debian/".into(),
                security: None
            }
        );
    }

    #[test]
    fn other_distributions_need_the_variable() {
        let text = "deb http://mirror.test/ubuntu noble main\n";
        assert_eq!(
            Mirror::from_sources(&parse_one_line(text), "ID=ubuntu\nVERSION_CODENAME=noble\n"),
            None
        );
    }
}
