//! Images of the project folder, with progress on standard error.

use anyhow::Result;
use trapless_images::{Images, Progress, Project};

/// Opens them; says where they come from if that is not the program's own folder.
///
/// # Errors
/// If there is no such folder, or the cache cannot be used.
pub fn images(project: &Project) -> Result<Images> {
    let folder = project.folder()?;
    if project.is_named() {
        note!("Images are made from {}", folder.display());
    }
    Ok(Images::open(&folder, Progress::auto())?)
}
