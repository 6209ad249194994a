//! Rules by which events are counted.

pub(crate) mod attribution;
pub(crate) mod controller;
pub(crate) mod cost;
pub(crate) mod delivery;
pub(crate) mod interrupt_files;
pub(crate) mod pci;
pub(crate) mod redirect;
pub(crate) mod switch;
pub(crate) mod vei;
