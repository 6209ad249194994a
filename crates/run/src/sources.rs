//! Files of the user's that runs read, for programs that make runs on other computers.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use toml::{Table, Value};
use trapless_experiments::visit_files as visit_workload;
use trapless_machine::machines::visit_files as visit_machine;

use crate::own;

/// A file that describes machines or workloads.
#[derive(Serialize)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Its text, with relative paths in place of absolute ones; `None` if it cannot be read.
    pub text: Option<String>,
    /// Files and folders that it names.
    pub files: Vec<PathBuf>,
}

/// The user's files with machines and workloads, and those of `workloads`, which are files
/// themselves.
///
/// # Errors
/// If the current folder or a file with machines and workloads cannot be read.
pub fn sources(workloads: &[PathBuf]) -> Result<Vec<Source>> {
    let here = std::env::current_dir().context("cannot find the current folder")?;
    let described = own::descriptions()?.into_iter();
    let described = described.map(|(path, text)| of_all(here.join(path), text));
    let mut sources: Vec<Source> = described.collect();
    for path in workloads {
        let text = std::fs::read_to_string(path).ok();
        sources.push(Source::new(path.clone(), text, &mut visit_workload));
    }
    Ok(sources)
}

/// A file with any number of machines and workloads.
fn of_all(path: PathBuf, text: String) -> Source {
    Source::new(path, Some(text), &mut |tables, visit| {
        for (kind, visit_one) in [
            ("machines", visit_machine as Visit),
            ("workloads", visit_workload as Visit),
        ] {
            let all = tables.get_mut(kind).and_then(Value::as_table_mut);
            for (_, one) in all.into_iter().flatten() {
                if let Value::Table(one) = one {
                    visit_one(one, visit);
                }
            }
        }
    })
}

/// Callback for each name of a file.
type Visitor<'v> = &'v mut dyn FnMut(&mut String);
/// Calls a visitor for each name in a table.
type Visit = fn(&mut Table, Visitor<'_>);

impl Source {
    fn new(
        path: PathBuf,
        text: Option<String>,
        visit: &mut dyn FnMut(&mut Table, Visitor<'_>),
    ) -> Self {
        let mut source = Self {
            text,
            files: Vec::new(),
            path,
        };
        // Invalid TOML is reported where the file is used.
        let tables = source.text.as_deref().map(str::parse::<Table>);
        let Some(Ok(mut tables)) = tables else {
            return source;
        };
        let folder = source.path.parent().unwrap_or(Path::new("/"));
        let (files, mut moved) = (&mut source.files, false);
        visit(&mut tables, &mut |name| {
            files.push(folder.join(&*name));
            if Path::new(name).is_absolute() {
                *name = relative(Path::new(name), folder).display().to_string();
                moved = true;
            }
        });
        if moved {
            source.text = toml::to_string(&tables).ok();
        }
        source
    }
}

/// `path` as seen from `folder`; both are absolute.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    let (path, folder) = (normal(path), normal(folder));
    let common = path.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let up = (common..folder.len()).map(|_| "..".into());
    up.chain(path[common..].iter().cloned()).collect()
}

/// The parts of a path, without `.` and `..`.
fn normal(path: &Path) -> Vec<std::ffi::OsString> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_owned()),
            Component::ParentDir => {
                parts.pop();
            }
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what a file names is found, and by a path that means the same elsewhere.
    #[test]
    fn absolute_names_become_relative_ones() {
        let text = "[machines.slow]\nbase = 'sstc'\ncost = '/a/shared/slow.toml'\n\
                    [workloads.w.guest.files]\n'/x' = \"\\u002fa/lab/data\"\n'/y' = '../y'\n";
        let source = of_all("/a/lab/trapless.toml".into(), text.into());
        let files = ["/a/shared/slow.toml", "/a/lab/data", "/a/lab/../y"].map(PathBuf::from);
        assert_eq!(source.files, files);
        let tables: Table = source.text.expect("a text").parse().expect("TOML");
        assert_eq!(
            tables["machines"]["slow"]["cost"].as_str(),
            Some("../shared/slow.toml")
        );
        let files = &tables["workloads"]["w"]["guest"]["files"];
        assert_eq!(
            (files["/x"].as_str(), files["/y"].as_str()),
            (Some("data"), Some("../y"))
        );
    }
}
