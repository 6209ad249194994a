//! Writes what follows from `spec/registers.toml`: Rust constants, the C header and the tables of
//! the specification. `--check` only compares.

mod constants;
mod data;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let check = std::env::args().any(|arg| arg == "--check");
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: bool) -> Result<(), String> {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = spec
        .parent()
        .ok_or("the specification has no project around it")?;
    let text = std::fs::read_to_string(spec.join("registers.toml")).map_err(|e| e.to_string())?;
    let data: data::Data = toml::from_str(&text).map_err(|e| e.to_string())?;
    for (path, text) in [
        ("crates/isa/src/xtrapless.rs", constants::rust(&data)),
        ("linux/include/asm/xtrapless.h", constants::c(&data)),
    ] {
        let file = root.join(path);
        if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            return Err(format!(
                "{path} does not fit spec/registers.toml; run `cargo run -p trapless-spec`"
            ));
        }
        std::fs::write(&file, text).map_err(|e| format!("cannot write {path}: {e}"))?;
    }
    Ok(())
}
