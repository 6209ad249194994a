//! `trapless boot`.

use std::process::ExitCode;

use anyhow::Result;
use trapless_machine::{Limits, Machine, Payload, Peripherals};

use crate::args::BootArgs;
use crate::setup;

/// Boots and runs until the guest powers off.
pub fn main(args: &BootArgs) -> Result<ExitCode> {
    let config = setup::config(&args.machine, args.harts)?;
    let optional = |path: &Option<std::path::PathBuf>, what| {
        path.as_deref().map(|p| setup::read(p, what)).transpose()
    };
    let payload = Payload {
        firmware: optional(&args.firmware, "firmware")?,
        kernel: optional(&args.kernel, "kernel")?,
        initrd: optional(&args.initrd, "initrd")?,
        append: args.append.clone().unwrap_or_default(),
        dtb: optional(&args.dtb, "device tree")?,
    };
    let start = std::time::Instant::now();
    let mut machine = Machine::boot(config, &payload, Peripherals::new(Box::new(std::io::stdout())))?;
    let outcome = machine.run(&Limits::default());
    let seconds = start.elapsed().as_secs_f64();
    eprintln!(
        "{outcome:?}: {} instructions, {:.3} s virtual, {seconds:.1} s, {:.0} MIPS",
        machine.instret(),
        machine.now() as f64 / 1e9,
        machine.instret() as f64 / seconds / 1e6
    );
    Ok(ExitCode::SUCCESS)
}
