//! Writes the JSON Schema of ledgers.
//!
//! `cargo run -p trapless-ledger --example schema > docs/ledger.schema.json`

fn main() {
    print!("{}", trapless_ledger::document::schema_json());
}
