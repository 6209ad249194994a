//! Packages unpacked into a folder, without running anything of them.

use crate::cache::Cache;
use crate::debian::apt::Apt;
use crate::debian::dpkg;
use crate::debian::package::Package;
use crate::debian::store::{Fetch, Store};
use crate::digest::sha256_parts;
use crate::error::{Error, Result, io};
use crate::progress::Progress;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Unpacks `packages` into a folder of the cache and returns it; an already unpacked tree is used
/// again.
///
/// # Errors
/// If a package cannot be fetched or unpacked.
pub fn unpack(
    cache: &Cache,
    apt: &Apt,
    packages: &[Package],
    title: &str,
    progress: Progress,
) -> Result<PathBuf> {
    let key = sha256_parts(packages.iter().map(|p| p.sha256.as_bytes()));
    let tree = cache.folder("trees")?.join(&key[..24]);
    let _lock = cache.lock(&format!("tree-{}", &key[..24]))?;
    if tree.exists() {
        return Ok(tree);
    }
    let files = Store::new(cache, progress).obtain(packages, apt as &dyn Fetch)?;
    let unfinished = tree.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(io("remove", &unfinished))?;
    }
    lay_out(&unfinished)?;
    let title = format!("Unpacking {title}");
    dpkg::extract_each(packages, &files, progress, &title, |package, file| {
        dpkg::extract(package, file, &unfinished)
    })?;
    // The name appears only when all is there: an interrupted run leaves no half tree in use.
    fs::rename(&unfinished, &tree).map_err(io("write", &tree))?;
    Ok(tree)
}

/// The dynamic loader of a tree and the folder of its libraries. With them its programs run on a
/// machine with another C library.
///
/// # Errors
/// If the tree has none.
pub fn loader(tree: &Path) -> Result<(PathBuf, PathBuf)> {
    let libraries = tree
        .join("usr/lib")
        .join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let entries = fs::read_dir(&libraries).map_err(io("list", &libraries))?;
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("ld-linux-")
    };
    let loader = entries.flatten().map(|entry| entry.path()).find(named);
    let loader = loader.ok_or_else(|| Error::Data {
        path: libraries.clone(),
        message: "no dynamic loader; remove the folder `trees` of the cache to fetch it again"
            .into(),
    })?;
    Ok((loader, libraries))
}

/// The merged-/usr links that packages expect.
fn lay_out(root: &Path) -> Result<()> {
    for folder in ["bin", "sbin", "lib"] {
        let target = root.join("usr").join(folder);
        fs::create_dir_all(&target).map_err(io("create", &target))?;
        let link = root.join(folder);
        symlink(format!("usr/{folder}"), &link).map_err(io("create", &link))?;
    }
    for folder in ["dev", "proc", "sys", "tmp"] {
        let path = root.join(folder);
        fs::create_dir_all(&path).map_err(io("create", &path))?;
    }
    Ok(())
}
