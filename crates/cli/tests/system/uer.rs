//! What user-level exception redirection claims.

use crate::hosts::uer;

/// Promise: accesses that a handler in user mode answers make no exit; what it leaves to KVM, what
/// interrupts it, and what it does wrong has the effect that `KVM_RUN` documents, with each
/// interrupt architecture. A handler is in user mode whatever its VMM says of its registers.
#[test]
fn a_handler_in_user_mode_answers_its_guest() {
    for machine in ["sstc", "trapless"] {
        let host = uer(machine).unwrap_or_else(|what| panic!("{what}"));
        host.assert_result("uer", "0");
        host.assert_passed(&[
            "200 accesses are answered without an exit",
            "goes on in user mode",
            "and keeps its registers",
        ]);
    }
}
