//! Initial RAM file systems: what a recipe names, written as one archive.

use crate::cpio;
use crate::error::{Result, io};
use crate::files::{PackageFiles, merged_usr};
use crate::modules;
use crate::package::Package;
use crate::prepared::{PackageVersion, Prepared, files_of};
use crate::recipe::Recipe;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufWriter;
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
    let &Parts {
        files,
        kernel,
        inside,
        own,
        debs,
    } = parts;
    let failed = || io("write", path);
    let out = fs::File::create(path).map_err(failed())?;
    let mut archive = cpio::Writer::new(BufWriter::new(out));
    for folder in [
        "dev", "proc", "sys", "run", "tmp", "root", "usr/bin", "usr/sbin", "usr/lib",
    ] {
        archive.folder(folder).map_err(failed())?;
    }
    for folder in ["bin", "sbin", "lib"] {
        archive
            .symlink(folder, &format!("usr/{folder}"))
            .map_err(failed())?;
    }
    archive.device("dev/console", 5, 1).map_err(failed())?;
    let add = |archive: &mut cpio::Writer<_>, name: &str, file: &Path| -> Result<()> {
        let content = fs::read(file).map_err(io("read", file))?;
        let mode = fs::metadata(file).map_err(io("read", file))?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777;
        archive
            .file(name, mode, &content)
            .map_err(io("write", path))
    };
    for (name, (package, file)) in files.with_libraries(&recipe.programs)? {
        add(&mut archive, &name, &file)?;
        used.insert(package.into());
    }
    for wanted in &recipe.data {
        let mut below = files.below(wanted);
        if below.is_empty() {
            below.push((files.find(wanted)?.0, wanted.clone()));
        }
        for (package, name) in below {
            add(&mut archive, &name, &files.find(&name)?.1)?;
            used.insert(package.into());
        }
    }
    if !recipe.modules.is_empty() {
        let source = if let Some(kernel) = kernel {
            modules::Source::of_build(kernel.path.clone())?
        } else {
            let (package, folder) = files.find_pattern("/usr/lib/modules/*")?;
            used.insert(package.into());
            modules::Source::of_package(folder)
        };
        let modules = modules::collect(&source, &recipe.modules)?;
        let name = |file: &str| format!("/usr/lib/modules/{}/{file}", source.release);
        for module in &modules {
            archive
                .file(&name(&module.path), 0o644, &module.content)
                .map_err(failed())?;
        }
        archive
            .file(
                &name("modules.dep"),
                0o644,
                modules::modules_dep(&modules).as_bytes(),
            )
            .map_err(failed())?;
    }
    for (name, image) in inside {
        if image.path.is_dir() {
            for file in files_of(&image.path)? {
                let below = file.file_name().unwrap_or_default().to_string_lossy();
                add(&mut archive, &format!("{name}/{below}"), &file)?;
            }
            continue;
        }
        let content = fs::read(&image.path).map_err(io("read", &image.path))?;
        let mode = if content.starts_with(b"\x7fELF") {
            0o755
        } else {
            0o644
        };
        archive.file(name, mode, &content).map_err(failed())?;
    }
    for (package, file) in debs {
        // As in the archive's pool, where a colon is no part of a name.
        let version = package.version.replace(':', "%3a");
        let name = format!("debs/{}_{version}_{}.deb", package.name, package.arch);
        let content = fs::read(file).map_err(io("read", file))?;
        archive.file(&name, 0o644, &content).map_err(failed())?;
        used.insert((*package).into());
    }
    for (name, (mode, content)) in own {
        archive.file(name, *mode, content).map_err(failed())?;
    }
    for (name, target) in &recipe.links {
        archive
            .symlink(&merged_usr(name), target)
            .map_err(failed())?;
    }
    archive
        .finish()
        .map_err(failed())?
        .into_inner()
        .map_err(|e| e.into_error())
        .map_err(failed())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::package::Package;
    use crate::progress::Progress;
    use crate::store::Fetch;
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
