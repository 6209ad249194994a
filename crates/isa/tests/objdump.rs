//! Decoder and disassembler against GNU binutils.
//!
//! Needs `riscv64-linux-gnu-as` and `-objdump` (Debian: binutils-riscv64-linux-gnu); without them
//! the test says that it was skipped.

use std::fmt::Write as _;
use std::process::Command;
use trapless_isa::disasm::{Style, disasm_with};
use trapless_isa::{Ext, Format, Inst, Op, decode};

const AS: &str = "riscv64-linux-gnu-as";
const OBJDUMP: &str = "riscv64-linux-gnu-objdump";
const ARCH: &str = "rv64imafdch_zicsr_zifencei_zicbom_zicbop_zicboz_zawrs_zba_zbb_zbs_svinval";

/// xorshift64*: the same words in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }
}

/// Every parcel, and for every operation random words, words with one fixed bit flipped, and
/// random words of its major opcode.
fn words() -> Vec<u32> {
    let mut random = Random(0x7261_706c_6573_7321);
    let mut words: Vec<u32> = (0..=0xffff).filter(|parcel| parcel & 3 != 3).collect();
    for op in &Op::ALL[1..] {
        let (bits, mask) = op.encoding();
        for _ in 0..100 {
            words.push(bits | random.next() & !mask);
        }
        for bit in (7..32).filter(|bit| mask >> bit & 1 == 1) {
            words.extend((0..4).map(|_| (bits | random.next() & !mask) ^ 1 << bit));
        }
        words.extend((0..20).map(|_| bits & 0x7f | random.next() & !0x7f));
    }
    words
}

