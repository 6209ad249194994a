//! The project folder, which holds recipes of images and experiments.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use trapless_images::{Images, Progress};

/// The project folder: the one above that holds `images/` and `experiments/`.
pub fn find() -> Result<PathBuf> {
    let here = std::env::current_dir().context("cannot find the current folder")?;
    let program = std::env::current_exe().unwrap_or_default();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .chain(program.ancestors())
        .chain(source.ancestors())
        .find(|folder| folder.join("images").is_dir() && folder.join("experiments").is_dir())
        .map(Path::to_path_buf)
        .context("cannot find the folders images/ and experiments/; run this inside the project")
}

/// The project's images, with progress on standard error.
pub fn images() -> Result<Images> {
    Ok(Images::open(&find()?, Progress::auto())?)
}
