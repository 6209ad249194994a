//! A controller from outside the project in a machine: nothing in the hart or the machine changes.

#[path = "../../intc/examples/doorbell.rs"]
mod doorbell;

mod common;

use common::*;
use doorbell::{Doorbell, MDOORBELL, STATUS};
use trapless_hart::Tiers;
use trapless_intc::{
    CsrAccess, CsrFault, Description, Effects, InterruptArchitecture, Lines, MmioAccess,
    NoRegister, Snapshot,
};
use trapless_machine::{Engine, Limits, Machine, Outcome};
use vm_fdt::{Error, FdtWriter};

#[test]
fn doorbells_ring_between_harts() {
    let mut a = Asm::new(RAM);
    let (ringer, wait) = (a.label(), a.label());
    a.addi(T0, ZERO, 8).csrw(MIE, T0);
    a.csrr(A0, MHARTID).bne(A0, ZERO, ringer);
    // Hart 0 sleeps until it is rung and reads how often.
    a.bind(wait);
    a.wfi().csrr(A1, MDOORBELL).beq(A1, ZERO, wait);
    a.li(T0, DATA).ld(T1, T0, 0).add(T1, T1, A1).sd(T1, T0, 0);
    a.addi(T1, T1, -3).bne(T1, ZERO, wait);
    a.power_off();
    // Hart 1 rings three times, and a hart that does not exist once.
    a.bind(ringer);
    a.addi(T0, ZERO, 9).csrw(MDOORBELL, T0);
    for _ in 0..3 {
        a.csrw(MDOORBELL, ZERO);
    }
    let sleep = a.here();
    a.wfi().j(sleep);

    let config = config("sbi", 2);
    let doorbell = Box::new(Doorbell::new(config.harts));
    let mut machine = Machine::boot_with(config, doorbell, &a.payload(), quiet()).unwrap();
    let limits = Limits {
        instret: 100_000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::PoweredOff);
    assert_eq!(machine.ram().load(DATA, 8), Some(3));
    let tree = trapless_machine::boot::dtb::Tree::parse(machine.device_tree()).unwrap();
    assert!(tree.root.at("soc/doorbell@c000000").is_some());
}

/// Answers late, and to devices, too, which do not wait for it.
struct Late {
    inner: Doorbell,
    delay: u32,
}

impl Snapshot for Late {
    fn save(&self) -> serde_json::Value {
        self.inner.save()
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String> {
        self.inner.restore(state)
    }
}

impl InterruptArchitecture for Late {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        effects.delay += 10 * self.delay;
        self.inner.load(access, effects)
    }

    fn csr(&mut self, access: &CsrAccess, effects: &mut Effects) -> Result<u64, CsrFault> {
        effects.delay += self.delay;
        self.inner.csr(access, effects)
    }

    fn set_source(&mut self, now: u64, source: u32, level: bool, effects: &mut Effects) {
        effects.delay += 1_000_000;
        self.inner.set_source(now, source, level, effects);
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        self.inner.lines(hart, now)
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), Error> {
        self.inner.fdt(fdt, cpu_intc)
    }
}

/// Cycles that these take if the architecture answers so late: an access to its CSR, a load, a
/// fetch that fails, and a store to the UART that raises the wire of the UART.
fn cycles(delay: u32, engine: Engine) -> [u64; 4] {
    // The UART interrupts when it can send.
    const UART_ENABLE: u64 = 0x1000_0001;
    let mut a = Asm::new(RAM);
    let (start, fetched) = (a.label(), a.label());
    a.j(start);
    let handler = a.here();
    let handler = a.address(handler);
    a.j(fetched);
    a.bind(start);
    a.li(T0, handler).csrw(MTVEC, T0);
    a.li(S0, DATA).li(S1, STATUS);
    a.csrr(T0, MCYCLE).csrr(T1, MDOORBELL).csrr(T1, MCYCLE);
    a.sd(T0, S0, 0).sd(T1, S0, 8);
    a.csrr(T0, MCYCLE).ld(T1, S1, 0).csrr(T1, MCYCLE);
    a.sd(T0, S0, 16).sd(T1, S0, 24);
    a.csrr(T0, MCYCLE).w(trapless_asm::jalr(ZERO, S1, 0));
    a.bind(fetched);
    a.csrr(T1, MCYCLE);
    a.sd(T0, S0, 32).sd(T1, S0, 40);
    a.li(A0, UART_ENABLE).addi(A1, ZERO, 2);
    a.csrr(T0, MCYCLE).sb(A1, A0, 0).csrr(T1, MCYCLE);
    a.sd(T0, S0, 48).sd(T1, S0, 56);
    a.power_off();
    let mut config = config("sbi", 1);
    config.engine = engine;
    let inner = Doorbell::new(config.harts);
    let late = Box::new(Late { inner, delay });
    let mut machine = Machine::boot_with(config, late, &a.payload(), quiet()).unwrap();
    assert_eq!(machine.run(&Limits::default()), Outcome::PoweredOff);
    let word = |at| machine.ram().load(DATA + at, 8).unwrap();
    [0, 16, 32, 48].map(|at| word(at + 8) - word(at))
}

/// What an architecture adds to the price of an access delays the hart that makes it, by as many
/// cycles and no other hart or access, in both engines.
#[test]
fn a_late_answer_delays_the_hart_that_waits_for_it() {
    for engine in [Engine::Jit(Tiers::EAGER), Engine::Interp] {
        let [csr, load, fetch, store] = cycles(0, engine);
        let late = [csr + 500, load + 5_000, fetch + 5_000, store];
        assert_eq!(cycles(500, engine), late, "{engine:?}");
    }
}
