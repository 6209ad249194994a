//! Outcomes of a run of the guest.

/// How a run of the guest ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The guest powered off.
    PowerOff,
    /// The guest asked for a reboot.
    Reboot,
    /// The user left with Ctrl-A x or the command `quit`, or saved the guest.
    Quit,
    /// This signal was received.
    Signal(i32),
    /// The guest or KVM failed; the text says how.
    Failure(String),
}

impl Outcome {
    /// Exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Self::PowerOff | Self::Reboot | Self::Quit => 0,
            Self::Signal(number) => 128u8.saturating_add(u8::try_from(*number).unwrap_or(0)),
            Self::Failure(_) => 3,
        }
    }

    /// From the numbers of `KVM_EXIT_SYSTEM_EVENT` (Linux `Documentation/virt/kvm/api.rst`);
    /// `data[0]` is the SBI reset reason, 1 meaning system failure (SBI specification, SRST
    /// extension).
    pub fn from_system_event(event: u32, data: &[u64]) -> Self {
        const SHUTDOWN: u32 = 1;
        const RESET: u32 = 2;
        match event {
            SHUTDOWN if data.first() == Some(&1) => {
                Self::Failure("the guest reported a system failure".into())
            }
            SHUTDOWN => Self::PowerOff,
            RESET => Self::Reboot,
            3 => Self::Failure("the guest crashed".into()),
            other => Self::Failure(format!(
                "KVM reported system event {other}, which is not supported"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_events_become_outcomes() {
        assert_eq!(Outcome::from_system_event(1, &[0]).code(), 0);
        assert_eq!(Outcome::from_system_event(1, &[1]).code(), 3);
        assert_eq!(Outcome::from_system_event(2, &[]), Outcome::Reboot);
        assert_eq!(Outcome::from_system_event(3, &[]).code(), 3);
        assert_eq!(Outcome::Signal(15).code(), 143);
    }
}
