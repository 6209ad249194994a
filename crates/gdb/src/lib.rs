//! gdb remote debugging of a machine.
