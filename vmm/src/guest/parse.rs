//! Values of options.

use crate::devices::virtio::slots::Disk;
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

pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: Result<u16, _> = text.parse();
    let seconds = seconds.map_err(|e| e.to_string())?;
    Ok(Duration::from_secs(seconds.into()))
}
