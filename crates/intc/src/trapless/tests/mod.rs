//! Tests through the public door: CSR accesses, lines and memory.

mod claims;
mod detach;
mod lifecycle;
mod posts;
mod properties;
mod queues;
mod rights;
mod slots;
mod world;
