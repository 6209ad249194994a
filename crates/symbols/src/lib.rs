//! Symbols of the kernels that run in a machine, read from its memory.
//!
//! Debian's kernel has no file with its symbols, and addresses of modules depend on where they were
//! loaded. But a kernel has its own symbols: its image has the tables of `/proc/kallsyms`
//! (`CONFIG_KALLSYMS`), and each module in the list `modules` has a table. The offsets of fields of
//! that list come from the kernel's type information (`CONFIG_DEBUG_INFO_BTF`); without it there
//! are no symbols of modules.
//!
//! | module | subject |
//! |---|---|
//! | `space` | virtual memory of the host's kernel, or of a guest's |
//! | `kallsyms` | tables of the image |
//! | `modules` | tables of modules |
//! | [`btf`] | offsets of fields of structures |
//! | `elf` | a file for debuggers |
//!
//! Memory is written by the guest, so nothing in it is trusted.

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
    /// Kind, as in `nm` and `/proc/kallsyms`: `t` for a function, capital if it is global.
    pub kind: u8,
    /// Its name.
    pub name: String,
}

/// A range of addresses that belongs to a kernel or to one of its modules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// `vmlinux` or the module's name, a dot, and the kind of its content.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Whether it holds instructions.
    pub code: bool,
}

/// Symbols of a kernel.
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
    /// No tables of symbols were found in the kernel's image.
    #[error(
        "there is no kernel with symbols in memory: it has not been loaded yet, or was built \
         without CONFIG_KALLSYMS or for a Linux before 6.6"
    )]
    NoTables,
    /// No guest has run on this hart.
    #[error("no guest has run on this hart: choose another one (gdb: thread N)")]
    NoGuest,
    /// The guest's kernel cannot be read.
    #[error(
        "the guest has no kernel yet, or one that is not the host's and whose tables of symbols \
         KVM has not mapped"
    )]
    Unmapped,
    /// A file of symbols cannot be made.
    #[error("the file of symbols cannot be made: {0}")]
    File(String),
}

impl Symbols {
    /// Symbols of the kernel in `space`, or of `twin` if that runs the same kernel.
    fn read(space: &Space<'_>, twin: Option<&Space<'_>>) -> Option<Self> {
        let own = kallsyms::find(&space.image());
        let mut symbols = own.or_else(|| same_kernel(space, twin?))?;
        let mut sections = kernel_sections(&symbols);
        let types = modules::types(space, &symbols);
        let types = types.or_else(|| modules::types(twin?, &symbols));
        let loaded = types.map_or_else(Vec::new, |t| modules::loaded(space, &symbols, &t));
        let mut modules = Vec::new();
        for module in loaded {
            modules.push(module.name);
            sections.extend(module.sections);
            symbols.extend(module.symbols);
        }
        sections.sort_by_key(|section| section.start);
        // A damaged list may contain anything.
        sections.dedup_by(|next, last| next.start < last.start.saturating_add(last.len));
        // Of several names for an address the first one is the best in kallsyms' order.
        symbols.sort_by_key(|symbol| symbol.address);
        Some(Self {
            sections,
            symbols,
            modules,
        })
    }

    /// Symbols of the kernel that HS-mode runs in `ram`, with this value of `satp`.
    ///
    /// # Errors
    /// [`Error::NoTables`].
    pub fn of_host(ram: &Ram, satp: u64) -> Result<Self, Error> {
        Self::read(&Space::host(ram, satp), None).ok_or(Error::NoTables)
    }

    /// Symbols of the kernel of a guest, with these values of `vsatp` and `hgatp`; `satp` is that
    /// of the host. KVM maps a page when the guest first accesses it, and a kernel rarely reads its
    /// own tables; but it is often the same kernel as the host's.
    ///
    /// # Errors
    /// [`Error::NoGuest`] if there is no guest, [`Error::Unmapped`] if it runs another kernel than
    /// the host and its tables are not in its memory.
    pub fn of_guest(ram: &Ram, satp: u64, vsatp: u64, hgatp: u64) -> Result<Self, Error> {
        if hgatp == 0 {
            return Err(Error::NoGuest);
        }
        let host = Space::host(ram, satp);
        Self::read(&Space::guest(ram, vsatp, hgatp), Some(&host)).ok_or(Error::Unmapped)
    }

    /// Address of a symbol.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u64> {
        find(&self.symbols, name)
    }

    /// An ELF file with these symbols and no content; addresses are those in memory.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn to_elf(&self) -> Result<Vec<u8>, Error> {
        elf::write(self).map_err(|e| Error::File(e.to_string()))
    }
}

/// Symbols of the kernel of `twin`, if `space` has the same: one with the same version, compiler
/// and time of build.
fn same_kernel(space: &Space<'_>, twin: &Space<'_>) -> Option<Vec<Symbol>> {
    let symbols = kallsyms::find(&twin.image())?;
    let banner = find(&symbols, "linux_banner")?;
    let text = space.text(banner, BANNER)?;
    (text.starts_with("Linux") && twin.text(banner, BANNER)? == text).then_some(symbols)
}

/// Maximum length of `linux_banner`.
const BANNER: u64 = 1024;

/// Whether this is printable, and a plausible name.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_control() || c.is_whitespace())
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
