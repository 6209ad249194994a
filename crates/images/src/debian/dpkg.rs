//! Package files laid out as folders, without running anything of the packages.

use crate::command::run;
use crate::debian::package::Package;
use crate::error::Result;
use crate::progress::Progress;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacks each of `packages` from the file at the same place in `files`. `unpack` is given both,
/// and calls [`extract`]; progress is shown as `title`.
///
/// # Errors
/// The first error of `unpack`.
pub(crate) fn extract_each(
    packages: &[Package],
    files: &[PathBuf],
    progress: Progress,
    title: &str,
    unpack: impl Fn(&Package, &Path) -> Result<()>,
) -> Result<()> {
    let task = progress.task(title, packages.iter().map(|p| p.size).sum());
    let mut done = 0;
    for (package, file) in packages.iter().zip(files) {
        unpack(package, file)?;
        done += package.size;
        task.set(done);
    }
    Ok(())
}

/// Unpacks `package`, whose file is `file`, over what is in `folder`.
///
/// # Errors
/// If `dpkg-deb` is missing or fails.
pub(crate) fn extract(package: &Package, file: &Path, folder: &Path) -> Result<()> {
    let what = format!("unpacking {} {}", package.name, package.version);
    let mut command = Command::new("dpkg-deb");
    run(command.arg("-x").arg(file).arg(folder), &what, "dpkg").map(drop)
}
