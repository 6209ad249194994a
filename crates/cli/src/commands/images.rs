//! `trapless images`: what images there are, and making them.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::args::ImagesArgs;
use crate::output::{print_json, table};
use crate::project;

/// Lists the images, or makes those that are named.
pub fn main(args: &ImagesArgs) -> Result<ExitCode> {
    let mut images = project::images()?;
    if args.refresh {
        images.refresh()?;
    }
    let recipes = images.recipes()?;
    if args.names.is_empty() {
        if args.json {
            print_json(&json!(
                recipes
                    .iter()
                    .map(|r| json!({ "name": r.name, "explanation": r.explanation }))
                    .collect::<Vec<_>>()
            ));
        } else {
            println!("Images:");
            table(
                recipes
                    .iter()
                    .map(|r| (r.name.as_str(), r.explanation.trim())),
            );
            println!("  {:<12} the VMM for riscv64", "vmm");
            println!("\n`trapless images NAME...` makes them and prints where they are.");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let all = args.names.iter().any(|n| n == "all");
    let names: Vec<&str> = if all {
        recipes.iter().map(|r| r.name.as_str()).collect()
    } else {
        args.names.iter().map(String::as_str).collect()
    };
    let made = images.prepare_all(&names)?;
    if args.json {
        print_json(&json!(made));
    } else {
        for (name, image) in &made {
            println!(
                "{name:<12} {:>9} KiB  {}",
                image.size / 1024,
                image.path.display()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
