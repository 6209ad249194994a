//! Symbols of the kernels that run in a machine, out of its memory.
//!
//! Debian's kernel comes without a file that has its symbols, and modules are wherever they have
//! been loaded. But a kernel knows its own: its image has the tables of `/proc/kallsyms`
//! (`CONFIG_KALLSYMS`), and each module in the list `modules` brings a table. Where the fields of
//! that list are, the kernel's type information says (`CONFIG_DEBUG_INFO_BTF`); without it there
//! are no symbols of modules.
//!
//! | module | subject |
//! |---|---|
//! | `space` | memory as the host's kernel, or that of a guest, sees it |
//! | `kallsyms` | tables of the image |
//! | `modules` | tables of modules |
//! | [`btf`] | where fields of structures are |
//! | `elf` | a file for debuggers |
//!
//! What is in memory is the guest's: nothing of it is trusted.

pub mod btf;
mod elf;
mod kallsyms;
mod modules;
mod space;

use trapless_hart::Ram;

pub use space::Space;

/// A function or a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Virtual address.
    pub address: u64,
    /// Kind, as `nm` and `/proc/kallsyms` have it: `t` for a function, capital if it is global.
    pub kind: u8,
    /// Its name.
    pub name: String,
}

/// A range of addresses that belongs to a kernel or to one of its modules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// `vmlinux` or the module's name, a dot, and what is in it.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// It holds instructions.
    pub code: bool,
}

/// What a kernel says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbols {
    /// In ascending order, without overlap.
    pub sections: Vec<Section>,
    /// In ascending order.
    pub symbols: Vec<Symbol>,
    /// Names of the modules whose symbols are among them.
    pub modules: Vec<String>,
}

/// There are no symbols.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing in the kernel's place looks like its tables.
    #[error(
        "there is no kernel with symbols in memory: it has not been loaded yet, or was built \
         without CONFIG_KALLSYMS or for a Linux before 6.6"
    )]
    NoTables,
    /// No guest has run on this hart.
    #[error("no guest has run on this hart: choose another one (gdb: thread N)")]
    NoGuest,
    /// A file of symbols cannot be made.
    #[error("the file of symbols cannot be made: {0}")]
    File(String),
}

impl Symbols {
    /// Those of the kernel that `space` is the memory of.
    ///
    /// # Errors
    /// [`Error::NoTables`].
    pub fn read(space: &Space<'_>) -> Result<Self, Error> {
        let image = space.image();
        let mut symbols = kallsyms::find(&image).ok_or(Error::NoTables)?;
        drop(image);
        let mut sections = kernel_sections(&symbols);
        let loaded = modules::loaded(space, &symbols);
        let mut modules = Vec::new();
        for module in loaded {
            modules.push(module.name);
            sections.extend(module.sections);
            symbols.extend(module.symbols);
        }
        sections.sort_by_key(|section| section.start);
        // A damaged list may name anything.
        sections.dedup_by(|next, last| next.start < last.start.saturating_add(last.len));
        symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        Ok(Self {
            sections,
            symbols,
            modules,
        })
    }

    /// Those of the kernel that HS-mode runs in `ram`, with this value of `satp`.
    ///
    /// # Errors
    /// [`Error::NoTables`].
    pub fn of_host(ram: &Ram, satp: u64) -> Result<Self, Error> {
        Self::read(&Space::host(ram, satp))
    }

    /// Those of the kernel of a guest, with these values of `vsatp` and `hgatp`.
    ///
    /// # Errors
    /// [`Error::NoGuest`] if there is none, else [`Error::NoTables`].
    pub fn of_guest(ram: &Ram, vsatp: u64, hgatp: u64) -> Result<Self, Error> {
        if hgatp == 0 {
            return Err(Error::NoGuest);
        }
        Self::read(&Space::guest(ram, vsatp, hgatp))
    }

    /// Address of a symbol.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u64> {
        find(&self.symbols, name)
    }

    /// An ELF file with all this and no content: addresses are where they are in memory.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn to_elf(&self) -> Result<Vec<u8>, Error> {
        elf::write(self).map_err(|e| Error::File(e.to_string()))
    }
}

fn find(symbols: &[Symbol], name: &str) -> Option<u64> {
    let found = symbols.iter().find(|symbol| symbol.name == name);
    found.map(|symbol| symbol.address)
}

/// The kernel's image, by the symbols of its linker script.
fn kernel_sections(symbols: &[Symbol]) -> Vec<Section> {
    let at = |name| find(symbols, name);
    let marks = [
        (at("_start").or(at("_text")), "vmlinux.text", true),
        (at("_etext"), "vmlinux.init", false),
        (at("_sinittext"), "vmlinux.init.text", true),
        (at("_einittext"), "vmlinux.data", false),
        (at("_end"), "", false),
    ];
    let mut marks: Vec<_> = marks
        .into_iter()
        .filter_map(|(at, name, code)| Some((at?, name, code)))
        .collect();
    marks.sort_by_key(|(at, ..)| *at);
    let pairs = marks.windows(2).filter(|pair| pair[0].0 < pair[1].0);
    let section = |pair: &[(u64, &str, bool)]| Section {
        name: pair[0].1.into(),
        start: pair[0].0,
        len: pair[1].0 - pair[0].0,
        code: pair[0].2,
    };
    pairs.map(section).collect()
}
