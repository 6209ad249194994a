//! Loads kernel, initial RAM disk and device tree into guest RAM.

use crate::error::{Error, Result};
use crate::guest::fdt::{self, Description};
use crate::guest::files::{Input, create, read_dtb};
use crate::guest::layout::{FDT_MAX, Layout, layout};
use std::io::Write as _;
use std::path::Path;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Kernel, initial RAM disk and their placement.
pub struct Boot {
    kernel: Input,
    initrd: Option<Input>,
    /// Addresses of all parts.
    pub layout: Layout,
}

impl Boot {
    /// Opens the files and finds room for them in `memory` bytes of RAM.
    ///
    /// # Errors
    /// [`Error::User`] for files that cannot be used and for too little RAM.
    pub fn open(kernel: &Path, initrd: Option<&Path>, memory: u64) -> Result<Self> {
        let mut kernel = Input::open("kernel", kernel)?;
        let header = kernel.kernel_header()?;
        let initrd = initrd.map(|path| Input::open("initrd", path)).transpose()?;
        let layout =
            layout(memory, header, initrd.as_ref().map(Input::len)).map_err(Error::User)?;
        Ok(Self {
            kernel,
            initrd,
            layout,
        })
    }

    /// Loads the files and `tree` into RAM.
    ///
    /// # Errors
    /// [`Error::User`] for files that cannot be read.
    pub fn load(mut self, tree: &[u8], memory: &GuestMemoryMmap) -> Result<()> {
        self.kernel.load(memory, self.layout.entry)?;
        if let (Some(mut initrd), Some((start, _))) = (self.initrd, self.layout.initrd) {
            initrd.load(memory, start)?;
        }
        memory
            .write_slice(tree, GuestAddress(self.layout.fdt))
            .map_err(|e| Error::failed("cannot place the device tree", e))
    }
}

/// The device tree: the file `given` or one made from `machine`. Also written to `dump`, if given.
///
/// # Errors
/// [`Error::User`] for files that cannot be used and a tree that cannot be built.
pub fn device_tree(
    machine: &Description<'_>,
    given: Option<&Path>,
    dump: Option<&Path>,
) -> Result<Vec<u8>> {
    let tree = match given {
        Some(path) => read_dtb(path, FDT_MAX)?,
        None => fdt::build(machine)
            .map_err(|e| Error::user(format!("cannot build the device tree: {e}")))?,
    };
    if let Some(path) = dump {
        create("device tree", path)?
            .write_all(&tree)
            .map_err(|e| Error::failed("cannot write the device tree", e))?;
    }
    Ok(tree)
}
