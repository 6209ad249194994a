//! Images of the project folder, with progress on standard error.

use anyhow::Result;
use trapless_images::{Images, Prepared, Progress, Project};

use crate::interrupt;

/// Opens the images.
///
/// # Errors
/// If there is no such folder, or the cache cannot be used.
pub fn images(project: &Project) -> Result<Images> {
    Ok(Images::open(&project.folder()?, Progress::auto())?)
}

/// Makes an image, or finds it in the cache. Ctrl-C ends the command at once meanwhile.
///
/// # Errors
/// If something that it needs is not available.
pub fn artefact(images: &mut Images, name: &str) -> Result<Prepared> {
    let _at_once = interrupt::at_once();
    Ok(images.artefact(name)?)
}
