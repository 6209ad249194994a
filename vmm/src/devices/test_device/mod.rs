//! The test device: numbers its interrupts in a page that it shares with the guest, which counts
//! those that arrive.
//!
//! ```text
//! device thread: for each source: sent += 1, then interrupt    (at most BURST ahead of `handled`)
//! guest handler: sent > handled? else a duplicate; handled += 1; LEVEL: write the source to ACK
//! ```
//! A source of kind EDGE sends again when the guest has handled the last one. A line of kind LEVEL
//! is high while `sent > handled`, evaluated after each send and each ACK. One of kind RESAMPLE
//! goes low by the completion itself, and the notification of it makes the device evaluate the
//! level.
//!
//! Registers, 32 bits each, from offset 0:
//!
//! | register | meaning |
//! |---|---|
//! | ID, SOURCES | constants: identity, number of sources |
//! | PAGE (low, high half) | guest physical address of the shared page |
//! | COUNT | interrupts per source, 0: no end |
//! | INTERVAL | microseconds between two rounds |
//! | BURST | how far a source that is not EDGE may run ahead of `handled`, 1..=8 |
//! | CONTROL | 1 starts, 0 stops; reads 1 while the thread sends |
//! | ACK | number of a LEVEL source whose interrupts the guest has handled |
//! | ERRORS | sources whose `handled` was larger than `sent` |
//! | MASK | sources that send, all after reset |
//!
//! The page has an entry of 64 bytes for each source: `sent` at 0, `handled` at 8.

pub mod device;
mod registers;
mod state;
#[cfg(test)]
mod tests;
pub mod wires;
