//! Numbers of SBI calls that KVM forwards to user space (RISC-V SBI specification).

pub use trapless_isa::sbi::eid::BASE;

/// Base extension: probe for an extension. KVM forwards only that of vendor extensions.
pub const BASE_PROBE: u64 = 3;

/// The call was executed.
pub const SUCCESS: i64 = 0;
/// There is no such function.
pub const ERR_NOT_SUPPORTED: i64 = -2;
/// An argument is wrong.
pub const ERR_INVALID_PARAM: i64 = -3;
