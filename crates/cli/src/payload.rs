//! What `boot` loads into its machine: firmware, kernel, initial RAM disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use trapless_images::{Images, Kept, Project};
use trapless_machine::Payload;

use crate::args::BootArgs;
use crate::kernels::{PATCHED_HOST, PATCHED_KERNEL};
use crate::plan::one_after_the_other;
use crate::{copy, files, project};

/// Kernel command line with the default images. The self-tests of the kernel's ciphers keep a hart
/// busy for seconds after the boot.
const APPEND: &str = "console=ttyS0 quiet cryptomgr.notests";

/// What `--kernel` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel<'a> {
    None,
    Debian,
    Patched,
    File(&'a Path),
}

impl<'a> Kernel<'a> {
    /// As on QEMU, firmware of one's own comes without a kernel: it may be the whole program.
    fn of(args: &'a BootArgs) -> Self {
        let own_firmware = args.firmware.as_deref().is_some_and(|path| path != "none");
        match args.kernel.as_deref() {
            Some(path) if path == "none" => Self::None,
            Some(path) if path == "debian" => Self::Debian,
            Some(path) if path == "patched" => Self::Patched,
            Some(path) => Self::File(path),
            None if own_firmware => Self::None,
            None => Self::Debian,
        }
    }
}

/// Whether the kernel's command line names a disk with the system.
fn has_root(args: &BootArgs) -> bool {
    let words = args.append.iter().flat_map(|text| text.split_whitespace());
    words.into_iter().any(|word| word.starts_with("root="))
}

/// What is loaded, again after each reboot.
pub struct Loaded {
    /// Firmware, kernel, initial RAM disk.
    pub payload: Payload,
    /// Keeps images in the cache.
    _kept: Option<Kept>,
}

/// What the options say is loaded.
///
/// # Errors
/// If a file cannot be read or an image not be made, or nothing is left to boot.
pub fn payload(args: &BootArgs, project: &Project) -> Result<Loaded> {
    let mut images = None;
    let mut image = |name: &str| -> Result<PathBuf> {
        if images.is_none() {
            images = Some(project::images(project)?);
        }
        let images = images.as_mut().context("images are open")?;
        Ok(project::artefact(images, name)?.path)
    };
    let given = |path: &Option<std::path::PathBuf>, what: &str| {
        path.as_deref().map(|p| files::read(p, what)).transpose()
    };
    let firmware = match args.firmware.as_deref() {
        Some(path) if path.as_os_str() == "none" => None,
        Some(path) => Some(files::read(path, "firmware")?),
        None => Some(files::read(&image("opensbi")?, "opensbi")?),
    };
    let chosen = Kernel::of(args);
    let kernel = match chosen {
        Kernel::None => None,
        Kernel::Debian => Some(files::content(&image("kernel")?, "kernel")?),
        Kernel::Patched => Some(files::content(&image(PATCHED_KERNEL)?, "kernel")?),
        Kernel::File(path) => Some(files::content(path, "kernel")?),
    };
    if firmware.is_none() && kernel.is_none() {
        bail!("there is nothing to boot: give --firmware or --kernel a file");
    }
    if chosen == Kernel::Patched && !args.share.is_empty() {
        bail!("the patched kernel has no driver for --share; use --kernel debian, or --copy");
    }
    let initrd = match (&args.initrd, chosen) {
        (Some(path), _) => Some(files::content(path, "initrd")?),
        (None, Kernel::Debian | Kernel::Patched) => {
            let mut archives = vec![image(if has_root(args) { "disk" } else { "host" })?];
            if chosen == Kernel::Patched {
                archives.push(image(PATCHED_HOST)?);
            }
            Some(one_after_the_other(&archives, &[])?)
        }
        (None, _) => None,
    };
    let initrd = if args.copy.is_empty() {
        initrd
    } else {
        if has_root(args) {
            bail!(
                "--copy puts files into the RAM file system, which the system on the disk (root=) \
                 does not see"
            );
        }
        let image = initrd.context("--copy needs an initial RAM file system: give --initrd")?;
        Some(copy::append(&image, &args.copy)?)
    };
    let default = match chosen {
        Kernel::Debian | Kernel::Patched => APPEND,
        Kernel::None | Kernel::File(_) => "",
    };
    let payload = Payload {
        firmware,
        kernel,
        initrd,
        append: args.append.clone().unwrap_or_else(|| default.into()),
        dtb: given(&args.dtb, "device tree")?,
    };
    Ok(Loaded {
        payload,
        _kept: images.map(Images::keep),
    })
}
