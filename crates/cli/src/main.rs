//! The `trapless` command.
fn main() {}
