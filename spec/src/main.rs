//! Writes what follows from the register data of each document: Rust constants, headers for C and
//! Verilog, and the tables of the specification. `--check` only compares; `litmus [HERD7]` checks
//! the memory model instead.

#[cfg(test)]
mod cited;
mod constants;
mod data;
mod litmus;
mod rules;
mod tables;
mod verilog;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        [] => run(false),
        ["--check"] => run(true),
        ["litmus"] => litmus::run("herd7"),
        ["litmus", herd] => litmus::run(herd),
        _ => Err("usage: trapless-spec [--check | litmus [HERD7]]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the project.
fn root() -> PathBuf {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR"));
    spec.parent().unwrap_or(spec).into()
}

/// A specification: its register data, and the folder of its tables.
struct Document {
    registers: &'static str,
    tables: &'static str,
    /// There is a circuit, in `rtl/`.
    circuit: bool,
}

const DOCUMENTS: [Document; 2] = [
    Document {
        registers: "spec/registers.toml",
        tables: "spec/generated",
        circuit: true,
    },
    Document {
        registers: "spec/haiov.toml",
        tables: "spec/generated/haiov",
        circuit: true,
    },
];

impl Document {
    /// The register data, if it obeys its rules.
    fn load(&self) -> Result<data::Data, String> {
        let path = root().join(self.registers);
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut data: data::Data = toml::from_str(&text).map_err(|e| e.to_string())?;
        data.source = self.registers.into();
        rules::check(&data)?;
        Ok(data)
    }

    /// Every generated file: path in the project and text.
    fn files(&self, data: &data::Data) -> Vec<(String, String)> {
        let name = &data.extension.name;
        let table = |file: &str| format!("{}/{file}.adoc", self.tables);
        let mut files = vec![
            (format!("crates/isa/src/{name}.rs"), constants::rust(data)),
            (format!("linux/include/asm/{name}.h"), constants::c(data)),
            (table("attributes"), tables::attributes(data)),
            (table("csrs"), tables::csrs(data)),
            (table("access"), tables::access(data)),
            (table("encodings"), tables::encodings(data)),
            (table("structures"), tables::structures(data)),
        ];
        if self.circuit {
            files.push((format!("rtl/generated/{name}.vh"), verilog::include(data)));
        }
        files
    }
}

fn run(check: bool) -> Result<(), String> {
    DOCUMENTS
        .iter()
        .try_for_each(|document| write(document, check))
}

fn write(document: &Document, check: bool) -> Result<(), String> {
    for (path, text) in document.files(&document.load()?) {
        let file = root().join(&path);
        if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            return Err(format!(
                "{path} does not fit {}; run `cargo run -p trapless-spec`",
                document.registers
            ));
        }
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {folder:?}: {e}"))?;
        }
        std::fs::write(&file, text).map_err(|e| format!("cannot write {path}: {e}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_files_fit_the_register_data() {
        super::run(true).unwrap();
    }
}
