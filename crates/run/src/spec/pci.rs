//! PCI devices of a machine.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use trapless_backends::disk::Image;
use trapless_backends::share::Share;

/// A PCI device. Of those without a file every machine of `boot` has one anyway, or can have one:
/// it is on PCI then instead of in a virtio-mmio slot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PciDevice {
    /// The network card.
    #[serde(rename = "virtio-net")]
    Net,
    /// A virtio console.
    #[serde(rename = "virtio-console")]
    Console,
    /// The source of entropy.
    #[serde(rename = "virtio-rng")]
    Rng,
    /// Another disk.
    #[serde(rename = "virtio-blk")]
    Disk(Image),
    /// Another shared folder.
    #[serde(rename = "virtio-fs")]
    Share(Share),
}

impl FromStr for PciDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, options) = match text.split_once(',') {
            Some((name, options)) => (name, Some(options)),
            None => (text, None),
        };
        // QEMU calls them so, too.
        let name = name.strip_suffix("-pci").unwrap_or(name);
        let needs = |what: &str| format!("{name} needs {what}, as in {name},PATH");
        match (name, options) {
            ("virtio-net", None) => Ok(Self::Net),
            ("virtio-console", None) => Ok(Self::Console),
            ("virtio-rng", None) => Ok(Self::Rng),
            ("virtio-net" | "virtio-console" | "virtio-rng", Some(options)) => {
                Err(format!("{name} takes no options, and {options} is one"))
            }
            ("virtio-blk", Some(image)) => image.parse().map(Self::Disk),
            ("virtio-blk", None) => Err(needs("a disk image")),
            ("virtio-fs", Some(share)) => share.parse().map(Self::Share),
            ("virtio-fs", None) => Err(needs("a folder")),
            _ => Err(format!(
                "there is no PCI device {name}; use virtio-net, virtio-blk,FILE, \
                 virtio-fs,FOLDER, virtio-console or virtio-rng"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what users write, and what JSON has, is the same device; what is wrong is told.
    #[test]
    fn devices_are_read_as_written() {
        let parse = |text: &str| text.parse::<PciDevice>();
        assert_eq!(parse("virtio-net"), Ok(PciDevice::Net));
        assert_eq!(parse("virtio-net-pci"), Ok(PciDevice::Net));
        let disk = parse("virtio-blk,a,b.img,ro").unwrap();
        assert!(matches!(&disk, PciDevice::Disk(image) if image.path.ends_with("a,b.img")));
        for device in [PciDevice::Rng, disk, parse("virtio-fs,/tmp,ro").unwrap()] {
            let json = serde_json::to_string(&device).unwrap();
            assert_eq!(serde_json::from_str::<PciDevice>(&json).unwrap(), device);
        }
        for (text, part) in [
            ("virtio-net,fast", "no options"),
            ("virtio-blk", "virtio-blk,PATH"),
            ("e1000", "no PCI device e1000"),
            ("", "no PCI device"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
