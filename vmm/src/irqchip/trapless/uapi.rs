//! Numbers of Xtrapless' KVM interface, read from the kernel's headers when the VMM is compiled.

const HEADER: &str = concat!(
    include_str!("../../../../linux/include/kvm-numbers.h"),
    include_str!("../../../../linux/include/uapi/linux/kvm_trapless.h"),
);

/// `KVM_CHECK_EXTENSION`: number of interrupt domains.
pub const CAP: u64 = defined("KVM_CAP_RISCV_TRAPLESS");
/// `KVM_CREATE_DEVICE`: type of the device.
pub const DEVICE_TYPE: u32 = defined("KVM_DEV_TYPE_RISCV_TRAPLESS") as u32;
/// Group: configuration before [`CTRL_INIT`].
pub const GRP_CONFIG: u32 = defined("KVM_DEV_TRAPLESS_GRP_CONFIG") as u32;
/// Highest source, u32.
pub const CONFIG_NR_SOURCES: u64 = defined("KVM_DEV_TRAPLESS_CONFIG_NR_SOURCES");
/// WFI waits on the hart, u32.
pub const CONFIG_NATIVE_WFI: u64 = defined("KVM_DEV_TRAPLESS_CONFIG_NATIVE_WFI");
/// Group: actions.
pub const GRP_CTRL: u32 = defined("KVM_DEV_TRAPLESS_GRP_CTRL") as u32;
/// Allocates the domain.
pub const CTRL_INIT: u64 = defined("KVM_DEV_TRAPLESS_CTRL_INIT");
/// Completes when no lookup uses older contents of the tables and completions have been passed on.
pub const CTRL_SYNC: u64 = defined("KVM_DEV_TRAPLESS_CTRL_SYNC");
/// Group: entry of the source table, u64.
pub const GRP_SOURCE: u32 = defined("KVM_DEV_TRAPLESS_GRP_SOURCE") as u32;
/// Group: level of a line, u32.
pub const GRP_LINE: u32 = defined("KVM_DEV_TRAPLESS_GRP_LINE") as u32;
/// Group: word of a vCPU's file, u64.
pub const GRP_VCPU: u32 = defined("KVM_DEV_TRAPLESS_GRP_VCPU") as u32;
/// Group: the thread's grant, u64.
pub const GRP_GRANT: u32 = defined("KVM_DEV_TRAPLESS_GRP_GRANT") as u32;
/// SBI extension: function 0 routes source `a0` to vhart `a1`.
pub const SBI_EXT: u64 = defined("KVM_SBI_EXT_TRAPLESS");

// The header describes the words of a file in a comment, without names.
/// [`GRP_VCPU`]: pending and enable words.
pub const VCPU_WORDS: u64 = 32;
/// [`GRP_VCPU`]: software interrupt pending.
pub const VCPU_SOFT: u64 = 64;
/// [`GRP_VCPU`]: threshold.
pub const VCPU_THRESHOLD: u64 = 65;

/// The number that the header defines `name` as. Used in constants only, so a name or a number that
/// is not there is an error of compilation.
const fn defined(name: &str) -> u64 {
    const DEFINE: &[u8] = b"#define ";
    let text = HEADER.as_bytes();
    let mut at = 0;
    while !(stands_at(text, at, DEFINE) && is_word(text, at + DEFINE.len(), name.as_bytes())) {
        at += 1;
    }
    at += DEFINE.len() + name.len();
    while is_blank(text[at]) {
        at += 1;
    }
    if stands_at(text, at, b"0x") {
        digits(text, at + 2, 16)
    } else {
        digits(text, at, 10)
    }
}

const fn digits(text: &[u8], mut at: usize, base: u32) -> u64 {
    let (start, mut value) = (at, 0);
    while let Some(digit) = (text[at] as char).to_digit(base) {
        value = value * base as u64 + digit as u64;
        at += 1;
    }
    assert!(at > start && text[at].is_ascii_whitespace(), "no number");
    value
}

const fn is_word(text: &[u8], at: usize, word: &[u8]) -> bool {
    stands_at(text, at, word) && is_blank(text[at + word.len()])
}

const fn stands_at(text: &[u8], at: usize, word: &[u8]) -> bool {
    let mut i = 0;
    while i < word.len() && text[at + i] == word[i] {
        i += 1;
    }
    i == word.len()
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saved guests and other VMMs depend on these, so a header with others is another interface.
    #[test]
    fn numbers_of_the_header_are_read_in_both_bases() {
        // The next ones of Linux 6.12
        assert_eq!((CAP, DEVICE_TYPE, SBI_EXT), (239, 12, 0x0954_5250));
        assert_eq!(
            [
                GRP_CONFIG, GRP_CTRL, GRP_SOURCE, GRP_LINE, GRP_VCPU, GRP_GRANT
            ],
            [0, 1, 2, 3, 4, 5]
        );
        assert_eq!((CONFIG_NR_SOURCES, CONFIG_NATIVE_WFI), (0, 1));
        assert_eq!((CTRL_INIT, CTRL_SYNC), (0, 1));
    }
}
