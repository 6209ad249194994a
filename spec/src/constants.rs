//! Constants for Rust and C.

use std::fmt::Write as _;

use crate::data::{Data, Field};

/// One constant, before it is written in a language.
struct Item {
    /// Module path and name, for instance `["hifmap", "V"]`.
    path: [String; 2],
    value: u64,
    kind: Kind,
    doc: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A CSR address.
    Address,
    /// Bits of a 64-bit value.
    Mask,
    /// A bit position.
    Shift,
    /// A number.
    Number,
}

fn fields(items: &mut Vec<Item>, group: &str, prefix: &str, list: &[Field]) {
    for field in list {
        let name = format!("{prefix}{}", field.name);
        items.push(Item {
            path: [group.into(), name.clone()],
            value: field.mask(),
            kind: Kind::Mask,
            doc: field.meaning.clone(),
        });
        if field.high != field.low {
            items.push(Item {
                path: [group.into(), format!("{name}_SHIFT")],
                value: field.low.into(),
                kind: Kind::Shift,
                doc: format!("Lowest bit of `{name}`"),
            });
        }
    }
}

fn items(data: &Data) -> Vec<(String, Vec<Item>)> {
    let mut groups = Vec::new();
    let number = |group: &str, name: &str, value, kind, doc: &str| Item {
        path: [group.into(), name.into()],
        value,
        kind,
        doc: doc.into(),
    };
    let csrs = data.csr.iter();
    groups.push((
        "CSR addresses".into(),
        csrs.map(|c| {
            let name = c.name.to_uppercase();
            number("csr", &name, c.address.into(), Kind::Address, &c.summary)
        })
        .collect(),
    ));
    for csr in &data.csr {
        let mut list = Vec::new();
        fields(&mut list, &csr.name, "", &csr.fields);
        groups.push((format!("Fields of `{}`", csr.name), list));
    }
    for (name, values) in &data.enums {
        let list = values
            .values
            .iter()
            .map(|v| number(name, &v.name, v.value, Kind::Number, &v.meaning));
        groups.push((values.summary.clone(), list.collect()));
    }
    let list = data
        .constant
        .iter()
        .map(|v| number("limits", &v.name, v.value, Kind::Number, &v.meaning));
    groups.push(("Limits and numbers".into(), list.collect()));
    for s in &data.structure {
        let mut list = vec![number(
            &s.name,
            "SIZE",
            s.size,
            Kind::Number,
            "Size in bytes",
        )];
        for w in &s.words {
            let doc = match (&w.meaning, w.count) {
                (Some(text), Some(_)) => format!("Offset of the first in bytes. {text}"),
                (Some(text), None) => format!("Offset in bytes. {text}"),
                _ => "Offset in bytes".into(),
            };
            list.push(number(&s.name, &w.name, w.offset, Kind::Number, &doc));
            if let (Some(stride), Some(count)) = (w.stride, w.count) {
                let stride_doc = format!("Bytes from one `{}` word to the next", w.name);
                let name = format!("{}_STRIDE", w.name);
                list.push(number(&s.name, &name, stride, Kind::Number, &stride_doc));
                let count_doc = format!("Number of `{}` words", w.name);
                let name = format!("{}_COUNT", w.name);
                list.push(number(&s.name, &name, count, Kind::Number, &count_doc));
            }
            let prefix = format!("{}_", w.name);
            fields(&mut list, &s.name, &prefix, &w.fields);
        }
        groups.push((format!("{} (`{}`)", s.summary, s.name), list));
    }
    groups
}

