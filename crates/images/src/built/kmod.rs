//! Kernel modules of the project (`linux/`), built against Debian's headers of exactly the kernel
//! in the images.
//!
//! A script of the project builds them inside the tool tree. It is called with up to three folders:
//!
//! ```text
//! SCRIPT [SOURCE] HEADERS OUT     run in an empty folder it may fill
//!   SOURCE    parts of Debian's kernel source, if the recipe names any
//!   HEADERS   what `make -C` wants for modules: /usr/src/linux-headers-RELEASE
//!   OUT       where the script leaves its `*.ko`, and programs (files without a dot in their name)
//! ```
//!
//! It may write below OUT, the current folder, `BUILD_DIR` and `TMPDIR`, and nowhere else. If the
//! recipe says `steps`, `BUILD_DIR` is what the last build left there.
//!
//! `KCFLAGS`, `KAFLAGS` and `MAKEFLAGS` are set: no debugging information, as many jobs as
//! processors. All folders have fixed names in the tree, so that the same sources give the same
//! modules wherever the project and its cache are.

use crate::built::inputs::add_input;
use crate::built::tools::Tools;
use crate::cache::Cache;
use crate::cache::kept::{InUse, remove_old};
use crate::cache::prepared::{PackageVersion, files_of};
use crate::cache::shipped;
use crate::command::{run, spawn_output, spawn_watched};
use crate::debian::apt::Apt;
use crate::debian::package::{Package, Request};
use crate::debian::tree;
use crate::digest::sha256_parts;
use crate::error::{Error, Result, io};
use crate::initramfs::files::PackageFiles;
use crate::initramfs::modules::Source;
use crate::progress::Progress;
use crate::recipe::Build;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Changes when this code would make other modules from the same inputs.
const FORMAT: &str = "1";
/// Folder of the cache, and of what a package brings along.
pub(crate) const KIND: &str = "modules";
/// What is finished, in the folder of a build.
pub(crate) const MODULES: &str = "modules";
/// Where the tool tree sees things.
const PROJECT: &str = "/trapless/source";
const BUILD: &str = "/trapless/modules";
const SOURCE: &str = "/trapless/linux-source";
const KEPT: &str = "/trapless/kept";
/// Lines of the compiler that an error repeats.
const LINES: usize = 15;

/// What a build needs besides the project.
pub(crate) struct Inputs<'a> {
    pub(crate) project: &'a Path,
    pub(crate) cache: &'a Cache,
    /// What the kernel and the tools come from.
    pub(crate) apt: &'a Apt,
    pub(crate) progress: Progress,
    /// The `linux-image` package the modules are for.
    pub(crate) kernel: &'a Package,
}

/// Modules that were built or found.
pub(crate) struct Built {
    /// Folder with `*.ko` and programs, nothing else.
    pub(crate) folder: PathBuf,
    /// Packages that what is in the modules comes from.
    pub(crate) packages: Vec<PackageVersion>,
    /// Keeps them in the cache. `None` if they came with the program.
    pub(crate) in_use: Option<InUse>,
}

/// Builds the modules of recipe `name`, or finds them in the cache.
///
/// # Errors
/// If packages cannot be had, an input is missing, or the script fails or leaves no module.
pub(crate) fn build(name: &str, build: &Build, inputs: &Inputs<'_>) -> Result<Built> {
    let cache = inputs.cache;
    let needed = Needed::of(build, inputs)?;
    let used = needed.used();
    let folder = format!("{name}-{}", &needed.key(name, build, inputs)?[..16]);
    if let Some(shipped) = shipped::find(inputs.project, KIND, &folder) {
        return built(name, shipped.join(MODULES), used, None);
    }
    let folder = cache.folder(KIND)?.join(folder);
    let _lock = cache.lock("modules")?;
    let done = folder.join(MODULES);
    if done.exists() {
        return built(name, done, used, InUse::of(&folder));
    }

    let _ = fs::remove_dir_all(&folder);
    let out = folder.join("out");
    for path in [&out, &folder.join("work")] {
        fs::create_dir_all(path).map_err(io("create", path))?;
    }
    run_script(name, build, inputs, &needed, &folder)?;
    keep_results(&out, &folder, &done)?;
    // Only the modules are needed again.
    for rest in ["out", "work"] {
        let _ = fs::remove_dir_all(folder.join(rest));
    }
    let in_use = InUse::of(&folder);
    remove_old(&folder, name);
    built(name, done, used, in_use)
}

