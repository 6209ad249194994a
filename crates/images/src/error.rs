//! Errors: one sentence that says what was wrong, and what to do next.

use std::path::{Path, PathBuf};

/// What can go wrong while packages are fetched and images are made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation of this machine failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Verb phrase, e.g. "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A folder that the user named.
    #[error(
        "{} is no project folder: it has no images/ and experiments/; \
         correct --project or TRAPLESS_PROJECT", .0.display()
    )]
    NotAProject(PathBuf),
    /// No project folder was found.
    #[error(
        "cannot find images/ and experiments/ in {}; \
         name the project folder with --project DIR or TRAPLESS_PROJECT",
        .0.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", nor in ")
    )]
    NoProject(Vec<PathBuf>),
    /// The cache cannot be written.
    #[error(
        "cannot write to the cache {} ({reason}); set TRAPLESS_CACHE to a folder of your own", root.display()
    )]
    Cache {
        /// Its folder.
        root: PathBuf,
        /// What could not be done.
        reason: Box<Error>,
    },
    /// There is no place for a cache.
    #[error(
        "there is no place for the cache: HOME is not set; set TRAPLESS_CACHE to a folder of your own"
    )]
    NoCache,
    /// A program this crate calls is not installed.
    #[error(
        "the program `{program}` is missing; install the Debian package {package} and try again"
    )]
    MissingProgram {
        /// Name of the program.
        program: String,
        /// Debian package that holds it.
        package: &'static str,
    },
    /// No Debian mirror is known.
    #[error(
        "no Debian mirror found in /etc/apt; set TRAPLESS_MIRROR to the address of one (the folder that holds `dists`)"
    )]
    NoMirror,
    /// The package lists could not be read from the mirror.
    #[error(
        "cannot fetch the package lists of Debian {suite} ({reason}); check the network or set TRAPLESS_MIRROR"
    )]
    Lists {
        /// Release, e.g. "testing".
        suite: &'static str,
        /// apt's own words.
        reason: String,
    },
    /// apt found no such packages.
    #[error(
        "apt cannot resolve {packages} ({reason}); run `trapless images --refresh` to renew the package lists"
    )]
    Resolve {
        /// Requested package names.
        packages: String,
        /// apt's own words.
        reason: String,
    },
    /// A package is neither cached nor could be fetched.
    #[error(
        "cannot fetch {count} package(s), first {first} ({reason}); connect to the network, or run `trapless images --refresh` if the archive has newer versions"
    )]
    Download {
        /// How many packages are missing.
        count: usize,
        /// File name of the first one.
        first: String,
        /// apt's own words or the failed check.
        reason: String,
    },
    /// A program failed.
    #[error("{what} failed ({status}): {output}")]
    Command {
        /// What was attempted.
        what: String,
        /// Exit status.
        status: String,
        /// Last lines of its output.
        output: String,
    },
    /// An experiment cannot be read.
    #[error(transparent)]
    Experiment(#[from] trapless_experiments::Error),
    /// A recipe or other data file is wrong.
    #[error("{}: {message}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and where.
        message: String,
    },
    /// A name the user gave is not known.
    #[error("there is no {kind} named `{name}`; known: {known}")]
    Unknown {
        /// "image" ...
        kind: &'static str,
        /// The name given.
        name: String,
        /// Comma-separated list of valid names.
        known: String,
    },
}

impl Error {
    /// Whether this user may not write where it had to be written.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem)
            }
            _ => false,
        }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Turns an I/O error into [`Error::Io`].
pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}
