//! What `boot` loads into its machine: firmware, kernel, initial RAM disk.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use trapless_images::{Images, Kept, Project};
use trapless_machine::Payload;

use crate::kernels::{PATCHED_HOST, PATCHED_KERNEL};
use crate::plan::concatenate;
use crate::spec::{BootSpec, Firmware, Kernel};
use crate::{copy, files, project};

/// Kernel command line with the default images. The self-tests of the kernel's ciphers keep a hart
/// busy for seconds after the boot.
const APPEND: &str = "console=ttyS0 quiet cryptomgr.notests";

/// The image with drivers for PCI, and what makes its program the first one.
const PCI: &str = "pci";
const PCI_INIT: &str = " rdinit=/lib/trapless/pci-init";

/// What is loaded, again after each reboot.
pub struct Loaded {
    /// Firmware, kernel, initial RAM disk.
    pub payload: Payload,
    /// Keeps images from being removed from the cache.
    _kept: Option<Kept>,
}

/// Loads the payload that the options describe.
///
/// # Errors
/// If a file cannot be read, an image cannot be made, or there is nothing to boot.
pub fn payload(spec: &BootSpec, project: &Project) -> Result<Loaded> {
    let mut images = None;
    let mut image = |name: &str| -> Result<PathBuf> {
        if images.is_none() {
            images = Some(project::images(project)?);
        }
        let images = images.as_mut().context("images are open")?;
        Ok(project::artefact(images, name)?.path)
    };
    let given = |path: &Option<PathBuf>, what: &str| {
        path.as_deref().map(|p| files::read(p, what)).transpose()
    };
    let firmware = match &spec.firmware {
        Some(Firmware::None) => None,
        Some(Firmware::File(path)) => Some(files::read(path, "firmware")?),
        None => Some(files::read(&image("opensbi")?, "opensbi")?),
    };
    let chosen = spec.kernel();
    let kernel = match chosen {
        Kernel::None => None,
        Kernel::Debian => Some(files::content(&image("kernel")?, "kernel")?),
        Kernel::Patched => Some(files::content(&image(PATCHED_KERNEL)?, "kernel")?),
        Kernel::File(path) => Some(files::content(path, "kernel")?),
    };
    if firmware.is_none() && kernel.is_none() {
        bail!("there is nothing to boot: give --firmware or --kernel a file");
    }
    if *chosen == Kernel::Patched && !spec.share.is_empty() {
        bail!("the patched kernel has no driver for --share; use --kernel debian, or --copy");
    }
    if *chosen == Kernel::Patched && !spec.pci.is_empty() {
        bail!("the patched kernel has no drivers for --pci; use --kernel debian");
    }
    let initrd = match (&spec.initrd, chosen) {
        (Some(path), _) => Some(files::content(path, "initrd")?),
        (None, Kernel::Debian | Kernel::Patched) => {
            let mut archives = vec![image(if spec.has_root() { "disk" } else { "host" })?];
            if *chosen == Kernel::Patched {
                archives.push(image(PATCHED_HOST)?);
            }
            if !spec.pci.is_empty() {
                archives.push(image(PCI)?);
            }
            Some(concatenate(&archives, &[])?)
        }
        (None, _) => None,
    };
    let initrd = if spec.copy.is_empty() {
        initrd
    } else {
        if spec.has_root() {
            bail!(
                "--copy puts files into the RAM file system, which the system on the disk (root=) \
                 does not see"
            );
        }
        let image = initrd.context("--copy needs an initial RAM file system: give --initrd")?;
        Some(copy::append(&image, &spec.copy)?)
    };
    let default = match chosen {
        Kernel::Debian | Kernel::Patched => APPEND,
        Kernel::None | Kernel::File(_) => "",
    };
    let mut append = spec.append.clone().unwrap_or_else(|| default.into());
    let ours = matches!(chosen, Kernel::Debian) && spec.initrd.is_none();
    if ours && !spec.pci.is_empty() {
        append.push_str(PCI_INIT);
    }
    let payload = Payload {
        firmware,
        kernel,
        initrd,
        append,
        dtb: given(&spec.dtb, "device tree")?,
    };
    Ok(Loaded {
        payload,
        _kept: images.map(Images::keep),
    })
}
