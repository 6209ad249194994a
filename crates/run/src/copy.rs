//! `boot --copy`: files of the host in the guest's initial RAM file system.
//!
//! They follow the image as an archive of its own, with times and owners that are always the same,
//! so that a run is the same as long as the files are.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use trapless_images::cpio::Writer;
use trapless_machine::Content;

use crate::files;

/// Default folder in the guest.
const HOME: &str = "/root";
/// Maximum number of bytes that are copied.
const MOST: usize = 1 << 30;

/// `FILE[:/PATH]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Copied {
    from: PathBuf,
    /// Absolute path in the guest.
    to: String,
}

impl FromStr for Copied {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = match text.rsplit_once(":/") {
            Some((from, to)) => (from, format!("/{to}")),
            None => (text, format!("{HOME}/")),
        };
        let from = PathBuf::from(from);
        let parts = Path::new(&to).components();
        if parts.into_iter().any(|part| part == Component::ParentDir) {
            return Err(format!(
                "{to} has `..`; give the place in the guest as /FOLDER/NAME"
            ));
        }
        let to = if to.ends_with('/') {
            let name = from.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| {
                format!("{text} does not end in a name; give it as FILE:/PATH/IN/THE/GUEST")
            })?;
            to + name
        } else {
            to
        };
        Ok(Self { from, to })
    }
}

/// `image` followed by an archive with `copied`.
///
/// # Errors
/// If a file cannot be read or all together are too large.
pub fn append(image: &Content, copied: &[Copied]) -> Result<Content> {
    let mut bytes = match image {
        Content::Bytes(bytes) => bytes.clone(),
        Content::File(path) | Content::Outline(path) => files::read(path, "image")?,
    };
    // An archive begins at a multiple of four bytes, wherever the one before it ended.
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut archive = Archive {
        writer: Writer::new(Vec::new()),
        size: 0,
    };
    for Copied { from, to } in copied {
        archive.add(from, &merged(to))?;
    }
    bytes.extend(archive.writer.finish().context("cannot write an archive")?);
    Ok(Content::Bytes(bytes))
}

/// Debian's `/bin`, `/sbin` and `/lib` are links into `/usr`; a folder of that name would replace
/// the link.
fn merged(to: &str) -> String {
    let top = to.trim_start_matches('/').split('/').next();
    match top {
        Some("bin" | "sbin" | "lib") => format!("/usr{to}"),
        _ => to.into(),
    }
}

struct Archive {
    writer: Writer<Vec<u8>>,
    size: usize,
}

impl Archive {
    /// Adds a file, a link, or a folder with all that is in it, by name.
    fn add(&mut self, from: &Path, to: &str) -> Result<()> {
        let context = || format!("cannot read {}, which is to be copied", from.display());
        // A link that the user names is the file it leads to; one in a folder stays a link.
        let kind = std::fs::metadata(from).with_context(context)?;
        if kind.is_dir() {
            self.writer.folder(to)?;
            return self.add_folder(from, to);
        }
        if !kind.is_file() {
            bail!(
                "cannot copy {}: it is neither a file nor a folder; leave it out",
                from.display()
            );
        }
        let content = files::read(from, "file to be copied")?;
        self.size += content.len();
        if self.size > MOST {
            bail!("the files to be copied have more than 1 GiB; use --share or --disk for them");
        }
        use std::os::unix::fs::PermissionsExt;
        // The same mode whatever the user's umask was.
        let mode = match kind.permissions().mode() & 0o111 {
            0 => 0o644,
            _ => 0o755,
        };
        self.writer.file(to, mode, &content).with_context(context)
    }

    fn add_folder(&mut self, from: &Path, to: &str) -> Result<()> {
        let context = || format!("cannot read {}, which is to be copied", from.display());
        let entries = std::fs::read_dir(from).with_context(context)?;
        let mut entries = entries
            .collect::<std::io::Result<Vec<_>>>()
            .with_context(context)?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                bail!("cannot copy {}: its name is not UTF-8", path.display());
            };
            let to = format!("{to}/{name}");
            if entry.file_type().with_context(context)?.is_symlink() {
                let target = std::fs::read_link(&path).with_context(context)?;
                let target = target.to_string_lossy().into_owned();
                self.writer.symlink(&to, &target).with_context(context)?;
            } else {
                self.add(&path, &to)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, String) {
        let copied: Copied = text.parse().unwrap();
        (copied.from.display().to_string(), copied.to)
    }

    #[test]
    fn place_in_the_guest_follows_a_colon() {
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(parse("out/a"), pair("out/a", &format!("{HOME}/a")));
        assert_eq!(parse("a:/bin/b"), pair("a", "/bin/b"));
        assert_eq!(parse("x/a:/opt/"), pair("x/a", "/opt/a"));
        assert_eq!(parse("a:b:/c"), pair("a:b", "/c"));
        assert!("a:/b/../c".parse::<Copied>().is_err());
        assert!("..".parse::<Copied>().is_err());
    }

    #[test]
    fn same_files_give_the_same_archive_after_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for name in ["b", "a", "c"] {
            std::fs::write(tree.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
        let copied: Copied = format!("{}:/bin/tree", tree.display()).parse().unwrap();
        let image = Content::Bytes(b"image".into());
        let [one, two] = [(); 2].map(|()| match append(&image, std::slice::from_ref(&copied)) {
            Ok(Content::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        });
        assert_eq!(one, two);
        assert_eq!(&one[..14], b"image\0\0\x00070701");
        let text = String::from_utf8_lossy(&one);
        let places: Vec<_> = ["a", "b", "c", "link"]
            .map(|name| {
                text.find(&format!("usr/bin/tree/{name}\0"))
                    .expect("it is there")
            })
            .into();
        assert!(places.is_sorted());
    }
}
