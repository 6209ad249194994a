//! qcow2 images, by the library `imago`.

mod refcounts;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;

use imago::file::File as Storage;
use imago::format::gate::ImplicitOpenGate;
use imago::qcow2::Qcow2;
use imago::{FormatAccess, FormatDriverBuilder, Storage as _, StorageOpenOptions};
use trapless_devices::virtio::block::Disk;

use super::{Access, Image, whole_sectors};

/// A qcow2 image with its backing files, which are only read.
pub struct Qcow2Disk {
    image: FormatAccess<Storage>,
    sectors: u64,
    read_only: bool,
}

impl Qcow2Disk {
    /// The image in `file`, which has been opened for the access of `image`.
    ///
    /// The files that its header names are opened as well: the user states that this is a qcow2
    /// image, and a guest cannot write its header.
    pub fn open(file: File, image: &Image) -> io::Result<Self> {
        let writable = image.access == Access::Write;
        let options = StorageOpenOptions::new()
            .filename(&image.path)
            .write(writable);
        if writable {
            refcounts::check(&file)?;
        }
        let storage = Storage::from_open_file(file, options)?;
        let driver = Qcow2::<Storage>::builder(storage)
            .write(writable)
            .open(Below { left: MAX_BELOW })?;
        let image = FormatAccess::new(driver);
        Ok(Self {
            sectors: whole_sectors(image.size()),
            image,
            read_only: !writable,
        })
    }
}

/// Maximum length of a chain of backing files, which may contain a cycle.
const MAX_BELOW: u32 = 16;

/// Opens files that an image names.
struct Below {
    /// Remaining length of the chain.
    left: u32,
}

impl ImplicitOpenGate<Storage> for Below {
    fn open_format<F: FormatDriverBuilder<Storage>>(
        &mut self,
        builder: F,
    ) -> io::Result<FormatAccess<Storage>> {
        let Some(left) = self.left.checked_sub(1) else {
            let reason = format!("it has more than {MAX_BELOW} backing files in a chain");
            return Err(io::Error::other(reason));
        };
        builder.open(Self { left }).map(FormatAccess::new)
    }

    fn open_storage(&mut self, options: StorageOpenOptions) -> io::Result<Storage> {
        if let Some(path) = options.get_filename() {
            // Opening a pipe would block.
            let kind = std::fs::metadata(path)?.file_type();
            if !kind.is_file() && !kind.is_block_device() {
                let reason = format!("{}, which it names, is not a file", path.display());
                return Err(io::Error::other(reason));
            }
        }
        Storage::open(options)
    }
}

impl Disk for Qcow2Disk {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.image.read(data, offset)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.image.write(data, offset)
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.image.discard_to_zero(offset, len)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.image.flush()?;
        self.image.sync()
    }
}
