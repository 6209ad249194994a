//! Writer of the "newc" cpio format, the form of initial RAM file systems (Linux,
//! `initramfs/buffer-format`).
//!
//! The same entries in the same order give the same bytes: times are 0, the owner is root.

use std::collections::BTreeSet;
use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

/// Writes one archive; folders above an entry are added by themselves.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    written: u64,
    inode: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        Self {
            out,
            written: 0,
            inode: 0,
            folders: BTreeSet::new(),
        }
    }

    /// Adds a folder with mode 0755.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above)?;
        }
        self.folders.insert(path.to_owned());
        self.entry(path, DIRECTORY | 0o755, 2, (0, 0), &[])
    }

    /// Adds a regular file with permission bits `mode`.
    ///
    /// # Errors
    /// If the output cannot be written or the file has 4 GiB or more, which the format cannot hold.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.above(path)?;
        self.entry(path, REGULAR | mode, 1, (0, 0), content)
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.above(path)?;
        self.entry(path, SYMLINK | 0o777, 1, (0, 0), target.as_bytes())
    }

    /// Adds a character device; needs no privilege here.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) -> io::Result<()> {
        self.above(path)?;
        self.entry(path, CHARACTER | 0o600, 1, (major, minor), &[])
    }

    /// Writes the trailer and returns the output.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, 1, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn above(&mut self, path: &str) -> io::Result<()> {
        path.trim_matches('/')
            .rsplit_once('/')
            .map_or(Ok(()), |(above, _)| self.folder(above))
    }

    fn entry(
        &mut self,
        path: &str,
        mode: u32,
        links: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        let name = path.trim_matches('/');
        let size = u32::try_from(content.len()).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{path} is too big for an initramfs"),
            )
        })?;
        self.inode += 1;
        let namesize = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, namesize, 0,
        ];
        let mut header = String::from("070701");
        for field in fields {
            header += &format!("{field:08X}");
        }
        self.write(header.as_bytes())?;
        self.write(name.as_bytes())?;
        self.write(&[0])?;
        self.pad()?;
        self.write(content)?;
        self.pad()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Names and contents end at multiples of four bytes.
    fn pad(&mut self) -> io::Result<()> {
        let missing = usize::try_from(self.written.wrapping_neg() % 4).unwrap_or(0);
        self.write(&[0; 3][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode, device, content.
    type Entry = (String, u32, (u32, u32), Vec<u8>);

    /// Reads an archive back by the format's rules.
    fn read(mut bytes: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let field = |n: usize| {
                u32::from_str_radix(
                    std::str::from_utf8(&bytes[6 + 8 * n..14 + 8 * n]).unwrap(),
                    16,
                )
                .unwrap()
            };
            let (mode, size, namesize) = (field(1), field(6) as usize, field(11) as usize);
            let device = (field(9), field(10));
            let name = String::from_utf8(bytes[110..110 + namesize - 1].to_vec()).unwrap();
            assert_eq!(bytes[110 + namesize - 1], 0);
            let start = (110 + namesize).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(bytes.len(), start);
                return entries;
            }
            entries.push((name, mode, device, bytes[start..start + size].to_vec()));
            bytes = &bytes[(start + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn archive_reads_back_with_folders_before_their_files() {
        let mut writer = Writer::new(Vec::new());
        writer.file("/usr/bin/a", 0o755, b"12345").unwrap();
        writer.symlink("/usr/bin/b", "a").unwrap();
        writer.device("/dev/console", 5, 1).unwrap();
        writer.file("init", 0o755, b"").unwrap();
        let entries = read(&writer.finish().unwrap());
        let names: Vec<_> = entries.iter().map(|e| e.0.as_str()).collect();
        assert_eq!(
            names,
            [
                "usr",
                "usr/bin",
                "usr/bin/a",
                "usr/bin/b",
                "dev",
                "dev/console",
                "init"
            ]
        );
        assert_eq!(entries[0].1, 0o040_755);
        assert_eq!(
            (entries[2].1, entries[2].3.as_slice()),
            (0o100_755, &b"12345"[..])
        );
        assert_eq!(
            (entries[3].1, entries[3].3.as_slice()),
            (0o120_777, &b"a"[..])
        );
        assert_eq!((entries[5].1, entries[5].2), (0o020_600, (5, 1)));
    }
}
