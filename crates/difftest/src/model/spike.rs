//! The RISC-V ISA simulator (Spike), where it is installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use trapless_isa::extension::{Ext, canonical, isa_string};

use super::{Failure, Model, process, signature_file};
use crate::layout;
use crate::program::{Feature, Program};

/// A Spike binary.
pub struct Spike {
    path: PathBuf,
}

/// The extensions of the table that Spike has. Misaligned loads and stores do not trap.
fn isa() -> String {
    let has = Ext::ALL.iter().filter(|ext| ext.models().spike);
    let mut names: Vec<_> = has.map(|ext| ext.name()).collect();
    names.sort_by_key(|name| canonical(name));
    names.push("zicclsm");
    isa_string(names)
}

impl Spike {
    /// The Spike binary at `path`.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
        }
    }
}

impl Model for Spike {
    fn name(&self) -> String {
        "spike".into()
    }

    fn features(&self) -> BTreeSet<Feature> {
        // Its timers are checked every few thousand instructions.
        let extensions = Feature::extensions(|models| models.spike);
        let mut has: BTreeSet<_> = extensions.chain(Feature::OTHERS).collect();
        has.remove(&Feature::PreciseTimer);
        has.remove(&Feature::Aia);
        has.remove(&Feature::Iommu);
        // 16 bytes is its misaligned atomicity granule.
        has.remove(&Feature::AlignedAtomics);
        has.remove(&Feature::ScAlignment);
        has
    }

    fn run(&self, program: &Program, scratch: &Path) -> Result<Vec<u8>, Failure> {
        let elf = scratch.join("program.elf");
        let signature = scratch.join("signature");
        std::fs::write(&elf, program.elf()).map_err(|e| Failure::Broken(e.to_string()))?;
        let _ = std::fs::remove_file(&signature);
        let (status, said) = process::run(
            Command::new(&self.path)
                .arg(format!("--isa={}", isa()))
                .arg(format!("-m{:#x}:{:#x}", layout::RAM, layout::RAM_SIZE))
                .arg(format!("+signature={}", signature.display()))
                .arg("+signature-granularity=8")
                .arg(&elf),
        )?;
        if !status.success() {
            return Err(Failure::Broken(format!("{status}: {}", said.trim())));
        }
        signature_file::read(&signature)
    }
}
