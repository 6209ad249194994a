//! PCI devices of a machine.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use trapless_backends::disk::Image;
use trapless_backends::share::Share;
use trapless_machine::MAX_VIRTUAL_FUNCTIONS;

/// A PCI device. Of those without a file every machine of `boot` has one anyway, or can have one:
/// it is on PCI then instead of in a virtio-mmio slot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PciDevice {
    /// The network card.
    #[serde(rename = "virtio-net")]
    Net(Card),
    /// A virtio console.
    #[serde(rename = "virtio-console")]
    Console,
    /// The source of entropy.
    #[serde(rename = "virtio-rng")]
    Rng,
    /// Another disk.
    #[serde(rename = "virtio-blk")]
    Disk(Image),
    /// Another disk, on NVM Express.
    #[serde(rename = "nvme")]
    Nvme(Image),
    /// Another shared folder.
    #[serde(rename = "virtio-fs")]
    Share(Share),
    /// A function for the tests of drivers: that of Linux's PCI endpoint framework.
    #[serde(rename = "endpoint-test")]
    EndpointTest,
}

/// A network card on PCI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Card {
    /// Virtual functions that it has (SR-IOV); 0: none.
    pub vfs: usize,
    /// It has a platform port: a virtio-mmio device with a wire, behind the same IOMMU.
    pub port: bool,
}

impl Card {
    /// Whether it has ends that can be passed to guests, and so a switch inside.
    #[must_use]
    pub fn is_shared(self) -> bool {
        self.vfs != 0 || self.port
    }
}

impl FromStr for Card {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut card = Self::default();
        for option in text.split(',') {
            match option.split_once('=') {
                Some(("vfs", number)) => card.vfs = virtual_functions(number)?,
                None if option == "port" => card.port = true,
                _ => {
                    return Err(format!(
                        "virtio-net has the options vfs=N (N virtual functions) and port (a \
                         platform port), and {option} is neither"
                    ));
                }
            }
        }
        Ok(card)
    }
}

fn virtual_functions(text: &str) -> Result<usize, String> {
    const MOST: usize = MAX_VIRTUAL_FUNCTIONS;
    let number = text.parse().ok().filter(|vfs| (1..=MOST).contains(vfs));
    number.ok_or_else(|| {
        format!(
            "vfs is a number from 1 to {MOST}, which is how many virtual functions fit, and {text} \
             is none"
        )
    })
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
            ("virtio-net", None) => Ok(Self::Net(Card::default())),
            ("virtio-net", Some(options)) => options.parse().map(Self::Net),
            ("virtio-console", None) => Ok(Self::Console),
            ("virtio-rng", None) => Ok(Self::Rng),
            ("endpoint-test", None) => Ok(Self::EndpointTest),
            ("virtio-console" | "virtio-rng" | "endpoint-test", Some(options)) => {
                Err(format!("{name} takes no options, and {options} is one"))
            }
            ("virtio-blk", Some(image)) => image.parse().map(Self::Disk),
            ("nvme", Some(image)) => image.parse().map(Self::Nvme),
            ("virtio-blk" | "nvme", None) => Err(needs("a disk image")),
            ("virtio-fs", Some(share)) => share.parse().map(Self::Share),
            ("virtio-fs", None) => Err(needs("a folder")),
            _ => Err(format!(
                "there is no PCI device {name}; use virtio-net, virtio-blk,FILE, nvme,FILE, \
                 virtio-fs,FOLDER, virtio-console, virtio-rng or endpoint-test"
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
        let card = |vfs, port| Ok(PciDevice::Net(Card { vfs, port }));
        assert_eq!(parse("virtio-net"), card(0, false));
        assert_eq!(parse("virtio-net-pci"), card(0, false));
        assert_eq!(parse("virtio-net-pci,vfs=7"), card(7, false));
        assert_eq!(parse("virtio-net,port,vfs=1"), card(1, true));
        let disk = parse("virtio-blk,a,b.img,ro").unwrap();
        assert!(matches!(&disk, PciDevice::Disk(image) if image.path.ends_with("a,b.img")));
        for device in [
            PciDevice::Rng,
            PciDevice::EndpointTest,
            disk,
            parse("virtio-fs,/tmp,ro").unwrap(),
        ] {
            let json = serde_json::to_string(&device).unwrap();
            assert_eq!(serde_json::from_str::<PciDevice>(&json).unwrap(), device);
        }
        for (text, part) in [
            ("virtio-net,fast", "fast is neither"),
            ("virtio-net,port=1", "port=1 is neither"),
            ("virtio-net,vfs=0", "from 1 to 7"),
            ("virtio-net,vfs=8", "from 1 to 7"),
            ("virtio-net,vfs=two", "two is none"),
            ("virtio-rng,fast", "no options"),
            ("endpoint-test,fast", "no options"),
            ("virtio-blk", "virtio-blk,PATH"),
            ("nvme", "nvme,PATH"),
            ("e1000", "no PCI device e1000"),
            ("", "no PCI device"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
