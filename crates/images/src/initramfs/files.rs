//! Files out of packages, each package unpacked into a folder of its own, so that every file is
//! known to come from one.

use crate::cache::Cache;
use crate::debian::dpkg;
use crate::debian::package::Package;
use crate::debian::store::{Fetch, Store};
use crate::error::{Error, Result, io};
use crate::initramfs::elf;
use crate::progress::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where riscv64 programs of Debian find their shared libraries.
const LIBRARY_FOLDERS: [&str; 2] = ["/usr/lib/riscv64-linux-gnu", "/usr/lib"];

/// Several unpacked packages seen as one file system.
#[derive(Debug)]
pub struct PackageFiles {
    packages: Vec<(Package, PathBuf)>,
}

impl PackageFiles {
    /// Fetches and unpacks `packages`, unless they are there already.
    ///
    /// # Errors
    /// If a package cannot be fetched or unpacked.
    pub fn unpack(
        cache: &Cache,
        fetcher: &dyn Fetch,
        packages: &[Package],
        progress: Progress,
    ) -> Result<Self> {
        let folder = cache.folder("unpacked")?;
        let _lock = cache.lock("unpacked")?;
        let target = |p: &Package| {
            folder.join(format!(
                "{}_{}",
                p.name,
                &p.sha256[..p.sha256.len().min(16)]
            ))
        };
        let missing: Vec<Package> = packages
            .iter()
            .filter(|p| !target(p).exists())
            .cloned()
            .collect();
        if !missing.is_empty() {
            let files = Store::new(cache, progress).obtain(&missing, fetcher)?;
            let title = "Unpacking packages";
            dpkg::extract_each(&missing, &files, progress, title, |package, file| {
                let unfinished = folder.join("unfinished");
                let _ = fs::remove_dir_all(&unfinished);
                fs::create_dir(&unfinished).map_err(io("create", &unfinished))?;
                dpkg::extract(package, file, &unfinished)?;
                fs::rename(&unfinished, target(package)).map_err(io("write", &target(package)))
            })?;
        }
        Ok(Self {
            packages: packages.iter().map(|p| (p.clone(), target(p))).collect(),
        })
    }

    /// Finds a file by its absolute path in the system, following symbolic links across packages.
    ///
    /// # Errors
    /// If no package has it.
    pub fn find(&self, path: &str) -> Result<(&Package, PathBuf)> {
        let mut wanted = merged_usr(path);
        // As many links in a row as Linux follows.
        for _ in 0..40 {
            let Some((package, found)) = self.entry(&wanted) else {
                break;
            };
            let Ok(target) = fs::read_link(&found) else {
                return Ok((package, found));
            };
            let above = Path::new(&wanted).parent().unwrap_or(Path::new("/"));
            wanted = merged_usr(&normal(&above.join(target)));
        }
        Err(Error::Data {
            path: path.into(),
            message: "no package of the recipe has this file".into(),
        })
    }