/// Objdump's text of each word: address and instruction.
fn objdump(words: &[u32]) -> Option<Vec<(u64, String)>> {
    let folder = std::env::temp_dir().join(format!("trapless-objdump-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, object) = (folder.join("words.s"), folder.join("words.o"));
    let mut text = format!(".attribute arch, \"{ARCH}\"\n.text\n");
    for word in words {
        writeln!(text, ".insn {word:#x}").unwrap();
    }
    std::fs::write(&source, text).unwrap();
    let assembled = Command::new(AS)
        .arg("-o")
        .arg(&object)
        .arg(&source)
        .output();
    let listed = Command::new(OBJDUMP)
        .args(["-d", "-z", "-M", "no-aliases,numeric"])
        .arg(&object)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let (assembled, listed) = (assembled.ok()?, listed.ok()?);
    assert!(
        assembled.status.success(),
        "{}",
        String::from_utf8_lossy(&assembled.stderr)
    );
    assert!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );

    let listing = String::from_utf8(listed.stdout).unwrap();
    let lines = listing.lines().filter_map(|line| {
        let mut columns = line.split('\t');
        let address = columns.next()?.trim().strip_suffix(':')?;
        let text = columns.skip(1).collect::<Vec<_>>().join(" ");
        Some((u64::from_str_radix(address, 16).ok()?, text))
    });
    Some(lines.collect())
}

/// Objdump's text in our words: compressed mnemonics expanded, symbolic operands dropped.
fn normalise(text: &str) -> String {
    let text = text.split(['<', '#']).next().unwrap().trim();
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
    let mut o: Vec<&str> = operands.split(',').map(str::trim).collect();
    // Newer versions say `.insn 4, 0x...` for what they do not know.
    if mnemonic == ".insn" {
        return format!(".{}byte {}", o[0], o[1]);
    }
    // Targets of branches and jumps inside the file have no 0x.
    let target;
    if matches!(
        mnemonic.trim_start_matches("c."),
        "j" | "jal" | "beqz" | "bnez"
    ) || matches!(mnemonic, "beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu")
    {
        let last = o.pop().unwrap();
        target = format!("0x{}", last.trim_start_matches("0x"));
        o.push(&target);
    }
    let operands = o.join(",");
    match mnemonic {
        "c.nop" if operands.is_empty() => "addi x0,x0,0".into(),
        "c.nop" => format!("addi x0,x0,{operands}"),
        "c.addi" | "c.addiw" | "c.addi16sp" | "c.andi" | "c.slli" | "c.srli" | "c.srai" => {
            let base = &mnemonic[2..].trim_end_matches("16sp");
            format!("{base} {},{}", o[0], o.join(","))
        }
        "c.sub" | "c.xor" | "c.or" | "c.and" | "c.subw" | "c.addw" | "c.add" => {
            format!("{} {},{operands}", &mnemonic[2..], o[0])
        }
        "c.slli64" | "c.srli64" | "c.srai64" => {
            format!(
                "{} {},{},0x0",
                mnemonic[2..].trim_end_matches("64"),
                o[0],
                o[0]
            )
        }
        "c.addi4spn" => format!("addi {operands}"),
        "c.li" => format!("addi {},x0,{}", o[0], o[1]),
        "c.mv" => format!("add {},x0,{}", o[0], o[1]),
        "c.j" => format!("jal x0,{operands}"),
        "c.jr" => format!("jalr x0,0({operands})"),
        "c.jalr" => format!("jalr x1,0({operands})"),
        "c.beqz" | "c.bnez" => format!("{} {},x0,{}", &mnemonic[2..5], o[0], o[1]),
        "c.unimp" => ".2byte 0x0".into(),
        "c.ebreak" | "c.lui" => text[2..].into(),
        _ if mnemonic.starts_with("c.") => {
            format!("{} {operands}", mnemonic[2..].trim_end_matches("sp"))
        }
        _ if operands.is_empty() => mnemonic.into(),
        _ => format!("{mnemonic} {operands}"),
    }
}

/// CSRs that only this project has; those of user mode had these names in the N extension.
const HAIOV: [&str; 8] = [
    "ustatus", "utvec", "uscratch", "uepc", "ucause", "utval", "utinst", "huedeleg",
];

/// Whether [`ARCH`] has an extension.
fn assembled(ext: Ext) -> bool {
    let mut names = ARCH.trim_start_matches("rv64").split('_');
    let letters = names.next().unwrap_or_default();
    letters.contains(ext.name()) || names.any(|name| name == ext.name())
}

/// Differences that are binutils' choice, or its age, and not a matter of the specification.
fn is_expected(inst: Inst, ours: &str, theirs: &str) -> bool {
    let unknown = theirs.starts_with(".4byte");
    match inst.op {
        // Obsolete instructions of privileged specification 1.9, the dropped N extension, and
        // reserved c.addi16sp with immediate 0.
        Op::Illegal => {
            theirs.starts_with("sfence.vm") || ["uret", "hret", "addi x2,x2,0"].contains(&theirs)
        }
        // Extensions that old binutils do not know (Zicond needs 2.41), and those of this project.
        op if !assembled(op.extension()) => unknown,
        // Reserved fields of the fences are to be ignored.
        Op::Fence => unknown && inst.raw & 0xf00f_8f80 != 0,
        Op::FenceI => unknown && inst.raw & 0xffff_8f80 != 0,
        Op::Pause => theirs == "fence w,unknown",
        // Exact conversions with a rounding mode other than rne.
        Op::FcvtDS | Op::FcvtDW | Op::FcvtDWu => unknown || theirs.starts_with(ours),
        // CSRs whose name only one side knows.
        op if matches!(op.format(), Format::Csr | Format::CsrImm) => {
            let (ours, theirs): (Vec<_>, Vec<_>) =
                (ours.split(',').collect(), theirs.split(',').collect());
            let number_is_ours = theirs[1]
                .strip_prefix("0x")
                .is_none_or(|hex| i32::from_str_radix(hex, 16) == Ok(inst.imm));
            (ours[0], ours[2]) == (theirs[0], theirs[2])
                && (ours[1].starts_with("csr_") || HAIOV.contains(&ours[1]))
                && number_is_ours
        }
        _ => false,
    }
}

#[test]
fn text_equals_that_of_objdump() {
    let words = words();
    let Some(listing) = objdump(&words) else {
        eprintln!("skipped: {AS} or {OBJDUMP} is not installed (binutils-riscv64-linux-gnu)");
        return;
    };
    assert_eq!(listing.len(), words.len());
    let mut wrong = Vec::new();
    for (word, (pc, text)) in words.iter().zip(&listing) {
        let inst = decode(*word);
        let ours = disasm_with(inst, *pc, Style::Numeric);
        let theirs = normalise(text);
        if ours != theirs && !is_expected(inst, &ours, &theirs) {
            wrong.push(format!("{word:08x}: {ours} instead of {theirs} ({text})"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        words.len(),
        wrong.join("\n")
    );
}
