//! What images must know of ELF files: the libraries a program needs, and the sections of a module.

use object::elf::{DT_NEEDED, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection};

/// What must be beside a program or library for it to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Program interpreter: the dynamic loader's path.
    pub(crate) interpreter: Option<String>,
    /// Names of shared libraries.
    pub(crate) libraries: Vec<String>,
    /// Folders in which the loader looks for them first.
    pub(crate) folders: Vec<String>,
}

/// Reads what a 64-bit ELF file needs; the reason if it is damaged.
pub(crate) fn needs(file: &[u8]) -> Result<Needs, object::Error> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut needs = Needs::default();
    for segment in header.program_headers(endian, file)? {
        if let Some(path) = segment.interpreter(endian, file)? {
            needs.interpreter = Some(text(path));
        }
    }
    let sections = header.sections(endian, file)?;
    if let Some((entries, names)) = sections.dynamic(endian, file)? {
        let names = sections.strings(endian, file, names)?;
        for entry in entries {
            let tag = entry.d_tag(endian);
            if tag == DT_NEEDED {
                needs.libraries.push(text(entry.string(endian, names)?));
            } else if tag == DT_RUNPATH {
                let folders = text(entry.string(endian, names)?);
                needs.folders.extend(folders.split(':').map(Into::into));
            }
        }
    }
    Ok(needs)
}

/// Content of the section `name`; the reason if there is none.
pub(crate) fn section<'a>(file: &'a [u8], name: &str) -> Result<&'a [u8], String> {
    let elf = object::File::parse(file).map_err(|e| e.to_string())?;
    let section = elf
        .section_by_name(name)
        .ok_or_else(|| format!("it has no section {name}"))?;
    section.data().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test itself is a dynamically linked program.
    #[test]
    fn interpreter_and_libraries_of_a_program_are_found() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needs(&program).unwrap();
        assert!(needs.interpreter.unwrap().starts_with("/lib"));
        assert!(needs.libraries.contains(&"libc.so.6".into()));
    }

    #[test]
    fn damaged_files_are_errors() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [0, 4, 63, 64, 4096] {
            assert!(needs(&program[..length]).is_err(), "{length}");
        }
        assert!(
            section(&program, ".no-such")
                .unwrap_err()
                .contains(".no-such")
        );
    }
}
