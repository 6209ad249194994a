//! Tables of the specification, in AsciiDoc. Each is a tagged region, so that a chapter includes
//! the one it describes.

use std::fmt::Write as _;

use crate::data::{Data, Field, Word};
use crate::rules::{ACCESSES, MODES};

fn header(data: &Data) -> String {
    let source = &data.source;
    format!("// Written by `cargo run -p trapless-spec` from {source}; do not edit.\n")
}

/// Attributes of the document's header.
pub fn attributes(data: &Data) -> String {
    let e = &data.extension;
    format!(
        "{}:doctitle: {}: {}\n:revnumber: {}\n:isa-name: {}\n",
        header(data),
        e.display(),
        e.title,
        e.version,
        e.isa.join(", ")
    )
}

fn tagged(out: &mut String, tag: &str, text: &str) {
    let _ = write!(out, "\n// tag::{tag}[]\n{text}// end::{tag}[]\n");
}

/// Text of a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// `63:48` or `7`.
fn bits(high: u32, low: u32) -> String {
    if high == low {
        high.to_string()
    } else {
        format!("{high}:{low}")
    }
}

/// A register from bit 63 to bit 0: bit numbers above names above widths.
fn layout(fields: &[Field]) -> String {
    let mut parts: Vec<(u32, u32, &str)> = Vec::new();
    let mut next = 64;
    for f in fields {
        if f.high + 1 < next {
            parts.push((next - 1, f.high + 1, "_0_"));
        }
        parts.push((f.high, f.low, &f.name));
        next = f.low;
    }
    if next > 0 {
        parts.push((next - 1, 0, "_0_"));
    }
    // Wide fields get wider cells, but narrow ones must still hold their names.
    let widths: Vec<String> = parts
        .iter()
        .map(|(high, low, name)| {
            let chars = name.len().max(bits(*high, *low).len()) as u32;
            format!("^{}", (high - low + 1).min(24).max(2 * chars))
        })
        .collect();
    let row = |item: &dyn Fn(&(u32, u32, &str)) -> String| {
        let cells: Vec<String> = parts.iter().map(|p| format!("|{}", item(p))).collect();
        cells.join(" ")
    };
    format!(
        "[.layout,cols=\"{}\"]\n|===\n{}\n{}\n{}\n|===\n",
        widths.join(","),
        row(&|p| bits(p.0, p.1)),
        row(&|p| p.2.to_string()),
        row(&|p| (p.0 - p.1 + 1).to_string()),
    )
}

fn field_rows(fields: &[Field]) -> String {
    let mut out =
        String::from("[cols=\"1,2,9\",options=\"header\"]\n|===\n|Bits |Field |Meaning\n");
    for f in fields {
        let _ = writeln!(
            out,
            "|{} |`{}` |{}",
            bits(f.high, f.low),
            f.name,
            cell(&f.meaning)
        );
    }
    out.push_str("|===\n");
    out
}

/// Overview of all CSRs (tag `overview`), and for each its layout and fields (tag: its name).
pub fn csrs(data: &Data) -> String {
    let mut out = header(data);
    let mut table = String::from(
        "[cols=\"2,3,2,9\",options=\"header\"]\n|===\n|Number |Name |Reset |Description\n",
    );
    for c in &data.csr {
        let _ = writeln!(
            table,
            "|`{:#05X}` |<<csr-{},`{}`>> |{:#x} |{}",
            c.address,
            c.name,
            c.name,
            c.reset,
            cell(&c.summary)
        );
    }
    table = table.replace("`0X", "`0x");
    table.push_str("|===\n");
    tagged(&mut out, "overview", &table);
    for c in &data.csr {
        let text = format!("{}\n{}", layout(&c.fields), field_rows(&c.fields));
        tagged(&mut out, &c.name, &text);
    }
    out
}

/// What an access to each CSR does from each mode.
pub fn access(data: &Data) -> String {
    let mut out = header(data);
    let heads: Vec<String> = MODES
        .iter()
        .map(|m| format!("|{}", m.to_uppercase()))
        .collect();
    let _ = write!(
        out,
        "\n[cols=\"3,4,4,4,4,4\",options=\"header\"]\n|===\n|CSR {}\n",
        heads.join(" ")
    );
    for c in &data.csr {
        let _ = write!(out, "|`{}`", c.name);
        for mode in MODES {
            let access = c.modes.get(mode).map_or("", String::as_str);
            let words = ACCESSES.iter().find(|(name, _)| *name == access);
            let _ = write!(out, " |{}", words.map_or("", |(_, words)| words));
        }
        out.push('\n');
    }
    out.push_str("|===\n");
    out
}

/// Operations, states, kinds and numbers.
pub fn encodings(data: &Data) -> String {
    let mut out = header(data);
    for (tag, e) in &data.enums {
        let mut table = format!(
            ".{}\n[cols=\"1,2,9\",options=\"header\"]\n|===\n|Value |Name |Meaning\n",
            e.summary
        );
        for v in &e.values {
            let _ = writeln!(table, "|{} |`{}` |{}", v.value, v.name, cell(&v.meaning));
        }
        table.push_str("|===\n");
        tagged(&mut out, tag, &table);
    }
    let mut table =
        String::from("[cols=\"2,1,9\",options=\"header\"]\n|===\n|Name |Value |Meaning\n");
    for c in &data.constant {
        let _ = writeln!(table, "|`{}` |{} |{}", c.name, c.value, cell(&c.meaning));
    }
    table.push_str("|===\n");
    tagged(&mut out, "constants", &table);
    out
}

/// Bytes at which a word, or an array of words, lies.
fn place(w: &Word) -> String {
    match (w.stride, w.count) {
        (Some(stride), Some(count)) => {
            format!("{} + {stride} _i_, _i_ = 0..{}", w.offset, count - 1)
        }
        _ => w.offset.to_string(),
    }
}

/// Structures in memory.
pub fn structures(data: &Data) -> String {
    let mut out = header(data);
    for s in &data.structure {
        let mut text = format!(
            ".{} ({} bytes, aligned to {})\n[cols=\"3,3,2,8\",options=\"header\"]\n|===\n\
             |Byte offset |Word |Written by |Meaning\n",
            s.summary.split(". ").next().unwrap_or_default(),
            s.size,
            s.align
        );
        for w in &s.words {
            let meaning = w.meaning.as_deref().unwrap_or("Fields below");
            let _ = writeln!(
                text,
                "|{} |`{}` |{} |{}",
                place(w),
                w.name,
                w.writer,
                cell(meaning)
            );
        }
        text.push_str("|===\n");
        for w in s.words.iter().filter(|w| !w.fields.is_empty()) {
            let _ = write!(
                text,
                "\n.Fields of `{}`\n{}\n{}",
                w.name,
                layout(&w.fields),
                field_rows(&w.fields)
            );
        }
        tagged(&mut out, &s.name, &text);
    }
    out
}
