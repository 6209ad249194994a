//! Kernels of a user's own for hosts and guests: what images have of the stock kernel, made of
//! theirs. It comes in archives that follow the images, so that no image is made again.
//!
//! ```text
//! after the host's image:  /lib/modules/RELEASE        modules of the host's kernel
//!                          /lib/trapless/unpatched     if its KVM is not this project's
//!                          /boot/own/Image             kernel of guests
//!                          /boot/own/guest.cpio        modules of it, which guests get, too
//! ```

use crate::digest::{sha256_file, sha256_parts};
use crate::error::{Error, Result, io};
use crate::images::Images;
use crate::initramfs::cpio;
use crate::initramfs::elf;
use crate::initramfs::modules::{self, Module, Source};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a kernel, decompressed.
const MOST: u64 = 1 << 30;
/// What stands in a kernel before its version, as in `/proc/version`.
const BANNER: &[u8] = b"Linux version ";
/// Parts of the kernel that are no modules any more since this release, and which nobody misses.
const LIBRARIES: [&str; 1] = ["crc32c_generic"];
/// Parameter of KVM that the patches of this project add.
const PATCHED: &[u8] = b"parm=notify_any:";

/// A kernel and the modules of it that a workload needs.
#[derive(Debug)]
pub struct OwnKernel {
    /// Its version, as `uname -r` prints it.
    pub release: String,
    /// SHA-256 of the kernel's file.
    pub sha256: String,
    /// SHA-256 of the names and contents of its modules that are taken, if there is a folder.
    pub modules_sha256: Option<String>,
    /// Modules that are wanted, and that the kernel has neither in files nor in itself.
    pub missing: Vec<String>,
    image: Vec<u8>,
    modules: Vec<Module>,
    builtin: String,
}

impl OwnKernel {
    /// The kernel in the file `kernel`, with those of the modules `wanted` that are below the
    /// folder `modules`, and all that these need.
    ///
    /// # Errors
    /// If the file is no kernel, or the modules are of another one.
    pub fn load(kernel: &Path, modules: Option<&Path>, wanted: &[String]) -> Result<Self> {
        let file = fs::read(kernel).map_err(io("read the kernel", kernel))?;
        let bad = |message: String| Error::Data {
            path: kernel.to_owned(),
            message,
        };
        let image = plain(&file).map_err(bad)?;
        let release = release(&image).map_err(bad)?;
        let mut own = Self {
            release,
            sha256: sha256_file(kernel)?,
            modules_sha256: None,
            missing: Vec::new(),
            image,
            modules: Vec::new(),
            builtin: String::new(),
        };
        if let Some(folder) = modules {
            own.take_modules(&find(folder, &own.release), wanted, kernel)?;
            let parts = own.modules.iter();
            let parts = parts.flat_map(|module| [module.path.as_bytes(), &module.content]);
            own.modules_sha256 = Some(sha256_parts(parts));
        }
        Ok(own)
    }

    fn take_modules(&mut self, folder: &Path, wanted: &[String], kernel: &Path) -> Result<()> {
        let source = Source::of_package(folder.to_owned());
        self.builtin = fs::read_to_string(&source.builtin).unwrap_or_default();
        (self.modules, self.missing) = modules::collect_present(&source, wanted)?;
        self.missing
            .retain(|name| !LIBRARIES.contains(&name.as_str()));
        for module in &self.modules {
            let made_for = modinfo(&module.content, "vermagic=");
            let made_for = made_for.split(' ').next().unwrap_or_default();
            if made_for != self.release {
                return Err(Error::Data {
                    path: folder.join(&module.path),
                    message: format!(
                        "it is a module for Linux {made_for}, and {} is Linux {}; name the folder \
                         with the modules of that kernel",
                        kernel.display(),
                        self.release
                    ),
                });
            }
        }
        Ok(())
    }

    /// What a host with this kernel has after its image.
    ///
    /// # Errors
    /// If the kernel has no KVM, as far as its modules tell.
    pub fn for_host(&self, kernel: &Path, modules: Option<&Path>) -> Result<Vec<u8>> {
        if let (Some(folder), true) = (modules, self.missing.iter().any(|name| name == "kvm")) {
            return Err(Error::Data {
                path: kernel.to_owned(),
                message: format!(
                    "it cannot run guests: there is no module kvm in {}, and modules.builtin does \
                     not name it; build the kernel with CONFIG_KVM=m",
                    folder.display()
                ),
            });
        }
        let mut archive = cpio::Writer::new(Vec::new());
        let failed = || io("pack the modules of", kernel);
        self.write_modules(&mut archive).map_err(failed())?;
        let kvm = self.modules.iter().find(|module| module.name == "kvm");
        let kvm = kvm.filter(|kvm| is_patched(&kvm.content));
        let place = "usr/lib/trapless";
        match kvm {
            Some(kvm) => archive.file(&format!("{place}/kvm.ko"), 0o644, &kvm.content),
            None => archive.file(&format!("{place}/unpatched"), 0o644, b""),
        }
        .map_err(failed())?;
        archive.finish().map_err(failed())
    }

