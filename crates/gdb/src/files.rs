//! Files that gdb fetches with `remote get`: symbols of the kernels that run in the machine, and
//! the script that fetches them. They are made when gdb opens them; the computer's own files cannot
//! be accessed.

use gdbstub::target::ext::host_io::HostIoErrno;
use trapless_isa::csr;
use trapless_machine::Machine;
use trapless_symbols::{Error, Symbols};

/// Defines the commands `trapless ...` in gdb.
const SCRIPT: &str = include_str!("../gdb/trapless.py");
/// Maximum number of open files.
const MOST: usize = 16;

/// Open files.
#[derive(Default)]
pub struct Files {
    /// By number.
    open: Vec<Option<Vec<u8>>>,
    /// Result of the last file of symbols.
    result: Option<String>,
}

impl Files {
    /// Opens the file `filename` of `machine`, and returns its number.
    ///
    /// # Errors
    /// ENOENT if there is no such file or it cannot be made, which
    /// [`last_result`](Self::last_result) explains; EMFILE if too many are open.
    pub fn open(&mut self, machine: &Machine, filename: &[u8]) -> Result<u32, HostIoErrno> {
        let name = Name::parse(filename);
        let content = name.and_then(|name| self.content(machine, name));
        let content = content.ok_or(HostIoErrno::ENOENT)?;
        let free = self.open.iter().position(Option::is_none);
        let fd = free.unwrap_or(self.open.len());
        if fd == MOST {
            return Err(HostIoErrno::EMFILE);
        }
        if fd == self.open.len() {
            self.open.push(None);
        }
        self.open[fd] = Some(content);
        Ok(fd as u32)
    }

    /// Content of an open file.
    ///
    /// # Errors
    /// EBADF if it is not open.
    pub fn get(&self, fd: u32) -> Result<&[u8], HostIoErrno> {
        let file = self.open.get(fd as usize).and_then(Option::as_deref);
        file.ok_or(HostIoErrno::EBADF)
    }

    /// Closes a file.
    ///
    /// # Errors
    /// EBADF if it is not open.
    pub fn close(&mut self, fd: u32) -> Result<(), HostIoErrno> {
        let file = self.open.get_mut(fd as usize).and_then(Option::take);
        file.map(drop).ok_or(HostIoErrno::EBADF)
    }

    /// One line about the last file of symbols.
    pub fn last_result(&self) -> String {
        let none = "gdb has fetched no symbols: remote get host FILE, or guest:HART";
        format!("{}\n", self.result.as_deref().unwrap_or(none))
    }

    fn content(&mut self, machine: &Machine, name: Name) -> Option<Vec<u8>> {
        let symbols = match name {
            Name::Script => return Some(SCRIPT.into()),
            Name::Host => symbols(machine, None),
            Name::Guest(hart) => symbols(machine, Some(hart)),
        };
        let file = symbols.and_then(|symbols| Ok((symbols.to_elf()?, describe(&symbols))));
        let (content, result) = match file {
            Ok((content, result)) => (Some(content), result),
            Err(error) => (None, error.to_string()),
        };
        self.result = Some(result);
        content
    }
}

/// Names of files that gdb can open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    /// The script.
    Script,
    /// Symbols of the kernel in HS-mode.
    Host,
    /// Symbols of the guest that this hart runs or has run last.
    Guest(usize),
}

impl Name {
    fn parse(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        match name.strip_prefix("guest:") {
            Some(hart) => Some(Self::Guest(hart.parse().ok()?)),
            None if name == "host" => Some(Self::Host),
            None if name == "trapless.py" => Some(Self::Script),
            None => None,
        }
    }
}

/// One line about symbols.
fn describe(symbols: &Symbols) -> String {
    let (count, modules) = (symbols.symbols.len(), symbols.modules.join(", "));
    match symbols.modules.len() {
        0 => format!(
            "{count} symbols of the kernel, none of modules (none is loaded, or the kernel has no \
             type information, CONFIG_DEBUG_INFO_BTF)"
        ),
        number => format!("{count} symbols of the kernel and {number} modules: {modules}"),
    }
}

/// Symbols of the kernel in HS-mode, or of the guest that the hart `guest` runs or has run last.
fn symbols(machine: &Machine, guest: Option<usize>) -> Result<Symbols, Error> {
    let (ram, harts) = (machine.ram(), machine.harts());
    let value = |hart: usize, csr| harts.get(hart).and_then(|h| h.peek_csr_as_m(csr));
    // A hart that firmware has not started has no virtual memory.
    let mut satps = (0..harts.len()).filter_map(|hart| value(hart, csr::SATP));
    let satp = satps.find(|satp| *satp != 0).unwrap_or(0);
    match guest {
        Some(hart) => {
            let [vsatp, hgatp] = [csr::VSATP, csr::HGATP].map(|csr| value(hart, csr).unwrap_or(0));
            Symbols::of_guest(ram, satp, vsatp, hgatp)
        }
        None => Symbols::of_host(ram, satp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_computer_have_no_names() {
        assert_eq!(Name::parse(b"host"), Some(Name::Host));
        assert_eq!(Name::parse(b"guest:1"), Some(Name::Guest(1)));
        for other in [
            &b"/etc/passwd"[..],
            b"guest:",
            b"guest:-1",
            b"../host",
            b"\xff",
        ] {
            assert_eq!(Name::parse(other), None);
        }
    }
}
