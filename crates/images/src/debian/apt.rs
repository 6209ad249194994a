//! apt with a private configuration: another release and architecture without touching the
//! machine's own state.

use crate::cache::Cache;
use crate::cache::shipped::{self, Locked};
use crate::command::{spawn_output, tail};
use crate::debian::mirror::Mirror;
use crate::debian::package::{Package, Request};
use crate::debian::release::{Release, Suite};
use crate::debian::transfer::{PATIENCE, transfer};
use crate::digest::sha256_parts;
use crate::error::{Error, Result, io};
use crate::progress::Progress;
use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File that names the answers which [`Apt::refresh`] has replaced.
const REPLACED: &str = "replaced";
/// File that says that the lists are complete.
const STAMP: &str = "lists.complete";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The private apt.
#[derive(Debug)]
pub struct Apt {
    release: Release,
    root: PathBuf,
    cache: Cache,
    native: String,
    progress: Progress,
    /// `apt_preferences(5)`; empty for none.
    preferences: String,
    /// Answers that came with the program, unless newer lists have been asked for.
    locked: Option<Locked>,
    /// What has been resolved.
    answers: RefCell<Vec<(Request, Vec<Package>)>>,
}

impl Apt {
    /// Opens the private apt folder of a cache; fetches the package lists if there are none yet.
    ///
    /// # Errors
    /// If there are no lists and they cannot be fetched.
    pub fn open(cache: &Cache, progress: Progress) -> Result<Self> {
        Self::open_release(Release::Stable, cache, progress)
    }

    /// As [`Apt::open`], with the packages of any release.
    ///
    /// # Errors
    /// As [`Apt::open`].
    pub fn open_release(release: Release, cache: &Cache, progress: Progress) -> Result<Self> {
        let apt = Self::of_release(release, cache, None, progress)?;
        apt.need_lists()?;
        Ok(apt)
    }

