//! A real gdb against a small bare-metal program.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use trapless_gdb::{Ended, Host, Server};
use trapless_machine::{Machine, MachineConfig, Payload, Peripherals};

/// A gdb that knows RISC-V; `None`, with a message, if there is none.
pub fn gdb() -> Option<&'static str> {
    let known = ["gdb-multiarch", "riscv64-unknown-elf-gdb", "gdb"];
    let fits = |name: &&str| {
        let probe = ["-nx", "-batch", "-ex", "set architecture riscv:rv64"];
        Command::new(name)
            .args(probe)
            .output()
            .is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("riscv:rv64"))
    };
    let found = known.into_iter().find(fits);
    if found.is_none() {
        eprintln!("SKIPPED: no gdb for RISC-V; install Debian's gdb-multiarch to run this test");
    }
    found
}

/// Ends the session when gdb is gone, unless the machine is to run to its own end.
struct Watchdog {
    child: Child,
    /// Press Ctrl-C in gdb when this says so.
    interrupt: Option<fn(&Machine) -> bool>,
    run_on: bool,
    start: Instant,
    notices: Vec<String>,
}

impl Host for Watchdog {
    fn poll(&mut self, machine: &mut Machine) -> bool {
        if self.interrupt.take_if(|due| due(machine)).is_some() {
            let pid = self.child.id().to_string();
            let _ = Command::new("kill").args(["-INT", &pid]).status();
        }
        if self.start.elapsed() > PATIENCE {
            // gdb waits for something that does not come: let the test see what it printed.
            let _ = self.child.kill();
            return false;
        }
        self.run_on || matches!(self.child.try_wait(), Ok(None))
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.into());
    }
}

/// A session takes seconds; one that hangs must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(300);
/// The command that connects again.
pub const RECONNECT: &str = "RECONNECT";

/// What a session came to.
pub struct Session {
    pub text: String,
    pub ended: Ended,
    pub notices: Vec<String>,
}

impl Session {
    /// The text behind `label` on the line that starts with it.
    #[track_caller]
    pub fn value(&self, label: &str) -> &str {
        let line = self.text.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or_else(|| panic!("no line {label:?} in\n{}", self.text))
            .trim()
    }

    #[track_caller]
    pub fn has(&self, text: &str) {
        assert!(self.text.contains(text), "no {text:?} in\n{}", self.text);
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Lets `gdb` execute `commands` on `machine`; with `run_on` the machine runs to its end even when
/// gdb has left.
pub fn debug(gdb: &str, machine: &mut Machine, commands: &[&str], run_on: bool) -> Session {
    session(gdb, machine, commands, run_on, None)
}

/// As [`debug`], with Ctrl-C once `interrupt` answers `true`. [`RECONNECT`] among the commands
/// stands for the one that connects.
pub fn session(
    gdb: &str,
    machine: &mut Machine,
    commands: &[&str],
    run_on: bool,
    interrupt: Option<fn(&Machine) -> bool>,
) -> Session {
    let server = Server::bind(":0").unwrap();
    let target = format!("target remote {}", server.address());
    let mut args = vec![
        "-nx",
        "-batch",
        "-ex",
        "set pagination off",
        "-ex",
        "set confirm off",
    ];
    args.extend(["-ex", "set architecture riscv:rv64", "-ex", &target]);
    for command in commands {
        args.extend([
            "-ex",
            if *command == RECONNECT {
                &target
            } else {
                command
            },
        ]);
    }
    let mut child = Command::new(gdb)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = reader(child.stdout.take().unwrap());
    let err = reader(child.stderr.take().unwrap());
    let mut host = Watchdog {
        child,
        interrupt,
        run_on,
        start: Instant::now(),
        notices: Vec::new(),
    };
    let ended = trapless_gdb::serve(machine, &server, &mut host).unwrap();
    // The machine's end closes the connection, gdb goes through the rest of its script.
    let text = out.join().unwrap() + &err.join().unwrap();
    let _ = host.child.wait();
    Session {
        text,
        ended,
        notices: host.notices,
    }
}

/// A machine with `words` as firmware.
pub fn machine(harts: usize, words: &[u32]) -> Machine {
    let mut config = MachineConfig::preset("sstc").unwrap();
    config.harts = harts;
    config.ram = 16 << 20;
    let payload = Payload {
        firmware: Some(words.iter().flat_map(|word| word.to_le_bytes()).collect()),
        ..Payload::default()
    };
    Machine::boot(
        config,
        &payload,
        Peripherals::new(Box::new(std::io::sink())),
    )
    .unwrap()
}

/// `fcvt.d.l fa0, s1`.
pub const FCVT_D_L_FA0_S1: u32 = 0xd224_f553;
