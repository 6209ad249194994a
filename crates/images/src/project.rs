//! The project folder: recipes of images, experiments, and the sources that images are built from.
//!
//! Making images runs what is in it (build scripts of the VMM, kernel makefiles), so it is never
//! looked for in the current folder or above it. It is the folder that the user names, or the one
//! installed with the program, or the source tree that the program was built from, or the one
//! installed with the `trapless` that a shell would start: the Python package brings none.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Where `make install` puts it, seen from the folder of the program.
const INSTALLED: &str = "../share/trapless";
/// The source tree that the program was built from. What is built for packages knows none, so that
/// it is the same wherever that was: a constant, so that even without optimization the path is not
/// in it.
const SOURCE_TREE: Option<&str> = match option_env!("TRAPLESS_PACKED") {
    Some(_) => None,
    None => Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
};

/// Where the project folder is.
#[derive(Default)]
pub struct Project {
    named: Option<PathBuf>,
}

impl Project {
    /// The folder `named` by the user, if any.
    pub fn new(named: Option<&Path>) -> Self {
        Self {
            named: named.map(Path::to_path_buf),
        }
    }

    /// Whether the user named it.
    pub fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// The folder.
    ///
    /// # Errors
    /// A sentence that says where it was looked for.
    pub fn folder(&self) -> Result<PathBuf> {
        if let Some(named) = &self.named {
            if !is_project(named) {
                return Err(Error::NotAProject(named.clone()));
            }
            return Ok(named.clone());
        }
        let program = std::env::current_exe().unwrap_or_default();
        let mut places = vec![program.with_file_name(INSTALLED)];
        places.extend(SOURCE_TREE.map(PathBuf::from));
        places.extend(on_path().map(|program| program.with_file_name(INSTALLED)));
        match places.iter().find(|folder| is_project(folder)) {
            Some(folder) => Ok(folder.canonicalize().unwrap_or_else(|_| folder.clone())),
            None => Err(Error::NoProject(places)),
        }
    }

    /// The folder with the experiments.
    ///
    /// # Errors
    /// As [`folder`](Self::folder).
    pub fn experiments(&self) -> Result<PathBuf> {
        Ok(self.folder()?.join("experiments"))
    }
}

/// The command of a folder in `PATH`; folders that are relative to the current one do not count.
fn on_path() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("trapless"))
        .find(|program| program.is_file())
}

fn is_project(folder: &Path) -> bool {
    folder.join("images").is_dir() && folder.join("experiments").is_dir()
}
