//! What the harts of a KVM host go through while it has virtual machines, tried by modules and programs of the image
//! `test-host` (`images/tests`).

use crate::hosts::unplug;

/// Promise: an interrupt that a CPU injects on its way off line arrives, and so does one that it injects after KVM has let
/// go of it.
#[test]
fn a_dying_cpu_loses_no_interrupt() {
    let run = unplug();
    run.assert_result("unplug", "0");
}

/// Promise: the module can be removed and loaded again.
#[test]
fn the_module_can_be_replaced() {
    let run = unplug();
    run.assert_result("unload", "0");
    run.assert_result("reload", "0");
}
