//! The test device: numbers its interrupts in a page that it shares with the guest, which counts what arrives.
//!
//! ```text
//! device thread: for each source: sent += 1, then interrupt      (a source runs ahead of `handled` by BURST at most)
//! guest handler: sent > handled? else a duplicate; handled += 1; LEVEL: write the source to ACK
//! ```
//! A source of kind EDGE sends again when the guest has handled the last one. A line of kind LEVEL is high while
//! `sent > handled`, evaluated after each send and each ACK. One of kind RESAMPLE goes low by the completion itself, and
//! the notification of it makes the device evaluate the level.
//!
//! Registers, 32 bits each: ID, SOURCES, PAGE (low, high half), COUNT (interrupts per source, 0: no end), INTERVAL
//! (microseconds between two rounds), BURST, CONTROL (1 starts, 0 stops; reads 1 while the thread sends), ACK, ERRORS, MASK (sources that
//! send, all after reset).
//! The page has an entry of 64 bytes for each source: `sent` at 0, `handled` at 8.

pub mod device;
mod registers;
mod state;
#[cfg(test)]
mod tests;
pub mod wires;