    /// As [`Apt::open`], with answers that came with the program: package lists are fetched only
    /// for what these do not know.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn with_locked(cache: &Cache, locked: Option<Locked>, progress: Progress) -> Result<Self> {
        Self::of_release(Release::Stable, cache, locked, progress)
    }

    /// As [`Apt::with_locked`], with the packages of any release.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub(crate) fn of_release(
        release: Release,
        cache: &Cache,
        locked: Option<Locked>,
        progress: Progress,
    ) -> Result<Self> {
        let root = cache.folder(release.folder())?;
        let native = spawn_output(Command::new("dpkg").arg("--print-architecture"), "dpkg")?;
        let native = String::from_utf8_lossy(&native.stdout).trim().to_owned();
        let replaced = fs::read_to_string(root.join(REPLACED)).unwrap_or_default();
        Ok(Self {
            release,
            root,
            cache: cache.clone(),
            native,
            progress,
            preferences: String::new(),
            locked: locked.filter(|locked| locked.key != replaced),
            answers: RefCell::default(),
        })
    }

    /// Prefers the first of these upstream `versions` of a kernel that the archive has, e.g.
    /// `6.12.107`, to its newest. Answers that came with the program stay.
    #[must_use]
    pub fn with_kernels(mut self, versions: &[String]) -> Self {
        self.preferences = preferences(versions);
        self
    }

    /// The release whose packages these are.
    pub(crate) fn release(&self) -> Release {
        self.release
    }

    /// Debian architecture of this machine.
    #[must_use]
    pub fn native(&self) -> &str {
        &self.native
    }

    /// Renews the package lists, so that newer versions are found.
    ///
    /// # Errors
    /// If the lists cannot be fetched; lists fetched earlier stay in use.
    pub fn refresh(&mut self) -> Result<()> {
        let _lock = self.cache.lock("apt")?;
        self.update()?;
        if let Some(locked) = self.locked.take() {
            self.write(REPLACED, &locked.key)?;
        }
        Ok(())
    }

    /// Whether answers are those that came with the program.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked.is_some()
    }

    /// All that has been resolved so far.
    pub(crate) fn answers(&self) -> Vec<(Request, Vec<Package>)> {
        self.answers.borrow().clone()
    }

    /// Whether there are package lists of a release in the cache.
    pub(crate) fn has_lists(release: Release, cache: &Cache) -> bool {
        let root = cache.root().join(release.folder());
        root.join(STAMP).exists()
    }

    /// Fetches the package lists if there are none yet.
    ///
    /// # Errors
    /// If they cannot be fetched.
    pub(crate) fn need_lists(&self) -> Result<()> {
        let _lock = self.cache.lock("apt")?;
        if self.stamp().exists() {
            return Ok(());
        }
        self.update()
    }

    fn stamp(&self) -> PathBuf {
        self.root.join(STAMP)
    }

    fn update(&self) -> Result<()> {
        let release = self.release.name();
        let title = format!("Fetching the package lists of Debian {release}");
        let _task = self.progress.task(&title, 0);
        if !Path::new(KEYRING).exists() {
            return Err(Error::MissingProgram {
                program: KEYRING.into(),
                package: "debian-archive-keyring",
            });
        }
        let mirror = Mirror::find()?;
        for folder in ["lists/partial", "state", "cache/archives/partial"] {
            let path = self.root.join(folder);
            fs::create_dir_all(&path).map_err(io("create", &path))?;
        }
        self.write("status", "")?;
        let mut reason = String::new();
        for suites in self.release.suites() {
            let lines = self.sources(&suites, &mirror);
            self.write("sources.list", &lines)?;
            let mut command = Command::new("apt-get");
            command
                .arg("-c")
                .arg(self.config(&self.native)?)
                .args(["-q", "update"]);
            let lists = [self.root.join("lists"), self.root.join("lists/partial")];
            let ended = transfer(&mut command, PATIENCE, &mut || {
                Ok(lists.iter().map(size).sum())
            });
            let why = match ended {
                Ok(output) => {
                    let failed =
                        String::from_utf8_lossy(&output.stderr).contains("Failed to fetch");
                    if !failed && self.has_lists_of_the_release() {
                        return self.write(STAMP, &lines);
                    }
                    tail(&output, 4)
                }
                Err(reason) => reason,
            };
            if reason.is_empty() {
                reason = why;
            }
        }
        Err(Error::Lists {
            suite: release,
            reason,
        })
    }

    /// The lines of `sources.list(5)` for those of `suites` that the mirror has.
    fn sources(&self, suites: &[Suite], mirror: &Mirror) -> String {
        let valid = match self.release.expires() {
            true => "",
            false => " check-valid-until=no",
        };
        let lines = suites.iter().filter_map(|suite| {
            let uri = match suite.security {
                true => mirror.security.as_ref()?,
                false => &mirror.main,
            };
            let name = &suite.name;
            Some(format!(
                "deb [signed-by={KEYRING}{valid}] {uri} {name} main\n"
            ))
        });
        lines.collect()
    }

    /// Resolves a request to exact packages, sorted by name. The answer is kept until the lists are
    /// renewed.
    ///
    /// # Errors
    /// [`Error::Resolve`] if a package is not in the archive.
    pub fn resolve(&self, request: &Request) -> Result<Vec<Package>> {
        let locked = self.locked.as_ref().and_then(|l| l.answer(request));
        let packages = match locked {
            Some(packages) => packages.to_vec(),
            None => self.ask(request)?,
        };
        let answer = (request.clone(), packages.clone());
        self.answers.borrow_mut().push(answer);
        Ok(packages)
    }

    fn ask(&self, request: &Request) -> Result<Vec<Package>> {
        self.need_lists()?;
        let stamp = fs::metadata(self.stamp()).and_then(|m| m.modified()).ok();
        let wanted = serde_json::to_string(request).unwrap_or_default();
        let stamp = format!("{stamp:?}");
        let parts = [&wanted, &stamp, &self.preferences].map(|part| part.as_bytes());
        let key = sha256_parts(parts);
        let kept = self.root.join("cache").join(format!("{}.json", &key[..24]));
        if let Some(packages) = fs::read(&kept)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
        {
            return Ok(packages);
        }
        let mut packages = Vec::new();
        for (verb, names) in [("install", &request.closure), ("download", &request.alone)] {
            if !names.is_empty() {
                packages.extend(self.print_uris(verb, &request.arch, names)?);
            }
        }
        packages.sort();
        packages.dedup();
        let text = serde_json::to_vec(&packages).unwrap_or_default();
        fs::write(&kept, text).map_err(io("write", &kept))?;
        Ok(packages)
    }

    fn print_uris(&self, verb: &str, arch: &str, names: &[String]) -> Result<Vec<Package>> {
        let mut command = Command::new("apt-get");
        command
            .arg("-c")
            .arg(self.config(arch)?)
            .args(self.preferences_option()?)
            .args([verb, "-y", "--print-uris"])
            .args(names);
        let output = spawn_output(&mut command, "apt")?;
        let failed = |reason: String| Error::Resolve {
            packages: names.join(" "),
            reason,
        };
        if !output.status.success() {
            return Err(failed(tail(&output, 4)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let packages: Vec<Package> = text.lines().filter_map(parse_uri_line).collect();
        if packages.is_empty() {
            Err(failed("apt named no files".into()))
        } else {
            Ok(packages)
        }
    }

    /// In a file of its own, for the configuration is shared by all that use the cache.
    fn preferences_option(&self) -> Result<Vec<String>> {
        if self.preferences.is_empty() {
            return Ok(Vec::new());
        }
        let digest = sha256_parts([self.preferences.as_bytes()]);
        let path = self.root.join(format!("preferences-{}", &digest[..16]));
        if !path.exists() {
            // Others may read it as soon as it has its name.
            let new = tempfile::Builder::new();
            let made = new.make_in(&self.root, |path| fs::File::create_new(path));
            let made = made.and_then(|mut file| {
                file.write_all(self.preferences.as_bytes())?;
                Ok(file.persist(&path)?)
            });
            made.map_err(io("write", &path))?;
        }
        Ok(vec![
            "-o".into(),
            format!("Dir::Etc::Preferences={}", path.display()),
        ])
    }

    /// Downloads `uri`s to files with apt's own transport (its proxy settings apply); the caller
    /// checks what arrived.
    pub(crate) fn download_command(&self, files: &[(&Package, PathBuf)]) -> Result<Command> {
        let mut command = Command::new("/usr/lib/apt/apt-helper");
        command
            .arg("-c")
            .arg(self.config(&self.native)?)
            .args(["-q", "download-file"]);
        for (package, path) in files {
            command
                .arg(shipped::expand(&package.uri)?)
                .arg(path)
                .arg(format!("SHA256:{}", package.sha256));
        }
        Ok(command)
    }

    /// Whether the lists fetched last are those of the release, under whatever name.
    fn has_lists_of_the_release(&self) -> bool {
        let Ok(entries) = fs::read_dir(self.root.join("lists")) else {
            return false;
        };
        let of_release = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            self.release.has(&text)
        };
        let mut releases = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with("_InRelease"))
            .peekable();
        releases.peek().is_some() && releases.all(|path| of_release(&path))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.root.join(name);
        fs::write(&path, text).map_err(io("write", &path))
    }

    /// Writes the configuration for packages of `arch`. The machine's settings (a proxy, say) stay,
    /// its hooks do not.
    fn config(&self, arch: &str) -> Result<PathBuf> {
        let foreign = if arch == "riscv64" {
            self.native.as_str()
        } else {
            "riscv64"
        };
        let root = self.root.display();
        let text = format!(
            "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n\
             #clear DPkg::Post-Invoke;\n#clear DPkg::Pre-Install-Pkgs;\n#clear APT::Architectures;\n#clear APT::NeverAutoRemove;\n\
             APT::Architecture \"{arch}\";\nAPT::Architectures {{ \"{arch}\"; \"{foreign}\"; }};\n\
             Dir::State \"{root}/state\";\nDir::State::lists \"{root}/lists\";\nDir::State::status \"{root}/status\";\n\
             Dir::Cache \"{root}/cache\";\nDir::Cache::pkgcache \"pkgcache-{arch}.bin\";\nDir::Cache::srcpkgcache \"srcpkgcache-{arch}.bin\";\n\
             Dir::Etc::SourceList \"{root}/sources.list\";\nDir::Etc::SourceParts \"/dev/null\";\n\
             Dir::Etc::Preferences \"/dev/null\";\nDir::Etc::PreferencesParts \"/dev/null\";\n\
             APT::Sandbox::User \"root\";\nAPT::Install-Recommends \"false\";\nAPT::Default-Release \"\";\n\
             Acquire::http::Timeout \"30\";\nAcquire::https::Timeout \"30\";\n\
             Acquire::Languages \"none\";\nAcquire::ForceHash \"SHA256\";\nAcquire::Retries \"2\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\nAcquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n"
        );
        let path = self.root.join(format!("apt-{arch}.conf"));
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(path);
        }
        fs::write(&path, text).map_err(io("write", &path))?;
        Ok(path)
    }
}

