//! Save and restore of a [`Chip`]. The vCPUs do not run, and nothing is injected.

use crate::irqchip::options::Injection;
use crate::irqchip::trapless::chip::Chip;
use crate::irqchip::trapless::source::{self, Op};
use crate::irqchip::trapless::uapi;
use crate::irqchip::wire::Kind;
use std::io;
use std::sync::atomic::Ordering;
use trapless_devices::{StateError, StateReader, StateWriter};
use trapless_isa::xtrapless;

/// Words of a vCPU's file that are saved.
fn words() -> impl Iterator<Item = u64> {
    (0..uapi::VCPU_WORDS).chain([uapi::VCPU_SOFT, uapi::VCPU_THRESHOLD])
}

pub(super) fn file_word(vhart: u16, word: u64) -> u64 {
    (u64::from(vhart) << 16) | word
}

impl Chip {
    /// Lets devices handle pending completions, so that their state is consistent with the
    /// controller's.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn settle(&self) -> io::Result<()> {
        self.port.set(uapi::GRP_CTRL, uapi::CTRL_SYNC, 0)?;
        self.numbers().for_each(|number| self.resampled(number));
        Ok(())
    }

    /// Appends the state of the controller.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn save(&self, to: &mut StateWriter) -> io::Result<()> {
        let numbers: Vec<u16> = self.numbers().collect();
        to.number(numbers.len() as u64);
        for number in numbers {
            to.number(number);
            to.number(self.port.get(uapi::GRP_SOURCE, number.into())?);
            to.number(self.port.get(uapi::GRP_LINE, number.into())?);
        }
        for vhart in 0..self.vharts {
            for word in words() {
                to.number(self.port.get(uapi::GRP_VCPU, file_word(vhart, word))?);
            }
        }
        Ok(())
    }

    /// Until [`Chip::restore`], lines record their level but do not inject.
    pub fn hush(&self) {
        self.quiet.store(true, Ordering::SeqCst);
    }

    /// Restores the state, after the devices have driven their lines.
    ///
    /// # Errors
    /// If the state cannot be restored.
    pub fn restore(&self, from: &mut StateReader<'_>) -> Result<(), String> {
        let bad = |e: StateError| format!("the saved interrupt controller {e}");
        let refused = |e: io::Error| format!("KVM refuses the saved interrupt controller: {e}");
        let set = |group, attribute, value| self.port.set(group, attribute, value).map_err(refused);
        let saved: usize = from.number().map_err(bad)?;
        if saved != self.numbers().count() {
            return Err("the saved guest has other interrupt sources; use the same options".into());
        }
        let mut lines = Vec::new();
        for _ in 0..saved {
            let number: u16 = from.number().map_err(bad)?;
            let entry: u64 = from.number().map_err(bad)?;
            let high = from.flag().map_err(bad)?;
            let kind = self.kind(number).ok_or_else(|| {
                "the saved guest has other interrupt sources; use the same options".to_string()
            })?;
            // The kind depends on this VMM's way of injection, the rest on the guest.
            let vhart = (entry & xtrapless::source::ENTRY_VHART) as u16;
            if vhart >= self.vharts {
                return Err(bad(StateError("names a vCPU that does not exist")));
            }
            set(uapi::GRP_SOURCE, number.into(), source::entry(kind, vhart))?;
            if kind != Kind::Edge {
                set(uapi::GRP_LINE, number.into(), high.into())?;
                lines.push((number, high));
            }
        }
        // Last, because a line that goes high makes its source pending, which it may not have been.
        for vhart in 0..self.vharts {
            for word in words() {
                let value = from.number().map_err(bad)?;
                set(uapi::GRP_VCPU, file_word(vhart, word), value)?;
            }
        }
        self.quiet.store(false, Ordering::SeqCst);
        // An injection or the notification of a completion was pending: the device determines the
        // level.
        for (number, high) in lines {
            let level = self
                .source(number)
                .is_some_and(|(source, _)| source.level.load(Ordering::SeqCst));
            match (level, high) {
                (true, false) => self.ask_device(number),
                (false, true) => self.inject(number, Injection::Ioctl, Op::Deassert),
                _ => {}
            }
        }
        Ok(())
    }
}
