//! `tools vmm`: builds the VMM and prints its path. `tools qemu`: prints the path of Debian's QEMU.
//! `tools image NAME...`: makes images and prints their paths. `tools artefact NAME`: the same for
//! what goes into images.
//! `tools source [@RELEASE] PART...`: unpacks parts of the kernel's source and prints their folder.
//! `tools headers [@RELEASE]`: unpacks what modules of the kernel are built with, and prints the
//! folder. `@testing` is the kernel of another release of Debian.
//! `tools chroot [@RELEASE] CMD...`: runs a command inside the tree, with the project and the cache
//! visible at their own paths.

use std::path::{Path, PathBuf};
use trapless_images::{Apt, Cache, Images, Progress, Project, Release, Result, Tools, vmm};

fn main() {
    std::process::exit(match work() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tools: {error}");
            2
        }
    });
}

fn work() -> Result<i32> {
    let named = std::env::var_os("TRAPLESS_PROJECT").map(PathBuf::from);
    let project = Project::new(named.as_deref()).folder()?;
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let named = args.get(1).and_then(|word| word.strip_prefix('@'));
    let release = named.and_then(Release::named);
    if release.is_some() {
        args.remove(1);
    }
    let release = release.unwrap_or_default();
    let cache = Cache::open(&project)?;
    let progress = Progress::auto();
    let apt = Apt::open_release(release, &cache, progress)?;
    match args.first().map(String::as_str) {
        Some("vmm") => println!(
            "{}",
            vmm::build(&project, &cache, &apt, progress)?.display()
        ),
        Some("qemu") => {
            let tree = Tools::qemu(&cache, &apt, progress)?;
            let program = tree.tree().join("usr/bin/qemu-system-riscv64");
            println!("{}", program.display());
        }
        Some("image") if args.len() > 1 => {
            let mut images = Images::open(&project, progress)?;
            if let Some(vmm) = std::env::var_os("TRAPLESS_VMM") {
                images.use_vmm(Path::new(&vmm));
            }
            for name in &args[1..] {
                let image = images.prepare(name)?;
                eprintln!("{} bytes, {}", image.size, image.sha256);
                for p in &image.packages {
                    eprintln!("{} {} {}", p.name, p.version, p.arch);
                }
                println!("{}", image.path.display());
            }
        }
        Some("artefact") if args.len() == 2 => {
            let mut images = Images::open(&project, progress)?;
            println!("{}", images.artefact(&args[1])?.path.display());
        }
        Some("source") if args.len() > 1 => {
            let mut images = Images::open(&project, progress)?;
            println!("{}", images.kernel_source(release, &args[1..])?.display());
        }
        Some("headers") if args.len() == 1 => {
            let mut images = Images::open(&project, progress)?;
            println!("{}", images.kernel_headers(release)?.display());
        }
        Some("chroot") if args.len() > 1 => {
            let tools = Tools::prepare(&cache, &apt, progress)?;
            let mut command = tools.command(&args[1], &[&project, cache.root()])?;
            return Tools::status(command.args(&args[2..]));
        }
        _ => {
            eprintln!(
                "usage: tools vmm | qemu | image NAME... | artefact NAME | source [@RELEASE] PART... | \
                 headers [@RELEASE] | chroot [@RELEASE] COMMAND..."
            );
            return Ok(2);
        }
    }
    Ok(0)
}
