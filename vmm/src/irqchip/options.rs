//! Options of the interrupt controller.

use crate::irqchip::aia::uapi::Mode;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

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

/// How the VMM interrupts its guest.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Injection {
    /// Xtrapless: by the instruction, without a system call
    Ugenvsei,
    /// By writing an eventfd that KVM turns into an interrupt, level lines with resampling; with
    /// AIA into a message to a vCPU's interrupt file, the APLIC is then the VMM's
    Irqfd,
    /// By KVM_IRQ_LINE: wires of Xtrapless' table or of the APLIC
    Ioctl,
}

impl Injection {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ugenvsei, Self::Irqfd, Self::Ioctl];
}

/// The value of the option, or `None` for the interrupt controller's default.
pub type Chosen = Option<Injection>;

/// Values of `--inject`: those of [`Injection`], and `auto`.
fn chosen() -> impl TypedValueParser<Value = Chosen> {
    let auto = PossibleValue::new("auto").help("`ugenvsei` with Xtrapless, `ioctl` with AIA");
    let named = Injection::ALL
        .iter()
        .filter_map(ValueEnum::to_possible_value);
    let all = std::iter::once(auto).chain(named);
    PossibleValuesParser::new(all).map(|name| Injection::from_str(&name, false).ok())
}

/// Options of the interrupt controller.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Interrupt controller of the guest; `--stats` has the chosen one
    #[arg(long = "irqchip", value_enum, default_value_t = Choice::Auto)]
    pub choice: Choice,

    /// How devices interrupt a guest with Xtrapless or AIA
    #[arg(long, default_value = "auto", value_parser = chosen())]
    pub inject: Chosen,

    /// Where KVM keeps the interrupt files of a guest with AIA
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub aia_mode: Mode,
}