    /// Finds the only file or folder whose path matches `pattern`, in which `*` stands for any part
    /// of one component.
    ///
    /// # Errors
    /// If there is none or more than one.
    pub fn find_pattern(&self, pattern: &str) -> Result<(&Package, PathBuf)> {
        let pattern = merged_usr(pattern);
        let Some((before, after)) = pattern.split_once('*') else {
            return self.find(&pattern);
        };
        let (above, before) = before.rsplit_once('/').unwrap_or(("", before));
        let (after, rest) = after.split_at(after.find('/').unwrap_or(after.len()));
        let mut found = Vec::new();
        for (package, folder) in &self.packages {
            let above = below(folder, above);
            for entry in fs::read_dir(&above).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = match rest {
                    "" => entry.path(),
                    _ => below(&entry.path(), rest),
                };
                if name.len() >= before.len() + after.len()
                    && name.starts_with(before)
                    && name.ends_with(after)
                    && path.symlink_metadata().is_ok()
                {
                    found.push((package, path));
                }
            }
        }
        if found.len() == 1 {
            return Ok(found.remove(0));
        }
        let message = format!("{} files of the packages match, one is needed", found.len());
        Err(Error::Data {
            path: pattern.into(),
            message,
        })
    }

    /// As [`find_pattern`](Self::find_pattern) for the first of several patterns that something
    /// matches.
    ///
    /// # Errors
    /// If nothing matches any of them.
    pub fn find_one_of(&self, patterns: &[String]) -> Result<(&Package, PathBuf)> {
        let mut last = Err(Error::Data {
            path: PathBuf::new(),
            message: "no path is named".into(),
        });
        for pattern in patterns {
            last = self.find_pattern(pattern);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// All files below a folder as (path in the system, file), sorted.
    #[must_use]
    pub fn below(&self, folder: &str) -> Vec<(&Package, String)> {
        let mut found = Vec::new();
        for (package, root) in &self.packages {
            let mut pending = vec![below(root, &merged_usr(folder))];
            while let Some(next) = pending.pop() {
                for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
                    let path = entry.path();
                    if path.is_dir() && !path.is_symlink() {
                        pending.push(path);
                    } else if let Ok(inside) = path.strip_prefix(root) {
                        found.push((package, format!("/{}", inside.display())));
                    }
                }
            }
        }
        found.sort_by(|a, b| a.1.cmp(&b.1));
        found
    }

    /// The programs and the shared libraries and program interpreters they need: path in the image
    /// -> (package, file).
    ///
    /// # Errors
    /// If a program or library is in no package or is not an ELF file.
    pub fn with_libraries<'s>(
        &'s self,
        programs: &[String],
    ) -> Result<BTreeMap<String, (&'s Package, PathBuf)>> {
        let mut found = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut pending: Vec<String> = programs.to_vec();
        while let Some(path) = pending.pop() {
            let path = merged_usr(&path);
            if !seen.insert(path.clone()) {
                continue;
            }
            let (package, file) = self.find(&path)?;
            let content = fs::read(&file).map_err(io("read", &file))?;
            // Scripts and data may be listed among the programs.
            if content.starts_with(b"\x7fELF") {
                let elf = elf::needs(&content).map_err(|reason| Error::Data {
                    path: file.clone(),
                    message: format!("damaged ELF file: {reason}"),
                })?;
                pending.extend(elf.interpreter);
                for library in &elf.libraries {
                    let usual = LIBRARY_FOLDERS.iter().copied();
                    let place = (elf.folders.iter().map(String::as_str))
                        .chain(usual)
                        .map(|f| format!("{f}/{library}"))
                        .find(|p| self.find(p).is_ok());
                    pending.push(place.ok_or_else(|| Error::Data {
                        path: file.clone(),
                        message: format!("needs {library}, which no package of the recipe has"),
                    })?);
                }
            }
            found.insert(path, (package, file));
        }
        Ok(found)
    }

    /// The last package wins, as it does when packages are unpacked over each other.
    fn entry(&self, path: &str) -> Option<(&Package, PathBuf)> {
        self.packages.iter().rev().find_map(|(package, folder)| {
            // Packages that still carry the unmerged paths are looked up in both places.
            let plain = below(folder, path);
            let unmerged = below(folder, path.strip_prefix("/usr").unwrap_or(path));
            [plain, unmerged]
                .into_iter()
                .find(|p| p.symlink_metadata().is_ok())
                .map(|p| (package, p))
        })
    }
}

fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(path.trim_start_matches('/'))
}

/// `/lib/x` is `/usr/lib/x`.
pub(crate) fn merged_usr(path: &str) -> String {
    let merged = ["/bin/", "/sbin/", "/lib/"]
        .iter()
        .any(|p| path.starts_with(p));
    if merged {
        format!("/usr{path}")
    } else {
        path.to_owned()
    }
}

/// Resolves `.` and `..` by name.
fn normal(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            std::path::Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn package(name: &str) -> Package {
        let text = || name.to_owned();
        Package {
            name: text(),
            version: text(),
            arch: text(),
            uri: text(),
            size: 0,
            sha256: text(),
        }
    }

    #[test]
    fn links_are_followed_across_packages() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = (temp.path().join("a"), temp.path().join("b"));
        fs::create_dir_all(a.join("usr/lib/x")).unwrap();
        fs::create_dir_all(b.join("lib")).unwrap();
        fs::write(b.join("lib/real.so"), "b").unwrap();
        symlink("../real.so", a.join("usr/lib/x/alias.so")).unwrap();
        symlink("loop", a.join("usr/lib/loop")).unwrap();
        let files = PackageFiles {
            packages: vec![(package("a"), a), (package("b"), b)],
        };
        let (from, path) = files.find("/lib/x/alias.so").unwrap();
        assert_eq!(
            (from.name.as_str(), fs::read(path).unwrap()),
            ("b", b"b".to_vec())
        );
        assert!(files.find("/usr/lib/loop").is_err());
        assert!(files.find("/usr/lib/absent").is_err());
    }

    #[test]
    fn pattern_must_match_one_file() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("boot")).unwrap();
        fs::write(temp.path().join("boot/vmlinux-6.12"), "k").unwrap();
        let files = PackageFiles {
            packages: vec![(package("k"), temp.path().to_owned())],
        };
        assert!(
            files
                .find_pattern("/boot/vmlinux-*")
                .unwrap()
                .1
                .ends_with("vmlinux-6.12")
        );
        let folder = temp.path().join("usr/lib/modules/7.2");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("vmlinuz"), "k").unwrap();
        let inside = files.find_pattern("/lib/modules/*/vmlinuz").unwrap().1;
        assert_eq!(inside, folder.join("vmlinuz"));
        let either = ["/boot/vmlinuz-*", "/lib/modules/*/vmlinuz"].map(String::from);
        assert_eq!(files.find_one_of(&either).unwrap().1, inside);
        assert!(files.find_one_of(&either[..1]).is_err());
        fs::write(temp.path().join("boot/vmlinux-6.13"), "k").unwrap();
        assert!(
            files
                .find_pattern("/boot/vmlinux-*")
                .unwrap_err()
                .to_string()
                .contains("2 files")
        );
    }
}
