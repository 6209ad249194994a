//! Options of the interrupt controller.

use crate::irqchip::aia::uapi::Mode;
use clap::ValueEnum;

/// `--irqchip`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// PLIC in user space, interprocessor interrupts by SBI; any guest, any host
    Plic,
    /// Xtrapless; the guest needs the drivers of this project and has no UART before they are
    /// loaded
    Trapless,
    /// AIA: APLIC and IMSICs in KVM; any guest, hosts with AIA
    Aia,
    /// Xtrapless or AIA if KVM offers it, else the PLIC
    Auto,
}

/// `--inject`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inject {
    /// `ugenvsei` with Xtrapless, `ioctl` with AIA
    Auto,
    /// Xtrapless: by the instruction, without a system call
    Ugenvsei,
    /// By writing an eventfd that KVM turns into an interrupt; with AIA into a message to a vCPU's
    /// interrupt file, the APLIC is then the VMM's
    Irqfd,
    /// By KVM_IRQ_LINE: wires of Xtrapless' table or of the APLIC
    Ioctl,
}

/// What the user wants of the interrupt controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Which one.
    pub choice: Choice,
    /// How devices interrupt a guest with Xtrapless or AIA.
    pub inject: Inject,
    /// Where KVM keeps the interrupt files of a guest with AIA.
    pub aia_mode: Mode,
}
