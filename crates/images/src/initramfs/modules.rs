//! Kernel modules: what a module needs, in load order, and the `modules.dep` that `modprobe` reads.
//!
//! Debian makes `modules.dep` when a kernel is installed; images are made without installing one,
//! so the dependencies are taken from the modules themselves (`depends=` and `softdep=` in section
//! `.modinfo`).

use crate::error::{Error, Result, io};
use crate::initramfs::elf;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Most bytes of a module, decompressed.
const LARGEST: u64 = 256 << 20;

/// A kernel module, uncompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Name as `modprobe` takes it, with `_` for `-`.
    pub name: String,
    /// Path below `/lib/modules/RELEASE`, ending in `.ko`.
    pub path: String,
    /// Names of the modules that must be loaded first.
    pub depends: Vec<String>,
    /// The module itself.
    pub content: Vec<u8>,
}

/// Where the modules of a kernel are.
#[derive(Debug, Clone)]
pub struct Source {
    /// Version of the kernel, as `uname -r` prints it.
    pub release: String,
    /// Below it are all the modules.
    pub folder: PathBuf,
    /// The list of those that are part of the kernel.
    pub builtin: PathBuf,
}

impl Source {
    /// `/lib/modules/RELEASE` of an unpacked kernel package.
    #[must_use]
    pub fn of_package(folder: PathBuf) -> Self {
        let release = folder.file_name().unwrap_or_default().to_string_lossy();
        Self {
            release: release.into_owned(),
            builtin: folder.join("modules.builtin"),
            folder,
        }
    }

    /// A kernel that was built here.
    ///
    /// # Errors
    /// If its version cannot be read.
    pub fn of_build(folder: PathBuf) -> Result<Self> {
        let path = folder.join("release");
        let release = fs::read_to_string(&path).map_err(io("read", &path))?;
        Ok(Self {
            release: release.trim().to_owned(),
            builtin: folder.join("builtin"),
            folder,
        })
    }
}

/// Collects `wanted` and all they need; each module comes after those it depends on. Modules built
/// into the kernel are left out.
///
/// # Errors
/// If a wanted module does not exist or a module file is damaged.
pub fn collect(source: &Source, wanted: &[String]) -> Result<Vec<Module>> {
    let (modules, missing) = collect_present(source, wanted)?;
    match missing.first() {
        None => Ok(modules),
        Some(name) => Err(Error::Data {
            path: source.folder.clone(),
            message: format!("the kernel has no module {name}; correct `modules` in the recipe"),
        }),
    }
}

/// As [`collect`], with the names of those among `wanted` that do not exist. What ends in `?` is
/// taken if it exists: kernels of two releases differ in what is a module.
///
/// # Errors
/// If a module file is damaged.
pub fn collect_present(source: &Source, wanted: &[String]) -> Result<(Vec<Module>, Vec<String>)> {
    let names = wanted
        .iter()
        .map(|name| name.trim_end_matches('?').to_owned());
    let (modules, mut missing) = present(source, &names.collect::<Vec<_>>())?;
    missing.retain(|name| wanted.contains(name));
    Ok((modules, missing))
}

fn present(source: &Source, wanted: &[String]) -> Result<(Vec<Module>, Vec<String>)> {
    let folder = &source.folder;
    let mut index = BTreeMap::new();
    find(folder, &mut index)?;
    let builtin = fs::read_to_string(&source.builtin).unwrap_or_default();
    let builtin: Vec<String> = builtin
        .lines()
        .filter_map(|l| module_name(Path::new(l)))
        .collect();
    let read = |name: &str| -> Result<Option<Module>> {
        let Some(path) = index.get(name) else {
            return Ok(None);
        };
        read_module(folder, path).map(Some)
    };
    order(wanted, &builtin, &read)
}

/// The text of `modules.dep` for `modules`, which are in load order.
///
/// Each line names all modules that are needed, directly or not; `modprobe` loads them from the
/// last to the first.
#[must_use]
pub fn modules_dep(modules: &[Module]) -> String {
    let mut text = String::new();
    for (place, module) in modules.iter().enumerate() {
        let mut needed: BTreeSet<&str> = module.depends.iter().map(String::as_str).collect();
        text += &module.path;
        text.push(':');
        // Whatever a module needs stands before it, so one pass backwards finds everything.
        for earlier in modules[..place].iter().rev() {
            if needed.contains(earlier.name.as_str()) {
                text.push(' ');
                text += &earlier.path;
                needed.extend(earlier.depends.iter().map(String::as_str));
            }
        }
        text.push('\n');
    }
    text
}

