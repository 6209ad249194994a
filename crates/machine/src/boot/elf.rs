//! ELF programs: segments, entry and the symbols of the test conventions.

use object::Endianness;
use object::elf::{
    EM_RISCV, ET_DYN, ET_EXEC, FileHeader64, PT_LOAD, ProgramHeader64, SHF_ALLOC, SHT_NOTE,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use trapless_hart::Ram;

use super::memory::write;
use crate::error::Error;

/// Maximum number of program headers; real programs have a handful.
const MAX_SEGMENTS: usize = 128;

/// Whether `file` starts like an ELF file.
#[must_use]
pub fn is_elf(file: &[u8]) -> bool {
    file.starts_with(b"\x7fELF")
}

/// Addresses of symbols of the test conventions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Symbols {
    /// Spike's host-target interface: word the target writes.
    pub tohost: Option<u64>,
    /// Word the host writes.
    pub fromhost: Option<u64>,
    /// First byte of a riscv-arch-test signature.
    pub begin_signature: Option<u64>,
    /// First byte behind it.
    pub end_signature: Option<u64>,
}

/// A loadable RV64 little-endian ELF program.
#[derive(Debug)]
pub struct Elf<'a> {
    /// Entry point.
    pub entry: u64,
    /// Lowest physical address of a segment.
    pub start: u64,
    /// First address behind all segments.
    pub end: u64,
    /// Known symbols.
    pub symbols: Symbols,
    /// Its code is linked to virtual addresses above all physical ones: it can be loaded anywhere.
    pub virtual_code: bool,
    segments: Vec<Segment<'a>>,
}

/// First address behind the physical ones (56 bits).
const PHYSICAL_END: u64 = 1 << 56;

#[derive(Debug)]
struct Segment<'a> {
    addr: u64,
    bytes: &'a [u8],
    memory: u64,
    /// Bytes at its beginning that are headers of the file and notes, which the program does not
    /// need.
    headers: u64,
}

impl Segment<'_> {
    /// Without these bytes.
    fn without_headers(&self) -> Self {
        let bytes = self.bytes.get(self.headers as usize..).unwrap_or_default();
        Self {
            addr: self.addr + self.headers,
            bytes,
            memory: self.memory - self.headers,
            headers: 0,
        }
    }
}

