//! Initial RAM file systems: what a recipe names, written as one archive.

pub mod cpio;
pub(crate) mod elf;
pub(crate) mod files;
pub(crate) mod modules;
pub(crate) mod overlay;

use crate::cache::prepared::{PackageVersion, Prepared, files_of};
use crate::debian::package::Package;
use crate::error::{Result, io};
use crate::initramfs::files::{PackageFiles, merged_usr};
use crate::recipe::Recipe;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What goes into an archive.
pub(crate) struct Parts<'a> {
    /// Files of packages.
    pub files: &'a PackageFiles,
    /// The image that its modules are from, if they are from one.
    pub kernel: Option<&'a Prepared>,
    /// Other images by their path in the archive.
    pub inside: &'a BTreeMap<String, Prepared>,
    /// Files of the project, with their modes, likewise.
    pub own: &'a BTreeMap<String, (u32, Vec<u8>)>,
    /// Whole packages with their files.
    pub debs: &'a [(&'a Package, PathBuf)],
}

/// Writes the archive to `path`; packages that contribute are added to `used`.
pub(crate) fn write(
    recipe: &Recipe,
    parts: &Parts<'_>,
    path: &Path,
    used: &mut BTreeSet<PackageVersion>,
) -> Result<()> {
    let out = fs::File::create(path).map_err(io("write", path))?;
    let mut archive = Archive {
        cpio: cpio::Writer::new(BufWriter::new(out)),
        path,
        used,
    };
    archive.add_root()?;
    archive.add_programs(recipe, parts.files)?;
    archive.add_modules(recipe, parts)?;
    for (name, image) in parts.inside {
        archive.add_image(name, image)?;
    }
    for (package, file) in parts.debs {
        archive.add_deb(package, file)?;
    }
    for (name, (mode, content)) in parts.own {
        archive.add(name, *mode, content)?;
    }
    for (name, target) in &recipe.links {
        let link = archive.cpio.symlink(&merged_usr(name), target);
        link.map_err(io("write", path))?;
    }
    let out = archive.cpio.finish().map_err(io("write", path))?;
    let flushed = out.into_inner().map_err(|e| e.into_error());
    flushed.map_err(io("write", path))?;
    Ok(())
}

/// An archive that is being written.
struct Archive<'a> {
    cpio: cpio::Writer<BufWriter<fs::File>>,
    /// Where it is written.
    path: &'a Path,
    /// Packages that have contributed.
    used: &'a mut BTreeSet<PackageVersion>,
}

