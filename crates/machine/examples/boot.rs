//! Boots a kernel on a machine and shows its console: the smallest user of this crate.
//!
//! ```text
//! cargo run --release --example boot -- \
//!     MACHINE HARTS SECONDS FIRMWARE [KERNEL [INITRD [APPEND]]]
//! ```

use std::io::{IsTerminal, stdout};

use trapless_machine::{Content, Limits, Machine, MachineConfig, Payload, Peripherals};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [machine, harts, seconds, firmware, rest @ ..] = args.as_slice() else {
        return Err("usage: boot MACHINE HARTS SECONDS FIRMWARE [KERNEL [INITRD [APPEND]]]".into());
    };
    let mut config = MachineConfig::preset(machine)?;
    config.harts = harts.parse()?;
    let read = |index: usize| match rest.get(index) {
        Some(path) if !path.is_empty() => std::fs::read(path).map(Some),
        _ => Ok(None),
    };
    let payload = Payload {
        firmware: Some(std::fs::read(firmware)?),
        kernel: read(0)?.map(Content::Bytes),
        initrd: read(1)?.map(Content::Bytes),
        append: rest
            .get(2)
            .cloned()
            .unwrap_or_else(|| "console=ttyS0 earlycon=sbi".into()),
        ..Payload::default()
    };
    let mut machine = Machine::boot(config, &payload, Peripherals::new(Box::new(stdout())))?;
    let start = std::time::Instant::now();
    let limits = Limits {
        until: seconds.parse::<u64>()? * 1_000_000_000,
        ..Limits::default()
    };
    let outcome = machine.run(&limits);
    let host = start.elapsed().as_secs_f64();
    if stdout().is_terminal() {
        println!();
    }
    eprintln!(
        "{outcome:?} at {:.3} s of virtual time; {} instructions in {host:.1} s, {:.0} M/s",
        machine.now() as f64 / 1e9,
        machine.instret(),
        machine.instret() as f64 / host / 1e6
    );
    for hart in machine.harts() {
        eprintln!(
            "hart {}: {:?} pc {:#x} waiting {} scause {:#x?} mcause {:#x?}",
            hart.id(),
            hart.mode(),
            hart.pc(),
            hart.waiting(),
            hart.peek_csr(0x142),
            hart.peek_csr(0x342)
        );
    }
    Ok(())
}
