//! Files that gdb fetches with `remote get`: symbols of the kernels that run in the machine, and
//! the script that fetches them. They are made when gdb opens them; the computer's own files cannot
//! be accessed. `target` keeps the open files, so the two modules depend on each other.

use gdbstub::target::ext::host_io::{
    HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps,
    HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps,
    HostIoResult, HostIoStat,
};
use trapless_isa::csr;
use trapless_symbols::{Error, Symbols};

use crate::target::Debugger;

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
    /// One line about the last file of symbols.
    pub fn last_result(&self) -> String {
        let none = "gdb has fetched no symbols: remote get host FILE, or guest:HART";
        format!("{}\n", self.result.as_deref().unwrap_or(none))
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

impl Debugger<'_> {
    fn symbols(&self, name: Name) -> Result<Symbols, Error> {
        let ram = self.machine.ram();
        let harts = self.machine.harts();
        let value = |hart: usize, csr| harts.get(hart).and_then(|h| h.peek_csr_as_m(csr));
        // A hart that firmware has not started has no virtual memory.
        let mut satps = (0..harts.len()).filter_map(|hart| value(hart, csr::SATP));
        let satp = satps.find(|satp| *satp != 0).unwrap_or(0);
        match name {
            Name::Guest(hart) => {
                let [vsatp, hgatp] =
                    [csr::VSATP, csr::HGATP].map(|csr| value(hart, csr).unwrap_or(0));
                Symbols::of_guest(ram, satp, vsatp, hgatp)
            }
            _ => Symbols::of_host(ram, satp),
        }
    }

    fn content(&mut self, name: Name) -> Option<Vec<u8>> {
        if name == Name::Script {
            return Some(SCRIPT.into());
        }
        let symbols = self.symbols(name);
        let file = symbols.and_then(|symbols| Ok((symbols.to_elf()?, describe(&symbols))));
        let (content, result) = match file {
            Ok((content, result)) => (Some(content), result),
            Err(error) => (None, error.to_string()),
        };
        self.files.result = Some(result);
        content
    }

    fn opened(&mut self, fd: u32) -> Option<&mut Option<Vec<u8>>> {
        self.files.open.get_mut(fd as usize).filter(|f| f.is_some())
    }
}

fn failed<T>(errno: HostIoErrno) -> Result<T, HostIoError<std::convert::Infallible>> {
    Err(HostIoError::Errno(errno))
}

impl HostIo for Debugger<'_> {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Debugger<'_> {
    fn open(
        &mut self,
        filename: &[u8],
        flags: HostIoOpenFlags,
        _: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        if flags.intersects(HostIoOpenFlags::O_WRONLY | HostIoOpenFlags::O_RDWR) {
            return failed(HostIoErrno::EROFS);
        }
        let content = Name::parse(filename).and_then(|name| self.content(name));
        let Some(content) = content else {
            return failed(HostIoErrno::ENOENT);
        };
        let files = &mut self.files.open;
        let free = files.iter().position(Option::is_none);
        let fd = free.unwrap_or(files.len());
        if fd == MOST {
            return failed(HostIoErrno::EMFILE);
        }
        if fd == files.len() {
            files.push(None);
        }
        files[fd] = Some(content);
        Ok(fd as u32)
    }
}

impl HostIoClose for Debugger<'_> {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        match self.opened(fd) {
            Some(file) => {
                *file = None;
                Ok(())
            }
            None => failed(HostIoErrno::EBADF),
        }
    }
}

impl HostIoPread for Debugger<'_> {
    fn pread(
        &mut self,
        fd: u32,
        count: usize,
        offset: u64,
        buf: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        let Some(Some(content)) = self.opened(fd) else {
            return failed(HostIoErrno::EBADF);
        };
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(content.len());
        let rest = &content[start..];
        let len = rest.len().min(count).min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

impl HostIoFstat for Debugger<'_> {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let Some(Some(content)) = self.opened(fd) else {
            return failed(HostIoErrno::EBADF);
        };
        let size = content.len() as u64;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: 0,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
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