/// Bytes of all files in a folder.
fn size(folder: &PathBuf) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}

/// Priorities above those of all that is not named, the highest for the first.
fn preferences(versions: &[String]) -> String {
    let pins = versions.iter().enumerate().map(|(place, version)| {
        let priority = 990_usize.saturating_sub(place).max(501);
        format!("Package: linux-image-*\nPin: version {version}-*\nPin-Priority: {priority}\n\n")
    });
    pins.collect()
}

/// `'URI' NAME_VERSION_ARCH.deb SIZE SHA256:HASH`, as `apt-get --print-uris` writes it.
fn parse_uri_line(line: &str) -> Option<Package> {
    let (uri, rest) = line.strip_prefix('\'')?.split_once("' ")?;
    let mut words = rest.split_whitespace();
    let file = words.next()?.strip_suffix(".deb")?;
    let size = words.next()?.parse().ok()?;
    let sha256 = words.next()?.strip_prefix("SHA256:")?.to_owned();
    let mut parts = file.splitn(3, '_');
    let name = parts.next()?.to_owned();
    let version = parts.next()?.replace("%3a", ":");
    let arch = parts.next()?.to_owned();
    Some(Package {
        name,
        version,
        arch,
        uri: uri.to_owned(),
        size,
        sha256,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with the kernels 6.12.9, 6.12.10 and 6.12.11.
    fn with_three_kernels(root: &Path) -> Apt {
        let archive = root.join("archive");
        fs::create_dir(&archive).unwrap();
        let index: String = ["6.12.9-1", "6.12.10-1", "6.12.11-1"]
            .iter()
            .map(|version| {
                let sum = sha256_parts([version.as_bytes()]);
                format!(
                    "Package: linux-image-riscv64\nVersion: {version}\nArchitecture: riscv64\n\
                     Filename: ./{version}.deb\nSize: 1\nSHA256: {sum}\n\n"
                )
            })
            .collect();
        fs::write(archive.join("Packages"), index).unwrap();
        let cache = Cache::at(&root.join("cache")).unwrap();
        let apt = Apt::with_locked(&cache, None, Progress::Silent).unwrap();
        for folder in ["lists/partial", "state", "cache/archives/partial"] {
            fs::create_dir_all(apt.root.join(folder)).unwrap();
        }
        apt.write("status", "").unwrap();
        let source = format!("deb [trusted=yes] file:{} ./\n", archive.display());
        apt.write("sources.list", &source).unwrap();
        let mut update = Command::new("apt-get");
        update.arg("-c").arg(apt.config("riscv64").unwrap());
        let output = spawn_output(update.args(["-q", "update"]), "apt").unwrap();
        assert!(output.status.success(), "{}", tail(&output, 4));
        apt.write("lists.complete", "").unwrap();
        apt
    }

    /// Promise: a kernel that came out since the patches were tested does not break a fresh
    /// machine as long as the archive has one with which they were.
    #[test]
    fn the_first_tried_kernel_of_the_archive_is_taken_else_its_newest() {
        let temp = tempfile::tempdir().unwrap();
        let mut apt = with_three_kernels(temp.path());
        for (tried, version) in [
            (&["6.12.10", "6.12.11"][..], "6.12.10-1"),
            (&["6.12.8", "6.12.9"], "6.12.9-1"),
            (&["6.12.1"], "6.12.11-1"),
            (&[], "6.12.11-1"),
        ] {
            let tried: Vec<String> = tried.iter().map(|&v| v.to_owned()).collect();
            apt = apt.with_kernels(&tried);
            let packages = apt
                .resolve(&Request {
                    arch: "riscv64".into(),
                    closure: vec!["linux-image-riscv64".into()],
                    alone: Vec::new(),
                })
                .unwrap();
            let found: Vec<&str> = packages.iter().map(|p| p.version.as_str()).collect();
            assert_eq!(found, [version], "tried {tried:?}");
        }
    }

    #[test]
    fn uri_line_gives_version_with_epoch() {
        let line = "'http://mirror.test/q.deb' qemu-system-riscv_1%3a10.0.13+ds-0_amd64.deb 42 SHA256:80ef";
        let package = parse_uri_line(line).unwrap();
        assert_eq!(
            (package.name.as_str(), package.version.as_str()),
            ("qemu-system-riscv", "1:10.0.13+ds-0")
        );
        assert_eq!(
            (package.arch.as_str(), package.size, package.sha256.as_str()),
            ("amd64", 42, "80ef")
        );
        assert_eq!(parse_uri_line("Reading package lists..."), None);
    }
}
