//! Prints the intervals of medians that sweeps use.
//!
//! `cargo run -p trapless-report --example intervals > python/trapless/sweep/intervals.json`

fn main() {
    print!("{}", trapless_report::intervals_json());
}