/// How a module is read by its name; `None` if there is none.
type Read<'a> = &'a dyn Fn(&str) -> Result<Option<Module>>;

/// Puts modules into load order.
struct Order<'a> {
    builtin: &'a [String],
    read: Read<'a>,
    seen: BTreeSet<String>,
    done: Vec<Module>,
    missing: Vec<String>,
}

impl Order<'_> {
    /// Depth first, so that what is needed comes first. A cycle of soft dependencies is entered
    /// once.
    fn visit(&mut self, name: &str, required: bool) -> Result<()> {
        let name = name.replace('-', "_");
        if self.builtin.contains(&name) || !self.seen.insert(name.clone()) {
            return Ok(());
        }
        let Some(module) = (self.read)(&name)? else {
            self.missing.extend(required.then_some(name));
            return Ok(());
        };
        for needed in &module.depends {
            // A soft dependency may name an alias (`crypto-crc32c`) that the kernel satisfies
            // itself.
            self.visit(needed, false)?;
        }
        self.done.push(module);
        Ok(())
    }
}

fn order(
    wanted: &[String],
    builtin: &[String],
    read: Read<'_>,
) -> Result<(Vec<Module>, Vec<String>)> {
    let mut order = Order {
        builtin,
        read,
        seen: BTreeSet::new(),
        done: Vec::new(),
        missing: Vec::new(),
    };
    for name in wanted {
        order.visit(name, true)?;
    }
    Ok((order.done, order.missing))
}

fn find(folder: &Path, index: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(io("list", folder))?.flatten() {
        let path = entry.path();
        // Of links there is one to the kernel's source, which has links of its own.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&path, index)?;
        } else if let Some(name) = module_name(&path) {
            index.insert(name, path);
        }
    }
    Ok(())
}

/// `a/virtio-rng.ko.xz` is module `virtio_rng`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (stem, packed) = file.rsplit_once(".ko")?;
    let known = ["", ".gz", ".xz", ".zst"].contains(&packed);
    known.then(|| stem.replace('-', "_"))
}

/// What is in a module's file, which may be compressed.
fn unpacked(path: &Path, raw: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    match path.extension().and_then(|end| end.to_str()) {
        Some("xz") => {
            lzma_rs::xz_decompress(&mut raw.as_slice(), &mut plain).map_err(|e| format!("{e:?}"))?
        }
        Some("gz") => {
            let mut decoder = flate2::read::MultiGzDecoder::new(raw.as_slice()).take(LARGEST);
            decoder.read_to_end(&mut plain).map_err(|e| e.to_string())?;
        }
        Some("zst") => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(raw.as_slice());
            let mut decoder = decoder.map_err(|e| e.to_string())?.take(LARGEST);
            decoder.read_to_end(&mut plain).map_err(|e| e.to_string())?;
        }
        _ => return Ok(raw),
    }
    Ok(plain)
}

fn read_module(folder: &Path, path: &Path) -> Result<Module> {
    let bad = |message: String| Error::Data {
        path: path.to_owned(),
        message,
    };
    let raw = fs::read(path).map_err(io("read", path))?;
    let content = unpacked(path, raw).map_err(|e| bad(format!("cannot decompress: {e}")))?;
    let depends = depends(&content).map_err(bad)?;
    let below = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
    let name = module_name(path).unwrap_or_default();
    Ok(Module {
        name,
        path: below
            .rsplit_once(".ko")
            .map_or_else(|| below.to_string(), |(stem, _)| format!("{stem}.ko")),
        depends,
        content,
    })
}