    /// What a host has after its image whose guests have this kernel.
    ///
    /// # Errors
    /// If it is too large for an archive.
    pub fn for_guests(&self, kernel: &Path) -> Result<Vec<u8>> {
        let failed = || io("pack", kernel);
        let mut guest = cpio::Writer::new(Vec::new());
        self.write_modules(&mut guest).map_err(failed())?;
        let guest = guest.finish().map_err(failed())?;
        let mut archive = cpio::Writer::new(Vec::new());
        let mut add = |name: &str, content: &[u8]| {
            let name = format!("boot/own/{name}");
            archive.file(&name, 0o644, content).map_err(failed())
        };
        add("Image", &self.image)?;
        add("guest.cpio", &guest)?;
        archive.finish().map_err(failed())
    }

    fn write_modules(&self, archive: &mut cpio::Writer<Vec<u8>>) -> std::io::Result<()> {
        let name = |file: &str| format!("usr/lib/modules/{}/{file}", self.release);
        for module in &self.modules {
            archive.file(&name(&module.path), 0o644, &module.content)?;
        }
        let dependencies = modules::modules_dep(&self.modules);
        archive.file(&name("modules.dep"), 0o644, dependencies.as_bytes())?;
        archive.file(&name("modules.builtin"), 0o644, self.builtin.as_bytes())
    }
}

impl Images {
    /// A kernel of the user's with the modules that the image `recipe` has of the stock one.
    ///
    /// # Errors
    /// As [`OwnKernel::load`].
    pub fn own_kernel(
        &self,
        recipe: &str,
        kernel: &Path,
        modules: Option<&Path>,
    ) -> Result<OwnKernel> {
        OwnKernel::load(kernel, modules, &self.recipe(recipe)?.modules)
    }
}