/// The packages that modules are built from and with.
struct Needed {
    /// Headers of the kernel, and kbuild's programs.
    headers: Vec<Package>,
    /// The kernel's source, if the script wants parts of it.
    source: Option<Package>,
}

impl Needed {
    fn of(build: &Build, inputs: &Inputs<'_>) -> Result<Self> {
        let headers = headers_of(inputs.apt, inputs.kernel)?;
        let wanted = !build.source.is_empty();
        let source = wanted.then(|| source_of(inputs.apt, inputs.kernel));
        let source = source.transpose()?;
        Ok(Self { headers, source })
    }

    /// Packages that something of is in the modules.
    fn used(&self) -> Vec<PackageVersion> {
        self.source
            .iter()
            .chain(&self.headers)
            .map(Into::into)
            .collect()
    }

    /// Names everything that decides what the modules are.
    fn key(&self, name: &str, build: &Build, inputs: &Inputs<'_>) -> Result<String> {
        let mut parts = vec![FORMAT.to_owned(), name.to_owned(), build.source.join(" ")];
        for input in build.inputs.iter().chain([&build.script]) {
            add_input(&inputs.project.join(input), input, &mut parts)?;
        }
        let compilers = Tools::resolve(inputs.apt)?;
        for package in self.headers.iter().chain(&self.source).chain(&compilers) {
            parts.push(package.sha256.clone());
        }
        Ok(sha256_parts(parts.iter().map(String::as_bytes)))
    }
}

/// Lets the script of recipe `name` build in `folder`, below which it leaves what it has built in
/// `out`.
fn run_script(
    name: &str,
    build: &Build,
    inputs: &Inputs<'_>,
    needed: &Needed,
    folder: &Path,
) -> Result<()> {
    let &Inputs {
        project,
        cache,
        apt,
        progress,
        ..
    } = inputs;
    let tools = Tools::prepare(cache, apt, progress)?;
    let title = "the kernel headers";
    let files = tree::unpack(cache, apt, &needed.headers, title, progress)?;
    let release = release_of(&files)?;
    let mut arguments = vec![
        format!("/usr/src/linux-headers-{release}"),
        format!("{BUILD}/out"),
    ];
    let mut places = vec![
        (project.to_owned(), PathBuf::from(PROJECT)),
        (folder.to_owned(), PathBuf::from(BUILD)),
    ];
    places.extend(headers_in(&files.join("usr"))?);
    if let Some(source) = &needed.source {
        let parts = unpack_source(inputs, source, &build.source)?;
        places.push((parts, PathBuf::from(SOURCE)));
        arguments.insert(0, SOURCE.to_owned());
    }
    let work = format!("{BUILD}/work");
    let mut build_dir = format!("{work}/build");
    if build.steps.is_some() {
        places.push((cache.folder("kept")?, PathBuf::from(KEPT)));
        build_dir = format!("{KEPT}/{name}");
    }
    let script = format!("{PROJECT}/{}", build.script);
    let places = places.iter().map(|(f, p)| (f.as_path(), p.as_path()));
    let mut command = tools.command_with(&script, &places.collect::<Vec<_>>(), Path::new(&work))?;
    command
        .args(&arguments)
        .env("KCFLAGS", "-g0")
        .env("KAFLAGS", "-g0")
        .env("BUILD_DIR", build_dir)
        .env("TMPDIR", &work)
        .env("MAKEFLAGS", format!("-j{}", jobs()));
    let output = if let Some(steps) = build.steps {
        let title = format!("Building {name} from the source of {release}");
        let mut task = progress.steps(&title, steps);
        spawn_watched(&mut command, "util-linux", &mut |_| task.step())?
    } else {
        let title = format!("Building the kernel modules {name} for {release}");
        let _task = progress.task(&title, 0);
        spawn_output(&mut command, "util-linux")?
    };
    let log = keep_log(cache, name, &output)?;
    let left_something = !results(&folder.join("out"))?.is_empty();
    let (status, output) = if !output.status.success() {
        (output.status.to_string(), last_lines(&output))
    } else if left_something {
        return Ok(());
    } else {
        let nothing = "it left neither *.ko nor programs in its last argument";
        ("no error".into(), nothing.into())
    };
    Err(Error::Command {
        what: format!("building {name} ({}, log: {})", build.script, log.display()),
        status,
        output,
    })
}

