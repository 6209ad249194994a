//! `trapless images`: what images there are, and making them.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use trapless_images::{Project, Recipe};

use crate::args::ImagesArgs;
use crate::output::{print, print_json, table};
use trapless_run::{interrupt, project};

/// Lists the images, or makes those that are named.
pub fn main(args: &ImagesArgs, project: &Project) -> Result<ExitCode> {
    interrupt::catch()?;
    let _at_once = interrupt::at_once();
    let mut images = project::images(project)?;
    if args.refresh {
        images.refresh()?;
    }
    if let Some(folder) = &args.export {
        let more: Vec<&str> = args.names.iter().map(String::as_str).collect();
        let built = images.export(folder, &more)?;
        let built = built.into_iter().collect::<Vec<_>>().join(", ");
        print(&format!("{}: {built}\n", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.names.is_empty() {
        list(&images.recipes()?, args.json, project)?;
        return Ok(ExitCode::SUCCESS);
    }
    let recipes = images.recipes()?;
    let all = args.names.iter().any(|n| n == "all");
    let names: Vec<&str> = if all {
        recipes.iter().map(|r| r.name.as_str()).collect()
    } else {
        args.names.iter().map(String::as_str).collect()
    };
    let made = images.prepare_all(&names)?;
    if args.json {
        print_json(&json!(made))?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines = made.iter().map(|(name, image)| {
        let (size, path) = (image.size / 1024, image.path.display());
        format!("{name:<12} {size:>9} KiB  {path}\n")
    });
    print(&lines.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn list(recipes: &[Recipe], as_json: bool, project: &Project) -> Result<()> {
    if as_json {
        let rows = recipes.iter();
        let rows = rows.map(|r| json!({ "name": r.name, "explanation": r.explanation }));
        return print_json(&rows.collect::<Vec<_>>());
    }
    let rows = recipes.iter();
    let rows = rows.map(|r| (r.name.as_str(), r.explanation.trim()));
    print(&format!(
        "Images of {}:\n{}\n`trapless images NAME...` makes them and prints where they are.\n",
        project.folder()?.display(),
        table(rows.chain([("vmm", "the VMM for riscv64")]))
    ))
}
