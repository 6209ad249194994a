//! State of a hart in one line.

use trapless_hart::Hart;

/// One line about a hart.
pub fn describe(hart: &Hart) -> String {
    let wait = if hart.waiting() { ", waits in wfi" } else { "" };
    format!("hart {} {}-mode{wait}", hart.id(), hart.mode())
}
