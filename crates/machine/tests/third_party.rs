//! A controller from outside the project in a machine: nothing in the hart or the machine changes.

#[path = "../../intc/examples/doorbell.rs"]
mod doorbell;

mod common;

use common::*;
use doorbell::{Doorbell, MDOORBELL};
use trapless_machine::{Limits, Machine, Outcome};

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
