//! Recipes: which packages and files an image is made from. One TOML file per image in `images/`.

use crate::error::{Error, Result, io};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Whose scripts of the experiments an image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Inside the virtual machine.
    Guest,
    /// Around it.
    Host,
}

/// How kernel modules are built. Paths are relative to the project folder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Script that builds them; see the module `kmod` for how it is called.
    pub script: String,
    /// Files and folders that decide the result, besides the script.
    pub inputs: Vec<String>,
    /// Parts of Debian's kernel source that the script wants, e.g. `virt/kvm`.
    #[serde(default)]
    pub source: Vec<String>,
    /// How many lines the script prints, about. Only for what takes minutes to build: its progress
    /// is shown, and what is in `BUILD_DIR` is kept for the next build.
    pub steps: Option<u64>,
}

/// One image. Paths in an image are absolute.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// File name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// The text, part of what names the result.
    #[serde(skip)]
    pub text: String,
    /// What the image is for, one or two sentences.
    pub explanation: String,
    /// Meta-package whose kernel is meant, e.g. `linux-image-riscv64`: that of
    /// `linux/patches/tried`, else the newest.
    pub kernel: Option<String>,
    /// Packages, fetched with all they depend on.
    #[serde(default)]
    pub packages: Vec<String>,
    /// The image is this one file of the packages: the first of these paths that there is; `*`
    /// stands for a version. Without it the image is an initial RAM file system.
    #[serde(default)]
    pub extract: Vec<String>,
    /// The image is a folder of kernel modules for `kernel`, built by a script of the project.
    pub build: Option<Build>,
    /// Programs and libraries of the packages, with the shared libraries they need.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Single files and whole folders of the packages.
    #[serde(default)]
    pub data: Vec<String>,
    /// Packages, with all that they depend on, whose files are put into `/debs` as they are.
    #[serde(default)]
    pub debs: Vec<String>,
    /// Kernel modules, with those they need; a kernel need not have what ends in `?`.
    #[serde(default)]
    pub modules: Vec<String>,
    /// The image, a folder, that they are from, if not from the package of `kernel`. It also has
    /// the files `release` (the kernel's version) and `builtin` (modules that are part of it).
    pub modules_from: Option<String>,
    /// Path in the image = file beside the recipe.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Path in the image = another image, or `vmm`, or `kvm-selftests`; or one file of one that is
    /// a folder: `NAME/FILE`.
    #[serde(default)]
    pub artefacts: BTreeMap<String, String>,
    /// Path of a symbolic link = its target.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// Whether the experiments' scripts are put into `/workloads`, and which.
    pub experiments: Option<Side>,
}

impl Recipe {
    /// Reads one recipe.
    ///
    /// # Errors
    /// [`Error::Data`] with file, line and key if it is not a valid recipe.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(io("read", path))?;
        let bad = |message: String| Error::Data {
            path: path.to_owned(),
            message,
        };
        let mut recipe: Self = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
        recipe.name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let alone = recipe.programs.is_empty() && recipe.files.is_empty();
        if !recipe.extract.is_empty() && !alone {
            return Err(bad(
                "`extract` makes the image a single file; remove `programs` and `files`".into(),
            ));
        }
        if recipe.kernel.is_none() && recipe.modules_from.is_none() && !recipe.modules.is_empty() {
            return Err(bad(
                "`modules` needs `kernel`, the package they come from".into()
            ));
        }
        if let Some(build) = &recipe.build {
            let others = !recipe.extract.is_empty()
                || !(recipe.packages.is_empty()
                    && recipe.programs.is_empty()
                    && recipe.data.is_empty()
                    && recipe.modules.is_empty()
                    && recipe.files.is_empty()
                    && recipe.artefacts.is_empty()
                    && recipe.links.is_empty());
            if recipe.kernel.is_none() || others {
                return Err(bad(
                    "`build` makes the image a folder of kernel modules: besides it only `kernel` \
                     (required) and `explanation` have a meaning"
                        .into(),
                ));
            }
            for path in build.inputs.iter().chain([&build.script]) {
                if Path::new(path).is_absolute() || path.contains("..") {
                    return Err(bad(format!(
                        "build: `{path}` is not a path within the project folder"
                    )));
                }
            }
        }
        recipe.text = text;
        Ok(recipe)
    }

    /// Reads all recipes of a folder, sorted by name.
    ///
    /// # Errors
    /// If the folder or one of the recipes cannot be read.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>> {
        trapless_experiments::toml_files(folder)?
            .iter()
            .map(|path| Self::load(path))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Recipe> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("guest.toml");
        fs::write(&path, text).unwrap();
        Recipe::load(&path)
    }

    #[test]
    fn unknown_key_is_named_with_its_line() {
        let error = load("explanation = \"x\"\npakages = []\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("guest.toml") && error.contains("pakages") && error.contains("line 2"),
            "{error}"
        );
    }

    #[test]
    fn modules_without_a_kernel_are_refused() {
        assert!(
            load("explanation = \"x\"\nmodules = [\"kvm\"]\n")
                .unwrap_err()
                .to_string()
                .contains("`kernel`")
        );
    }

    #[test]
    fn a_build_is_alone_and_stays_in_the_project() {
        let build = "explanation = \"x\"\nkernel = \"k\"\n";
        let error = |text: &str| load(&format!("{build}{text}")).unwrap_err().to_string();
        let alone = error("programs = [\"/a\"]\n[build]\nscript = \"b\"\ninputs = []\n");
        assert!(alone.contains("besides it only `kernel`"), "{alone}");
        for path in ["/etc/passwd", "../b"] {
            let outside = error(&format!("[build]\nscript = \"b\"\ninputs = [\"{path}\"]\n"));
            assert!(outside.contains(path), "{outside}");
        }
        load(&format!("{build}[build]\nscript = \"b\"\ninputs = []\n")).unwrap();
    }

    #[test]
    fn recipes_of_the_project_are_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images");
        let recipes = Recipe::load_all(&folder).unwrap();
        for recipe in &recipes {
            for file in recipe.files.values() {
                assert!(folder.join(file).exists(), "{}: {file}", recipe.name);
            }
            for artefact in recipe.artefacts.values().chain(&recipe.modules_from) {
                let name = artefact.split('/').next().unwrap_or_default();
                let known = ["vmm", "backend", "kvm-selftests"].contains(&name)
                    || recipes.iter().any(|r| r.name == name);
                assert!(known, "{}: {artefact}", recipe.name);
            }
        }
        let experiments = folder.join("../experiments");
        for experiment in trapless_experiments::Experiment::load_all(&experiments).unwrap() {
            for name in &experiment.host.images {
                // With the release, if it is not the stable one
                let recipe = name.split('@').next().unwrap_or_default();
                let known = recipes.iter().any(|r| r.name == recipe);
                assert!(known, "{}: {name}", experiment.name);
            }
        }
    }
}
