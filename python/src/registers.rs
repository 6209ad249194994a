//! Registers and CSRs of a hart by name.

use pyo3::prelude::*;
use trapless_hart::Hart;
use trapless_isa::csr;
use trapless_isa::disasm::{f_name, x_name};
use trapless_machine::Machine;

use crate::error::Error;

/// Register of a name.
enum Register {
    Pc,
    X(usize),
    F(usize),
    Csr(u16),
}

/// Last address of a CSR.
const CSRS: u16 = 0xFFF;

/// `x7` and the like.
fn numbered(name: &str, letter: char) -> Option<usize> {
    let number = name.strip_prefix(letter)?.parse().ok()?;
    (number < 32).then_some(number)
}

fn register(name: &str) -> PyResult<Register> {
    let index = |of: fn(u8) -> &'static str| (0..32_u8).find(|n| of(*n) == name);
    if name == "pc" {
        return Ok(Register::Pc);
    }
    // The frame pointer has two names.
    let integer = if name == "fp" {
        Some(8)
    } else {
        index(x_name).map(usize::from)
    };
    if let Some(n) = integer.or_else(|| numbered(name, 'x')) {
        return Ok(Register::X(n));
    }
    if let Some(n) = index(f_name)
        .map(usize::from)
        .or_else(|| numbered(name, 'f'))
    {
        return Ok(Register::F(n));
    }
    let address = name
        .strip_prefix("0x")
        .and_then(|n| u16::from_str_radix(n, 16).ok());
    let address = address.filter(|address| *address <= CSRS);
    let named = || (0..=CSRS).find(|address| csr::name(*address) == name);
    match address.or_else(named) {
        Some(address) => Ok(Register::Csr(address)),
        None => Err(Error::new_err(format!(
            "there is no register {name}: use pc, an integer register (a0, x10), a floating-point \
             register (fa0, f10), or a CSR by name or address (mstatus, 0x300)"
        ))),
    }
}

fn no_csr(hart: usize, name: &str) -> PyErr {
    Error::new_err(format!(
        "hart {hart} has no CSR {name}: its extensions bring none of this name"
    ))
}

/// Value of a register; of a CSR as M-mode reads it.
pub fn get(hart: &Hart, name: &str) -> PyResult<u64> {
    match register(name)? {
        Register::Pc => Ok(hart.pc()),
        Register::X(n) => Ok(hart.x(n)),
        Register::F(n) => Ok(hart.f(n)),
        Register::Csr(address) => hart
            .peek_csr_as_m(address)
            .ok_or_else(|| no_csr(hart.id(), name)),
    }
}

/// Sets a register; a CSR as M-mode writes it.
pub fn set(machine: &mut Machine, index: usize, name: &str, value: u64) -> PyResult<()> {
    let now = machine.now();
    let hart = machine.hart_mut(index);
    match register(name)? {
        Register::Pc => {
            // If this ends a wait, the hart has waited until now.
            if hart.waiting() && hart.pc() != value {
                hart.advance_to(now);
            }
            hart.set_pc(value);
        }
        Register::X(n) => hart.set_x(n, value),
        Register::F(n) => hart.set_f(n, value),
        Register::Csr(address) => {
            if !machine.poke_csr(index, address, value) {
                return Err(no_csr(index, name));
            }
        }
    }
    Ok(())
}
