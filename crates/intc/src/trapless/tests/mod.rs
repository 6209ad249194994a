//! Tests through the public interface: CSR accesses, lines and memory.

mod claims;
mod detach;
mod faults;
mod inspect;
mod lifecycle;
mod posts;
mod properties;
mod queues;
mod registers;
mod rights;
mod slots;
mod windows;
mod windows_reference;
mod world;
