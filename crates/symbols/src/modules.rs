//! The kernel's list of modules and their tables of symbols (include/linux/module.h).

use std::collections::BTreeSet;

use crate::btf::Btf;
use crate::space::Space;
use crate::{Section, Symbol, find, is_name};

/// Maximum size of type information: more than a kernel has.
const MOST_TYPES: u64 = 64 << 20;
/// Maximum number of modules; of their symbols, and of bytes of their names, all together.
const MOST_MODULES: usize = 1000;
const MOST_SYMBOLS: u64 = 1_000_000;
const MOST_TEXT: usize = 64 << 20;
/// `MODULE_NAME_LEN`, `KSYM_NAME_LEN`.
const MODULE_NAME: u64 = 64;
const SYMBOL_NAME: u64 = 512;
/// Kinds of memory that a module keeps after its initialization, `enum mod_mem_type`.
const MEMORY: [&str; 4] = ["text", "data", "rodata", "ro_after_init"];
/// Bytes of an ELF symbol.
const SYM: u64 = 24;

/// A module with its symbols.
pub struct Module {
    pub name: String,
    pub sections: Vec<Section>,
    pub symbols: Vec<Symbol>,
}

/// Offsets of fields, in bytes.
struct Layout {
    list: u64,
    name: u64,
    memory: u64,
    kallsyms: u64,
    /// Of `struct module_memory`, and its size.
    base: u64,
    size: u64,
    stride: u64,
    /// Of `struct mod_kallsyms`.
    symtab: u64,
    count: u64,
    strtab: u64,
    typetab: u64,
}

impl Layout {
    fn new(btf: &Btf<'_>) -> Option<Self> {
        let [list, name, memory, kallsyms] =
            btf.offsets("module", ["list", "name", "mem", "kallsyms"])?;
        let [base, size] = btf.offsets("module_memory", ["base", "size"])?;
        let [symtab, count, strtab, typetab] = btf.offsets(
            "mod_kallsyms",
            ["symtab", "num_symtab", "strtab", "typetab"],
        )?;
        Some(Self {
            list,
            name,
            memory,
            kallsyms,
            base,
            size,
            stride: btf.size_of("module_memory").filter(|size| *size != 0)?,
            symtab,
            count,
            strtab,
            typetab,
        })
    }
}

/// The type information that a kernel with these symbols has in its image.
pub fn types(space: &Space<'_>, symbols: &[Symbol]) -> Option<Vec<u8>> {
    let start = find(symbols, "__start_BTF")?;
    let len = find(symbols, "__stop_BTF")?.checked_sub(start)?;
    let mut types = vec![0; usize::try_from(len).ok().filter(|_| len <= MOST_TYPES)?];
    space.read(start, &mut types).then_some(types)
}

/// The modules that a kernel with these symbols and types has loaded; none if they cannot be found.
pub fn loaded(space: &Space<'_>, symbols: &[Symbol], types: &[u8]) -> Vec<Module> {
    modules(space, symbols, types).unwrap_or_default()
}

fn modules(space: &Space<'_>, symbols: &[Symbol], types: &[u8]) -> Option<Vec<Module>> {
    let head = find(symbols, "modules")?;
    let layout = Layout::new(&Btf::new(types)?)?;
    let mut modules = Vec::new();
    let mut budget = Budget {
        symbols: MOST_SYMBOLS,
        text: MOST_TEXT,
    };
    // A damaged list may have a cycle without its head, or be endless.
    let mut seen = BTreeSet::from([head]);
    let mut at = space.word(head)?;
    while seen.insert(at) && seen.len() <= MOST_MODULES + 1 {
        let module = at.wrapping_sub(layout.list);
        // Modules that are being loaded or removed have no symbols.
        modules.extend(read(space, &layout, module, &mut budget));
        let Some(next) = space.word(at) else { break };
        at = next;
    }
    Some(modules)
}

/// Remaining limits for reading.
struct Budget {
    symbols: u64,
    /// Bytes of names.
    text: usize,
}

