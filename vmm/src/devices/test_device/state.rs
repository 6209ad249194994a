//! Save and restore.

use crate::devices::state::Stateful;
use crate::devices::test_device::device::{MAX_BURST, Setup, TestDevice, lock};
use std::sync::atomic::Ordering;
use trapless_devices::{StateError, StateReader, StateWriter};

impl Stateful for TestDevice {
    fn save(&self, to: &mut StateWriter) {
        let control = lock(&self.control);
        let setup = control.setup;
        to.number(setup.page);
        to.number(setup.count);
        to.number(setup.interval);
        to.number(setup.burst);
        to.number(setup.mask);
        to.number(control.running);
        to.number(self.errors.load(Ordering::Relaxed));
        for source in &self.sources {
            let source = lock(source);
            to.number(source.sent);
            to.number(source.high);
            to.number(source.active);
            to.number(source.finished);
        }
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut control = lock(&self.control);
        control.setup = Setup {
            page: from.number()?,
            count: from.number()?,
            interval: from.number()?,
            burst: from.number::<u32>()?.min(MAX_BURST),
            mask: from.number()?,
        };
        control.running = from.flag()?;
        self.errors.store(from.number()?, Ordering::Relaxed);
        for source in &self.sources {
            let source = &mut *lock(source);
            source.sent = from.number()?;
            let high = from.flag()?;
            source.set(high);
            source.active = from.flag()?;
            source.finished = from.flag()?;
        }
        Ok(())
    }
}