/// Names in `depends=` and in the `pre:` part of `softdep=`.
fn depends(module: &[u8]) -> std::result::Result<Vec<String>, String> {
    let section =
        elf::section(module, ".modinfo").map_err(|e| format!("not a kernel module: {e}"))?;
    let mut names = Vec::new();
    for field in section
        .split(|&b| b == 0)
        .filter_map(|f| std::str::from_utf8(f).ok())
    {
        if let Some(list) = field.strip_prefix("depends=") {
            names.extend(
                list.split(',')
                    .filter(|n| !n.is_empty())
                    .map(|n| n.replace('-', "_")),
            );
        } else if let Some(soft) = field.strip_prefix("softdep=") {
            let before = soft.split_whitespace().skip_while(|w| *w != "pre:").skip(1);
            names.extend(
                before
                    .take_while(|w| *w != "post:")
                    .map(|n| n.replace('-', "_")),
            );
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_may_be_wanted_only_where_it_exists() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::of_package(folder.path().to_owned());
        assert_eq!(collect(&source, &["nvme?".into()]).unwrap().len(), 0);
        let missing = collect(&source, &["nvme".into()]).unwrap_err().to_string();
        assert!(missing.contains("no module nvme"), "{missing}");
    }

    fn module(name: &str, depends: &[&str]) -> Module {
        Module {
            name: name.into(),
            path: format!("kernel/{name}.ko"),
            depends: depends.iter().map(|&d| d.to_owned()).collect(),
            content: Vec::new(),
        }
    }

    fn ordered(
        all: &[Module],
        wanted: &[&str],
        builtin: &[&str],
    ) -> Result<(Vec<Module>, Vec<String>)> {
        let strings = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        order(&strings(wanted), &strings(builtin), &|name| {
            Ok(all.iter().find(|m| m.name == name).cloned())
        })
    }

    #[test]
    fn needed_modules_come_first_and_once() {
        let all = [
            module("ext4", &["jbd2", "mbcache", "crypto_crc32c"]),
            module("jbd2", &["mbcache"]),
            module("mbcache", &[]),
            module("virtio_net", &["net_failover"]),
            module("net_failover", &["failover"]),
            module("failover", &[]),
        ];
        let names: Vec<_> = ordered(&all, &["ext4", "virtio-net"], &[])
            .unwrap()
            .0
            .iter()
            .map(|m| m.name.clone())
            .collect();
        assert_eq!(
            names,
            [
                "mbcache",
                "jbd2",
                "ext4",
                "failover",
                "net_failover",
                "virtio_net"
            ]
        );
    }

    #[test]
    fn built_in_modules_need_no_file_and_cycles_end() {
        let all = [module("a", &["b", "builtin_one"]), module("b", &["a"])];
        let (names, _) = ordered(&all, &["a", "builtin_one"], &["builtin_one"]).unwrap();
        assert_eq!(
            names.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
            ["b", "a"]
        );
    }

    #[test]
    fn unknown_module_is_named() {
        let (found, missing) = ordered(&[module("a", &["b"])], &["no-such", "a"], &[]).unwrap();
        assert_eq!(
            (found.len(), &missing[..]),
            (1, &["no_such".to_owned()][..])
        );
    }

    /// Promise: a kernel's modules are found as its maker has compressed them, and whoever has
    /// built it there does not have its source searched.
    #[test]
    fn modules_are_found_in_each_form() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path();
        fs::create_dir(folder.join("kernel")).unwrap();
        std::os::unix::fs::symlink(folder, folder.join("build")).unwrap();
        // "content", as xz(1), zstd(1) and gzip(1) have it.
        let packed: [(&str, &[u8]); 4] = [
            ("ko", b"content"),
            ("ko.xz", b"\xfd7zXZ\0\0\x01i\"\xde6\x02\0!\x01\x16\0\0\0t/\xe5\xa3\x01\0\x06content\0\0\xa90\xc5\xfe\0\x01\x1b\x07\x12\xeb\xd4\x17\x90B\x99\r\x01\0\0\0\0\x01YZ"),
            ("ko.zst", b"(\xb5/\xfd\x04X9\0\0content\xfc\xa9\xc51"),
            ("ko.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03K\xce\xcf+I\xcd+\x01\0\xa90\xc5\xfe\x07\0\0\0"),
        ];
        for (end, bytes) in packed {
            let path = folder.join("kernel/virtio-rng.ko").with_extension(end);
            fs::write(&path, bytes).unwrap();
            let mut index = BTreeMap::new();
            find(folder, &mut index).unwrap();
            assert_eq!(index.get("virtio_rng"), Some(&path));
            assert_eq!(
                unpacked(&path, bytes.to_vec()).unwrap(),
                b"content",
                "{end}"
            );
            fs::remove_file(&path).unwrap();
        }
        assert!(unpacked(Path::new("a.ko.zst"), b"content".to_vec()).is_err());
    }

    #[test]
    fn modules_dep_lists_all_that_is_needed_last_to_load_first() {
        let text = modules_dep(&[
            module("failover", &[]),
            module("net_failover", &["failover", "in_the_kernel"]),
            module("virtio_net", &["net_failover"]),
        ]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "kernel/failover.ko:");
        assert_eq!(lines[1], "kernel/net_failover.ko: kernel/failover.ko");
        assert_eq!(
            lines[2],
            "kernel/virtio_net.ko: kernel/net_failover.ko kernel/failover.ko"
        );
    }

    #[test]
    fn damaged_module_is_refused() {
        assert!(depends(b"\x7fELF but no more").is_err());
    }
}
