//! PCI Express for a guest: a root complex with generic ECAM, whose functions are devices of bus 0.
//! Windows and device tree node are those of the emulator's machine (`trapless-pci`).

pub mod function;
pub mod root;
