//! Kinds of the device's sources, and their ways of injection.

use crate::error::Result;
use crate::irqchip::controller::InterruptController;
use crate::irqchip::options::Injection;
use crate::irqchip::wire::Wire;
use crate::map;
use clap::ValueEnum;
use std::str::FromStr;

/// Option of the test device: `N` or `N,HOW`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sources {
    /// Number of sources, 1..=[`map::TEST_SOURCES`].
    pub number: u8,
    /// Ways of injection, used in turn, so that each kind of source uses each possible way; if
    /// empty, that of the other devices (`--inject`).
    pub inject: &'static [Injection],
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (number, inject): (_, &'static [Injection]) = match text.split_once(',') {
            None => (text, &[]),
            Some((number, "mixed")) => (number, &Injection::ALL),
            Some((number, name)) => {
                let named = |one: &&Injection| {
                    let value = one.to_possible_value();
                    value.is_some_and(|value| value.get_name() == name)
                };
                let found = Injection::ALL.iter().find(named);
                let found = found.ok_or_else(|| format!("`{name}` is not a way to interrupt"))?;
                (number, std::slice::from_ref(found))
            }
        };
        let number = number.parse().ok();
        let number = number.filter(|n| (1..=map::TEST_SOURCES).contains(n));
        let number = number.ok_or("the test device has 1 to 32 sources")?;
        Ok(Self { number, inject })
    }
}

/// Connects the sources, of all kinds of the controller in turn.
///
/// # Errors
/// [`Error::Failed`](crate::error::Error::Failed) if KVM refuses a source.
pub fn connect(
    sources: Sources,
    controller: &dyn InterruptController,
) -> Result<Vec<Box<dyn Wire>>> {
    let kinds = controller.features().test_kinds;
    let wire = |index: u8| {
        let turn = usize::from(index);
        let mut ways = sources.inject.iter().cycle();
        let way = ways.nth(turn / kinds.len()).copied();
        let number = map::TEST_IRQ + u32::from(index);
        controller.connect(number, kinds[turn % kinds.len()], way)
    };
    (0..sources.number).map(wire).collect()
}
