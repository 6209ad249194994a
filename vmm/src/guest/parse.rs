//! Values of options.

use crate::devices::vfio::device::Chosen;
use crate::devices::virtio::slots::Disk;
use std::path::PathBuf;
use std::time::Duration;

pub fn parse_memory(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.trim().char_indices().last() {
        Some((i, 'K' | 'k')) => (&text.trim()[..i], 10),
        Some((i, 'M' | 'm')) => (&text.trim()[..i], 20),
        Some((i, 'G' | 'g')) => (&text.trim()[..i], 30),
        Some((i, 'T' | 't')) => (&text.trim()[..i], 40),
        _ => (text.trim(), 20),
    };
    let value: u64 = digits
        .parse()
        .map_err(|_| "give a size such as 512M or 2G".to_string())?;
    let bytes = value
        .checked_mul(1 << shift)
        .filter(|&b| b <= 1 << 40)
        .ok_or_else(|| "more than 1 TiB of guest RAM is not supported".to_string())?;
    if bytes < 32 << 20 {
        return Err("Linux needs at least 32M".into());
    }
    if bytes % 4096 != 0 {
        return Err("the size must be a multiple of 4K".into());
    }
    Ok(bytes)
}

pub fn parse_disk(text: &str) -> Result<Disk, String> {
    let (path, read_only) = match text.rsplit_once(',') {
        Some((path, "ro")) => (path, true),
        Some((path, "rw")) => (path, false),
        _ => (text, false),
    };
    if path.is_empty() {
        return Err("the file name is empty".into());
    }
    Ok(Disk {
        path: path.into(),
        read_only,
    })
}

/// Linux limits interface names to IFNAMSIZ - 1 bytes and forbids slashes and blanks.
pub fn parse_tap(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 15 || text.contains(|c: char| c == '/' || c.is_whitespace())
    {
        return Err("an interface name has 1 to 15 characters, none of them '/' or blank".into());
    }
    Ok(text.into())
}

/// A device of the host: its folder in sysfs, or of a PCI device its address with or without the
/// domain, of a platform device its name.
pub fn parse_passed(text: &str) -> Result<Chosen, String> {
    let (device, relay) = match text.strip_suffix(",relay") {
        Some(device) => (device, true),
        None => (text, false),
    };
    let path = match device.contains('/') {
        true => Some(device.trim_end_matches('/').into()),
        false => pci_path(device).or_else(|| platform_path(device)),
    };
    let path = path.ok_or(
        "give a device as 0000:00:01.0, 00:01.0 or /sys/bus/pci/devices/0000:00:01.0; a platform \
         device as 10009000.virtio_mmio or /sys/bus/platform/devices/10009000.virtio_mmio",
    )?;
    Ok(Chosen { path, relay })
}

fn pci_path(text: &str) -> Option<PathBuf> {
    const DEVICES: &str = "/sys/bus/pci/devices";
    let lengths: Vec<usize> = text.split([':', '.']).map(str::len).collect();
    let digits = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    let domain = match &lengths[..] {
        [4, 2, 2, 1] => "",
        [2, 2, 1] => "0000:",
        _ => return None,
    };
    let function = text.rfind('.') == Some(text.len() - 2);
    let text = (text.chars().all(digits) && function).then(|| text.to_ascii_lowercase())?;
    Some(format!("{DEVICES}/{domain}{text}").into())
}

/// Linux names them by the address and the name of their node.
fn platform_path(text: &str) -> Option<PathBuf> {
    let (address, name) = text.split_once('.')?;
    let word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let valid = !address.is_empty()
        && address.chars().all(|c| c.is_ascii_hexdigit())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(word);
    valid.then(|| format!("/sys/bus/platform/devices/{text}").into())
}

pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: Result<u16, _> = text.parse();
    let seconds = seconds.map_err(|e| e.to_string())?;
    Ok(Duration::from_secs(seconds.into()))
}
