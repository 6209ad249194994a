//! Memory of a kernel whose symbols a debugger wants: tables that are right but for some bytes,
//! behind them type information and a list of modules as the input has them.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use trapless_hart::Ram;
use trapless_symbols::Symbols;
use vm_memory::{Bytes, GuestAddress};

const BASE: u64 = 0x8000_0000;
const RAM: u64 = 1 << 20;
/// The kernel's virtual address of `BASE`.
const KERNEL: u64 = 0xffff_ffff_8000_0000;
/// Where things are, in bytes from the start of RAM: the input, page tables of the kernel and of a
/// guest, the kernel's tables of symbols.
const INPUT: u64 = 0x4000;
const ROOT: u64 = 0x1_0000;
const GUEST_ROOT: u64 = 0x1_4000;
const TABLES: u64 = 0x2_0000;
/// Symbols with their places in RAM, in ascending order.
const NAMES: [(&str, u64); 5] = [
    ("d_text", 0),
    ("T_etext", 0x1000),
    ("Rlinux_banner", 0x2000),
    ("D__start_BTF", INPUT),
    ("d__stop_BTF", INPUT + 0x1000),
];

/// Tables of a kernel with these symbols and `modules` (scripts/kallsyms.c of Linux): each letter
/// is its own token.
fn tables() -> Vec<u8> {
    let mut image = Vec::new();
    let align = |image: &mut Vec<u8>| image.resize(image.len().next_multiple_of(8), 0);
    let names = NAMES.iter().chain([&("dmodules", INPUT + 0x2000)]);
    image.extend((names.clone().count() as u64).to_le_bytes());
    for (name, _) in names.clone() {
        image.push(name.len() as u8);
        image.extend(name.bytes());
    }
    align(&mut image);
    // One marker: 0.
    image.extend([0; 8]);
    let (start, mut index) = (image.len(), Vec::new());
    for number in 0..=u8::MAX {
        index.extend(((image.len() - start) as u16).to_le_bytes());
        match number {
            b'!'..=b'~' => image.push(number),
            _ => image.extend(b"token"),
        }
        image.push(0);
    }
    align(&mut image);
    image.extend(index);
    align(&mut image);
    for (_, place) in names {
        image.extend((*place as u32).to_le_bytes());
    }
    align(&mut image);
    image.extend(KERNEL.to_le_bytes());
    image
}

fuzz_target!(|data: &[u8]| {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    let mut image = WHOLE.get_or_init(tables).clone();
    let Some((&[satp, edits], mut rest)) = data.split_first_chunk() else {
        return;
    };
    for _ in 0..edits % 8 {
        let Some((&[low, high, value], more)) = rest.split_first_chunk() else {
            break;
        };
        let at = usize::from(u16::from_le_bytes([low, high])) % image.len();
        image[at] ^= value;
        rest = more;
    }
    let ram = Ram::new(BASE, RAM).unwrap();
    let put = |at: u64, bytes: &[u8]| {
        let memory = ram.guest_memory();
        memory.write_slice(bytes, GuestAddress(BASE + at)).unwrap();
    };
    put(TABLES, &image);
    put(INPUT, &rest[..rest.len().min(0x4000)]);
    // Pages of 1 GiB: V, R, W, X, A and D; U for the second stage.
    let leaf = BASE >> 12 << 10 | 0xCF;
    put(ROOT + 8 * 510, &leaf.to_le_bytes());
    put(GUEST_ROOT + 8 * 2, &(leaf | 0x10).to_le_bytes());
    // Sv39, with these page tables or with the input.
    let sv39 = |own: u64, bit: u8| {
        let root = if satp & bit == 0 { own } else { INPUT };
        8 << 60 | (BASE + root) >> 12
    };
    let (atp, hgatp) = (sv39(ROOT, 1), sv39(GUEST_ROOT, 2));
    for symbols in [
        Symbols::of_host(&ram, atp),
        Symbols::of_guest(&ram, 0, atp, hgatp),
    ] {
        match symbols.and_then(|symbols| symbols.to_elf()) {
            Ok(file) => assert!(file.starts_with(b"\x7fELF")),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
