//! Machines and workloads that users describe in files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use trapless_experiments::{Experiment, Workloads};
use trapless_images::Project;
use trapless_machine::{Machines, OwnMachine};

use crate::files;

/// Name of files with users' machines and workloads.
const NAME: &str = "trapless.toml";

/// The folder with the user's configurations.
pub fn config_folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    config.filter(|folder| folder.is_absolute()).or_else(home)
}

/// The existing files with their texts: the user's, then that of the current folder.
pub(crate) fn descriptions() -> Result<Vec<(PathBuf, String)>> {
    let users = config_folder().map(|folder| folder.join("trapless").join(NAME));
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for file in users.into_iter().chain([PathBuf::from(NAME)]) {
        let Ok(whole) = file.canonicalize() else {
            continue;
        };
        if !seen.contains(&whole) {
            let text = files::text(&file, "file with machines and workloads")?;
            found.push((file, text));
            seen.push(whole);
        }
    }
    Ok(found)
}

/// Machines by name: those of the project, `own` ones of the program, those of the user, and those
/// of the current folder.
///
/// # Errors
/// If one of the files cannot be read, or is invalid.
pub fn machines(own: &[OwnMachine]) -> Result<Machines> {
    let mut machines = Machines::default();
    own.iter().try_for_each(|own| machines.add_own(own))?;
    for (file, text) in descriptions()? {
        machines.add(&file, &text)?;
    }
    Ok(machines)
}

/// Workloads by name, from the same places.
///
/// # Errors
/// As [`machines`].
pub fn workloads(project: &Project) -> Result<Workloads> {
    let mut workloads = Workloads::of_project(&project.experiments()?)?;
    for (file, text) in descriptions()? {
        workloads.add(&file, &text)?;
    }
    Ok(workloads)
}

/// The workload that a user names: one of [`workloads`], or a file.
///
/// # Errors
/// If there is none, or it is invalid.
pub fn workload(named: &str, project: &Project) -> Result<Experiment> {
    let workloads = workloads(project)?;
    Ok(match file(named) {
        Some(file) => workloads.load(file)?,
        None => workloads.find(named)?,
    })
}

/// The file that the user means with the name of a workload: it has a folder, or ends in `.toml`.
pub fn file(named: &str) -> Option<&Path> {
    let is_file = named.contains('/') || named.ends_with(".toml");
    is_file.then(|| Path::new(named))
}

/// Full description of a workload, as JSON.
pub fn describe(e: &Experiment) -> Value {
    let parameters: serde_json::Map<_, _> = e
        .parameters
        .iter()
        .map(|(name, p)| {
            let value = json!({ "default": p.default, "minimum": p.minimum,
                "maximum": p.maximum, "choices": p.choices, "explanation": p.explanation });
            (name.clone(), value)
        })
        .collect();
    let own = e
        .own
        .as_ref()
        .map(|own| json!({ "file": own.file, "base": own.base }));
    json!({ "name": e.name, "title": e.title, "explanation": e.explanation.trim(),
        "measures": e.measures.trim(), "guest_harts": e.guest.harts,
        "guest_memory": e.guest.memory, "parameters": parameters, "own": own })
}

/// Name of the workload in file names.
pub fn short_name(named: &str) -> String {
    let stem = file(named).and_then(Path::file_stem);
    stem.map_or_else(|| named.into(), |stem| stem.to_string_lossy().into_owned())
}