fn read(space: &Space<'_>, layout: &Layout, module: u64, budget: &mut Budget) -> Option<Module> {
    let field = |offset: u64| module.wrapping_add(offset);
    let name = space.text(field(layout.name), MODULE_NAME)?;
    if !is_name(&name) {
        return None;
    }
    let mut sections = Vec::new();
    for (number, kind) in (0..).zip(MEMORY) {
        let at = field(layout.memory).wrapping_add(layout.stride.wrapping_mul(number));
        let start = space.word(at.wrapping_add(layout.base))?;
        let len = space.word(at.wrapping_add(layout.size))? & 0xffff_ffff;
        if len != 0 {
            sections.push(Section {
                name: format!("{name}.{kind}"),
                start,
                len,
                code: kind == "text",
            });
        }
    }
    let tables = space.word(field(layout.kallsyms))?;
    let table = |offset: u64| space.word(tables.wrapping_add(offset));
    let (symtab, strtab, typetab) = (
        table(layout.symtab)?,
        table(layout.strtab)?,
        table(layout.typetab)?,
    );
    let count = (table(layout.count)? & 0xffff_ffff).min(budget.symbols);
    budget.symbols -= count;
    let mut bytes = vec![0; (count * SYM) as usize];
    let mut kinds = vec![0; count as usize];
    if !space.read(symtab, &mut bytes) || !space.read(typetab, &mut kinds) {
        return None;
    }
    let symbol = |(entry, kind): (&[u8], &u8)| {
        let name = u32::from_le_bytes(entry[..4].try_into().ok()?);
        let section = u16::from_le_bytes(entry[6..8].try_into().ok()?);
        let address = u64::from_le_bytes(entry[8..16].try_into().ok()?);
        let inside = |s: &Section| (s.start..s.start.saturating_add(s.len)).contains(&address);
        if section == 0 || !sections.iter().any(inside) {
            return None;
        }
        let name = space.text(strtab.wrapping_add(name.into()), SYMBOL_NAME)?;
        budget.text = budget.text.checked_sub(name.len())?;
        Some(Symbol {
            address,
            kind: *kind,
            name,
        })
    };
    let symbols = bytes.chunks_exact(SYM as usize).zip(&kinds);
    let symbols = symbols.filter_map(symbol).collect();
    Some(Module {
        name,
        sections,
        symbols,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::tests::blob;
    use trapless_hart::Ram;
    use vm_memory::{Bytes, GuestAddress};

    const BASE: u64 = 0x8000_0000;

    /// Type information of a kernel whose `struct module_memory` has so many bytes.
    fn described(stride: u32) -> Vec<u8> {
        blob(&[
            (
                "module",
                400,
                &[("list", 8), ("name", 24), ("mem", 88), ("kallsyms", 320)],
            ),
            ("module_memory", stride, &[("base", 0), ("size", 8)]),
            (
                "mod_kallsyms",
                32,
                &[
                    ("symtab", 0),
                    ("num_symtab", 8),
                    ("strtab", 16),
                    ("typetab", 24),
                ],
            ),
        ])
    }

    /// A kernel without virtual memory that has loaded module `kvm` with one function, at +0x8010,
    /// and a variable without a place.
    fn ram() -> (Ram, Vec<Symbol>) {
        let types = described(24);
        let ram = Ram::new(BASE, 8 << 20).unwrap();
        let memory = ram.guest_memory();
        let put =
            |at: u64, bytes: &[u8]| memory.write_slice(bytes, GuestAddress(BASE + at)).unwrap();
        let word = |at: u64, value: u64| put(at, &value.to_le_bytes());
        put(0x1000, &types);
        let (head, module) = (0x6000, 0x7000);
        word(head, BASE + module + 8);
        word(module + 8, BASE + head);
        put(module + 24, b"kvm\0");
        word(module + 88, BASE + 0x8000);
        word(module + 96, 0x1000);
        word(module + 320, BASE + 0x9000);
        word(0x9000, BASE + 0xa000);
        word(0x9008, 2);
        word(0x9010, BASE + 0xb000);
        word(0x9018, BASE + 0xc000);
        // st_name, st_info, st_shndx; st_value
        word(0xa000, 1 | 1 << 48);
        word(0xa008, BASE + 0x8010);
        word(0xa018, 5);
        put(0xb000, b"\0run\0gone\0");
        put(0xc000, b"tU");
        let symbol = |name: &str, at: u64| Symbol {
            address: BASE + at,
            kind: b'd',
            name: name.into(),
        };
        let symbols = vec![
            symbol("__start_BTF", 0x1000),
            symbol("__stop_BTF", 0x1000 + types.len() as u64),
            symbol("modules", head),
        ];
        (ram, symbols)
    }

    #[test]
    fn symbols_of_modules_are_where_they_were_loaded() {
        let (ram, symbols) = ram();
        let space = Space::host(&ram, 0);
        let types = types(&space, &symbols).unwrap();
        let modules = loaded(&space, &symbols, &types);
        assert_eq!(modules.len(), 1);
        let Module {
            name,
            sections,
            symbols,
        } = &modules[0];
        assert_eq!(
            (name.as_str(), sections[0].name.as_str()),
            ("kvm", "kvm.text")
        );
        assert_eq!(symbols.len(), 1);
        assert_eq!(symbols[0].name, "run");
        assert_eq!(symbols[0].address, BASE + 0x8010);
    }

    /// Modules that are found in `ram` when `words` are written at these offsets.
    fn after(words: &[(u64, u64)]) -> usize {
        let (ram, symbols) = ram();
        let memory = ram.guest_memory();
        for (at, word) in words {
            let place = GuestAddress(BASE + at);
            memory.write_slice(&word.to_le_bytes(), place).unwrap();
        }
        let space = Space::host(&ram, 0);
        let types = types(&space, &symbols).unwrap();
        loaded(&space, &symbols, &types).len()
    }

    /// Promise: looking for symbols in hostile memory ends.
    #[test]
    fn a_list_that_continues_for_ever_ends() {
        let itself = (0x7008, BASE + 0x7008);
        assert_eq!(after(&[itself]), 1);
        // Neither its name nor its symbols can be read.
        let nameless = [
            0x7018, 0x7020, 0x7028, 0x7030, 0x7038, 0x7040, 0x7048, 0x7050,
        ];
        let nameless: Vec<_> = nameless.map(|at| (at, u64::MAX)).into();
        assert_eq!(after(&[&[itself][..], &nameless].concat()), 0);
        assert_eq!(after(&[itself, (0x7000 + 320, 8)]), 0);
    }

    #[test]
    fn names_that_could_be_commands_of_a_terminal_are_none() {
        assert_eq!(
            after(&[(0x7018, u64::from_le_bytes(*b"k\x1b[2J\0\0\0"))]),
            0
        );
    }

    #[test]
    fn types_without_a_size_are_refused() {
        let types = described(0);
        let (ram, symbols) = ram();
        assert!(loaded(&Space::host(&ram, 0), &symbols, &types).is_empty());
    }
}
