//! Packages unpacked into a folder, without running anything of them.

use crate::apt::{Apt, Package};
use crate::cache::{Cache, sha256_parts};
use crate::command::run;
use crate::error::{Result, io};
use crate::progress::Progress;
use crate::store::{Fetch, Store};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacks `packages` into a folder of the cache and returns it; an already unpacked tree is used again.
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
    let task = progress.task(
        &format!("Unpacking {title}"),
        packages.iter().map(|p| p.size).sum(),
    );
    let mut done = 0;
    for (file, package) in files.iter().zip(packages) {
        let what = format!("unpacking {} {}", package.name, package.version);
        run(
            Command::new("dpkg-deb")
                .arg("-x")
                .arg(file)
                .arg(&unfinished),
            &what,
            "dpkg",
        )?;
        done += package.size;
        task.set(done);
    }
    // The name appears only when all is there: an interrupted run leaves no half tree in use.
    fs::rename(&unfinished, &tree).map_err(io("write", &tree))?;
    Ok(tree)
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
