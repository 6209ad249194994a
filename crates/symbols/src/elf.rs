//! Symbols as an ELF file: sections without content at their addresses in memory.

use object::write::elf::{FileHeader, SectionHeader, SectionIndex, Sym, Writer};
use object::write::{Error, StringId};
use object::{Endianness, elf};

use crate::{Section, Symbol, Symbols, is_name};

/// A symbol of the file.
struct Entry<'a> {
    symbol: &'a Symbol,
    section: usize,
    name: StringId,
    size: u64,
}

impl Entry<'_> {
    fn global(&self) -> bool {
        self.symbol.kind.is_ascii_uppercase()
    }

    fn info(&self) -> elf::SymbolInfo {
        let kind = match self.symbol.kind.to_ascii_lowercase() {
            b't' | b'w' => elf::STT_FUNC,
            _ => elf::STT_OBJECT,
        };
        let bind = if self.global() {
            elf::STB_GLOBAL
        } else {
            elf::STB_LOCAL
        };
        elf::SymbolInfo::new(bind, kind)
    }
}

/// Whether the symbol is a name in the source: local labels (`.L...`) and mapping symbols of the
/// psABI (`$x`) are addresses in functions.
fn named(symbol: &Symbol) -> bool {
    is_name(&symbol.name) && !symbol.name.starts_with(['$', '.'])
}

/// The section that an address is in.
fn section_of(sections: &[Section], address: u64) -> Option<usize> {
    let next = sections.partition_point(|section| section.start <= address);
    let found = next.checked_sub(1)?;
    let section = &sections[found];
    (address - section.start < section.len).then_some(found)
}

/// Symbols with their sections and sizes, local ones first as ELF requires.
fn entries<'a>(symbols: &'a Symbols, writer: &mut Writer<'a>) -> Vec<Entry<'a>> {
    let sections = &symbols.sections;
    let mut entries = Vec::new();
    // From the last to the first: the size of a symbol follows from the next one.
    let mut next = (u64::MAX, u64::MAX);
    for symbol in symbols.symbols.iter().rev().filter(|symbol| named(symbol)) {
        let Some(section) = section_of(sections, symbol.address) else {
            continue;
        };
        if symbol.address != next.0 {
            next = (symbol.address, next.0);
        }
        let end = sections[section]
            .start
            .saturating_add(sections[section].len);
        entries.push(Entry {
            symbol,
            section,
            name: writer.add_string(symbol.name.as_bytes()),
            size: end.min(next.1) - symbol.address,
        });
    }
    entries.reverse();
    // Of symbols with the same address, readers choose the one with a size.
    let mut last = None;
    for entry in &mut entries {
        if last.replace(entry.symbol.address) == Some(entry.symbol.address) {
            entry.size = 0;
        }
    }
    entries.sort_by_key(Entry::global);
    entries
}

/// Writes the file.
pub fn write(symbols: &Symbols) -> Result<Vec<u8>, Error> {
    let mut file = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut file);
    writer.reserve_null_section_index();
    let names: Vec<StringId> = symbols
        .sections
        .iter()
        .map(|section| writer.add_section_name(section.name.as_bytes()))
        .collect();
    let indices: Vec<SectionIndex> = names
        .iter()
        .map(|_| writer.reserve_section_index())
        .collect();
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve_null_symbol_index();
    let entries = entries(symbols, &mut writer);
    let local = 1 + entries.iter().filter(|entry| !entry.global()).count();
    for entry in &entries {
        writer.reserve_symbol_index(Some(indices[entry.section]));
    }
    writer.reserve_file_header();
    writer.reserve_symtab();
    writer.reserve_strtab()?;
    writer.reserve_shstrtab()?;
    writer.reserve_section_headers();

    writer.write_file_header(&FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_EXEC,
        e_machine: elf::EM_RISCV,
        e_entry: 0,
        e_flags: elf::EF_RISCV_RVC | elf::EF_RISCV_FLOAT_ABI_DOUBLE,
    })?;
    writer.write_null_symbol();
    for entry in &entries {
        let symbol = Sym {
            st_name: writer.string_offset(Some(entry.name)),
            section: Some(indices[entry.section].0),
            st_info: entry.info(),
            st_other: elf::STV_DEFAULT.into(),
            st_shndx: elf::SHN_UNDEF,
            st_value: entry.symbol.address,
            st_size: entry.size,
        };
        writer.write_symbol(&symbol);
    }
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    for (section, name) in symbols.sections.iter().zip(&names) {
        let access = if section.code {
            elf::SHF_EXECINSTR
        } else {
            elf::SHF_WRITE
        };
        let header = SectionHeader {
            sh_name: writer.section_name_offset(Some(*name)),
            sh_type: elf::SHT_NOBITS,
            sh_flags: elf::SHF_ALLOC | access,
            sh_addr: section.start,
            sh_offset: 0,
            sh_size: section.len,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 1,
            sh_entsize: 0,
        };
        writer.write_section_header(&header);
    }
    writer.write_symtab_section_header(local as u32);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

    #[test]
    fn another_reader_sees_names_addresses_and_sizes() {
        let symbol = |address, kind, name: &str| Symbol {
            address,
            kind,
            name: name.into(),
        };
        let section = |name: &str, start, code| Section {
            name: name.into(),
            start,
            len: 0x100,
            code,
        };
        let base = 0xffff_ffff_0000_0000;
        let symbols = Symbols {
            sections: vec![
                section("vmlinux.text", base, true),
                section("kvm.data", base + 0x1000, false),
            ],
            symbols: vec![
                symbol(base, b'T', "start"),
                symbol(base + 0x10, b't', ".Llabel"),
                symbol(base + 0x20, b't', "inner"),
                symbol(base + 0x200, b't', "nowhere"),
                symbol(base + 0x1008, b'd', "counter"),
            ],
            modules: vec!["kvm".into()],
        };
        let bytes = write(&symbols).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let seen: Vec<_> = file
            .symbols()
            .map(|s| (s.name().unwrap(), s.address(), s.size(), s.kind()))
            .collect();
        let expected = [
            ("inner", base + 0x20, 0xe0, SymbolKind::Text),
            ("counter", base + 0x1008, 0xf8, SymbolKind::Data),
            ("start", base, 0x20, SymbolKind::Text),
        ];
        assert_eq!(seen, expected);
        let code = file.section_by_name("vmlinux.text").unwrap();
        assert_eq!((code.address(), code.size()), (base, 0x100));
    }
}
