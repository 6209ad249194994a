//! Accesses of guests that a handler in user mode handles (Xuer), and events that the handler of a
//! user context takes (Xhcs). They are not exits, unless the handler leaves one to the host or is
//! interrupted.

use trapless_isa::Mode;
use trapless_isa::cause::exception;

use crate::events::event::{Return, Trap};
use crate::ledger::{Ledger, count_direct};
use crate::reason::Reason;
use crate::state::handler::Handler;

/// The trap as HS-mode would have seen it.
fn reported(t: &Trap) -> Trap {
    let cause = match t.cause {
        exception::LOAD_MMIO_PAGE => exception::LOAD_GUEST_PAGE,
        exception::STORE_MMIO_PAGE => exception::STORE_GUEST_PAGE,
        other => other,
    };
    Trap { cause, ..*t }
}

impl Ledger {
    /// A trap from V=1 to U-mode.
    pub(crate) fn redirected(&mut self, t: &Trap) {
        if let Some(d) = self.harts[t.hart].direct.take() {
            count_direct(&mut self.phases[self.current].totals, &d);
        }
        let vcpu = self.vcpu_of(t.hart, t.guest);
        let reason = Reason::classify(&reported(t), &self.config, false).index();
        self.totals().redirected[reason].accesses += 1;
        self.harts[t.hart].handler = Some(Handler {
            vcpu,
            reason,
            trap: *t,
        });
    }

    /// A trap from U-mode to HS-mode; `true` if it was a handler's. It is an exit: for the guest's
    /// access if the handler leaves that to the host, else for the trap's own reason.
    pub(crate) fn handler_trapped(&mut self, t: &Trap) -> bool {
        let Some(handler) = self.harts[t.hart].handler.take() else {
            return false;
        };
        let left = !t.is_interrupt() && t.cause == exception::ECALL_U;
        if handler.trap.is_interrupt() {
            // The thread of the user context continues it; the guest continues without it.
            self.totals().redirected[handler.reason].left += 1;
            self.open_exit(t, t, None);
        } else if left {
            self.totals().redirected[handler.reason].left += 1;
            let why = Trap {
                time: t.time,
                hart: t.hart,
                ..reported(&handler.trap)
            };
            self.open_exit(t, &why, None);
        } else {
            self.vcpus.get_mut(handler.vcpu).handler = Some(handler);
            self.interrupted_handlers += 1;
            self.open_exit(t, t, None);
        }
        true
    }

    /// A return to U-mode; `true` if an interrupted handler continues.
    pub(crate) fn handler_resumes(&mut self, r: &Return) -> bool {
        if self.interrupted_handlers == 0 || r.from != Mode::HS {
            return false;
        }
        let Some(index) = self.vcpus.known(r.guest) else {
            return false;
        };
        let Some(handler) = self.vcpus.get_mut(index).handler.take() else {
            return false;
        };
        self.interrupted_handlers -= 1;
        self.guest_entry(r);
        self.harts[r.hart].handler = Some(handler);
        true
    }
}