impl Archive<'_> {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        let written = self.cpio.file(name, mode, content);
        written.map_err(io("write", self.path))
    }

    /// A file with its own mode.
    fn add_file(&mut self, name: &str, file: &Path) -> Result<()> {
        let content = fs::read(file).map_err(io("read", file))?;
        let mode = fs::metadata(file).map_err(io("read", file))?.permissions();
        self.add(name, mode.mode() & 0o777, &content)
    }

    /// What every root folder has: the folders of a merged `/usr`, and the console that the kernel
    /// opens for its first program.
    fn add_root(&mut self) -> Result<()> {
        let failed = || io("write", self.path);
        for folder in [
            "dev", "proc", "sys", "run", "tmp", "root", "usr/bin", "usr/sbin", "usr/lib",
        ] {
            self.cpio.folder(folder).map_err(failed())?;
        }
        for folder in ["bin", "sbin", "lib"] {
            let link = self.cpio.symlink(folder, &format!("usr/{folder}"));
            link.map_err(failed())?;
        }
        self.cpio.device("dev/console", 5, 1).map_err(failed())
    }

    /// Programs with their libraries, and data.
    fn add_programs(&mut self, recipe: &Recipe, files: &PackageFiles) -> Result<()> {
        for (name, (package, file)) in files.with_libraries(&recipe.programs)? {
            self.add_file(&name, &file)?;
            self.used.insert(package.into());
        }
        for wanted in &recipe.data {
            let mut below = files.below(wanted);
            if below.is_empty() {
                below.push((files.find(wanted)?.0, wanted.clone()));
            }
            for (package, name) in below {
                self.add_file(&name, &files.find(&name)?.1)?;
                self.used.insert(package.into());
            }
        }
        Ok(())
    }

    /// Kernel modules, with those that they need.
    fn add_modules(&mut self, recipe: &Recipe, parts: &Parts<'_>) -> Result<()> {
        if recipe.modules.is_empty() {
            return Ok(());
        }
        let source = if let Some(kernel) = parts.kernel {
            modules::Source::of_build(kernel.path.clone())?
        } else {
            let (package, mut folder) = parts.files.find_pattern("/usr/lib/modules/*/kernel")?;
            self.used.insert(package.into());
            folder.pop();
            let mut source = modules::Source::of_package(folder);
            // It may be in another of the kernel's packages.
            let list = format!("/usr/lib/modules/{}/modules.builtin", source.release);
            source.builtin = parts.files.find(&list)?.1;
            source
        };
        let modules = modules::collect(&source, &recipe.modules)?;
        let name = |file: &str| format!("/usr/lib/modules/{}/{file}", source.release);
        for module in &modules {
            self.add(&name(&module.path), 0o644, &module.content)?;
        }
        let dependencies = modules::modules_dep(&modules);
        self.add(&name("modules.dep"), 0o644, dependencies.as_bytes())
    }

    /// Another image, or the files of a folder of them.
    fn add_image(&mut self, name: &str, image: &Prepared) -> Result<()> {
        if image.path.is_dir() {
            for file in files_of(&image.path)? {
                let below = file.file_name().unwrap_or_default().to_string_lossy();
                self.add_file(&format!("{name}/{below}"), &file)?;
            }
            return Ok(());
        }
        let content = fs::read(&image.path).map_err(io("read", &image.path))?;
        let is_program = content.starts_with(b"\x7fELF");
        self.add(name, if is_program { 0o755 } else { 0o644 }, &content)
    }

    /// A whole package, as a file.
    fn add_deb(&mut self, package: &Package, file: &Path) -> Result<()> {
        // As in the archive's pool, where a colon is no part of a name.
        let version = package.version.replace(':', "%3a");
        let name = format!("debs/{}_{version}_{}.deb", package.name, package.arch);
        let content = fs::read(file).map_err(io("read", file))?;
        self.add(&name, 0o644, &content)?;
        self.used.insert(package.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::debian::package::Package;
    use crate::debian::store::Fetch;
    use crate::progress::Progress;
    use std::path::PathBuf;

    struct NoNetwork;

    impl Fetch for NoNetwork {
        fn fetch(
            &self,
            _: &[(&Package, PathBuf)],
            _: &dyn Fn(u64),
        ) -> std::result::Result<(), String> {
            Err("no network".into())
        }
    }

    /// An initramfs with a file and a link below the merged-/usr links, and another image.
    fn initramfs(folder: &Path, image: &Path) -> Vec<u8> {
        let cache = Cache::at(&folder.join("cache")).unwrap();
        let recipe = folder.join("r.toml");
        fs::write(
            &recipe,
            "explanation = \"e\"\n[links]\n\"/bin/sh\" = \"busybox\"\n",
        )
        .unwrap();
        let recipe = Recipe::load(&recipe).unwrap();
        let files = PackageFiles::unpack(&cache, &NoNetwork, &[], Progress::Silent).unwrap();
        let own = BTreeMap::from([(merged_usr("/lib/a.sh"), (0o644, b"content".to_vec()))]);
        let inner = folder.join("inner");
        fs::write(&inner, b"\x7fELF inner").unwrap();
        let inside = Prepared {
            path: inner,
            sha256: String::new(),
            size: 0,
            packages: Vec::new(),
        };
        let inside = BTreeMap::from([("/boot/inner".to_owned(), inside)]);
        let mut used = BTreeSet::new();
        let parts = Parts {
            files: &files,
            kernel: None,
            inside: &inside,
            own: &own,
            debs: &[],
        };
        write(&recipe, &parts, image, &mut used).unwrap();
        fs::read(image).unwrap()
    }

    fn names(archive: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        let mut at = 0;
        while at < archive.len() {
            let field = |n: usize| {
                let text = std::str::from_utf8(&archive[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (size, length) = (field(6), field(11));
            names.push(String::from_utf8(archive[at + 110..at + 109 + length].to_vec()).unwrap());
            at = ((at + 110 + length).next_multiple_of(4) + size).next_multiple_of(4);
        }
        names
    }

    #[test]
    fn merged_usr_links_are_not_replaced_by_folders() {
        let temp = tempfile::tempdir().unwrap();
        let archive = initramfs(temp.path(), &temp.path().join("i.cpio"));
        let names = names(&archive);
        for wanted in ["usr/lib/a.sh", "usr/bin/sh", "boot/inner", "dev/console"] {
            assert!(
                names.contains(&wanted.to_owned()),
                "{wanted} is missing: {names:?}"
            );
        }
        for once in ["lib", "bin", "usr/lib"] {
            assert_eq!(names.iter().filter(|n| *n == once).count(), 1, "{once}");
        }
    }

    #[test]
    fn same_recipe_gives_same_bytes() {
        let temp = tempfile::tempdir().unwrap();
        let one = initramfs(temp.path(), &temp.path().join("1"));
        let two = initramfs(temp.path(), &temp.path().join("2"));
        assert!(one == two);
    }
}
