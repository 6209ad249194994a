//! A workload of a user's own: a table with its differences from `base`, another workload, or a
//! complete one.

use crate::error::{Error, Result};
use crate::experiment::{Experiment, Guest, Host, Outcome, Own, Work, is_word};
use crate::parameter::{Parameter, Value};
use crate::place::place;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum length of a name, which is part of file names and of a kernel's command line.
const NAME: usize = 40;
/// Default size of a guest.
const HARTS: u32 = 1;
const MEMORY: &str = "256M";

/// The table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    pub(crate) base: Option<String>,
    title: Option<String>,
    explanation: Option<String>,
    measures: Option<String>,
    #[serde(default)]
    guest: GuestText,
    #[serde(default)]
    host: HostText,
    #[serde(default)]
    parameters: BTreeMap<String, Parameter>,
    #[serde(default)]
    defaults: BTreeMap<String, Value>,
    #[serde(default)]
    results: BTreeMap<String, Outcome>,
    work: Option<Work>,
    measured: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuestText {
    harts: Option<u32>,
    memory: Option<String>,
    script: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostText {
    harts: Option<u32>,
    images: Option<Vec<String>>,
    script: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, PathBuf>,
}

/// Calls `visit` for each name of a file in the table of a workload.
pub fn visit_files(workload: &mut toml::Table, visit: &mut dyn FnMut(&mut String)) {
    for side in ["guest", "host"] {
        let files = workload
            .get_mut(side)
            .and_then(|side| side.get_mut("files"));
        let files = files.and_then(toml::Value::as_table_mut);
        for (_, file) in files.into_iter().flatten() {
            if let toml::Value::String(name) = file {
                visit(name);
            }
        }
    }
}

/// Position of a table, for messages.
pub(crate) struct Source<'a> {
    /// The file, and its text.
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
    /// Keys that lead to the table.
    pub(crate) above: &'a [&'a str],
}

impl Source<'_> {
    /// An error about the value at `keys` of the table.
    pub(crate) fn wrong(&self, keys: &[&str], message: &str) -> Error {
        let above = self.above.iter().chain(keys);
        let keys: Vec<String> = above.map(ToString::to_string).collect();
        Error::Data {
            path: self.path.to_owned(),
            message: format!("{}: {message}", place(self.text, &keys)),
        }
    }
}

/// The workload `name` that `own` describes; `base` is the one that it names, `common` are the
/// parameters that all workloads have, `definition` the table as text.
pub(crate) fn derive(
    source: &Source<'_>,
    name: &str,
    own: Text,
    base: Option<&Experiment>,
    common: &BTreeMap<String, Parameter>,
    definition: String,
) -> Result<Experiment> {
    if !is_word(name) || name.len() > NAME {
        let message = format!(
            "{name:?} cannot be the name of a workload: use up to {NAME} lower-case letters, \
             digits and -"
        );
        return Err(source.wrong(&[], &message));
    }
    let mut all = match base {
        Some(base) => base.clone(),
        None => blank(name, common),
    };
    if base.is_none() && own.guest.script.is_none() {
        let message = "guest.script is missing: say what runs in the guest, or name a base";
        return Err(source.wrong(&["guest"], message));
    }
    let of_base = all.own.take().map(|own| own.definition);
    all.own = Some(Own {
        file: source.path.to_owned(),
        base: own.base,
        definition: definition + &of_base.unwrap_or_default(),
    });
    all.name = name.to_owned();
    replace(&mut all.title, own.title);
    replace(&mut all.explanation, own.explanation);
    replace(&mut all.measures, own.measures);
    replace(&mut all.guest.harts, own.guest.harts);
    replace(&mut all.guest.memory, own.guest.memory);
    replace(&mut all.guest.script, own.guest.script);
    replace(&mut all.host.images, own.host.images);
    all.host.harts = own.host.harts.or(all.host.harts);
    all.host.script = own.host.script.or(all.host.script);
    all.work = own.work.or(all.work);
    all.measured = own.measured.or(all.measured);
    for (side, files, own) in [
        ("guest", &mut all.guest.files, own.guest.files),
        ("host", &mut all.host.files, own.host.files),
    ] {
        for (place, file) in own {
            let wrong = |message: &str| source.wrong(&[side, "files", &place], message);
            check_place(&place).map_err(|message| wrong(&message))?;
            let file = source.path.parent().unwrap_or(Path::new("")).join(file);
            if !file.exists() {
                return Err(wrong(&format!("there is no {}", file.display())));
            }
            files.insert(place, file);
        }
    }
    for (name, parameter) in own.parameters {
        if common.contains_key(&name) {
            let message = format!(
                "parameters.{name}: every workload has it, set another default under [defaults]"
            );
            return Err(source.wrong(&["parameters", &name], &message));
        }
        all.parameters.insert(name, parameter);
    }
    for (name, value) in own.defaults {
        let wrong = |message: String| source.wrong(&["defaults", &name], &message);
        let known = all.parameters.get_mut(&name);
        let parameter =
            known.ok_or_else(|| wrong(format!("defaults.{name}: no such parameter")))?;
        if !parameter.allows(&value) {
            let range = parameter.range();
            return Err(wrong(format!("defaults.{name}: choose {range}")));
        }
        parameter.default = value;
    }
    all.results.extend(own.results);
    all.check().map_err(|(keys, message)| {
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        source.wrong(&keys, &message)
    })?;
    Ok(all)
}

fn replace<T>(of_base: &mut T, own: Option<T>) {
    if let Some(own) = own {
        *of_base = own;
    }
}

/// An empty workload.
fn blank(name: &str, common: &BTreeMap<String, Parameter>) -> Experiment {
    Experiment {
        name: name.to_owned(),
        title: name.to_owned(),
        explanation: String::new(),
        measures: String::new(),
        guest: Guest {
            harts: HARTS,
            memory: MEMORY.to_owned(),
            script: String::new(),
            files: BTreeMap::new(),
        },
        host: Host::default(),
        parameters: common.clone(),
        defaults: BTreeMap::new(),
        results: BTreeMap::new(),
        work: None,
        measured: None,
        own: None,
    }
}

/// Rejects a path that is not valid in a guest.
fn check_place(place: &str) -> std::result::Result<(), String> {
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    match place.strip_prefix('/') {
        Some(below) if !below.split('/').any(odd) => Ok(()),
        _ => Err(format!(
            "{place:?} cannot be a path in the virtual machine: write it in full, as in /bin/mine"
        )),
    }
}
