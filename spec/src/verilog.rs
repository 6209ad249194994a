//! Constants for Verilog: macros, because unused parameters of an include file are warned of.

use std::fmt::Write as _;

use crate::constants::short;
use crate::data::{Data, Field};

/// `rtl/generated/NAME.vh`.
///
/// A field is what stands between the brackets of a part select; addresses of CSRs and masks are
/// sized, all other numbers are not.
pub fn include(data: &Data) -> String {
    let e = &data.extension;
    let prefix = short(&e.name);
    let mut out = format!(
        "// SPDX-License-Identifier: Apache-2.0 OR MIT\n\
         // {} {}: CSRs, fields, operations and memory structures.\n\
         // Written by `cargo run -p trapless-spec` from {}; do not edit.\n\
         `ifndef {prefix}_VH\n`define {prefix}_VH\n",
        e.display(),
        e.version,
        data.source,
    );
    out.push_str("\n// CSR addresses\n");
    for csr in &data.csr {
        let name = csr.name.to_uppercase();
        define(
            &mut out,
            &format!("{prefix}_CSR_{name}"),
            &format!("12'h{:03x}", csr.address),
        );
    }
    for csr in &data.csr {
        let name = format!("{prefix}_{}", csr.name.to_uppercase());
        let _ = writeln!(out, "\n// Fields of {}", csr.name);
        fields(&mut out, &name, &csr.fields);
    }
    for (name, values) in &data.enums {
        let _ = writeln!(out, "\n// {}", values.summary);
        for value in &values.values {
            let name = format!("{prefix}_{}_{}", name.to_uppercase(), value.name);
            define(&mut out, &name, &value.value.to_string());
        }
    }
    out.push_str("\n// Limits and numbers\n");
    for constant in &data.constant {
        define(
            &mut out,
            &format!("{prefix}_{}", constant.name),
            &constant.value.to_string(),
        );
    }
    for structure in &data.structure {
        let name = format!("{prefix}_{}", structure.name.to_uppercase());
        let _ = writeln!(
            out,
            "\n// {}: sizes and offsets in bytes",
            structure.summary
        );
        define(
            &mut out,
            &format!("{name}_SIZE"),
            &structure.size.to_string(),
        );
        for word in &structure.words {
            let name = format!("{name}_{}", word.name);
            define(&mut out, &name, &word.offset.to_string());
            if let Some(stride) = word.stride {
                define(&mut out, &format!("{name}_STRIDE"), &stride.to_string());
            }
            if !word.fields.is_empty() {
                fields(&mut out, &name, &word.fields);
            }
        }
    }
    let _ = write!(out, "\n`endif // {prefix}_VH\n");
    out
}

/// A part select for each field, and the bits of all.
fn fields(out: &mut String, prefix: &str, list: &[Field]) {
    for field in list {
        let range = if field.high == field.low {
            field.low.to_string()
        } else {
            format!("{}:{}", field.high, field.low)
        };
        define(out, &format!("{prefix}_{}", field.name), &range);
    }
    let all = list.iter().fold(0, |all, field| all | field.mask());
    define(out, &format!("{prefix}_FIELDS"), &format!("64'h{all:016x}"));
}

fn define(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "`define {name:<31} {value}");
}