/// `crates/isa/src/xtrapless.rs`.
pub fn rust(data: &Data) -> String {
    let e = &data.extension;
    let mut out = format!(
        "//! {} {}: CSRs, fields, operations and memory structures.\n//!\n\
         //! Written by `cargo run -p trapless-spec` from `{}`; do not edit.\n\n\
         /// Names in ISA strings.\npub mod isa {{\n",
        e.display(),
        e.version,
        data.source,
    );
    for name in &e.isa {
        let _ = writeln!(
            out,
            "    /// {}.\n    pub const {}: &str = \"{name}\";",
            capital(name),
            name.to_uppercase()
        );
    }
    out.push_str("}\n");
    for (title, list) in items(data) {
        let Some(first) = list.first() else { continue };
        out.push('\n');
        comment(&mut out, "///", &format!("{title}."));
        let _ = writeln!(out, "pub mod {} {{", first.path[0]);
        for item in &list {
            let value = match item.kind {
                Kind::Address => format!("u16 = {:#x}", item.value),
                Kind::Mask => format!("u64 = {}", grouped(item.value)),
                Kind::Shift => format!("u32 = {}", item.value),
                Kind::Number => format!("u64 = {}", item.value),
            };
            comment(&mut out, "    ///", &format!("{}.", item.doc));
            let _ = writeln!(out, "    pub const {}: {value};", item.path[1]);
        }
        out.push_str("}\n");
    }
    out
}

/// Writes `text` as lines that begin with `mark`, of at most 100 columns.
fn comment(out: &mut String, mark: &str, text: &str) {
    const COLUMNS: usize = 100;
    let mut column = COLUMNS;
    for (index, word) in text.split(' ').enumerate() {
        if column + 1 + word.len() > COLUMNS {
            let end = if index == 0 { "" } else { "\n" };
            let _ = write!(out, "{end}{mark}");
            column = mark.len();
        }
        let _ = write!(out, " {word}");
        column += 1 + word.len();
    }
    out.push('\n');
}

/// Hexadecimal with a separator after each four digits.
fn grouped(value: u64) -> String {
    let digits = format!("{value:x}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 4 == 0 {
            out.push('_');
        }
        out.push(digit);
    }
    format!("0x{out}")
}

/// `linux/include/asm/xtrapless.h`.
pub fn c(data: &Data) -> String {
    let e = &data.extension;
    let guard = format!("_ASM_RISCV_{}_H", e.name.to_uppercase());
    let mut out = format!(
        "/* SPDX-License-Identifier: GPL-2.0-only */\n/*\n * {} {}: CSRs, fields, operations and memory structures.\n \
         * Written by `cargo run -p trapless-spec` from {}; do not edit.\n */\n\
         #ifndef {guard}\n#define {guard}\n\n#include <linux/bits.h>\n",
        e.display(),
        e.version,
        data.source
    );
    for (title, list) in items(data) {
        if list.is_empty() {
            continue;
        }
        let title = title.replace('`', "");
        if title.len() > 94 {
            out.push_str("\n/*\n");
            comment(&mut out, " *", &title);
            out.push_str(" */\n");
        } else {
            let _ = write!(out, "\n/* {title} */\n");
        }
        for item in &list {
            let [group, name] = &item.path;
            let name = match group.as_str() {
                "csr" => format!("CSR_{name}"),
                "limits" => format!("{}_{name}", e.name.to_uppercase()),
                group => format!("{}_{}_{name}", short(&e.name), group.to_uppercase()),
            };
            let value = match item.kind {
                Kind::Address => format!("{:#x}", item.value),
                Kind::Mask if item.value.count_ones() == 1 => {
                    format!("BIT_ULL({})", item.value.trailing_zeros())
                }
                Kind::Mask => format!(
                    "GENMASK_ULL({}, {})",
                    63 - item.value.leading_zeros(),
                    item.value.trailing_zeros()
                ),
                Kind::Shift | Kind::Number => item.value.to_string(),
            };
            let tabs = "\t".repeat(5_usize.saturating_sub((8 + name.len()) / 8).max(1));
            let _ = writeln!(out, "#define {name}{tabs}{value}");
        }
    }
    let _ = write!(out, "\n#endif /* {guard} */\n");
    out
}

/// The name with a capital letter.
fn capital(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Prefix of names in C and Verilog.
pub fn short(name: &str) -> String {
    if name == "xtrapless" {
        "XTL".into()
    } else {
        name.to_uppercase()
    }
}
