//! A read of the interrupt-pending registers sees what the hart's own earlier accesses did to its
//! inputs, in the same block too, on the interpreter and on compiled code.

use trapless_asm as asm;
use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{AiaConfig, CodeCache, Hart, HartConfig, Ram, Tiers};
use trapless_isa::Mode;
use trapless_isa::csr;
use trapless_isa::port::Lines;
use trapless_ledger::event::Event;

const RAM: u64 = 0x8000_0000;
/// A device outside RAM.
const DEVICE: i32 = 0x100;
const MSI: u64 = 1 << 3;
const SSI: u64 = 1 << 1;
const VSSI: u64 = 1 << 2;

/// Drives as levels what is stored at [`DEVICE`], and as edges what is stored behind it.
#[derive(Default)]
struct Controller(Lines);

impl Platform for Controller {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(
        &mut self,
        _: usize,
        _: u64,
        addr: u64,
        _: u8,
        value: u64,
        _: Mode,
    ) -> Result<(), BusFault> {
        if addr == DEVICE as u64 {
            self.0.level = value;
        } else {
            self.0.pulse |= value;
        }
        Ok(())
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        let lines = self.0;
        self.0.pulse = 0;
        lines
    }

    fn record(&mut self, _: &Event) {}
}

/// Runs `program` in M-mode, with `inputs` in x5, and returns x10 and x11.
fn run(program: &[u32], inputs: u64, compiled: bool) -> [u64; 2] {
    let ram = Ram::new(RAM, 0x1000).unwrap();
    let config = HartConfig {
        reset_pc: RAM,
        aia: Some(AiaConfig { guests: 0 }),
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    if compiled && !code.compile(Tiers::EAGER, &config) {
        eprintln!("this host has no compiler");
    }
    for (i, word) in program.iter().chain(&[asm::jal(0, 0)]).enumerate() {
        ram.store(RAM + 4 * i as u64, 4, u64::from(*word)).unwrap();
    }
    let mut hart = Hart::new(0, config, ram);
    let mut controller = Controller::default();
    for (csr, value) in [
        (csr::MIDELEG, SSI),
        (csr::HIDELEG, VSSI),
        (csr::MIE, MSI | SSI | VSSI),
    ] {
        assert!(hart.poke_csr(csr, value, &mut controller));
    }
    hart.set_x(5, inputs);
    hart.run(&mut code, &mut controller, 100, None);
    [10, 11].map(|register| hart.x(register))
}

#[test]
fn pending_registers_show_what_the_hart_has_just_done() {
    for compiled in [false, true] {
        for (register, inputs, shown) in [
            (csr::MIP, MSI, MSI),
            (csr::MIP, SSI | VSSI, SSI | VSSI),
            (csr::SIP, MSI | SSI, SSI),
            (csr::HIP, VSSI | SSI, VSSI),
            (csr::VSIP, VSSI, VSSI >> 1),
            (csr::MTOPI, MSI, 3 << 16 | 255),
            (csr::STOPI, SSI, 1 << 16 | 255),
            (csr::VSTOPI, VSSI, 1 << 16 | 1),
        ] {
            let program = [
                asm::sd(5, 0, DEVICE),
                asm::addi(6, 0, 1),
                asm::csrr(10, register),
                asm::sd(0, 0, DEVICE),
                asm::csrr(11, register),
            ];
            let [after, later] = run(&program, inputs, compiled);
            assert_eq!(
                (after, later),
                (shown, 0),
                "{register:#x}, compiled: {compiled}"
            );
        }
    }
}

/// An edge of the hart's own making comes before the write that clears it, not after it.
#[test]
fn an_edge_of_the_harts_own_is_cleared_by_a_later_write() {
    for compiled in [false, true] {
        let program = [
            asm::sd(5, 0, DEVICE + 8),
            asm::csrw(csr::SIP, 0),
            asm::csrr(10, csr::SIP),
            asm::sd(5, 0, DEVICE + 8),
            asm::csrr(11, csr::SIP),
        ];
        assert_eq!(run(&program, SSI, compiled), [0, SSI]);
    }
}
