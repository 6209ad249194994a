//! Kernels of a workload's host and guests: Debian's, the one with this project's patches, or the
//! user's own.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use trapless_experiments::Value;
use trapless_images::{Images, OwnKernel};

use crate::spec::{OwnKernels, Whose};

/// The kernel that is built with this project's patches.
pub const PATCHED_KERNEL: &str = "host-kernel/Image";
/// Its modules, an archive that follows the host's.
pub const PATCHED_HOST: &str = "patched-host";
/// The same kernel with modules for guests, likewise.
const PATCHED_GUESTS: &str = "patched-guest-host";

/// Parameters that a kernel with the patches does not support: it has no KVM of Debian's, its
/// drivers take no parameters, and a guest without Linux has none.
const REFUSED: [(&str, &str, &str); 4] = [
    ("host_kernel", "kvm", "stock"),
    ("host_kernel", "hostipi", "sbi"),
    ("guest_kernel", "rfence", "1"),
    ("guest_kernel", "guest", "bare"),
];

/// Exit status of a shell whose program an illegal instruction has ended: 128 + SIGILL.
const ILLEGAL_INSTRUCTION: i32 = 132;

/// The user's kernels of a workload.
#[derive(Default)]
pub struct Loaded {
    /// Their descriptions in ledgers, by name.
    pub about: Vec<(String, String)>,
    /// Archives that follow the host's image.
    pub archives: Vec<u8>,
}

impl OwnKernels {
    /// A hint at the cause of this exit status of a workload's guest; empty if none is known.
    pub fn hint(&self, status: i32) -> &'static str {
        let older_guest = self.host_kernel.is_some() && self.guest_kernel.is_none();
        match status == ILLEGAL_INSTRUCTION && older_guest {
            true => {
                "\nKVM of newer kernels leaves scounteren to guests, and Debian's 6.12 does not set \
                 it: give the guest the kernel, too (--guest-kernel, --guest-modules)"
            }
            false => "",
        }
    }

    /// Loads these kernels and modules. `host` is the image whose modules a host needs.
    ///
    /// # Errors
    /// If a file is not a kernel, a module is of another kernel, or the host's kernel has no KVM.
    pub fn load(&self, images: &Images, host: &str) -> Result<Loaded> {
        let mut own = Loaded::default();
        for side in self.sides() {
            let Some(path) = side.kernel else { continue };
            let image = match side.whose {
                Whose::Host => host,
                Whose::Guest => "guest",
            };
            let kernel = load(images, image, path, side.modules)?;
            own.archives.extend(match side.whose {
                Whose::Host => kernel.for_host(path, side.modules)?,
                Whose::Guest => kernel.for_guests(path)?,
            });
            let name = format!("{} kernel", side.whose.name());
            own.about.push((name, about(&kernel)));
        }
        Ok(own)
    }
}

fn about(kernel: &OwnKernel) -> String {
    let modules = kernel.modules_sha256.as_ref();
    let modules = modules.map_or_else(String::new, |sum| format!(", modules sha256 {sum}"));
    format!("{}, sha256 {}{modules}", kernel.release, kernel.sha256)
}

fn load(images: &Images, image: &str, path: &Path, modules: Option<&Path>) -> Result<OwnKernel> {
    let kernel = images.own_kernel(image, path, modules)?;
    if !kernel.missing.is_empty() {
        note!(
            "Linux {} has no module {}: a workload that needs it fails",
            kernel.release,
            kernel.missing.join(", ")
        );
    }
    Ok(kernel)
}

/// Images by name.
pub struct Kernels {
    /// The host's kernel.
    pub host: &'static str,
    /// Archives that follow the host's initial RAM file system.
    pub archives: Vec<&'static str>,
}

impl Kernels {
    /// The kernels that a workload's parameters select, unless the user has `own` ones.
    ///
    /// # Errors
    /// If such a kernel does not support another parameter, or another parameter selects another
    /// kernel.
    pub fn of(values: &BTreeMap<String, Value>, own: &OwnKernels) -> Result<Self> {
        let is = |parameter: &str, text: &str| {
            values
                .get(parameter)
                .is_some_and(|value| value.to_string() == text)
        };
        for (whose, parameter, value) in REFUSED {
            if is(whose, "patched") && is(parameter, value) {
                bail!(
                    "{whose}=patched cannot have {parameter}={value}: leave out {parameter}={value}"
                );
            }
        }
        for side in own.sides() {
            let whose = side.whose.name();
            if side.kernel.is_some() && is(&format!("{whose}_kernel"), "patched") {
                bail!(
                    "--{whose}-kernel and {whose}_kernel=patched name two kernels: leave out one \
                     of them"
                );
            }
        }
        if own.guest_kernel.is_some() && is("guest", "bare") {
            bail!("guest=bare is a guest without Linux: leave out --guest-kernel");
        }
        let mut kernels = Self {
            host: "kernel",
            archives: Vec::new(),
        };
        if is("host_kernel", "patched") {
            kernels.host = PATCHED_KERNEL;
            kernels.archives.push(PATCHED_HOST);
        }
        if is("guest_kernel", "patched") {
            kernels.archives.push(PATCHED_GUESTS);
        }
        Ok(kernels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(words: &[(&str, &str)]) -> Result<Kernels> {
        let value = |text: &str| match text.parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Word(text.into()),
        };
        let values = words
            .iter()
            .map(|(name, text)| ((*name).into(), value(text)));
        Kernels::of(&values.collect(), &OwnKernels::default())
    }

    #[test]
    fn each_side_has_a_kernel_of_its_own() {
        let stock = kernels(&[("host_kernel", "stock"), ("guest_kernel", "stock")]).unwrap();
        assert_eq!((stock.host, stock.archives.len()), ("kernel", 0));
        let guest = kernels(&[("host_kernel", "stock"), ("guest_kernel", "patched")]).unwrap();
        assert_eq!(
            (guest.host, guest.archives),
            ("kernel", vec![PATCHED_GUESTS])
        );
        let both = kernels(&[("host_kernel", "patched"), ("guest_kernel", "patched")]).unwrap();
        assert_eq!(both.archives, [PATCHED_HOST, PATCHED_GUESTS]);
    }

    /// Promise: what these kernels do not have is refused before anything is measured.
    #[test]
    fn what_a_kernel_cannot_do_is_refused() {
        let own = OwnKernels {
            host_kernel: Some("vmlinuz".into()),
            guest_kernel: Some("vmlinuz".into()),
            ..OwnKernels::default()
        };
        assert_eq!(own.hint(132), "");
        let host = OwnKernels {
            guest_kernel: None,
            ..own.clone()
        };
        assert!(host.hint(132).contains("--guest-kernel") && host.hint(1).is_empty());
        for (parameter, value) in [
            ("host_kernel", "patched"),
            ("guest_kernel", "patched"),
            ("guest", "bare"),
        ] {
            let values = BTreeMap::from([(parameter.into(), Value::Word(value.into()))]);
            let error = Kernels::of(&values, &own).err().unwrap();
            assert!(error.to_string().contains("leave out"), "{error}");
        }
        for (whose, parameter, value) in REFUSED {
            let error = kernels(&[(whose, "patched"), (parameter, value)])
                .err()
                .unwrap();
            assert!(
                error
                    .to_string()
                    .contains(&format!("leave out {parameter}")),
                "{error}"
            );
            assert!(kernels(&[(whose, "stock"), (parameter, value)]).is_ok());
        }
    }
}
