//! QEMU's `virt` machine: its test device ends it, its RAM is a shared file that is read
//! afterwards.
//!
//! That works with every version since 7.2 and needs no signature support, monitor or semihosting.
//! (The `spike` machine would understand `tohost`, but lacks `time` and with it Sstc.)

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use trapless_isa::extension::{Ext, Models};

use super::{Failure, Model, process};
use crate::layout;
use crate::program::{Board, Feature, Program};

/// A `qemu-system-riscv64` binary.
pub struct Qemu {
    command: Vec<PathBuf>,
    version: (u32, u32),
}

impl Qemu {
    /// The binary at `path`, with its version.
    ///
    /// A binary of another Debian release cannot use this system's libraries: inside an unpacked
    /// tree (`TREE/usr/bin/...`), the tree's own dynamic linker runs it.
    pub fn new(path: &Path) -> Result<Self, String> {
        let mut command = vec![path.to_path_buf()];
        if let Some(tree) = path.parent().and_then(|p| p.parent()?.parent()) {
            let libs = tree.join("usr/lib/x86_64-linux-gnu");
            let loader = libs.join("ld-linux-x86-64.so.2");
            if tree != Path::new("/") && loader.exists() {
                command = vec![loader, "--library-path".into(), libs, path.to_path_buf()];
            }
        }
        let out = Command::new(&command[0])
            .args(&command[1..])
            .arg("--version")
            .output()
            .map_err(|e| {
                format!(
                    "cannot run {}: {e}; install Debian's qemu-system-misc",
                    path.display()
                )
            })?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let version = text
            .split("version ")
            .nth(1)
            .and_then(|v| {
                let mut n = v.split('.').map(|n| n.parse::<u32>().ok());
                Some((n.next()??, n.next()??))
            })
            .ok_or_else(|| format!("{} does not print its version", path.display()))?;
        Ok(Self { command, version })
    }

    fn has(&self, models: Models) -> bool {
        models.qemu.is_some_and(|since| self.version >= since)
    }

    fn cpu(&self, program: &Program) -> String {
        let mut cpu = String::from("rv64,pmp=on");
        for ext in Ext::ALL.iter().filter(|ext| self.has(ext.models())) {
            write!(cpu, ",{}=on", ext.name()).expect("memory");
        }
        if self.version >= (10, 0) {
            // With Svade and Svadu, menvcfg.ADUE chooses (Svade after reset). Without AIA, QEMU
            // takes the lowest pending number instead of the architected priority; with it, sip and
            // vsip lose bits.
            if program.family == "interrupt" {
                cpu += ",smaia=on,ssaia=on";
            }
            cpu += ",zfa=off,zimop=off,zcmop=off,zbc=off,sscofpmf=off,sv57=on";
        }
        cpu
    }
}

impl Model for Qemu {
    fn name(&self) -> String {
        format!("qemu-{}.{}", self.version.0, self.version.1)
    }

    fn features(&self) -> BTreeSet<Feature> {
        let mut has: BTreeSet<_> = Feature::extensions(|models| self.has(models)).collect();
        has.extend([Feature::PreciseTimer, Feature::AlignedAtomics]);
        if self.version >= (10, 0) {
            has.extend([Feature::Privileged, Feature::Aia, Feature::Iommu]);
        }
        if self.version.0 != 10 {
            has.insert(Feature::WritableMpv);
        }
        has
    }

    fn run(&self, program: &Program, scratch: &Path) -> Result<Vec<u8>, Failure> {
        let broken = |e: std::io::Error| Failure::Broken(e.to_string());
        let elf = scratch.join("program.elf");
        let ram = scratch.join("ram");
        std::fs::write(&elf, program.elf()).map_err(broken)?;
        let _ = std::fs::remove_file(&ram);
        let size = layout::RAM_SIZE;
        let machine = match program.board {
            Board::Plain => "virt,memory-backend=ram",
            Board::Imsic => "virt,memory-backend=ram,aia=aplic-imsic,aia-guests=7",
            Board::Aplic => "virt,memory-backend=ram,aia=aplic",
            Board::Iommu => "virt,memory-backend=ram,iommu-sys=on",
        };
        let (status, said) = process::run(
            Command::new(&self.command[0])
                .args(&self.command[1..])
                .args(["-M", machine, "-nographic", "-nodefaults"])
                .args([
                    "-serial",
                    "none",
                    "-monitor",
                    "none",
                    "-m",
                    &format!("{size}B"),
                ])
                .arg("-object")
                .arg(format!(
                    "memory-backend-file,id=ram,size={size}B,share=on,mem-path={}",
                    ram.display()
                ))
                .args(["-cpu", &self.cpu(program), "-bios"])
                .arg(&elf),
        )?;
        if !status.success() {
            return Err(Failure::Broken(format!("{status}: {}", said.trim())));
        }
        let mut bytes = vec![0; (program.signature().end - layout::DATA) as usize];
        File::open(&ram)
            .and_then(|f| f.read_exact_at(&mut bytes, layout::DATA - layout::RAM))
            .map_err(broken)?;
        Ok(bytes)
    }
}
