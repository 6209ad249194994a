//! The Rust model, in this process.

use trapless_conformance::platform::Platform;
use trapless_conformance::programs::Program;
use trapless_conformance::run::Verdict;
use trapless_machine::{Engine, Limits, Machine, MachineConfig, Outcome, Peripherals};

/// Instructions after which a program counts as hung; the longest takes a tenth.
const MOST: u64 = 50_000_000;

/// The platform that has what `program` needs.
pub fn platform(program: &Program) -> Platform {
    let files = [
        include_str!("../../platforms/trapless.toml"),
        include_str!("../../platforms/no-hypervisor.toml"),
    ];
    let platforms = files.map(|text| Platform::parse(text).expect("the file is right"));
    let fits = platforms.iter().find(|p| program.missing(p).is_none());
    let mut platform = fits.expect("one has all that a program can need").clone();
    // The program may have no more harts than it uses.
    platform.harts.truncate(program.harts);
    platform
}

/// Runs a program.
pub fn run(program: &Program) -> Verdict {
    let platform = platform(program);
    let built = program.build(&platform);
    let mut config = MachineConfig::preset("trapless").expect("the preset is there");
    config.harts = platform.harts.len();
    config.ram = 16 << 20;
    config.windows = platform.windows.is_some();
    config.hart.extensions.h = platform.has.hypervisor;
    config.engine = Engine::Interp;
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
