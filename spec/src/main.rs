//! Writes what follows from `spec/registers.toml`: Rust constants, the C header and the tables of
//! the specification. `--check` only compares; `litmus [HERD7]` checks the memory model instead.

#[cfg(test)]
mod cited;
mod constants;
mod data;
mod litmus;
mod rules;
mod tables;

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

/// The register data, if it obeys its rules.
fn load() -> Result<data::Data, String> {
    let path = root().join("spec/registers.toml");
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let data = toml::from_str(&text).map_err(|e| e.to_string())?;
    rules::check(&data)?;
    Ok(data)
}

/// Every generated file: path in the project and text.
fn files(data: &data::Data) -> [(&'static str, String); 7] {
    [
        ("crates/isa/src/xtrapless.rs", constants::rust(data)),
        ("linux/include/asm/xtrapless.h", constants::c(data)),
        ("spec/generated/attributes.adoc", tables::attributes(data)),
        ("spec/generated/csrs.adoc", tables::csrs(data)),
        ("spec/generated/access.adoc", tables::access(data)),
        ("spec/generated/encodings.adoc", tables::encodings(data)),
        ("spec/generated/structures.adoc", tables::structures(data)),
    ]
}

fn run(check: bool) -> Result<(), String> {
    for (path, text) in files(&load()?) {
        let file = root().join(path);
        if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            return Err(format!(
                "{path} does not fit spec/registers.toml; run `cargo run -p trapless-spec`"
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
