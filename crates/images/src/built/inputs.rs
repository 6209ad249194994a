//! Files of the project that decide what is built from them.

use crate::cache::prepared::files_of;
use crate::digest::sha256_file;
use crate::error::{Result, io};
use std::fs;
use std::path::Path;

/// Adds names, modes and content of a file or of all files below a folder.
pub(crate) fn add_input(path: &Path, name: &str, parts: &mut Vec<String>) -> Result<()> {
    if path.is_dir() {
        for file in files_of(path)? {
            let below = file.file_name().unwrap_or_default().to_string_lossy();
            add_input(&file, &format!("{name}/{below}"), parts)?;
        }
        return Ok(());
    }
    let metadata = fs::metadata(path).map_err(io("read", path))?;
    let executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o100;
    parts.push(format!("{name} {executable}"));
    parts.push(sha256_file(path)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn key(folder: &Path) -> Vec<String> {
        let mut parts = Vec::new();
        add_input(folder, "linux", &mut parts).unwrap();
        parts
    }

    #[test]
    fn every_change_below_an_input_changes_the_key() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("patches/series");
        fs::create_dir(temp.path().join("patches")).unwrap();
        fs::write(&file, "a.patch\n").unwrap();
        let mut keys = vec![key(temp.path())];
        fs::write(&file, "b.patch\n").unwrap();
        keys.push(key(temp.path()));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        keys.push(key(temp.path()));
        fs::rename(&file, temp.path().join("patches/serie")).unwrap();
        keys.push(key(temp.path()));
        let mut different = keys.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), keys.len());
    }
}