/// The kernel in a file, decompressed.
fn plain(file: &[u8]) -> std::result::Result<Vec<u8>, String> {
    if file.get(4..8) == Some(b"zimg") {
        return Err(
            "it is a compressed EFI kernel; take the Image or Image.gz of the same build".into(),
        );
    }
    if !file.starts_with(&[0x1f, 0x8b]) {
        return Ok(file.to_vec());
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(file)
        .take(MOST)
        .read_to_end(&mut plain)
        .map_err(|e| format!("the gzip file is damaged or truncated ({e})"))?;
    Ok(plain)
}

/// The version that a kernel says it is.
fn release(image: &[u8]) -> std::result::Result<String, String> {
    let found = image.windows(BANNER.len()).position(|w| w == BANNER);
    let rest = found.map_or(&[][..], |at| &image[at + BANNER.len()..]);
    let version: Vec<u8> = rest
        .iter()
        .copied()
        .take_while(u8::is_ascii_graphic)
        .take(64)
        .collect();
    let version = String::from_utf8_lossy(&version).into_owned();
    // It is a folder's name.
    if version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains('/') {
        return Ok(version);
    }
    Err("it is no Linux kernel: it does not say which version it is; name an Image, Image.gz or vmlinuz for riscv64".into())
}

/// The folder with the modules of a kernel that a user means: that of the release, one that
/// `modules_install` has written to, or one that a package was unpacked to.
fn find(folder: &Path, release: &str) -> PathBuf {
    let below =
        ["lib/modules", "usr/lib/modules", ""].map(|below| folder.join(below).join(release));
    let found = below.into_iter().find(|path| path.is_dir());
    found.unwrap_or_else(|| folder.to_owned())
}

/// Value of a field of a module's description; empty if there is none.
fn modinfo(module: &[u8], field: &str) -> String {
    let section = elf::section(module, ".modinfo").unwrap_or_default();
    let mut fields = section.split(|&byte| byte == 0);
    let value = fields.find_map(|text| text.strip_prefix(field.as_bytes()));
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

fn is_patched(kvm: &[u8]) -> bool {
    let section = elf::section(kvm, ".modinfo").unwrap_or_default();
    section
        .split(|&byte| byte == 0)
        .any(|text| text.starts_with(PATCHED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::{Object, StandardSegment};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    const RELEASE: &str = "7.1.0-mine";

    fn kernel(folder: &Path, name: &str, content: &[u8]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn image(release: &str) -> Vec<u8> {
        format!("MZ...Linux version {release} (me@here)").into_bytes()
    }

    /// A module for a kernel.
    fn module(folder: &Path, name: &str, release: &str, more: &str) {
        let mut elf = Object::new(BinaryFormat::Elf, Architecture::Riscv64, Endianness::Little);
        let segment = elf.segment_name(StandardSegment::Data).to_vec();
        let section = elf.add_section(segment, b".modinfo".to_vec(), SectionKind::ReadOnlyData);
        let text = format!("{more}\0vermagic={release} SMP mod_unload riscv\0");
        elf.append_section_data(section, text.as_bytes(), 1);
        let path = folder.join(format!("kernel/{name}.ko"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, elf.write().unwrap()).unwrap();
    }

    fn load(kernel: &Path, modules: &Path, wanted: &[&str]) -> Result<OwnKernel> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.into()).collect();
        OwnKernel::load(kernel, Some(modules), &wanted)
    }

    fn has(archive: &[u8], text: &str) -> bool {
        archive.windows(text.len()).any(|w| w == text.as_bytes())
    }

    /// Promise: a kernel brings the modules that a host needs with all that these need, wherever
    /// its maker has put them; what is part of the kernel is not missed, what is nowhere is named.
    #[test]
    fn hosts_get_the_modules_of_their_kernel() {
        let temp = tempfile::tempdir().unwrap();
        let kernel = kernel(temp.path(), "Image", &image(RELEASE));
        let folder = temp.path().join("usr/lib/modules").join(RELEASE);
        module(&folder, "kvm", RELEASE, "depends=irqbypass");
        module(&folder, "irqbypass", RELEASE, "depends=");
        fs::write(folder.join("modules.builtin"), "kernel/drivers/tun.ko\n").unwrap();
        let wanted = ["kvm", "tun", "bridge", "crc32c_generic"];
        for modules in [temp.path(), &folder] {
            let own = load(&kernel, modules, &wanted).unwrap();
            assert_eq!(
                (own.release.as_str(), &own.missing[..]),
                (RELEASE, &["bridge".to_owned()][..])
            );
            let archive = own.for_host(&kernel, Some(modules)).unwrap();
            for there in [
                "modules/7.1.0-mine/kernel/irqbypass.ko",
                "modules.builtin",
                "trapless/unpatched",
            ] {
                assert!(has(&archive, there), "{there}");
            }
            let archive = own.for_guests(&kernel).unwrap();
            assert!(has(&archive, "boot/own/Image") && has(&archive, "Linux version 7.1.0-mine"));
        }
        // With the patches of this project it serves Xtrapless, too.
        module(&folder, "kvm", RELEASE, "parm=notify_any:bool");
        let own = load(&kernel, &folder, &wanted).unwrap();
        let archive = own.for_host(&kernel, Some(&folder)).unwrap();
        assert!(has(&archive, "trapless/kvm.ko") && !has(&archive, "unpatched"));
    }

    /// Promise: what cannot work is refused before anything runs, with what to do.
    #[test]
    fn kernels_that_cannot_work_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let own = kernel(temp.path(), "Image", &image(RELEASE));
        let refused = |result: Result<OwnKernel>, words: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        let text = kernel(temp.path(), "text", b"no kernel");
        refused(OwnKernel::load(&text, None, &[]), "it is no Linux kernel");
        let packed = kernel(temp.path(), "zboot", b"MZ\0\0zimg");
        refused(OwnKernel::load(&packed, None, &[]), "take the Image");
        let cut = kernel(temp.path(), "Image.gz", b"\x1f\x8b\x08\0");
        refused(OwnKernel::load(&cut, None, &[]), "damaged");
        let folder = temp.path().join("modules");
        module(&folder, "kvm", "7.1.0-other", "");
        refused(
            load(&own, &folder, &["kvm"]),
            "is a module for Linux 7.1.0-other",
        );
        fs::remove_file(folder.join("kernel/kvm.ko")).unwrap();
        let without = load(&own, &folder, &["kvm"]).unwrap();
        let error = without
            .for_host(&own, Some(&folder))
            .unwrap_err()
            .to_string();
        assert!(error.contains("CONFIG_KVM=m"), "{error}");
    }
}
