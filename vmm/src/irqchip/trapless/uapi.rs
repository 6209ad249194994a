//! Numbers of Xtrapless' KVM interface, read from the kernel's headers when the VMM is compiled.

use crate::kvm::numbers;

/// The number that the header of the device defines.
const fn defined(name: &str) -> u64 {
    numbers::defined(
        include_str!("../../../../linux/include/uapi/linux/kvm_trapless.h"),
        name,
    )
}

/// Group: configuration before [`CTRL_INIT`].
pub const GRP_CONFIG: u32 = defined("KVM_DEV_TRAPLESS_GRP_CONFIG") as u32;
/// Highest source, u32.
pub const CONFIG_NR_SOURCES: u64 = defined("KVM_DEV_TRAPLESS_CONFIG_NR_SOURCES");
/// Group: actions.
pub const GRP_CTRL: u32 = defined("KVM_DEV_TRAPLESS_GRP_CTRL") as u32;
/// Allocates the domain.
pub const CTRL_INIT: u64 = defined("KVM_DEV_TRAPLESS_CTRL_INIT");
/// Completes when no lookup uses older contents of the tables and completions have been delivered.
pub const CTRL_SYNC: u64 = defined("KVM_DEV_TRAPLESS_CTRL_SYNC");
/// Group: entry of the source table, u64.
pub const GRP_SOURCE: u32 = defined("KVM_DEV_TRAPLESS_GRP_SOURCE") as u32;
/// Group: level of a line, u32.
pub const GRP_LINE: u32 = defined("KVM_DEV_TRAPLESS_GRP_LINE") as u32;
/// Group: word of a vCPU's file, u64.
pub const GRP_VCPU: u32 = defined("KVM_DEV_TRAPLESS_GRP_VCPU") as u32;
/// Group: the thread's grant, u64.
pub const GRP_GRANT: u32 = defined("KVM_DEV_TRAPLESS_GRP_GRANT") as u32;
/// Group: the eventfd whose wire drives a source, s64.
pub const GRP_WIRE: u32 = defined("KVM_DEV_TRAPLESS_GRP_WIRE") as u32;
/// SBI extension: function 0 routes source `a0` to vhart `a1`.
pub const SBI_EXT: u64 = defined("KVM_SBI_EXT_TRAPLESS");

// The header describes the words of a file in a comment, without names.
/// [`GRP_VCPU`]: pending and enable words.
pub const VCPU_WORDS: u64 = 32;
/// [`GRP_VCPU`]: software interrupt pending.
pub const VCPU_SOFT: u64 = 64;
/// [`GRP_VCPU`]: threshold.
pub const VCPU_THRESHOLD: u64 = 65;

#[cfg(test)]
mod tests {
    use super::*;

    /// Saved guests and other VMMs depend on these, so a header with others is another interface.
    #[test]
    fn numbers_of_the_header_are_read_in_both_bases() {
        assert_eq!(SBI_EXT, 0x0954_5250);
        assert_eq!(
            [
                GRP_CONFIG, GRP_CTRL, GRP_SOURCE, GRP_LINE, GRP_VCPU, GRP_GRANT, GRP_WIRE
            ],
            [0, 1, 2, 3, 4, 5, 6]
        );
        assert_eq!(CONFIG_NR_SOURCES, 0);
        assert_eq!((CTRL_INIT, CTRL_SYNC), (0, 1));
    }
}
