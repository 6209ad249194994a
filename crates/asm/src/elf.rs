//! A minimal ELF64 writer: loadable segments and a symbol table.

/// One `PT_LOAD` segment; `memsz` beyond the data is zero.
pub struct Segment<'a> {
    /// Physical and virtual address.
    pub addr: u64,
    /// Contents.
    pub data: &'a [u8],
    /// Size in memory, at least the size of the data.
    pub memsz: u64,
}

const EHDR: usize = 64;
const PHDR: usize = 56;
const SHDR: usize = 64;
const SYM: usize = 24;

struct Out(Vec<u8>);

impl Out {
    fn half(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn word(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn xword(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn align(&mut self, n: usize) {
        while self.0.len() % n != 0 {
            self.0.push(0);
        }
    }
}

/// Writes an executable for RISC-V (`EM_RISCV`, RV64 with compressed code, double-float ABI).
pub fn write(entry: u64, segments: &[Segment<'_>], symbols: &[(&str, u64)]) -> Vec<u8> {
    let headers = EHDR + PHDR * segments.len();
    let mut offsets = Vec::new();
    let mut at = headers.next_multiple_of(16);
    for s in segments {
        offsets.push(at);
        at = (at + s.data.len()).next_multiple_of(16);
    }
    let symtab = at;
    let symtab_size = SYM * (symbols.len() + 1);
    let mut names = vec![0u8];
    let name_at: Vec<u32> = symbols
        .iter()
        .map(|(n, _)| {
            let at = names.len() as u32;
            names.extend_from_slice(n.as_bytes());
            names.push(0);
            at
        })
        .collect();
    // Loaders find the tables by section name.
    let symtab_name = names.len() as u32;
    names.extend_from_slice(b".symtab\0");
    let strtab_name = names.len() as u32;
    names.extend_from_slice(b".strtab\0");
    let strtab = symtab + symtab_size;
    let sections = (strtab + names.len()).next_multiple_of(16);

    let mut o = Out(Vec::with_capacity(sections + 3 * SHDR));
    o.0.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    o.half(2); // ET_EXEC
    o.half(243); // EM_RISCV
    o.word(1);
    o.xword(entry);
    o.xword(EHDR as u64);
    o.xword(sections as u64);
    o.word(5); // RVC, double-float ABI
    o.half(EHDR as u16);
    o.half(PHDR as u16);
    o.half(segments.len() as u16);
    o.half(SHDR as u16);
    o.half(3);
    o.half(2); // section names are in the string table
    for (s, off) in segments.iter().zip(&offsets) {
        o.word(1); // PT_LOAD
        o.word(7);
        o.xword(*off as u64);
        o.xword(s.addr);
        o.xword(s.addr);
        o.xword(s.data.len() as u64);
        o.xword(s.memsz.max(s.data.len() as u64));
        o.xword(16);
    }
    for (s, off) in segments.iter().zip(&offsets) {
        o.0.resize(*off, 0);
        o.0.extend_from_slice(s.data);
    }
    o.0.resize(symtab, 0);
    o.0.resize(symtab + SYM, 0);
    for ((_, value), name) in symbols.iter().zip(&name_at) {
        o.word(*name);
        o.half(0x10); // STB_GLOBAL, STT_NOTYPE
        o.half(0xfff1); // SHN_ABS
        o.xword(*value);
        o.xword(8); // QEMU insists on the size of tohost and fromhost
    }
    o.0.extend_from_slice(&names);
    o.align(16);
    let mut shdr = |name: u32, kind: u32, off: usize, size: usize, link: u32, entsize: usize| {
        o.word(name);
        o.word(kind);
        o.xword(0);
        o.xword(0);
        o.xword(off as u64);
        o.xword(size as u64);
        o.word(link);
        o.word(u32::from(kind == 2)); // first global symbol
        o.xword(if kind == 0 { 0 } else { 8 });
        o.xword(entsize as u64);
    };
    shdr(0, 0, 0, 0, 0, 0);
    shdr(symtab_name, 2, symtab, symtab_size, 2, SYM); // SHT_SYMTAB
    shdr(strtab_name, 3, strtab, names.len(), 0, 0); // SHT_STRTAB
    o.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSegment, ObjectSymbol};

    #[test]
    fn another_reader_sees_segments_and_symbols() {
        let segments = [Segment {
            addr: 0x8000_0000,
            data: b"abcd",
            memsz: 0x1000,
        }];
        let bytes = write(0x8000_0000, &segments, &[("tohost", 0x8000_1000)]);
        let file = object::File::parse(&*bytes).unwrap();
        assert_eq!(file.entry(), 0x8000_0000);
        let segment = file.segments().next().unwrap();
        assert_eq!((segment.address(), segment.size()), (0x8000_0000, 0x1000));
        assert_eq!(segment.data().unwrap(), b"abcd");
        let symbol = file.symbols().find(|s| s.name() == Ok("tohost")).unwrap();
        assert_eq!(symbol.address(), 0x8000_1000);
    }
}
