//! What a user's own workload adds to its host and guest: two archives, so that no image has to be
//! made again.
//!
//! ```text
//! after the host's image:  /workloads/NAME     host script, which first adds ...
//!                          /boot/NAME.cpio     ... this archive to the guest's image
//!                          [host.files]
//! in /boot/NAME.cpio:      /workloads/NAME     guest script
//!                          [guest.files]
//! ```

use crate::cache::prepared::files_of;
use crate::digest::sha256_parts;
use crate::error::{Error, Result, io};
use crate::initramfs::cpio;
use crate::initramfs::files::merged_usr;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use trapless_experiments::{Experiment, Own};

/// What a host without a script of its own does.
const START: &str = "vmm_start && vmm_wait\n";
/// ELF's number of RISC-V, and where a header has it.
const RISCV: [u8; 2] = [243, 0];
const MACHINE: std::ops::Range<usize> = 18..20;

/// The additions of one workload.
#[derive(Debug)]
pub struct Overlay {
    /// Archive that follows the host's image.
    pub archive: Vec<u8>,
    /// SHA-256 of all that describes the workload: its own files and texts, and its scripts.
    pub sha256: String,
    /// Size in bytes of what is added to the guest's image.
    pub in_guest: usize,
}

/// A file of an archive: its mode and content.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// What `workload` adds; `None` if it is the project's, whose scripts are in the images.
///
/// # Errors
/// If a file cannot be read, or is a program for another processor.
pub fn overlay(workload: &Experiment) -> Result<Option<Overlay>> {
    let Some(own) = &workload.own else {
        return Ok(None);
    };
    let script = format!("/workloads/{}", workload.name);
    let plain = |text: String| (0o644, text.into_bytes());
    let mut guest = collect(&workload.guest.files, own)?;
    guest.insert(script.clone(), plain(workload.guest.script.clone()));
    let guest = archive(&guest, &own.file)?;
    let in_guest = guest.len();

    let mut host = collect(&workload.host.files, own)?;
    let place = format!("/boot/{}.cpio", workload.name);
    let start = workload.host.script.as_deref().unwrap_or(START);
    let start = format!("add_to_guest {place} || exit\n{start}");
    host.insert(script, plain(start));
    host.insert(place, (0o644, guest));
    let archive = archive(&host, &own.file)?;
    let parts = [own.definition.as_bytes(), &archive];
    Ok(Some(Overlay {
        sha256: sha256_parts(parts),
        archive,
        in_guest,
    }))
}

/// Reads files and folders of this computer.
fn collect(wanted: &BTreeMap<String, std::path::PathBuf>, own: &Own) -> Result<Files> {
    let mut files = Files::new();
    for (place, file) in wanted {
        add(&merged_usr(place), file, own, &mut files)?;
    }
    Ok(files)
}

fn add(place: &str, file: &Path, own: &Own, files: &mut Files) -> Result<()> {
    if file.is_dir() {
        for below in files_of(file)? {
            let name = below.file_name().unwrap_or_default().to_string_lossy();
            add(&format!("{place}/{name}"), &below, own, files)?;
        }
        return Ok(());
    }
    let metadata = fs::metadata(file).map_err(io("find", file))?;
    if !metadata.is_file() {
        return Err(Error::Data {
            path: own.file.clone(),
            message: format!("{} is neither a file nor a folder", file.display()),
        });
    }
    let content = fs::read(file).map_err(io("read", file))?;
    let program = content.starts_with(b"\x7fELF");
    if program && content.get(MACHINE) != Some(&RISCV) {
        return Err(Error::Data {
            path: own.file.clone(),
            message: format!(
                "{} is a program for another processor: build it for riscv64, linked statically",
                file.display()
            ),
        });
    }
    let runs = program || content.starts_with(b"#!") || metadata.permissions().mode() & 0o100 != 0;
    let mode = if runs { 0o755 } else { 0o644 };
    files.insert(place.to_owned(), (mode, content));
    Ok(())
}

fn archive(files: &Files, told: &Path) -> Result<Vec<u8>> {
    let mut archive = cpio::Writer::new(Vec::new());
    for (place, (mode, content)) in files {
        archive
            .file(place, *mode, content)
            .map_err(io("pack the files of", told))?;
    }
    archive.finish().map_err(io("pack the files of", told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_experiments::Workloads;

    fn own(folder: &Path, text: &str) -> Result<Overlay> {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let path = folder.join("mine.toml");
        fs::write(&path, text).unwrap();
        let all = Workloads::of_project(&experiments)?;
        assert!(overlay(&all.find("ipi")?)?.is_none());
        Ok(overlay(&all.load(&path)?)?.unwrap())
    }

    fn has(archive: &[u8], text: &str) -> bool {
        archive.windows(text.len()).any(|w| w == text.as_bytes())
    }

    /// Promise: scripts and files of a workload reach host and guest, and whatever changes in them
    /// changes what the workload is named by, wherever it is.
    #[test]
    fn everything_that_a_workload_has_is_in_its_name() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("data");
        fs::create_dir_all(data.join("below")).unwrap();
        fs::write(data.join("below/x"), "one").unwrap();
        let text = "base = \"ipi\"\n[guest]\nscript = \"true\"\n\
                    files = { \"/lib/data\" = \"data\" }\n";
        let first = own(temp.path(), text).unwrap();
        for there in [
            "workloads/mine",
            "boot/mine.cpio",
            "usr/lib/data/below/x",
            "add_to_guest /boot/mine.cpio",
        ] {
            assert!(has(&first.archive, there), "{there}");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir_all(elsewhere.path().join("data/below")).unwrap();
        fs::write(elsewhere.path().join("data/below/x"), "one").unwrap();
        let again = own(elsewhere.path(), &format!("# a comment\n{text}")).unwrap();
        assert_eq!(again.sha256, first.sha256);

        let mut names = vec![first.sha256];
        fs::write(data.join("below/x"), "two").unwrap();
        names.push(own(temp.path(), text).unwrap().sha256);
        let program = fs::Permissions::from_mode(0o755);
        fs::set_permissions(data.join("below/x"), program).unwrap();
        names.push(own(temp.path(), text).unwrap().sha256);
        let more = text.replace("true", "false");
        names.push(own(temp.path(), &more).unwrap().sha256);
        let more = format!("{text}[defaults]\nloops = 7\n");
        names.push(own(temp.path(), &more).unwrap().sha256);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 5);
    }

    /// Promise: a program of this computer is not taken for one of the guest's.
    #[test]
    fn programs_for_other_processors_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let text = "[guest]\nscript = \"x\"\nfiles = { \"/bin/x\" = \"x\" }\n";
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        for (machine, good) in [(62, false), (243, true)] {
            elf[18] = machine;
            fs::write(temp.path().join("x"), &elf).unwrap();
            let result = own(temp.path(), text);
            assert_eq!(result.is_ok(), good, "{machine}");
            if let Err(error) = result {
                let error = error.to_string();
                assert!(error.contains("riscv64, linked statically"), "{error}");
            }
        }
    }
}
