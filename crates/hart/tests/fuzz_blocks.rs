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
