//! What an installed project folder brings along ready-made, in `prebuilt/`, so that its user needs
//! no compiler:
//!
//! ```text
//! vmm/KEY/...              programs, named as in the cache by what they were built from
//! modules/NAME-KEY/...     kernel modules and programs of a recipe, likewise
//! packages.json            the Debian packages they belong to: what apt answered where they were built
//! ```
//!
//! Names by content make it safe: with other sources, patches, compilers or another kernel nothing
//! here is found, and it is built as in a source tree.

use crate::digest::sha256_parts;
use crate::error::{Error, Result, io};
use crate::mirror::Mirror;
use crate::package::{Package, Request};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of a project.
const FOLDER: &str = "prebuilt";
const LOCK: &str = "packages.json";
/// Names a file of such answers that is used in a source tree: a release is made of packages in the
/// versions that are written down with its source.
const PINNED: &str = "TRAPLESS_PACKAGES";
/// Stand for the addresses of a mirror, which are the user's own.
const MAIN: &str = "main:";
const SECURITY: &str = "security:";

/// One request to apt, and its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answer {
    request: Request,
    packages: Vec<Package>,
}

/// Answers of apt that came with the program.
#[derive(Debug, Clone)]
pub struct Locked {
    answers: BTreeMap<String, Vec<Package>>,
    /// Names the file by its content.
    pub(crate) key: String,
}

impl Locked {
    /// Those of a project folder; `None` if it has none, as a source tree. `TRAPLESS_PACKAGES`
    /// names a file of others.
    ///
    /// # Errors
    /// If the file is damaged, or the named one is not there.
    pub fn of_project(project: &Path) -> Result<Option<Self>> {
        let path = project.join(FOLDER).join(LOCK);
        let path = match std::env::var_os(PINNED) {
            Some(pinned) => PathBuf::from(pinned),
            None if path.exists() => path,
            None => return Ok(None),
        };
        let text = fs::read(&path).map_err(io("read the list of packages", &path))?;
        let answers: Vec<Answer> = serde_json::from_slice(&text).map_err(|e| Error::Data {
            path: path.clone(),
            message: format!("{e}; install Trapless again"),
        })?;
        let answers = answers.into_iter().map(|a| (name(&a.request), a.packages));
        Ok(Some(Self {
            answers: answers.collect(),
            key: sha256_parts([&text[..]]),
        }))
    }

    /// The answer to a request, if it was asked where the program was packed.
    pub(crate) fn answer(&self, request: &Request) -> Option<&[Package]> {
        self.answers.get(&name(request)).map(Vec::as_slice)
    }
}

fn name(request: &Request) -> String {
    serde_json::to_string(request).unwrap_or_default()
}

/// Whether newer versions must not take the place of those that are gone.
pub(crate) fn is_pinned() -> bool {
    std::env::var_os(PINNED).is_some()
}

/// Whether a project folder was installed from a package: then nothing is ever written there.
pub(crate) fn is_packed(project: &Path) -> bool {
    project.join(FOLDER).join(LOCK).exists()
}

/// The folder of ready-made files of `kind` called `name`, if the project brings it along.
pub(crate) fn find(project: &Path, kind: &str, name: &str) -> Option<PathBuf> {
    let folder = project.join(FOLDER).join(kind).join(name);
    folder.is_dir().then_some(folder)
}

/// Writes what [`Locked::of_project`] reads: addresses without those of the mirror.
pub(crate) fn write_lock(
    folder: &Path,
    answers: &[(Request, Vec<Package>)],
    mirror: &Mirror,
) -> Result<()> {
    let mut all = BTreeMap::new();
    for (request, packages) in answers {
        let mut packages = packages.clone();
        for package in &mut packages {
            package.uri = shorten(&package.uri, mirror)?;
        }
        let request = request.clone();
        all.insert(name(&request), Answer { request, packages });
    }
    let all: Vec<Answer> = all.into_values().collect();
    let path = folder.join(LOCK);
    let mut text = serde_json::to_vec_pretty(&all).unwrap_or_default();
    text.push(b'\n');
    fs::write(&path, text).map_err(io("write", &path))
}

