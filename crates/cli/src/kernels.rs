//! Kernels of a workload's host and guests: Debian's, or the one with this project's patches.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use trapless_experiments::Value;

/// The kernel that is built with this project's patches.
pub const PATCHED_KERNEL: &str = "host-kernel/Image";
/// Its modules, an archive that follows the host's.
pub const PATCHED_HOST: &str = "patched-host";
/// The same kernel with modules for guests, likewise.
const PATCHED_GUESTS: &str = "patched-guest-host";

/// What a kernel that is built with the patches cannot do, by parameter: it has no KVM of Debian's,
/// its drivers take no parameters, and a guest without Linux has none.
const REFUSED: [(&str, &str, &str); 4] = [
    ("host_kernel", "kvm", "stock"),
    ("host_kernel", "hostipi", "sbi"),
    ("guest_kernel", "rfence", "1"),
    ("guest_kernel", "guest", "bare"),
];

/// Images by name.
pub struct Kernels {
    /// The host's kernel.
    pub host: &'static str,
    /// Archives that follow the host's initial RAM file system.
    pub archives: Vec<&'static str>,
}

impl Kernels {
    /// Those that a workload's parameters ask for.
    ///
    /// # Errors
    /// If another parameter asks for what such a kernel cannot do.
    pub fn of(values: &BTreeMap<String, Value>) -> Result<Self> {
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
        Kernels::of(&values.collect())
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
