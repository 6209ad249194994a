//! Kernels of a workload's host and guests: those of Debian's releases, with or without this
//! project's patches, or the user's own.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use trapless_experiments::Value;
use trapless_images::{Images, OwnKernel, Prepared, Release};

use crate::spec::{OwnKernels, Whose};

/// The kernel that is built with this project's patches.
pub const PATCHED_KERNEL: &str = "host-kernel/Image";
/// Its modules, an archive that follows the host's.
pub const PATCHED_HOST: &str = "patched-host";
/// The same kernel with modules for guests, likewise.
const PATCHED_GUESTS: &str = "patched-guest-host";
/// Debian's kernel.
const STOCK_KERNEL: &str = "kernel";
/// Modules of that of another release, an archive that follows the host's.
const OTHER_HOST: &str = "other-host";
/// The same kernel with modules for guests, likewise.
const OTHER_GUESTS: &str = "other-guest-host";

/// Parameter that names releases.
const RELEASE: &str = "kernel";

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
    /// A hint at the cause of this exit status of a workload's guest with these parameters; empty
    /// if none is known.
    pub fn hint(&self, status: i32, values: &BTreeMap<String, Value>) -> &'static str {
        let newer = |whose: Whose| Kernels::release(values, whose) != Release::Stable;
        let host = self.host_kernel.is_some() || newer(Whose::Host);
        let guest = self.guest_kernel.is_some() || newer(Whose::Guest);
        match status == ILLEGAL_INSTRUCTION && host && !guest {
            true => {
                "\nKVM of newer kernels leaves scounteren to guests, and Debian's 6.12 does not set \
                 it: give the guest the kernel, too (--guest-kernel, --guest-modules; or \
                 kernel=testing)"
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
    pub host: String,
    /// Archives that follow the host's initial RAM file system.
    pub archives: Vec<String>,
    /// Which kernel of another release each side has, by what ledgers call it.
    pub others: Vec<(String, String)>,
}

impl Kernels {
    /// The kernels that a workload's parameters select, unless the user has `own` ones.
    ///
    /// # Errors
    /// If such a kernel does not support another parameter, or another parameter selects another
    /// kernel.
    pub fn of(values: &BTreeMap<String, Value>, own: &OwnKernels) -> Result<Self> {
        check(values, own)?;
        let mut kernels = Self {
            host: STOCK_KERNEL.into(),
            archives: Vec::new(),
            others: Vec::new(),
        };
        for side in own.sides() {
            let whose = side.whose;
            let release = Self::release(values, whose);
            let patched = is(values, &form(whose), "patched");
            let archive = match (whose, patched) {
                _ if release == Release::Stable && !patched => continue,
                (Whose::Host, true) => PATCHED_HOST,
                (Whose::Host, false) => OTHER_HOST,
                (Whose::Guest, true) => PATCHED_GUESTS,
                (Whose::Guest, false) => OTHER_GUESTS,
            };
            let kernel = if patched {
                PATCHED_KERNEL
            } else {
                STOCK_KERNEL
            };
            let kernel = release.image(kernel);
            kernels.archives.push(release.image(archive));
            if release != Release::Stable {
                let name = format!("{} kernel", whose.name());
                kernels.others.push((name, kernel.clone()));
            }
            if let Whose::Host = whose {
                kernels.host = kernel;
            }
        }
        Ok(kernels)
    }

    /// The release whose kernel one of them has.
    fn release(values: &BTreeMap<String, Value>, whose: Whose) -> Release {
        let named = values.get(RELEASE).map(Value::to_string);
        let named = named.unwrap_or_default();
        let (release, only) = named.split_once('-').unwrap_or((&named, whose.name()));
        let release = Release::named(release).unwrap_or_default();
        match only == whose.name() {
            true => release,
            false => Release::Stable,
        }
    }

    /// Text of ledgers for an image that is a kernel of Debian's.
    pub fn about(kernel: &Prepared) -> String {
        let version = kernel.packages.iter().map(|package| &package.version);
        let names = kernel.packages.iter().map(|package| &package.name);
        let text = names
            .zip(version)
            .map(|(name, version)| format!("{name} {version}"));
        text.collect::<Vec<_>>().join(", ")
    }
}

/// Parameter with the form of a kernel.
fn form(whose: Whose) -> String {
    format!("{}_kernel", whose.name())
}

/// Whether a parameter has this value.
fn is(values: &BTreeMap<String, Value>, parameter: &str, text: &str) -> bool {
    let value = values.get(parameter);
    value.is_some_and(|value| value.to_string() == text)
}

/// Refuses parameters that a kernel does not support, and a second kernel for the same side.
fn check(values: &BTreeMap<String, Value>, own: &OwnKernels) -> Result<()> {
    let is = |parameter: &str, text: &str| is(values, parameter, text);
    for (whose, parameter, value) in REFUSED {
        if is(whose, "patched") && is(parameter, value) {
            bail!("{whose}=patched cannot have {parameter}={value}: leave out {parameter}={value}");
        }
    }
    for side in own.sides() {
        let (whose, form) = (side.whose.name(), form(side.whose));
        if side.kernel.is_none() {
            continue;
        }
        if is(&form, "patched") {
            bail!("--{whose}-kernel and {form}=patched name two kernels: leave out one of them");
        }
        if Kernels::release(values, side.whose) != Release::Stable {
            let other = if whose == "host" { "guest" } else { "host" };
            bail!(
                "--{whose}-kernel and {RELEASE}={} name two kernels: leave out one of them, or \
                 have {RELEASE}=testing-{other}",
                values[RELEASE]
            );
        }
    }
    let bare_guest = is("guest", "bare");
    if own.guest_kernel.is_some() && bare_guest {
        bail!("guest=bare is a guest without Linux: leave out --guest-kernel");
    }
    if bare_guest && Kernels::release(values, Whose::Guest) != Release::Stable {
        bail!("guest=bare is a guest without Linux: have {RELEASE}=testing-host");
    }
    Ok(())
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
        assert_eq!((&*stock.host, stock.archives.len()), ("kernel", 0));
        let guest = kernels(&[("host_kernel", "stock"), ("guest_kernel", "patched")]).unwrap();
        assert_eq!(
            (&*guest.host, &*guest.archives[0]),
            ("kernel", PATCHED_GUESTS)
        );
        let both = kernels(&[("host_kernel", "patched"), ("guest_kernel", "patched")]).unwrap();
        assert_eq!(both.archives, [PATCHED_HOST, PATCHED_GUESTS]);
    }

    /// Promise: host and guests have the release that is asked for, patched or not, and the ledger
    /// is told.
    #[test]
    fn each_side_has_a_release_of_its_own() {
        let both = kernels(&[("kernel", "testing")]).unwrap();
        assert_eq!(both.host, "kernel@testing");
        assert_eq!(
            both.archives,
            ["other-host@testing", "other-guest-host@testing"]
        );
        let named: Vec<_> = both.others.iter().map(|(name, _)| &**name).collect();
        assert_eq!(named, ["host kernel", "guest kernel"]);
        let host = kernels(&[("kernel", "testing-host"), ("guest_kernel", "patched")]).unwrap();
        assert_eq!(host.archives, ["other-host@testing", PATCHED_GUESTS]);
        let guest = kernels(&[("kernel", "testing-guest"), ("host_kernel", "patched")]).unwrap();
        assert_eq!(guest.host, PATCHED_KERNEL);
        assert_eq!(guest.archives, [PATCHED_HOST, "other-guest-host@testing"]);
        let patched = kernels(&[("kernel", "testing"), ("host_kernel", "patched")]).unwrap();
        assert_eq!(patched.host, "host-kernel@testing/Image");
        assert_eq!(
            patched.archives,
            ["patched-host@testing", "other-guest-host@testing"]
        );
        assert!(kernels(&[("kernel", "testing"), ("guest", "bare")]).is_err());
        assert!(kernels(&[("kernel", "testing-host"), ("guest", "bare")]).is_ok());
    }

    /// Promise: what these kernels do not have is refused before anything is measured.
    #[test]
    fn what_a_kernel_cannot_do_is_refused() {
        let own = OwnKernels {
            host_kernel: Some("vmlinuz".into()),
            guest_kernel: Some("vmlinuz".into()),
            ..OwnKernels::default()
        };
        let stable = BTreeMap::new();
        assert_eq!(own.hint(132, &stable), "");
        let host = OwnKernels {
            guest_kernel: None,
            ..own.clone()
        };
        assert!(host.hint(132, &stable).contains("--guest-kernel"));
        assert!(host.hint(1, &stable).is_empty());
        let released =
            |release: &str| BTreeMap::from([("kernel".into(), Value::Word(release.into()))]);
        let none = OwnKernels::default();
        assert!(
            none.hint(132, &released("testing-host"))
                .contains("kernel=testing")
        );
        assert_eq!(none.hint(132, &released("testing")), "");
        for (parameter, value) in [
            ("host_kernel", "patched"),
            ("guest_kernel", "patched"),
            ("guest", "bare"),
            ("kernel", "testing"),
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