impl<'a> Elf<'a> {
    /// Reads headers and symbols.
    ///
    /// # Errors
    /// If the file is malformed.
    pub fn parse(file: &'a [u8]) -> Result<Self, String> {
        let broken = |e: object::Error| format!("the ELF file is damaged or truncated ({e})");
        if !is_elf(file) {
            return Err("it is not an ELF file".into());
        }
        match file.get(4..6) {
            Some([2, 1]) => {}
            Some(_) => return Err("it is not a 64-bit little-endian ELF file".into()),
            None => return Err("the ELF file is damaged or truncated".into()),
        }
        let header = FileHeader64::<Endianness>::parse(file).map_err(broken)?;
        let endian = header.endian().map_err(broken)?;
        if header.e_machine(endian) != EM_RISCV {
            return Err("it is an ELF file for another processor than RISC-V".into());
        }
        if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
            return Err("it is an object file, not a linked program".into());
        }
        let headers = header.program_headers(endian, file).map_err(broken)?;
        if headers.len() > MAX_SEGMENTS {
            return Err(format!("it has more than {MAX_SEGMENTS} segments"));
        }
        let mut segments = Vec::new();
        let (mut start, mut end) = (u64::MAX, 0);
        let mut virtual_code = false;
        for segment in headers.iter().filter(|h| h.p_type(endian) == PT_LOAD) {
            let bytes = segment.data(endian, file).map_err(|()| {
                "the ELF file is truncated: a segment lies behind its end".to_string()
            })?;
            let addr = segment.p_paddr(endian);
            let memory = segment.p_memsz(endian);
            if memory < bytes.len() as u64 {
                return Err("the ELF file is damaged: a segment is larger than its memory".into());
            }
            if memory == 0 {
                continue;
            }
            let Some(behind) = addr.checked_add(memory) else {
                return Err("the ELF file is damaged: a segment wraps around".into());
            };
            virtual_code |= segment.p_vaddr(endian) >= PHYSICAL_END;
            start = start.min(addr);
            end = end.max(behind);
            segments.push(Segment {
                addr,
                bytes,
                memory,
                headers: headers_of(header, segment, endian, file),
            });
        }
        if segments.is_empty() {
            return Err("the ELF file has nothing to load".into());
        }
        let symbols = symbols(header, endian, file);
        Ok(Self {
            entry: header.e_entry(endian),
            start,
            end,
            symbols,
            virtual_code,
            segments,
        })
    }

    /// Moves the program to `base`, where its first byte is its entry: for a kernel that sets up
    /// its own translation and can be loaded anywhere in RAM.
    pub fn move_to(&mut self, base: u64) {
        let distance = base.wrapping_sub(self.start);
        for segment in &mut self.segments {
            segment.addr = segment.addr.wrapping_add(distance);
        }
        self.start = base;
        self.end = self.end.wrapping_add(distance);
        self.entry = base;
    }

    /// Copies the segments into RAM; memory behind a segment's bytes is cleared. Headers of the
    /// file that lie outside RAM, where linkers put them below a program that begins with RAM, are
    /// left out.
    ///
    /// # Errors
    /// If a segment lies outside RAM.
    pub fn load(&self, ram: &Ram, what: &str) -> Result<(), Error> {
        for segment in &self.segments {
            let inside = |segment: &Segment<'_>| ram.contains(segment.addr, segment.memory);
            let trimmed = segment.without_headers();
            let segment = if inside(segment) { segment } else { &trimmed };
            if segment.memory == 0 {
                continue;
            }
            if !inside(segment) {
                return Err(Error::Invalid(format!(
                    "{what} is linked to {:#x}..{:#x}, outside RAM at {:#x}..{:#x}; link it there \
                     (without a segment of headers: -Wl,-n) or use a larger --ram",
                    segment.addr,
                    segment.addr.saturating_add(segment.memory),
                    ram.base(),
                    ram.base() + ram.size()
                )));
            }
            write(ram, segment.addr, segment.bytes, what)?;
            // Fresh RAM is zero, but segments may overlap; clear page-wise to stay lazy elsewhere.
            let mut at = segment.addr + segment.bytes.len() as u64;
            let end = segment.addr + segment.memory;
            while at < end {
                let chunk = (4096 - at % 4096).min(end - at);
                if (0..chunk).any(|i| ram.load(at + i, 1) != Some(0)) {
                    write(ram, at, &vec![0; chunk as usize], what)?;
                }
                at += chunk;
            }
        }
        Ok(())
    }
}

/// Bytes at the beginning of a segment that hold nothing but the file's headers and notes: up to
/// the first section of another kind. 0 if it has neither, or there is no section table.
fn headers_of(
    header: &FileHeader64<Endianness>,
    segment: &ProgramHeader64<Endianness>,
    endian: Endianness,
    file: &[u8],
) -> u64 {
    let Ok(sections) = header.sections(endian, file) else {
        return 0;
    };
    let (start, memory) = (segment.p_vaddr(endian), segment.p_memsz(endian));
    let first = |notes: bool| {
        let kind = sections.iter().filter(|section| {
            section.sh_flags(endian).contains(SHF_ALLOC)
                && (section.sh_type(endian) == SHT_NOTE) == notes
        });
        let offsets = kind.filter_map(|section| section.sh_addr(endian).checked_sub(start));
        offsets.filter(|offset| *offset < memory).min()
    };
    let headers = segment.p_offset(endian) == 0 && !sections.is_empty();
    if headers || first(true).is_some() {
        first(false).unwrap_or(memory)
    } else {
        0
    }
}

/// Finds the symbols of [`Symbols`]; damaged tables are treated as absent, programs run without.
fn symbols(header: &FileHeader64<Endianness>, endian: Endianness, file: &[u8]) -> Symbols {
    let mut found = Symbols::default();
    let Ok(sections) = header.sections(endian, file) else {
        return found;
    };
    let Ok(table) = sections.symbols(endian, file, object::elf::SHT_SYMTAB) else {
        return found;
    };
    for symbol in table.iter() {
        let Ok(name) = symbol.name(endian, table.strings()) else {
            continue;
        };
        let value = Some(symbol.st_value(endian));
        match name {
            b"tohost" => found.tohost = value,
            b"fromhost" => found.fromhost = value,
            b"begin_signature" => found.begin_signature = value,
            b"end_signature" => found.end_signature = value,
            _ => {}
        }
    }
    found
}
