//! Running a program on a machine in this process.

use trapless_machine::{Engine, Limits, Machine, MachineConfig, Outcome, Peripherals};

use crate::platform::Platform;
use crate::programs::Program;
use crate::run::Verdict;

/// Instructions after which a program counts as hung; the longest takes a tenth.
const MOST: u64 = 50_000_000;

/// The platform of the model that has what `program` needs, with no more harts than it uses.
///
/// # Panics
/// If no platform has what it needs.
pub fn platform(program: &Program) -> Platform {
    let files = [
        include_str!("../platforms/trapless.toml"),
        include_str!("../platforms/no-hypervisor.toml"),
    ];
    let platforms = files.map(|text| Platform::parse(text).expect("the file is right"));
    let fits = platforms.iter().find(|p| program.missing(p).is_none());
    let mut platform = fits.expect("one has all that a program can need").clone();
    platform.harts.truncate(program.harts);
    platform
}

/// Runs `program` on the preset `trapless`, with what `platform` says of it and as `change` changes
/// it.
///
/// # Panics
/// If no such machine can be made.
pub fn run(
    program: &Program,
    platform: &Platform,
    change: impl FnOnce(&mut MachineConfig),
) -> Verdict {
    let built = program.build(platform);
    let mut config = MachineConfig::preset("trapless").expect("the preset is there");
    config.harts = platform.harts.len();
    config.ram = 16 << 20;
    config.windows = platform.windows.is_some();
    config.hart.extensions.h = platform.has.hypervisor;
    config.engine = Engine::Interp;
    change(&mut config);
    let nowhere = || Box::new(std::io::sink());
    let machine = Machine::exec(config, &built.elf, Peripherals::new(nowhere()), nowhere());
    let mut machine = machine.expect("the machine has all that it needs");
    let limits = Limits {
        instret: MOST,
        ..Limits::default()
    };
    match machine.run(&limits) {
        Outcome::Exit(code) => Verdict::of(code, &built.checks),
        Outcome::Limit | Outcome::Idle => Verdict::Hung,
        other => Verdict::Broken {
            text: format!("{other:?}"),
        },
    }
}