/// Where the kernel's headers and kbuild's programs in `usr` belong in the tool tree.
fn headers_in(usr: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut places = vec![(usr.join("src"), PathBuf::from("/usr/src"))];
    let lib = fs::read_dir(usr.join("lib")).map_err(io("list", usr))?;
    for entry in lib.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("linux-kbuild-") {
            places.push((entry.path(), Path::new("/usr/lib").join(name)));
        }
    }
    Ok(places)
}

/// Modules and programs that a script has left in `out`.
fn results(out: &Path) -> Result<Vec<PathBuf>> {
    let mut files = files_of(out)?;
    files.retain(|f| f.extension().is_none_or(|e| e == "ko"));
    Ok(files)
}

/// Moves them from `out` to `done`, which is there with all of them or not at all.
fn keep_results(out: &Path, folder: &Path, done: &Path) -> Result<()> {
    let unfinished = folder.join("unfinished");
    fs::create_dir_all(&unfinished).map_err(io("create", &unfinished))?;
    for result in results(out)? {
        let target = unfinished.join(result.file_name().unwrap_or_default());
        fs::rename(&result, &target).map_err(io("write", &target))?;
    }
    fs::rename(&unfinished, done).map_err(io("write", done))
}

/// What was built. A kernel counts as a package of its own, with its own version.
fn built(
    name: &str,
    folder: PathBuf,
    mut packages: Vec<PackageVersion>,
    in_use: Option<InUse>,
) -> Result<Built> {
    if folder.join("release").exists() {
        packages.push(PackageVersion {
            name: name.to_owned(),
            version: Source::of_build(folder.clone())?.release,
            arch: "riscv64".into(),
        });
    }
    Ok(Built {
        folder,
        packages,
        in_use,
    })
}

/// Headers of the very kernel, and kbuild's programs for this machine.
fn headers_of(apt: &Apt, kernel: &Package) -> Result<Vec<Package>> {
    let unknown = |reason: String| Error::Resolve {
        packages: kernel.name.clone(),
        reason,
    };
    let release = kernel.name.strip_prefix("linux-image-");
    let (version, _) = release
        .and_then(|r| r.rsplit_once('-'))
        .ok_or_else(|| unknown("not named linux-image-VERSION-FLAVOUR".into()))?;
    let exact = &kernel.version;
    let packages = apt.resolve(&Request {
        arch: apt.native().to_owned(),
        closure: Vec::new(),
        alone: vec![
            format!(
                "linux-headers-{}:{}={exact}",
                release.unwrap_or_default(),
                kernel.arch
            ),
            format!("linux-headers-{version}-common={exact}"),
            format!("linux-kbuild-{version}={exact}"),
        ],
    })?;
    if packages.len() == 3 {
        Ok(packages)
    } else {
        Err(unknown(format!(
            "of 3 packages with its headers the archive has {}",
            packages.len()
        )))
    }
}

