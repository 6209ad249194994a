//! Reason chains: the traps from an exit until the guest ran again, as one line of text.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use trapless_isa::cause::exception;
use trapless_isa::{Mode, cause::INTERRUPT};

use crate::config::DeviceMap;
use crate::events::event::Trap;
use crate::reason::{Reason, cause_index, extension_index, extension_name, short_cause};

/// Steps kept per chain; further ones become `...`.
const STEPS: usize = 8;
/// Distinct chains kept; further ones are counted as `(other)`.
const CHAINS: usize = 4096;

/// The distinct steps of one chain, in order of first occurrence.
///
/// Repetitions are left out on purpose: how often a step occurs is counted elsewhere, and counting
/// repetitions (12 page faults or 13) would make nearly every exit its own chain.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Steps {
    steps: [u32; STEPS],
    len: u8,
    more: bool,
}

impl Steps {
    /// Appends a trap, unless the same kind is there already.
    pub fn push(&mut self, trap: &Trap) {
        let ecall = matches!(trap.cause, exception::ECALL_S | exception::ECALL_VS);
        let extension = if ecall {
            u32::from(extension_index(trap.args[3]))
        } else {
            31
        };
        self.add(
            1 << 31
                | (trap.from as u32) << 16
                | (trap.to as u32) << 13
                | extension << 8
                | u32::from(cause_index(trap.cause)),
        );
    }

    /// Appends all steps of `other`.
    pub fn append(&mut self, other: &Self) {
        other.steps[..usize::from(other.len)]
            .iter()
            .for_each(|s| self.add(*s));
        self.more |= other.more;
    }

    fn add(&mut self, step: u32) {
        let len = usize::from(self.len);
        if self.steps[..len].contains(&step) {
            return;
        }
        if len == STEPS {
            self.more = true;
        } else {
            self.steps[len] = step;
            self.len += 1;
        }
    }

    /// Whether they can be the result of traps.
    pub fn are_sound(&self) -> bool {
        let modes = |step: &u32| {
            let mode = |shift: u32| ((step >> shift) & 7) as usize;
            mode(16).max(mode(13)) < Mode::ALL.len()
        };
        usize::from(self.len) <= STEPS && self.steps.iter().all(modes)
    }

    fn text(&self) -> String {
        let mut parts: Vec<String> = self.steps[..usize::from(self.len)]
            .iter()
            .map(|s| step_text(*s))
            .collect();
        if self.more {
            parts.push("...".to_string());
        }
        if parts.is_empty() {
            "HS only".to_string()
        } else {
            parts.join("; ")
        }
    }
}

fn step_text(step: u32) -> String {
    let mode = |shift: u32| Mode::ALL[((step >> shift) & 7) as usize];
    let cause = (step & 0xff) as u8;
    let (from, to) = (mode(16), mode(13));
    let what = match u64::from(cause) {
        exception::ECALL_S | exception::ECALL_VS => {
            format!("ecall({})", extension_name(((step >> 8) & 31) as u8))
        }
        exception::ECALL_U => "ecall".to_string(),
        _ => short_cause(cause),
    };
    format!("{from} {what} -> {to}")
}

/// All chains of a run, numbered in order of first occurrence.
#[derive(Debug, Serialize, Deserialize)]
pub struct Chains {
    #[serde(serialize_with = "crate::state::sorted::serialize")]
    numbers: HashMap<(usize, Steps), usize>,
    keys: Vec<Option<(usize, Steps)>>,
    /// Last number given for a reason (modulo the length): most exits repeat the chain of the
    /// previous one, and comparing is much cheaper than hashing.
    recent: [usize; 16],
}

impl Default for Chains {
    fn default() -> Self {
        // Number 0 is the overflow.
        Self {
            numbers: HashMap::new(),
            keys: vec![None],
            recent: [0; 16],
        }
    }
}

impl Chains {
    /// Number of the chain that `reason` (an index) and `steps` make.
    pub fn number(&mut self, reason: usize, steps: &Steps) -> usize {
        let recent = self.recent[reason % 16];
        if matches!(&self.keys[recent], Some((r, s)) if *r == reason && s == steps) {
            return recent;
        }
        let number = self.look_up(reason, steps);
        self.recent[reason % 16] = number;
        number
    }

    fn look_up(&mut self, reason: usize, steps: &Steps) -> usize {
        let key = (reason, *steps);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        if self.keys.len() >= CHAINS {
            return 0;
        }
        let number = self.keys.len();
        self.keys.push(Some(key));
        self.numbers.insert(key, number);
        number
    }

    /// How many there are, the overflow included.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Whether numbers and chains agree, and each has a reason that `exists`.
    pub fn are_sound(&self, exists: impl Fn(usize) -> bool) -> bool {
        let place = |(number, key): (usize, &Option<(usize, Steps)>)| match key {
            None => number == 0,
            Some(key) => {
                self.numbers.get(key) == Some(&number) && exists(key.0) && key.1.are_sound()
            }
        };
        (1..=CHAINS).contains(&self.keys.len())
            && self.keys[0].is_none()
            && self.numbers.len() == self.keys.len() - 1
            && self.keys.iter().enumerate().all(place)
            && self.recent.iter().all(|number| *number < self.keys.len())
    }

    /// Text of a chain, for instance `timer_set: HS ecall(TIME) -> M`.
    pub fn text(&self, number: usize, guest_devices: &DeviceMap) -> String {
        match self.keys.get(number).copied().flatten() {
            Some((reason, steps)) => {
                format!(
                    "{}: {}",
                    Reason::from_index(reason).key(guest_devices),
                    steps.text()
                )
            }
            None => "(other)".to_string(),
        }
    }
}

/// Whether an M-mode trap with `cause`, taken straight from V=1, caused a following exit with
/// `exit_cause`: firmware forwards a machine interrupt as its supervisor counterpart.
pub fn leads_to(cause: u64, exit_cause: u64) -> bool {
    if cause & INTERRUPT != 0 {
        // MSI 3 -> SSI 1, MTI 7 -> STI 5, MEI 11 -> SEI 9
        exit_cause & INTERRUPT != 0 && exit_cause == cause - 2
    } else {
        exit_cause & INTERRUPT == 0
    }
}
