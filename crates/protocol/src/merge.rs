//! Steps merged into one because the states between them cannot be observed.
//!
//! * Fetching a notification and clearing `ON`: until `ON` is cleared a post is silent, as it is
//!   before the fetch. (Not if a queue can overflow: the fetch makes room.)
//! * Taking the latch of `hip` and waking the thread on the hart: both concern this hart only.
//! * The end of a detach's re-check and the switch away from the thread.
//! * A latch set while the thread is in `KVM_RUN` but not about to block: its handler finds no
//!   thread to wake, and entering the guest clears it.
//! * Preemption between WFI and looking at the file is not offered: it is like preemption before
//!   WFI.
//!
//! Small configurations are checked with and without, and must agree.

use crate::model::Protocol;
use crate::state::{Handler, Pc, State};

impl Protocol {
    /// Executes the following steps that are merged.
    pub(crate) fn merge(&self, s: &mut State) {
        for h in 0..self.config.harts {
            let hart = &s.harts[usize::from(h)];
            let clears = matches!(hart.handler, Handler::Clear(_))
                && self.config.queue >= self.config.vcpus
                && !self.has(crate::config::Mutation::HandlerClearsLate);
            if clears || hart.handler == Handler::Latch {
                self.handle(s, h);
            }
            if matches!(s.harts[usize::from(h)].pc, Pc::Detach(4, _)) && Self::detach_ready(s, h, 4)
            {
                self.step(s, h);
            }
            let hart = &mut s.harts[usize::from(h)];
            hart.latch &= hart.pc != Pc::Host;
        }
    }

    /// What rises at this point of the hart's program sets the latch in `hip`.
    pub(crate) fn latches(&self, pc: Pc) -> bool {
        !matches!(pc, Pc::Guest | Pc::GuestClear)
    }
}