/// Unpacks the headers of the very kernel; returns their `/usr/src/linux-headers-RELEASE`.
pub(crate) fn unpack_headers(inputs: &Inputs<'_>) -> Result<PathBuf> {
    let (cache, apt) = (inputs.cache, inputs.apt);
    let headers = headers_of(apt, inputs.kernel)?;
    let title = "the kernel headers";
    let files = tree::unpack(cache, apt, &headers, title, inputs.progress)?;
    let release = release_of(&files)?;
    Ok(files.join(format!("usr/src/linux-headers-{release}")))
}

/// The source package of the very kernel.
pub(crate) fn source_of(apt: &Apt, kernel: &Package) -> Result<Package> {
    let mut numbers = kernel.version.split('.');
    let mut next = || numbers.next().unwrap_or_default();
    let name = format!("linux-source-{}.{}={}", next(), next(), kernel.version);
    let found = apt.resolve(&Request {
        arch: kernel.arch.clone(),
        closure: Vec::new(),
        alone: vec![name.clone()],
    })?;
    found.into_iter().next().ok_or_else(|| Error::Resolve {
        packages: name,
        reason: "no such package".into(),
    })
}

/// Kernels with which the project's patches were tested, the best first: `linux/patches/tried`.
/// None if a project has no such file.
pub(crate) fn tried_kernels(project: &Path) -> Result<Vec<String>> {
    let path = project.join("linux/patches/tried");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io("read", &path)(error)),
    };
    let lines = text.lines().map(str::trim);
    let versions = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(versions.map(str::to_owned).collect())
}

/// RELEASE of the only `/usr/lib/modules/RELEASE` of the headers.
fn release_of(headers: &Path) -> Result<String> {
    let modules = headers.join("usr/lib/modules");
    let found = files_of(&modules)?;
    let name = found.first().and_then(|f| f.file_name());
    name.map(|n| n.to_string_lossy().into_owned())
        .ok_or_else(|| Error::Data {
            path: modules,
            message: "the headers package names no kernel release".into(),
        })
}

/// Unpacks `parts` of the source package into a folder of the cache and returns it.
pub(crate) fn unpack_source(
    inputs: &Inputs<'_>,
    source: &Package,
    parts: &[String],
) -> Result<PathBuf> {
    let (cache, progress) = (inputs.cache, inputs.progress);
    let key = sha256_parts([source.sha256.as_bytes(), parts.join(" ").as_bytes()]);
    let folder = cache.folder("sources")?.join(&key[..24]);
    if folder.exists() {
        return Ok(folder);
    }
    let files = PackageFiles::unpack(cache, inputs.apt, std::slice::from_ref(source), progress)?;
    let (_, archive) = files.find_pattern("/usr/src/linux-source-*.tar.xz")?;
    let unfinished = folder.with_extension("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(io("create", &unfinished))?;
    let _task = progress.task("Unpacking the kernel source", 0);
    let mut tar = std::process::Command::new("tar");
    tar.arg("-xJf").arg(&archive).arg("-C").arg(&unfinished);
    tar.args(["--strip-components=1", "--wildcards"]);
    tar.args(parts.iter().map(|part| format!("linux-source-*/{part}")));
    run(&mut tar, "unpacking the kernel source", "tar and xz-utils")?;
    fs::rename(&unfinished, &folder).map_err(io("write", &folder))?;
    Ok(folder)
}

/// Writes what the script printed beside the modules, where a user can read all of it.
fn keep_log(cache: &Cache, name: &str, output: &Output) -> Result<PathBuf> {
    let path = cache.folder("modules")?.join(format!("{name}.log"));
    let text = [&output.stdout[..], &output.stderr].concat();
    fs::write(&path, text).map_err(io("write", &path))?;
    Ok(path)
}

/// The last lines of a compiler's messages, or of what was printed if there are none.
fn last_lines(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = if errors.trim().is_empty() {
        String::from_utf8_lossy(&output.stdout)
    } else {
        errors
    };
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    format!(
        "\n{}",
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    )
}

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
