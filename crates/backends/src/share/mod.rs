//! A folder of the host as a file system of the guest: a server of FUSE requests (Linux,
//! `include/uapi/linux/fuse.h`, version 7.31) that arrive by virtio-fs.
//!
//! ```text
//!   Server       one request -> one reply          (server.rs, files.rs; wire.rs: the messages)
//!     |  Tree    nodes by number, attributes        (tree.rs, attributes.rs)
//!     v
//!   Place        a folder and one name in it       (place.rs: the host's calls)
//! ```
//!
//! A passthrough server is not possible for two reasons. A guest is not trusted: it must not reach
//! a file outside of the folder, whatever names, links and numbers it sends. And a run must be
//! reproducible: what a guest sees depends on names, contents, modes and modification times in the
//! folder, not on the host's inode numbers, the order in which its file system lists names, free
//! space, or the time of the guest's own writes, which is virtual.

mod attributes;
mod files;
mod place;
mod server;
mod tree;
mod wire;

use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use trapless_devices::Clock;
use trapless_devices::virtio::fs::MAX_TAG;

pub use server::Server;

/// Default tag.
const TAG: &str = "share";

/// `FOLDER[,ro][,tag=NAME]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The folder.
    pub path: PathBuf,
    /// Whether it is read-only for the guest.
    pub read_only: bool,
    /// The tag by which the guest mounts it.
    pub tag: String,
}

impl FromStr for Share {
    type Err = String;

    /// Names of folders may contain commas: only known options after the name are options.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut share = Self {
            path: PathBuf::new(),
            read_only: false,
            tag: TAG.into(),
        };
        let mut rest = text;
        while let Some((name, option)) = rest.rsplit_once(',') {
            match option.split_once('=') {
                None if option == "ro" => share.read_only = true,
                None if option == "rw" => share.read_only = false,
                Some(("tag", tag)) => {
                    if tag.is_empty() || tag.len() > MAX_TAG {
                        return Err(format!("a tag has 1 to {MAX_TAG} bytes"));
                    }
                    share.tag = tag.into();
                }
                _ if PathBuf::from(rest).exists() || !PathBuf::from(name).exists() => break,
                _ => {
                    return Err(format!(
                        "{option} is unknown; after the folder's name give ro (the guest only \
                         reads) or tag=NAME (what it mounts)"
                    ));
                }
            }
            rest = name;
        }
        share.path = rest.into();
        Ok(share)
    }
}

impl Share {
    /// Opens the folder.
    ///
    /// # Errors
    /// If the folder cannot be opened.
    pub fn open(&self) -> Result<Opened, String> {
        let root = place::open_root(&self.path).map_err(|error| {
            format!(
                "cannot share {}: {error}; give a folder that exists",
                self.path.display()
            )
        })?;
        Ok(Opened {
            root,
            read_only: self.read_only,
        })
    }
}

/// An opened folder.
pub struct Opened {
    root: File,
    read_only: bool,
}

impl Opened {
    /// A server of the folder. `clock` counts nanoseconds from 1970.
    pub fn with_clock(self, clock: Box<dyn Clock>) -> Server {
        Server::new(self.root, self.read_only, clock)
    }
}

#[cfg(test)]
mod tests;
