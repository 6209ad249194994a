//! Numbers that this project's KVM adds to `<linux/kvm.h>`, read from the header of the series when
//! the VMM is compiled.

/// `KVM_CHECK_EXTENSION`: number of interrupt domains.
pub const CAP_TRAPLESS: u64 = number("KVM_CAP_RISCV_TRAPLESS");
/// `KVM_ENABLE_CAP`: handlers of user contexts may interrupt the guest.
pub const CAP_UCTX: u32 = number("KVM_CAP_RISCV_UCTX") as u32;
/// `KVM_ENABLE_CAP`: exits that are disabled for the guest.
pub const CAP_DISABLE_EXITS: u32 = number("KVM_CAP_RISCV_DISABLE_EXITS") as u32;
/// `KVM_CREATE_DEVICE`: Xtrapless.
pub const DEVICE_TRAPLESS: u32 = number("KVM_DEV_TYPE_RISCV_TRAPLESS") as u32;
/// `KVM_CREATE_DEVICE`: user-level exception redirection (Xuer).
pub const DEVICE_UER: u32 = number("KVM_DEV_TYPE_RISCV_UER") as u32;
/// `KVM_CREATE_DEVICE`: shadows of registers (Xvei).
pub const DEVICE_VEI: u32 = number("KVM_DEV_TYPE_RISCV_VEI") as u32;
/// `KVM_CREATE_DEVICE`: a user context (Xhcs).
pub const DEVICE_UCTX: u32 = number("KVM_DEV_TYPE_RISCV_UCTX") as u32;
/// `kvm_run.exit_reason`: a handler of Xuer left work to be done.
pub const EXIT_UER: u32 = number("KVM_EXIT_RISCV_UER") as u32;

const fn number(name: &str) -> u64 {
    defined(include_str!("../../../linux/include/kvm-numbers.h"), name)
}

/// The number that `header` defines `name` as. Used in constants only, so a missing name or number
/// is a compile-time error.
pub const fn defined(header: &str, name: &str) -> u64 {
    const DEFINE: &[u8] = b"#define ";
    let text = header.as_bytes();
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

    /// Linux takes the next free number for each new capability, device and exit. One of ours must
    /// not be taken for one of those, nor the other way round.
    #[test]
    fn numbers_are_far_from_those_of_linux() {
        // Linux 7.2 has 250 capabilities, and less of the others.
        const FAR: u64 = 1000;
        assert!(CAP_TRAPLESS >= FAR && u64::from(EXIT_UER) >= FAR);
        assert!(
            [CAP_UCTX, CAP_DISABLE_EXITS]
                .map(u64::from)
                .iter()
                .all(|&cap| cap >= FAR)
        );
        let mut devices = [DEVICE_TRAPLESS, DEVICE_UER, DEVICE_VEI, DEVICE_UCTX];
        devices.sort_unstable();
        assert!(u64::from(devices[0]) >= FAR);
        assert!(devices.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
