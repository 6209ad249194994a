//! Options of every command that makes a machine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use trapless_experiments::Value;
use trapless_machine::cost::Price;
use trapless_machine::preset::Size;
use trapless_run::spec::{Cost, EngineChoice, MachineOptions, RegionTime};

/// Options of every command that makes a machine.
#[derive(Args, Clone, Default)]
pub struct MachineArgs {
    /// Size of RAM.
    #[arg(long, value_name = "SIZE", help_heading = "Machine")]
    pub ram: Option<Size>,
    /// ISA string (`rv64gc_h_sstc`), or extensions to switch (`-svadu,+zicond`). Our own are xuer,
    /// xvei and xhcs; device trees name them xtraplessuer, xtraplessvei and xtraplesshcs.
    #[arg(
        long,
        value_name = "LIST",
        allow_hyphen_values = true,
        help_heading = "Machine"
    )]
    pub isa: Option<String>,
    /// Cost model to use instead of the built-in one.
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub cost: Option<PathBuf>,
    /// Set a price of the cost model, in cycles or as a factor, as in `trap=50` or `csr=x0.5`.
    /// Repeat for more.
    #[arg(
        long = "price",
        value_name = "NAME=PRICE",
        value_parser = price,
        help_heading = "Machine"
    )]
    pub prices: Vec<(String, Price)>,
    /// Raise exceptions for misaligned loads and stores instead of executing them.
    #[arg(long, help_heading = "Machine")]
    pub trap_misaligned: bool,
    /// Cycles that a hart runs before the next hart takes its turn.
    #[arg(long, value_name = "CYCLES", help_heading = "Machine")]
    pub quantum: Option<u64>,
    /// Seed of everything random that the guest can see, and of when a workload starts its guests.
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub seed: Option<u64>,
    /// What executes instructions; results are the same.
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value_t,
        help_heading = "Machine"
    )]
    pub engine: EngineName,
    /// Executions of a block that are interpreted before it is compiled [default: what pays; few
    /// for both].
    #[arg(long, value_name = "RUNS", help_heading = "Machine")]
    pub hot: Option<u32>,
    /// Cycles that harts run in loops of compiled blocks before these are compiled together, as a
    /// region; "never" for not at all [default: what pays; at once for both].
    #[arg(long, value_name = "CYCLES", help_heading = "Machine")]
    pub region: Option<RegionTime>,
    /// Maximum memory for compiled code; evicted code is compiled again when it is needed [default:
    /// 48M].
    #[arg(long, value_name = "SIZE", help_heading = "Machine")]
    pub code_cache: Option<Size>,
}

/// What executes instructions.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EngineName {
    /// Compiles what runs often to machine code (x86-64 and aarch64 hosts; others interpret).
    #[default]
    Jit,
    /// Interprets everything.
    Interp,
    /// Runs two machines side by side, one by each engine, and stops at the first difference.
    Both,
}

impl EngineName {
    /// The engine with its options.
    pub fn choice(self) -> EngineChoice {
        match self {
            Self::Jit => EngineChoice::Jit,
            Self::Interp => EngineChoice::Interp,
            Self::Both => EngineChoice::Both,
        }
    }
}

impl MachineArgs {
    /// The options that were given.
    pub fn options(&self) -> MachineOptions {
        MachineOptions {
            ram: self.ram,
            isa: self.isa.clone(),
            cost: self.cost.clone().map(Cost::File),
            prices: self.prices.iter().cloned().collect(),
            trap_misaligned: self.trap_misaligned,
            quantum: self.quantum,
            seed: self.seed,
            engine: self.engine.choice(),
            hot: self.hot,
            region: self.region,
            code_cache: self.code_cache,
        }
    }
}

/// `NAME=VALUE` on the command line.
pub fn setting(text: &str) -> Result<(String, Value), String> {
    let wrong = || format!("{text} is not NAME=NUMBER or NAME=WORD");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.into(), value.parse().map_err(|_| wrong())?))
}

/// `NAME=PRICE` on the command line.
fn price(text: &str) -> Result<(String, Price), String> {
    let wrong = || format!("{text} is not NAME=CYCLES or NAME=xFACTOR");
    let (name, price) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.into(), price.parse()?))
}

/// Value of `--machine`. In QEMU `-m` is the size of RAM.
pub fn name(text: &str) -> Result<String, String> {
    if text.parse::<Size>().is_ok() {
        return Err(format!(
            "this is the machine's name, which `trapless machines` lists; for RAM use --ram {text}"
        ));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_or_words() {
        let number = Value::Number(1000);
        assert_eq!(setting("pings=1_000"), Ok(("pings".into(), number)));
        let word = Value::Word("native".into());
        assert_eq!(setting("wfi=native"), Ok(("wfi".into(), word)));
        assert!(setting("pings").is_err() && setting("pings=-1").is_err());
    }
}
