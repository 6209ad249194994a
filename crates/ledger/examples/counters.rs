//! Prints all counters of ledgers as `docs/counters.md` has them.

fn main() {
    print!("{}", trapless_ledger::document::counters_markdown());
}
