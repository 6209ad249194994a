//! Makes C++ of the circuits by Verilator and compiles it: the controller and Xvei for several
//! numbers of harts, and the IMSIC for several numbers of guest files and identities.
//! `LOCKSTEP_RTL` names another folder with circuits, `LOCKSTEP_HARTS`, `LOCKSTEP_XVEIS` and
//! `LOCKSTEP_IMSICS` other numbers, and `LOCKSTEP_OPTIMIZE` another level for the C++ compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Numbers of harts.
const HARTS: &str = "1 2 3 8";
/// Numbers of harts of Xvei.
const XVEIS: &str = "1 3";
/// Guest files and identities of IMSICs.
const IMSICS: &str = "0x63 5x255 63x63";

fn main() {
    println!("cargo::rerun-if-env-changed=LOCKSTEP_RTL");
    let rtl = std::env::var("LOCKSTEP_RTL").unwrap_or_else(|_| "..".into());
    let rtl = Path::new(&rtl);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=src/circuit.cpp");
    println!("cargo::rerun-if-changed=src/ports.h");
    println!("cargo::rerun-if-changed=src/xvei.cpp");
    let harts = numbers("LOCKSTEP_HARTS", HARTS);
    let xveis = numbers("LOCKSTEP_XVEIS", XVEIS);
    println!("cargo::rerun-if-changed=src/imsic.cpp");
    println!("cargo::rerun-if-env-changed=LOCKSTEP_IMSICS");
    let imsics = std::env::var("LOCKSTEP_IMSICS").unwrap_or_else(|_| IMSICS.into());
    let imsics: Vec<(u8, u16)> = imsics
        .split_whitespace()
        .map(|text| {
            let (guests, identities) = text.split_once('x').expect("GUESTSxIDENTITIES");
            let guests = guests.parse().expect("LOCKSTEP_IMSICS has numbers");
            let identities = identities.parse().expect("LOCKSTEP_IMSICS has numbers");
            (guests, identities)
        })
        .collect();
    watch(rtl);
    for folder in ["generated", "imsic", "xvei"] {
        watch(&rtl.join(folder));
    }
    let root = run(Command::new("verilator").args(["--getenv", "VERILATOR_ROOT"]));
    let include = Path::new(root.trim()).join("include");
    let mut build = cc::Build::new();
    println!("cargo::rerun-if-env-changed=LOCKSTEP_OPTIMIZE");
    let level = std::env::var("LOCKSTEP_OPTIMIZE").map_or(2, |n| n.parse().expect("a number"));
    build
        .cpp(true)
        .std("c++17")
        .opt_level(level)
        .warnings(false);
    build.include(&include).include(include.join("vltstd"));
    build.file(include.join("verilated.cpp"));
    build.file(include.join("verilated_threads.cpp"));
    let mut verilate = |top: &str, name: &str, parameters: &[String]| {
        let folder = out.join(name);
        run_verilator(rtl, top, name, parameters, &folder);
        build.include(&folder);
        let files = std::fs::read_dir(&folder).expect("Verilator has made it");
        let mut files: Vec<_> = files.map(|f| f.expect("it can be read").path()).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "cpp"));
        files.sort();
        build.files(files);
    };
    verilate("xtrapless_alu", "Alu", &[]);
    for harts in &harts {
        verilate(
            "xtrapless",
            &format!("Circuit{harts}"),
            &[format!("-GHARTS={harts}")],
        );
    }
    if !xveis.is_empty() {
        verilate("xvei/xvei_alu", "XveiAlu", &[]);
    }
    for harts in &xveis {
        let name = format!("Xvei{harts}");
        verilate("xvei/xvei", &name, &[format!("-GHARTS={harts}")]);
    }
    for (guests, identities) in &imsics {
        let parameters = [
            format!("-GGUESTS={guests}"),
            format!("-GIDENTITIES={identities}"),
        ];
        let name = format!("Imsic{guests}x{identities}");
        verilate("imsic/imsic", &name, &parameters);
    }
    let mut wrap = |source: &str, name: &str, definitions: &str| {
        let wrapper = out.join(format!("{name}.cpp"));
        let source = Path::new(source).canonicalize().expect("it is there");
        let text = format!(
            "#define TOP {name}\n{definitions}#include \"{name}.h\"\n#include \"{}\"\n",
            source.display()
        );
        std::fs::write(&wrapper, text).expect("OUT_DIR can be written");
        build.file(wrapper);
    };
    for harts in &harts {
        let name = format!("Circuit{harts}");
        wrap(
            "src/circuit.cpp",
            &name,
            &format!("#define HARTS {harts}\n"),
        );
    }
    for harts in &xveis {
        let definitions = format!("#define HARTS {harts}\n#define SYMBOL xvei_{harts}\n");
        wrap("src/xvei.cpp", &format!("Xvei{harts}"), &definitions);
    }
    for (guests, identities) in &imsics {
        let symbol = format!("imsic_{guests}_{identities}");
        let name = format!("Imsic{guests}x{identities}");
        wrap(
            "src/imsic.cpp",
            &name,
            &format!("#define SYMBOL {symbol}\n"),
        );
    }
    build.compile("circuit");
    for (file, text) in [
        ("circuits.rs", table("CIRCUITS", "circuit", &harts)),
        ("xveis.rs", table("XVEIS", "xvei", &xveis)),
        ("imsics.rs", imsic_table(&imsics)),
    ] {
        std::fs::write(out.join(file), text).expect("OUT_DIR can be written");
    }
}

