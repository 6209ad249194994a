//! Kernels of the user's own for a workload's host and guests.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Kernels of the user's own.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnKernels {
    /// Kernel of the host (Image or vmlinuz, plain or gzip) instead of Debian's.
    pub host_kernel: Option<PathBuf>,
    /// Folder with the modules of that kernel.
    pub host_modules: Option<PathBuf>,
    /// Kernel of guests instead of Debian's.
    pub guest_kernel: Option<PathBuf>,
    /// Folder with the modules of the guests' kernel.
    pub guest_modules: Option<PathBuf>,
}

/// Which side runs a kernel.
#[derive(Clone, Copy)]
pub enum Whose {
    /// The host.
    Host,
    /// Its guests.
    Guest,
}

impl Whose {
    /// Name in options and parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Guest => "guest",
        }
    }
}

/// The kernel of one side.
pub struct Side<'a> {
    /// The side that runs it.
    pub whose: Whose,
    /// The kernel.
    pub kernel: Option<&'a Path>,
    /// Its modules.
    pub modules: Option<&'a Path>,
}

impl OwnKernels {
    /// Host and guests.
    pub fn sides(&self) -> [Side<'_>; 2] {
        [
            (Whose::Host, &self.host_kernel, &self.host_modules),
            (Whose::Guest, &self.guest_kernel, &self.guest_modules),
        ]
        .map(|(whose, kernel, modules)| Side {
            whose,
            kernel: kernel.as_deref(),
            modules: modules.as_deref(),
        })
    }

    /// The files that are named, by the option that names them.
    pub fn given(&self) -> impl Iterator<Item = (String, String)> {
        let options = self.sides().into_iter().flat_map(|side| {
            let whose = side.whose.name();
            [("kernel", side.kernel), ("modules", side.modules)]
                .map(|(what, path)| Some((format!("{whose}-{what}"), path?.display().to_string())))
        });
        options.flatten()
    }

    /// The options as `NAME=VALUE`, for file names.
    pub fn variant(&self) -> Vec<String> {
        let words = self.given();
        words.map(|(name, path)| format!("{name}={path}")).collect()
    }
}