fn shorten(uri: &str, mirror: &Mirror) -> Result<String> {
    if uri.starts_with(MAIN) || uri.starts_with(SECURITY) {
        return Ok(uri.to_owned());
    }
    // The address of one archive may begin with that of the other: the longer one first.
    let mut bases = vec![(MAIN, mirror.main.as_str())];
    bases.extend(mirror.security.as_deref().map(|uri| (SECURITY, uri)));
    bases.sort_by_key(|(_, base)| std::cmp::Reverse(base.len()));
    let found = bases.into_iter().find_map(|(word, base)| {
        let path = uri.strip_prefix(base.trim_end_matches('/'))?;
        Some(format!("{word}{}", path.strip_prefix('/')?))
    });
    found.ok_or_else(|| Error::Data {
        path: uri.into(),
        message: "is on another mirror than apt's; run `trapless images --refresh` first".into(),
    })
}

/// The address of a package on the user's mirror.
///
/// # Errors
/// If it is needed and there is no mirror.
pub(crate) fn expand(uri: &str) -> Result<String> {
    let on = |base: &str, path: &str| format!("{}/{path}", base.trim_end_matches('/'));
    if let Some(path) = uri.strip_prefix(MAIN) {
        return Ok(on(&Mirror::find()?.main, path));
    }
    if let Some(path) = uri.strip_prefix(SECURITY) {
        let mirror = Mirror::find()?;
        // A mirror without security fixes has what has become part of the release.
        return Ok(on(mirror.security.as_deref().unwrap_or(&mirror.main), path));
    }
    Ok(uri.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror() -> Mirror {
        Mirror {
            main: "http://mirror.test/debian/".into(),
            security: Some("http://mirror.test/debian-security".into()),
        }
    }

    fn package(uri: &str) -> Package {
        Package {
            name: "p".into(),
            version: "1".into(),
            arch: "riscv64".into(),
            uri: uri.into(),
            size: 1,
            sha256: "0".into(),
        }
    }

    /// Promise: what was resolved where the program was packed is what its user gets, from the
    /// user's own mirror.
    #[test]
    fn answers_are_found_again_without_addresses() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        assert!(Locked::of_project(temp.path()).unwrap().is_none());
        let request = Request {
            arch: "riscv64".into(),
            closure: vec!["p".into()],
            alone: Vec::new(),
        };
        let uris = [
            "http://mirror.test/debian/pool/p.deb",
            "http://mirror.test/debian-security/pool/s.deb",
        ];
        let answers = [(request.clone(), uris.map(package).to_vec())];
        write_lock(&folder, &answers, &mirror()).unwrap();
        assert!(is_packed(temp.path()));
        let locked = Locked::of_project(temp.path()).unwrap().unwrap();
        let found: Vec<_> = locked.answer(&request).unwrap().iter().collect();
        let uris: Vec<_> = found.iter().map(|p| p.uri.as_str()).collect();
        assert_eq!(uris, ["main:pool/p.deb", "security:pool/s.deb"]);
        let other = Request {
            arch: "amd64".into(),
            ..request
        };
        assert!(locked.answer(&other).is_none());
        let text = fs::read_to_string(folder.join(LOCK)).unwrap();
        assert!(!text.contains("mirror.test"), "{text}");
    }

    #[test]
    fn packages_of_another_mirror_and_damaged_files_are_refused() {
        let error = shorten("http://other.test/p.deb", &mirror()).unwrap_err();
        assert!(error.to_string().contains("--refresh"), "{error}");
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join(FOLDER)).unwrap();
        fs::write(temp.path().join(FOLDER).join(LOCK), "[{").unwrap();
        let error = Locked::of_project(temp.path()).unwrap_err().to_string();
        assert!(error.contains("install Trapless again"), "{error}");
    }
}
