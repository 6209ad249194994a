//! The fixed part of every program: reset, step loop, trap handlers.
//!
//! A step is: write the CSRs, memory words and registers of its record, fence, `mret` into its
//! code; on every trap log the trap and either continue after the instruction or end the step; at
//! the end log all registers and CSRs. Nothing here depends on the model.

mod handler;
mod level;
mod step;

use trapless_isa::csr;

use crate::asm::Asm;
use crate::asm::reg::T0;
use crate::layout::{self, CTX};

/// Alignment of handlers in bytes.
const HANDLER: u64 = 64;

/// The assembled harness and the addresses the generator needs.
pub struct Harness {
    /// Code from [`layout::RAM`] on.
    pub code: Vec<u8>,
    /// Value for `stvec`.
    pub s_trap: u64,
    /// Value for `vstvec`.
    pub vs_trap: u64,
}

/// Assembles the harness.
pub fn build() -> Harness {
    let mut a = Asm::new(layout::RAM);
    let (m_trap, step_end, finish) = (a.label(), a.label(), a.label());

    a.la(T0, m_trap);
    a.csrw(csr::MTVEC, T0);
    a.li(T0, CTX);
    a.csrw(csr::MSCRATCH, T0);
    let next_step = a.here();
    step::start(&mut a, finish);
    a.bind(step_end);
    step::end(&mut a, next_step);
    a.bind(finish);
    step::finish(&mut a);

    a.align(HANDLER);
    a.bind(m_trap);
    handler::machine(&mut a, step_end);
    a.align(HANDLER);
    let s_trap = a.pc();
    handler::supervisor(&mut a);
    a.align(HANDLER);
    let vs_trap = a.pc();
    handler::guest(&mut a);

    assert!(a.pc() < layout::TOHOST, "harness fits below tohost");
    Harness {
        code: a.finish(),
        s_trap,
        vs_trap,
    }
}
