//! Makes C++ of the circuit by Verilator, once for each number of harts, and compiles it.
//! `LOCKSTEP_RTL` names another folder with a circuit, `LOCKSTEP_HARTS` other numbers, and
//! `LOCKSTEP_OPTIMIZE` another level for the C++ compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Numbers of harts.
const HARTS: &str = "1 2 3 8";

fn main() {
    println!("cargo::rerun-if-env-changed=LOCKSTEP_RTL");
    let rtl = std::env::var("LOCKSTEP_RTL").unwrap_or_else(|_| "..".into());
    let rtl = Path::new(&rtl);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=src/circuit.cpp");
    println!("cargo::rerun-if-env-changed=LOCKSTEP_HARTS");
    let harts = std::env::var("LOCKSTEP_HARTS").unwrap_or_else(|_| HARTS.into());
    let harts: Vec<usize> = harts
        .split_whitespace()
        .map(|n| n.parse().expect("LOCKSTEP_HARTS has numbers"))
        .collect();
    for entry in std::fs::read_dir(rtl)
        .expect("rtl/ is there")
        .chain(std::fs::read_dir(rtl.join("generated")).expect("rtl/generated/ is there"))
    {
        let path = entry.expect("rtl/ can be read").path();
        if path.extension().is_some_and(|e| e == "v" || e == "vh") {
            println!("cargo::rerun-if-changed={}", path.display());
        }
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
    let mut verilate = |top: &str, name: &str, arguments: &[String]| {
        let folder = out.join(name);
        // Files of an earlier build may have other names.
        let _ = std::fs::remove_dir_all(&folder);
        run(Command::new("verilator")
            .args(["--cc", "-O3", "-Wno-fatal", "--language", "1364-2005"])
            .args(["--x-assign", "unique", "--x-initial", "unique"])
            .args(["--top-module", top, "--prefix", name])
            .args(arguments)
            .arg(format!("-I{}", rtl.display()))
            .arg("--Mdir")
            .arg(&folder)
            .arg(rtl.join(top).with_extension("v")));
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
    for harts in &harts {
        let name = format!("Circuit{harts}");
        let wrapper = out.join(format!("{name}.cpp"));
        let source = Path::new("src/circuit.cpp")
            .canonicalize()
            .expect("it is there");
        let text = format!(
            "#define HARTS {harts}\n#define TOP {name}\n#include \"{name}.h\"\n#include \"{}\"\n",
            source.display()
        );
        std::fs::write(&wrapper, text).expect("OUT_DIR can be written");
        build.file(wrapper);
    }
    build.compile("circuit");
    std::fs::write(out.join("circuits.rs"), table(&harts)).expect("OUT_DIR can be written");
}

/// Rust that names the circuits.
fn table(harts: &[usize]) -> String {
    let externs = harts
        .iter()
        .map(|n| format!("    static circuit_{n}: Functions;\n"));
    let externs: String = externs.collect();
    let rows = harts.iter().map(|n| {
        format!(
            "    // SAFETY: this is a constant of circuit.cpp, with the layout of `Functions`.\n    \
             ({n}, unsafe {{ &circuit_{n} }}),\n"
        )
    });
    let rows: String = rows.collect();
    format!(
        "unsafe extern \"C\" {{\n{externs}}}\n\n\
         /// The circuits that are built, by number of harts.\n\
         static CIRCUITS: &[(usize, &Functions)] = &[\n{rows}];\n"
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
