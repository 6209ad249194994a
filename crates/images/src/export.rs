//! What a package of Trapless brings along for its users (see the module `shipped`): whatever
//! workloads need that would have to be compiled, and which Debian packages it belongs to.

use crate::built::{kmod, vmm};
use crate::cache::prepared::files_of;
use crate::cache::shipped;
use crate::debian::mirror::Mirror;
use crate::debian::release::Release;
use crate::error::{Result, io};
use crate::images::Images;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Images that some workload or `boot` starts, besides those that workloads name.
const STARTED: &[&str] = &["host", "qemu-host", "disk"];
/// Images that are no recipes.
const PROGRAMS: &[&str] = &["vmm", "backend", "kvm-selftests"];

impl Images {
    /// Builds what workloads need and what `more` names (recipes), and writes it to `folder`, which
    /// must not be there yet: the folder `prebuilt` of an installed project. Returns the names of
    /// what was built.
    ///
    /// # Errors
    /// If something cannot be built, or the folder cannot be written.
    pub fn export(&mut self, folder: &Path, more: &[&str]) -> Result<BTreeSet<String>> {
        fs::create_dir(folder).map_err(io("create", folder))?;
        let recipes = self.recipes()?;
        let experiments = self.experiments()?;
        let named = experiments.iter().flat_map(|e| &e.host.images);
        // The testing release changes every week: what is built for it would soon fit nothing.
        let named = named.filter(|name| !name.contains('@'));
        let mut wanted: Vec<String> = named.cloned().collect();
        wanted.extend(STARTED.iter().chain(more).map(|&name| name.to_owned()));
        let mut seen = BTreeSet::new();
        let mut built = BTreeSet::new();
        while let Some(name) = wanted.pop() {
            let name = name.split('/').next().unwrap_or_default().to_owned();
            if PROGRAMS.contains(&name.as_str()) || !seen.insert(name.clone()) {
                continue;
            }
            let recipe = self.recipe(&name)?;
            wanted.extend(recipe.artefacts.into_values().chain(recipe.modules_from));
            if recipe.build.is_some() {
                let modules = self.prepare(&name)?.path;
                let place = folder.join(kmod::KIND).join(name_of(modules.parent()));
                copy(&modules, &place.join(kmod::MODULES))?;
                built.insert(name);
            }
        }
        if let Some(programs) = self.prepare("vmm")?.path.parent() {
            let place = folder.join(vmm::KIND).join(name_of(Some(programs)));
            copy(programs, &place)?;
        }
        built.extend(["vmm".to_owned(), "backend".to_owned()]);
        // What users may ask for of all others, so that they need no lists of packages either.
        for recipe in &recipes {
            self.resolve(recipe, Release::Stable)?;
        }
        let answers = self.apt()?.answers();
        shipped::write_lock(folder, &answers, &Mirror::find()?)?;
        Ok(built)
    }
}

/// Last component of a path.
fn name_of(path: Option<&Path>) -> &OsStr {
    path.and_then(Path::file_name).unwrap_or_default()
}

/// Copies the files of a folder that has no others below.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(io("create", to))?;
    for file in files_of(from)? {
        let copy = to.join(name_of(Some(&file)));
        fs::copy(&file, &copy).map_err(io("write", &copy))?;
    }
    Ok(())
}
