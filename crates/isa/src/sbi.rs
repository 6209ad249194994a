//! SBI extension and function ids (RISC-V SBI specification 3.0), for names of calls.

/// Extension ids, as passed in `a7`.
pub mod eid {
    /// Legacy set_timer (EID 0).
    pub const LEGACY_SET_TIMER: u64 = 0;
    /// Legacy console putchar.
    pub const LEGACY_PUTCHAR: u64 = 1;
    /// Legacy console getchar.
    pub const LEGACY_GETCHAR: u64 = 2;
    /// Legacy send_ipi.
    pub const LEGACY_SEND_IPI: u64 = 4;
    /// Legacy remote fences (5..=7).
    pub const LEGACY_REMOTE_FENCE_I: u64 = 5;
    /// Legacy remote sfence.vma with ASID.
    pub const LEGACY_REMOTE_SFENCE_ASID: u64 = 7;
    /// Base extension.
    pub const BASE: u64 = 0x10;
    /// Timer extension, "TIME".
    pub const TIME: u64 = 0x5449_4D45;
    /// IPI extension, "sPI".
    pub const IPI: u64 = 0x73_5049;
    /// Remote fence extension, "RFNC".
    pub const RFENCE: u64 = 0x5246_4E43;
    /// Hart state management extension, "HSM".
    pub const HSM: u64 = 0x48_534D;
    /// System reset extension, "SRST".
    pub const SRST: u64 = 0x5352_5354;
    /// Performance monitoring extension, "PMU".
    pub const PMU: u64 = 0x50_4D55;
    /// Debug console extension, "DBCN".
    pub const DBCN: u64 = 0x4442_434E;
    /// System suspend extension, "SUSP".
    pub const SUSP: u64 = 0x5355_5350;
    /// Nested acceleration extension, "NACL".
    pub const NACL: u64 = 0x4E41_434C;
    /// Steal-time accounting extension, "STA".
    pub const STA: u64 = 0x53_5441;
    /// Firmware features extension, "FWFT".
    pub const FWFT: u64 = 0x4657_4654;
}

/// Short name of an SBI extension, for ledgers and logs.
pub fn extension_name(id: u64) -> Option<&'static str> {
    Some(match id {
        eid::LEGACY_SET_TIMER => "legacy set_timer",
        eid::LEGACY_PUTCHAR => "legacy putchar",
        eid::LEGACY_GETCHAR => "legacy getchar",
        eid::LEGACY_SEND_IPI => "legacy send_ipi",
        eid::LEGACY_REMOTE_FENCE_I..=eid::LEGACY_REMOTE_SFENCE_ASID => "legacy remote fence",
        eid::BASE => "BASE",
        eid::TIME => "TIME",
        eid::IPI => "IPI",
        eid::RFENCE => "RFENCE",
        eid::HSM => "HSM",
        eid::SRST => "SRST",
        eid::PMU => "PMU",
        eid::DBCN => "DBCN",
        eid::SUSP => "SUSP",
        eid::NACL => "NACL",
        eid::STA => "STA",
        eid::FWFT => "FWFT",
        _ => return None,
    })
}
