//! The RISC-V ISA simulator (Spike), where it is installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failure, Model, process, signature_file};
use crate::layout;
use crate::program::{Feature, Program};

/// A Spike binary.
pub struct Spike {
    path: PathBuf,
}

const ISA: &str = "rv64imafdch_zicsr_zifencei_zicntr_zihpm_zba_zbb_zbs_zicbom_zicboz_zicbop_zicond\
                   _zawrs_svinval_svpbmt_svnapot_svade_svadu_sstc_smstateen\
                   _zicclsm";

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
        // Its timers are looked at every few thousand instructions.
        let mut has: BTreeSet<_> = Feature::ALL.into();
        has.remove(&Feature::PreciseTimer);
        has.remove(&Feature::Aia);
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
                .arg(format!("--isa={ISA}"))
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
