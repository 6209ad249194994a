//! Messages about drivers of the guest that break the protocol of their device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use trapless_devices::DeviceEvents;

/// Maximum number of messages of a VMM, however often its guest restarts.
const MESSAGES: u32 = 16;

/// Counts messages, so that a guest cannot fill the terminal or a log of the host.
#[derive(Default)]
pub struct Mistakes(AtomicU32);

impl Mistakes {
    /// The message about an error, unless there were too many.
    fn message(&self, device: &str, what: &str) -> Option<String> {
        let more = |n| (n < MESSAGES).then_some(n + 1);
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        let last = match before + 1 < MESSAGES {
            true => "",
            false => "; further messages of this kind are not printed",
        };
        Some(format!(
            "the guest's driver of {device} broke the protocol: {what}{last}"
        ))
    }
}

/// Prints the first error of a device's driver.
pub struct FirstMistake {
    all: Arc<Mistakes>,
    noticed: bool,
}

impl FirstMistake {
    /// For a device that was just created.
    pub fn new(all: &Arc<Mistakes>) -> Self {
        Self {
            all: Arc::clone(all),
            noticed: false,
        }
    }

    fn message(&mut self, device: &str, what: &str) -> Option<String> {
        let first = !std::mem::replace(&mut self.noticed, true);
        first.then(|| self.all.message(device, what)).flatten()
    }
}

impl DeviceEvents for FirstMistake {
    fn guest_error(&mut self, device: &'static str, what: &'static str) {
        if let Some(message) = self.message(device, what) {
            eprintln!("trapless-vmm: {message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_reboots_and_errs_for_ever_fills_no_log() {
        let all = Arc::<Mistakes>::default();
        let mut messages = Vec::new();
        for _boot in 0..1000 {
            let mut block = FirstMistake::new(&all);
            messages.extend((0..5).filter_map(|_| block.message("virtio-blk", "a loop")));
        }
        assert!(messages.len() <= 16, "{}", messages.len());
        assert!(messages[0].contains("virtio-blk") && messages[0].contains("a loop"));
        assert!(messages.last().unwrap().contains("not printed"));
    }
}
