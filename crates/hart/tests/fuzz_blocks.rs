//! Compiled and interpreted code do the same: a short run of what `examples/fuzz_blocks.rs` does
//! for hours.

#[path = "fuzz/mod.rs"]
mod fuzz;

/// Promise: whatever a program does, the compiled one ends in the same state at the same virtual
/// time.
#[test]
fn engines_agree_on_random_programs() {
    for seed in 0..3000 {
        let program = fuzz::Program::new(seed);
        assert!(
            fuzz::check(&program).is_none(),
            "{}",
            fuzz::report(&program)
        );
    }
}

/// Promise: triggers show each instruction that matches them, where it is, and change nothing: not
/// even when something happens.
#[test]
fn triggers_find_all_and_change_nothing() {
    let mut matches = 0;
    for seed in 0..3000 {
        let program = fuzz::Program::new(seed);
        let wrong = fuzz::check_triggers(&program, &mut matches);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    assert!(matches > 100_000, "{matches}");
}
