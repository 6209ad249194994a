//! `trapless disk`: disks with a system. The machine itself installs it, so that nothing of it is
//! run on this computer and no privileges are needed.

use std::fs::File;
use std::io::sink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trapless_backends::disk::{Access, Format, Image};
use trapless_backends::net::Network;
use trapless_images::{Mirror, SUITE};
use trapless_machine::preset::Size;
use trapless_machine::{Limits, VirtualTime};
use trapless_run::{
    BootSpec, Ended, Failed, MachineOptions, ObserveOptions, Spec, Trapless, files, interrupt,
    note, project,
};

use crate::args::{DebianArgs, DiskSystem};
use crate::single::Progress;

/// Image of the machine that installs.
const IMAGE: &str = "install";
/// Limit of virtual time in cycles; an installation usually takes 5 minutes.
const PATIENCE: u64 = VirtualTime::cycles(3_600);
/// Least size of a disk in bytes.
const LEAST: u64 = 1 << 30;

/// Makes it.
pub fn main(system: &DiskSystem, trapless: &Trapless) -> Result<ExitCode> {
    match system {
        DiskSystem::Debian(args) => debian(args, trapless),
    }
}

fn debian(args: &DebianArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    let size = args.size.0;
    if size < LEAST {
        bail!("Debian needs a disk of 1G at least; give --size 2G");
    }
    if args.file.exists() {
        let file = args.file.display();
        bail!("{file} is there already; name another file, or remove it first");
    }
    files::make_parent(&args.file)?;
    let mirror = Mirror::find()?;
    let mut images = project::images(&trapless.project())?;
    let initrd = images.prepare(IMAGE)?;
    let disk = Unfinished::create(&args.file, size)?;
    let mut append = format!(
        "console=ttyS0 quiet cryptomgr.notests trapless.suite={SUITE} trapless.mirror={}",
        mirror.main
    );
    if let Some(security) = &mirror.security {
        append += &format!(" trapless.security={security}");
    }
    install(machine(&disk.path, &initrd.path, append), trapless)?;
    disk.finish(&args.file)?;
    let file = args.file.display();
    note!(
        "{file}: Debian ({SUITE}), the password of root is trapless. It starts by\n  \
         trapless boot --ram 2G --disk {file},rw --net user --append 'root=/dev/vda rw console=ttyS0'"
    );
    Ok(ExitCode::SUCCESS)
}

/// The machine that installs.
fn machine(disk: &Path, initrd: &Path, append: String) -> BootSpec {
    let image = Image {
        path: disk.into(),
        access: Access::Write,
        format: Some(Format::Raw),
    };
    BootSpec {
        disks: vec![image],
        initrd: Some(initrd.into()),
        append: Some(append),
        net: Network::None,
        options: MachineOptions {
            ram: Some(Size(2 << 30)),
            ..MachineOptions::default()
        },
        ..BootSpec::default()
    }
}

/// Runs it to its end.
fn install(spec: BootSpec, trapless: &Trapless) -> Result<()> {
    let spec = Spec::Boot(Box::new(spec));
    let mut session = trapless.start(&spec, &ObserveOptions::default(), Box::new(sink()))?;
    let recorder = session.recorder();
    let progress = Progress::new("Installing Debian".into(), false);
    let limits = Limits {
        until: PATIENCE,
        ..Limits::default()
    };
    let ended = session.run(&limits, &mut |machine| {
        progress.update(machine, &recorder);
        Ok(!interrupt::requested())
    })?;
    drop(progress);
    if ended == Ended::Caller {
        return Err(interrupt::Interrupted::WithoutResult.into());
    }
    let transcript = &recorder.lock().transcript;
    match transcript.status.get("host debian") {
        Some(0) => Ok(()),
        _ => {
            let printed = match &transcript.panic {
                Some(panic) => panic.clone(),
                None => transcript.complaint.join("\n"),
            };
            Err(Failed(format!(
                "the machine could not install Debian; it printed:\n{printed}"
            ))
            .into())
        }
    }
}

/// A disk image under a temporary name, which is removed unless it is finished.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn create(file: &Path, size: u64) -> Result<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let context = || format!("cannot make the disk image {}", path.display());
        let image = File::create(&path).with_context(context)?;
        let unfinished = Self { path: path.clone() };
        image.set_len(size).with_context(context)?;
        Ok(unfinished)
    }

    fn finish(self, file: &Path) -> Result<()> {
        std::fs::rename(&self.path, file)
            .with_context(|| format!("cannot make the disk image {}", file.display()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It has been renamed if it was finished.
        let _ = std::fs::remove_file(&self.path);
    }
}