/// Numbers in an environment variable, or others.
fn numbers(variable: &str, others: &str) -> Vec<usize> {
    println!("cargo::rerun-if-env-changed={variable}");
    let text = std::env::var(variable).unwrap_or_else(|_| others.into());
    let numbers = text.split_whitespace();
    let number = |n: &str| {
        n.parse()
            .unwrap_or_else(|_| panic!("{variable} has numbers"))
    };
    numbers.map(number).collect()
}

/// Cargo runs this again when a source in a folder changes.
fn watch(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_some_and(|e| e == "v" || e == "vh") {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// Makes C++ of `top` in `folder`.
fn run_verilator(rtl: &Path, top: &str, name: &str, parameters: &[String], folder: &Path) {
    let source = rtl.join(top).with_extension("v");
    // Files of an earlier build may have other names.
    let _ = std::fs::remove_dir_all(folder);
    let module = source.file_stem().expect("it names a file");
    run(Command::new("verilator")
        .args(["--cc", "-O3", "-Wno-fatal", "--language", "1364-2005"])
        .args(["--x-assign", "unique", "--x-initial", "unique"])
        .arg("--top-module")
        .arg(module)
        .args(["--prefix", name])
        .args(parameters)
        .arg(format!("-I{}", rtl.display()))
        .arg(format!("-I{}", rtl.join("imsic").display()))
        .arg(format!("-I{}", rtl.join("xvei").display()))
        .arg("--Mdir")
        .arg(folder)
        .arg(&source));
}

/// Rust that names the circuits whose C symbols begin with `prefix`.
fn table(name: &str, prefix: &str, harts: &[usize]) -> String {
    let externs = harts
        .iter()
        .map(|n| format!("    static {prefix}_{n}: Functions;\n"));
    let externs: String = externs.collect();
    let rows = harts.iter().map(|n| {
        format!(
            "    // SAFETY: this is a constant of {prefix}.cpp, with the layout of `Functions`.\n    \
             ({n}, unsafe {{ &{prefix}_{n} }}),\n"
        )
    });
    let rows: String = rows.collect();
    format!(
        "unsafe extern \"C\" {{\n{externs}}}\n\n\
         /// The circuits that are built, by number of harts.\n\
         static {name}: &[(usize, &Functions)] = &[\n{rows}];\n"
    )
}

/// Rust that names the IMSICs.
fn imsic_table(imsics: &[(u8, u16)]) -> String {
    let externs = imsics
        .iter()
        .map(|(g, i)| format!("    static imsic_{g}_{i}: Functions;\n"));
    let externs: String = externs.collect();
    let rows = imsics.iter().map(|(g, i)| {
        format!(
            "    // SAFETY: this is a constant of imsic.cpp, with the layout of `Functions`.\n    \
             ({g}, {i}, unsafe {{ &imsic_{g}_{i} }}),\n"
        )
    });
    let rows: String = rows.collect();
    format!(
        "unsafe extern \"C\" {{\n{externs}}}\n\n\
         /// The IMSICs that are built: guest files, identities.\n\
         static IMSICS: &[(u8, u16, &Functions)] = &[\n{rows}];\n"
    )
}

/// What a command prints; it must not fail.
fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
