//! Bits of state in hardware for each hart: interrupt files of AIA beside Xtrapless.
//!
//! `cargo run -p trapless-intc --example state_bits`; the table is part of `docs/results/aia.md`.

use trapless_intc::aia::file::FILE_STATE_BITS;
use trapless_intc::trapless::HART_STATE_BITS;

/// `vsie` and `hip` of their own in the hart (Xtrapless, "Separation of pending bits"), three
/// interrupts each.
const SEPARATE_BITS: u32 = 2 * 3;

fn main() {
    println!("an interrupt file of 255 identities: {FILE_STATE_BITS} bits");
    for guests in [7, 15, 63] {
        let bits = (1 + guests) * FILE_STATE_BITS;
        println!("AIA, supervisor file and {guests} guest files: {bits} bits");
    }
    let bits = HART_STATE_BITS + SEPARATE_BITS;
    println!("Xtrapless, any number of vCPUs: {bits} bits");
}
