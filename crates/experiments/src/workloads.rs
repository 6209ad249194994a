//! Workloads by name: those of the project, and users' own in files.
//!
//! A user's workload is a table like a file of the project's, which may name another one as its
//! `base` and have only the differences. It is below `[workloads]` in a file that may have several,
//! or a file by itself:
//!
//! ```toml
//! [workloads.long-ipi]
//! base = "ipi"
//! title = "ipi with more messages"
//! defaults = { loops = 1000 }
//! ```

use crate::error::{Error, Result, io};
use crate::experiment::{Experiment, common_parameters, name_of};
use crate::own::{Source, Text, derive};
use crate::parameter::Parameter;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A file that may have several; its other tables are read elsewhere.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    workloads: BTreeMap<String, Text>,
    #[serde(default, rename = "machines")]
    _machines: IgnoredAny,
}

/// All known workloads.
#[derive(Debug, Clone)]
pub struct Workloads {
    all: BTreeMap<String, Experiment>,
    common: BTreeMap<String, Parameter>,
}

impl Workloads {
    /// The workloads of the project, from its folder of experiments.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn of_project(folder: &Path) -> Result<Self> {
        let all = Experiment::load_all(folder)?.into_iter();
        Ok(Self {
            all: all.map(|e| (e.name.clone(), e)).collect(),
            common: common_parameters(folder)?,
        })
    }

    /// Whether all workloads have a parameter of this name.
    #[must_use]
    pub fn is_common(&self, parameter: &str) -> bool {
        self.common.contains_key(parameter)
    }

    /// Adds the workloads below `[workloads]` in the file at `path`, whose text is `text`.
    ///
    /// # Errors
    /// If the file is wrong; the message says where.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<()> {
        let bad = |e: toml::de::Error| Error::Data {
            path: path.to_owned(),
            message: e.to_string(),
        };
        let mut left = toml::from_str::<File>(text).map_err(bad)?.workloads;
        let tables: toml::Table = toml::from_str(text).map_err(bad)?;
        let definition = |name: &str| {
            let table = tables.get("workloads").and_then(|all| all.get(name));
            table.map(ToString::to_string).unwrap_or_default()
        };
        while let Some(first) = left.keys().next().cloned() {
            // A workload may precede its base.
            let bare = |text: &Text| text.base.as_ref().is_none_or(|b| self.all.contains_key(b));
            let ready = left.iter().find(|(_, text)| bare(text));
            let name = ready.map_or(first, |(name, _)| name.clone());
            let own = left.remove(&name).unwrap_or_default();
            let above = ["workloads", name.as_str()];
            let source = Source {
                path,
                text,
                above: &above,
            };
            let workload = self.derive(&source, &name, own, definition(&name))?;
            self.all.insert(name, workload);
        }
        Ok(())
    }

    /// The workload of a file of its own, whose name is the file's.
    ///
    /// # Errors
    /// If the file is wrong; the message says where.
    pub fn load(&self, path: &Path) -> Result<Experiment> {
        let text = fs::read_to_string(path).map_err(io("read the workload", path))?;
        let bad = |e: toml::de::Error| Error::Data {
            path: path.to_owned(),
            message: e.to_string(),
        };
        let own: Text = toml::from_str(&text).map_err(bad)?;
        let table: toml::Table = toml::from_str(&text).map_err(bad)?;
        let source = Source {
            path,
            text: &text,
            above: &[],
        };
        self.derive(&source, &name_of(path), own, table.to_string())
    }

    fn derive(
        &self,
        source: &Source<'_>,
        name: &str,
        own: Text,
        definition: String,
    ) -> Result<Experiment> {
        // The name `ipi` in a ledger must always mean the project's workload.
        if self.all.contains_key(name) {
            let message = format!(
                "there is a workload called {name} already; give this one a name of its own"
            );
            return Err(source.wrong(&[], &message));
        }
        let base = match &own.base {
            None => None,
            Some(base) => {
                let unknown = || {
                    let message = format!(
                        "base = {base:?} is not a known workload, or one that is based on \
                         this; known: {}",
                        self.names()
                    );
                    source.wrong(&["base"], &message)
                };
                Some(self.all.get(base).ok_or_else(unknown)?)
            }
        };
        derive(source, name, own, base, &self.common, definition)
    }

    /// The workloads, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Experiment> {
        self.all.values()
    }

    /// The workload called `name`.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the names there are.
    pub fn find(&self, name: &str) -> Result<Experiment> {
        let found = self.all.get(name).cloned();
        found.ok_or_else(|| Error::Unknown {
            kind: "workload",
            name: name.to_owned(),
            known: self.names(),
        })
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.all.keys().map(String::as_str).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Value;

    fn project() -> Workloads {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        Workloads::of_project(&folder).unwrap()
    }

    fn with(text: &str) -> std::result::Result<Workloads, String> {
        let mut all = project();
        let added = all.add(Path::new("lab/trapless.toml"), text);
        added.map(|()| all).map_err(|e| e.to_string())
    }

    fn load(text: &str) -> std::result::Result<Experiment, String> {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("program"), "x").unwrap();
        let path = temp.path().join("mine.toml");
        fs::write(&path, text).unwrap();
        project().load(&path).map_err(|e| e.to_string())
    }

    /// Promise: a workload is its base but for what is said, whatever the order, also over two
    /// steps.
    #[test]
    fn own_workloads_say_what_differs() {
        let all = with(
            "[machines.x]\nbase = \"sstc\"\n\
             [workloads.b]\nbase = \"a\"\ntitle = \"two\"\nguest = { harts = 3 }\n\
             [workloads.a]\nbase = \"ipi\"\ndefaults = { loops = 7, wfi = \"native\" }\n\
             [workloads.a.parameters.more]\ndefault = 1\nmaximum = 2\nexplanation = \"e\"",
        )
        .unwrap();
        let (ipi, b) = (all.find("ipi").unwrap(), all.find("b").unwrap());
        assert_eq!((b.title.as_str(), b.guest.harts), ("two", 3));
        assert_eq!(b.guest.script, ipi.guest.script);
        assert_eq!(b.parameters["loops"].default, Value::Number(7));
        assert_eq!(b.parameters["wfi"].default, Value::Word("native".into()));
        assert_eq!(b.parameters.len(), ipi.parameters.len() + 1);
        assert_eq!(b.results, ipi.results);
        let own = b.own.unwrap();
        assert_eq!(own.base.as_deref(), Some("a"));
        assert!(own.definition.contains("native"), "{}", own.definition);
        assert_eq!(ipi.own, None);
    }

    /// Promise: a file needs a script and no more; it has the parameters that all have, and its
    /// files are those beside it.
    #[test]
    fn a_file_alone_is_a_workload() {
        let mine =
            load("[guest]\nscript = \"true\"\nfiles = { \"/bin/x\" = \"program\" }").unwrap();
        assert_eq!((mine.name.as_str(), mine.title.as_str()), ("mine", "mine"));
        assert!(mine.parameters.contains_key("wfi"));
        assert!(mine.guest.files["/bin/x"].is_absolute());
    }

    /// Promise: errors are reported with file, line and column.
    #[test]
    fn wrong_files_are_refused_with_the_place() {
        let script = "[guest]\nscript = \"true\"\n";
        for (text, place, what) in [
            ("title = 1", "line 1, column 9", "invalid type"),
            (
                "subject = \"x\"",
                "line 1, column 1",
                "unknown field `subject`",
            ),
            (
                "title = \"x\"",
                "line 1, column 1",
                "guest.script is missing",
            ),
            (
                "\nbase = \"ipo\"",
                "line 2, column 1",
                "known: applications",
            ),
            (
                &format!("{script}harts = 0"),
                "line 3, column 1",
                "at least 1",
            ),
            (
                &format!("{script}[defaults]\nwfi = \"x\""),
                "line 4, column 1",
                "choose trap, native",
            ),
            (
                &format!("{script}[defaults]\nx = 1"),
                "line 4, column 1",
                "no such parameter",
            ),
            (
                &format!("{script}[parameters.wfi]\ndefault = 1\nmaximum = 1\nexplanation = \"\""),
                "line 3, column 13",
                "every workload has it",
            ),
            (
                &format!("{script}[guest.files]\n\"/bin/x\" = \"gone\""),
                "line 4, column 1",
                "there is no ",
            ),
            (
                &format!("{script}[host.files]\n\"../x\" = \"program\""),
                "line 4, column 1",
                "write it in full",
            ),
            (
                &format!("{script}[work]\nunit = \"x\"\nresult = \"y\""),
                "line 3, column 2",
                "not among the results",
            ),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains("mine.toml: "), "{error}");
            assert!(error.contains(place) && error.contains(what), "{error}");
        }
        for (text, what) in [
            ("[workloads.ipi]\nbase = \"net\"", "called ipi already"),
            ("[workloads.a]\nbase = \"a\"", "line 2, column 1"),
            ("[workloads.\"A b\"]\nbase = \"ipi\"", "cannot be the name"),
            ("[workload.a]\nbase = \"ipi\"", "unknown field `workload`"),
        ] {
            let error = with(text).unwrap_err();
            assert!(error.starts_with("lab/trapless.toml: "), "{error}");
            assert!(error.contains(what), "{error}");
        }
    }
}
