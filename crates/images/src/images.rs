//! Images made from recipes, named by all that goes into them.

use crate::built::kmod;
use crate::built::selftests;
use crate::built::vmm;
use crate::cache::Cache;
use crate::cache::kept::{InUse, Kept, remove_old};
use crate::cache::prepared::{self, Prepared, load_intact};
use crate::cache::shipped::{self, Locked};
use crate::debian::apt::Apt;
use crate::debian::package::{Package, Request};
use crate::debian::release::Release;
use crate::debian::store::Store;
use crate::digest::{sha256_file, sha256_parts};
use crate::error::{Error, Result, io};
use crate::initramfs;
use crate::initramfs::files::{PackageFiles, merged_usr};
use crate::progress::Progress;
use crate::recipe::{Build, Recipe, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use trapless_experiments::Experiment;

/// Changes when this code would make other bytes from the same recipe.
const FORMAT: &str = "2";
const ARCH: &str = "riscv64";
const REPLACED: &str = "The archive no longer has the packages this program came with; using newer \
                        ones, for which kernel modules are built once";

/// The project's images. While this lives, or what [`keep`](Self::keep) makes of it, no process
/// removes from the cache what it has returned.
#[derive(Debug)]
pub struct Images {
    pub(crate) project: PathBuf,
    cache: Cache,
    progress: Progress,
    apts: BTreeMap<Release, Apt>,
    vmm: Option<PathBuf>,
    ready: BTreeMap<String, Prepared>,
    kept: Kept,
}

impl Images {
    /// The images of the project folder that holds `images/`, `experiments/` and `vmm/`.
    ///
    /// # Errors
    /// If the cache folder cannot be created.
    pub fn open(project: &Path, progress: Progress) -> Result<Self> {
        let project = project
            .canonicalize()
            .map_err(io("find the project folder", project))?;
        let cache = Cache::open(&project)?;
        Ok(Self {
            project,
            cache,
            progress,
            apts: BTreeMap::new(),
            vmm: None,
            ready: BTreeMap::new(),
            kept: Kept::default(),
        })
    }

    /// What was returned stays in the cache until the result is dropped.
    #[must_use]
    pub fn keep(self) -> Kept {
        self.kept
    }

    /// Uses this riscv64 VMM instead of building `vmm/`.
    pub fn use_vmm(&mut self, path: &Path) {
        self.vmm = Some(path.to_owned());
    }

    /// The cache in use.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// All recipes, sorted by name.
    ///
    /// # Errors
    /// If a recipe is not valid.
    pub fn recipes(&self) -> Result<Vec<Recipe>> {
        Recipe::load_all(&self.project.join("images"))
    }

    /// All experiments, sorted by name.
    ///
    /// # Errors
    /// If an experiment is not valid.
    pub fn experiments(&self) -> Result<Vec<Experiment>> {
        Ok(Experiment::load_all(&self.project.join("experiments"))?)
    }

    /// Renews the package lists, so that newer versions are used from now on: those of the stable
    /// release, and of others that something was taken from.
    ///
    /// # Errors
    /// If they cannot be fetched.
    pub fn refresh(&mut self) -> Result<()> {
        self.apt()?;
        for release in Release::ALL {
            if Apt::has_lists(release, &self.cache) {
                self.apt_of(release)?;
            }
        }
        self.apts.values_mut().try_for_each(Apt::refresh)
    }

    /// Makes several images; see [`Images::prepare`].
    ///
    /// # Errors
    /// As [`Images::prepare`].
    pub fn prepare_all(&mut self, names: &[&str]) -> Result<BTreeMap<String, Prepared>> {
        names
            .iter()
            .map(|name| Ok(((*name).to_owned(), self.prepare(name)?)))
            .collect()
    }

    /// Makes the image `name` (a recipe, `vmm` or `kvm-selftests`), or finds it in the cache and
    /// checks that it is undamaged. The kernel of `NAME@RELEASE`, as `host@testing`, and of all
    /// that it is made of, is that of another release of Debian.
    ///
    /// # Errors
    /// If there is no such recipe, or a package or tool it needs cannot be had.
    pub fn prepare(&mut self, name: &str) -> Result<Prepared> {
        if let Some(ready) = self.ready.get(name) {
            return Ok(ready.clone());
        }
        let prepared = match self.make_here(name) {
            Err(error) if error.is_denied() => {
                self.leave_cache(error)?;
                self.make_here(name).map_err(|error| self.told(error))?
            }
            other => other?,
        };
        self.ready.insert(name.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// Makes an image in the cache in use.
    fn make_here(&mut self, name: &str) -> Result<Prepared> {
        let mut made = self.make(name);
        if shipped::is_pinned() {
            return made;
        }
        // The archive drops old versions: newer lists name those that it has now. Testing drops
        // them daily, for which packages of stable need not be replaced.
        let mut releases = vec![self.split(name)?.1, Release::Stable];
        releases.dedup();
        for release in releases {
            if !matches!(made, Err(Error::Download { .. })) {
                break;
            }
            let apt = self.apt_of(release)?;
            let locked = apt.is_locked();
            if apt.refresh().is_err() {
                continue;
            }
            if locked {
                self.progress.tell(REPLACED);
            }
            made = self.make(name);
        }
        made
    }

    /// The cache in use belongs to another user and lacks something: from now on the user's own is
    /// used.
    fn leave_cache(&mut self, denied: Error) -> Result<()> {
        let own = match Cache::of_user() {
            Some(own) => own?,
            None => return Err(self.told(denied)),
        };
        if own.root() == self.cache.root() {
            return Err(self.told(denied));
        }
        let (theirs, root) = (self.cache.root().display(), own.root().display());
        self.progress
            .tell(&format!("{theirs} belongs to another user; using {root}"));
        self.cache = own;
        self.apts.clear();
        Ok(())
    }

    /// Says what to do if this user may not write to the cache.
    fn told(&self, error: Error) -> Error {
        if !error.is_denied() {
            return error;
        }
        Error::Cache {
            root: self.cache.root().to_owned(),
            reason: Box::new(error),
        }
    }

    fn make(&mut self, name: &str) -> Result<Prepared> {
        let (recipe, release) = self.split(name)?;
        match recipe {
            "vmm" => self.prepare_vmm(),
            "backend" => self.prepare_backend(),
            "kvm-selftests" => self.prepare_selftests(release),
            _ => self.prepare_recipe(name),
        }
    }

    /// The recipe that an image's name means, and the release of its kernel.
    fn split<'n>(&self, name: &'n str) -> Result<(&'n str, Release)> {
        let Some((recipe, release)) = name.split_once('@') else {
            return Ok((name, Release::Stable));
        };
        let release = Release::named(release).ok_or_else(|| Error::Unknown {
            kind: "release of Debian",
            name: release.to_owned(),
            known: Release::ALL.map(Release::name).join(", "),
        })?;
        Ok((recipe, release))
    }

    pub(crate) fn apt(&mut self) -> Result<&Apt> {
        Ok(self.apt_of(Release::Stable)?)
    }

    fn apt_of(&mut self, release: Release) -> Result<&mut Apt> {
        if !self.apts.contains_key(&release) {
            let locked = match release {
                Release::Stable => Locked::of_project(&self.project)?,
                // A program comes with none of these.
                Release::Testing => None,
            };
            let with_lists = locked.is_none();
            let apt = Apt::of_release(release, &self.cache, locked, self.progress)?;
            if with_lists {
                apt.need_lists()?;
            }
            let tried = kmod::tried_kernels(&self.project)?;
            self.apts.insert(release, apt.with_kernels(&tried));
        }
        // Just set.
        self.apts.get_mut(&release).ok_or(Error::NoMirror)
    }

    fn prepare_vmm(&mut self) -> Result<Prepared> {
        let path = match self.vmm.clone() {
            Some(path) => path,
            None => {
                let (project, cache, progress) =
                    (self.project.clone(), self.cache.clone(), self.progress);
                vmm::build(&project, &cache, self.apt()?, progress)?
            }
        };
        program(path)
    }

    /// Built with the VMM, even if the user has another one.
    fn prepare_backend(&mut self) -> Result<Prepared> {
        let (project, cache, progress) = (self.project.clone(), self.cache.clone(), self.progress);
        let vmm = vmm::build(&project, &cache, self.apt()?, progress)?;
        program(vmm.with_file_name("trapless-backend"))
    }

    /// A folder of programs.
    fn prepare_selftests(&mut self, release: Release) -> Result<Prepared> {
        let kernel = self.kernel(release)?;
        let (path, source) = selftests::build(&self.inputs(&kernel)?)?;
        prepared::of_folder(path, vec![(&source).into()])
    }

    /// A folder of kernel modules.
    fn prepare_modules(&mut self, name: &str, build: &Build) -> Result<Prepared> {
        let kernel = self.kernel(self.split(name)?.1)?;
        let built = kmod::build(name, build, &self.inputs(&kernel)?)?;
        self.kept.add(built.in_use);
        prepared::of_folder(built.folder, built.packages)
    }

    /// The kernel of images, of a release of Debian.
    fn kernel(&mut self, release: Release) -> Result<Kernel> {
        let recipe = self.recipe("kernel")?;
        let mut packages = self.resolve(&recipe, release)?;
        let package = packages.pop().ok_or(Error::NoMirror)?;
        Ok(Kernel { release, package })
    }

    /// What something for a kernel is built from and with.
    fn inputs<'a>(&'a mut self, kernel: &'a Kernel) -> Result<kmod::Inputs<'a>> {
        self.apt_of(kernel.release)?;
        Ok(kmod::Inputs {
            project: &self.project,
            cache: &self.cache,
            apt: self.apts.get(&kernel.release).ok_or(Error::NoMirror)?,
            progress: self.progress,
            kernel: &kernel.package,
        })
    }

    /// Unpacks parts of the source of the images' kernel and returns the folder they are in.
    ///
    /// A part is a path below the top of the kernel's tree: a file, or a folder with all it has.
    ///
    /// # Errors
    /// If the source package cannot be had, or has no such part.
    pub fn kernel_source(&mut self, release: Release, parts: &[String]) -> Result<PathBuf> {
        let kernel = self.kernel(release)?;
        let inputs = self.inputs(&kernel)?;
        let source = kmod::source_of(inputs.apt, inputs.kernel)?;
        let _lock = inputs.cache.lock("modules")?;
        kmod::unpack_source(&inputs, &source, parts)
    }

    /// Unpacks the headers of the images' kernel and returns their folder, what `make -C` wants for
    /// modules.
    ///
    /// # Errors
    /// If the packages cannot be had.
    pub fn kernel_headers(&mut self, release: Release) -> Result<PathBuf> {
        let kernel = self.kernel(release)?;
        kmod::unpack_headers(&self.inputs(&kernel)?)
    }

    /// Another image, or, as `NAME/FILE`, one file of an image that is a folder.
    ///
    /// # Errors
    /// As [`Images::prepare`].
    pub fn artefact(&mut self, name: &str) -> Result<Prepared> {
        let Some((image, file)) = name.split_once('/') else {
            return self.prepare(name);
        };
        let mut prepared = self.prepare(image)?;
        prepared.path.push(file);
        let path = &prepared.path;
        let metadata = fs::metadata(path).map_err(io("find", path))?;
        prepared.size = metadata.len();
        prepared.sha256 = sha256_file(path)?;
        Ok(prepared)
    }

    pub(crate) fn recipe(&self, name: &str) -> Result<Recipe> {
        let path = self.project.join("images").join(format!("{name}.toml"));
        if name.contains(['/', '.']) || !path.exists() {
            let known = self
                .recipes()?
                .into_iter()
                .map(|r| r.name)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(Error::Unknown {
                kind: "image",
                name: name.to_owned(),
                known,
            });
        }
        Recipe::load(&path)
    }

    fn prepare_recipe(&mut self, name: &str) -> Result<Prepared> {
        let (base, release) = self.split(name)?;
        let recipe = self.recipe(base)?;
        let mut inside = BTreeMap::new();
        if let Some(build) = &recipe.build {
            return self.prepare_modules(name, build);
        }
        for (path, artefact) in &recipe.artefacts {
            let artefact = self.artefact(&release.image(artefact))?;
            inside.insert(merged_usr(path), artefact);
        }
        let kernel = match &recipe.modules_from {
            Some(image) => Some(self.prepare(&release.image(image))?),
            None => None,
        };
        let packages = self.resolve(&recipe, release)?;
        let debs = match &recipe.debs[..] {
            [] => Vec::new(),
            names => self.apt()?.resolve(&closure(names))?,
        };
        let own = self.own_files(&recipe)?;

        // The key: everything that decides the bytes.
        let mut parts: Vec<Vec<u8>> = vec![FORMAT.into(), recipe.text.clone().into()];
        let every = packages.iter().chain(&debs);
        parts.extend(every.map(|p| p.sha256.clone().into()));
        parts.extend(
            inside
                .values()
                .chain(&kernel)
                .map(|p| p.sha256.clone().into()),
        );
        for (path, (_, content)) in &own {
            parts.extend([path.clone().into(), content.clone()]);
        }
        let key = sha256_parts(parts.iter().map(Vec::as_slice));
        let folder = self
            .cache
            .folder("images")?
            .join(format!("{name}-{}", &key[..16]));
        let _lock = self.cache.lock(&format!("image-{name}"))?;
        self.kept.add(InUse::of(&folder));
        if let Some(prepared) = load_intact(&folder) {
            return Ok(prepared);
        }
        let (cache, progress) = (self.cache.clone(), self.progress);
        let files = PackageFiles::unpack(&cache, self.apt_of(release)?, &packages, progress)?;
        let whole = Store::new(&cache, progress).obtain(&debs, self.apt()?)?;
        let whole: Vec<_> = debs.iter().zip(whole).collect();
        let _task = progress.task(
            &format!("Making image {name} of {}", self.project.display()),
            0,
        );
        fs::create_dir_all(&folder).map_err(io("create", &folder))?;
        let path = folder.join(if !recipe.extract.is_empty() {
            base.to_owned()
        } else {
            format!("{base}.cpio")
        });
        let mut used = BTreeSet::new();
        if !recipe.extract.is_empty() {
            let (package, file) = files.find_one_of(&recipe.extract)?;
            fs::copy(&file, &path).map_err(io("write", &path))?;
            used.insert(package.into());
        } else {
            let kernel = kernel.as_ref();
            let parts = initramfs::Parts {
                files: &files,
                kernel,
                inside: &inside,
                own: &own,
                debs: &whole,
            };
            initramfs::write(&recipe, &parts, &path, &mut used)?;
        }
        for image in inside.values().chain(&kernel) {
            used.extend(image.packages.iter().cloned());
        }
        let size = fs::metadata(&path).map_err(io("read", &path))?.len();
        let prepared = Prepared {
            sha256: sha256_file(&path)?,
            path,
            size,
            packages: used.into_iter().collect(),
        };
        // Written last: an image without it is not finished.
        let manifest = folder.join("manifest.json");
        let text = serde_json::to_vec_pretty(&prepared).unwrap_or_default();
        fs::write(&manifest, text).map_err(io("write", &manifest))?;
        self.kept.add(InUse::of(&folder));
        remove_old(&folder, name);
        Ok(prepared)
    }

    /// The packages of a recipe; of the kernel's meta-package only those that the kernel of a
    /// release consists of, `linux-image` last.
    pub(crate) fn resolve(&mut self, recipe: &Recipe, release: Release) -> Result<Vec<Package>> {
        let mut packages = Vec::new();
        if !recipe.packages.is_empty() {
            packages = self.apt()?.resolve(&closure(&recipe.packages))?;
        }
        if let Some(meta) = &recipe.kernel {
            let all = closure(std::slice::from_ref(meta));
            let all = self.apt_of(release)?.resolve(&all)?;
            let kernel = kernel_among(&all, meta).ok_or_else(|| Error::Resolve {
                packages: meta.clone(),
                reason: "it depends on no linux-image package".into(),
            })?;
            packages.extend(kernel);
        }
        Ok(packages)
    }

    /// Files of the project that go into the image: path -> (mode, content).
    fn own_files(&self, recipe: &Recipe) -> Result<BTreeMap<String, (u32, Vec<u8>)>> {
        let mut own = BTreeMap::new();
        for (path, file) in &recipe.files {
            let file = self.project.join("images").join(file);
            let content = fs::read(&file).map_err(io("read", &file))?;
            let mode = if content.starts_with(b"#!") {
                0o755
            } else {
                0o644
            };
            own.insert(merged_usr(path), (mode, content));
        }
        if let Some(side) = recipe.experiments {
            for experiment in self.experiments()? {
                let script = match side {
                    Side::Guest => Some(experiment.guest.script),
                    Side::Host => experiment.host.script,
                };
                if let Some(script) = script {
                    own.insert(
                        format!("/workloads/{}", experiment.name),
                        (0o644, script.into_bytes()),
                    );
                }
            }
        }
        Ok(own)
    }
}

/// Kernel of images.
struct Kernel {
    release: Release,
    /// Its `linux-image` package.
    package: Package,
}

/// The packages among `all` that the kernel of the meta-package `meta` consists of: since Debian
/// 14 its parts have packages of their own, on which `linux-image`, the last one, depends.
fn kernel_among(all: &[Package], meta: &str) -> Option<Vec<Package>> {
    let image = |p: &&Package| p.name.starts_with("linux-image-") && p.name != meta;
    let image = all.iter().find(image)?;
    let version = image.name.strip_prefix("linux-image-")?;
    let parts = all.iter().filter(|p| {
        let part = p.name.strip_prefix("linux-");
        let part = part.and_then(|rest| rest.strip_suffix(version)?.strip_suffix('-'));
        part.is_some_and(|part| part != "image" && !part.contains('-'))
    });
    Some(parts.chain([image]).cloned().collect())
}

/// Packages with all that they depend on.
fn closure(names: &[String]) -> Request {
    Request {
        arch: ARCH.into(),
        closure: names.to_vec(),
        alone: Vec::new(),
    }
}

/// A program that has been built.
fn program(path: PathBuf) -> Result<Prepared> {
    let size = fs::metadata(&path)
        .map_err(io("read the program", &path))?
        .len();
    Ok(Prepared {
        sha256: sha256_file(&path)?,
        path,
        size,
        packages: Vec::new(),
    })
}
