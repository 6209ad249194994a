//! Why a guest left V=1: the reason of an exit, from the trap alone.

use serde::{Deserialize, Serialize};
use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::haiov::limits::VEI_IRQ;
use trapless_isa::xtrapless::limits::NOTIFY_IRQ;
use trapless_isa::{sbi, sbi::eid};

use crate::config::Config;
use crate::events::event::Trap;

/// Kind of access that raised a guest-page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Access {
    /// Instruction fetch.
    Fetch,
    /// Load.
    Load,
    /// Store or AMO.
    Store,
}

/// Reason of a guest exit (a trap from V=1 that HS-mode handles).
///
/// [`key`](Self::key) names it in ledgers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reason {
    /// The guest called SBI set_timer.
    TimerSet,
    /// A host timer interrupt arrived while the deadline the guest set by SBI had passed.
    TimerFire,
    /// Any other host timer interrupt.
    HostTimer,
    /// The guest called SBI send_ipi.
    IpiSend,
    /// The guest called an SBI remote fence.
    RemoteFence,
    /// A supervisor software interrupt of the host: IPI injection or the host's own IPIs.
    IpiReceive,
    /// A supervisor external interrupt of the host.
    ExternalInterrupt,
    /// A supervisor guest external interrupt.
    GuestExternal,
    /// A notification of the interrupt controller (Xtrapless).
    Notification,
    /// An event of a guest, its own or another one's (Xvei).
    Event,
    /// A VS-level interrupt (2, 6 or 10) that is not delegated to the guest.
    VsLevel(u8),
    /// WFI trapped by `hstatus.VTW`.
    Wfi,
    /// WRS.NTO or WRS.STO trapped.
    Wrs,
    /// Access to an emulated device: index in [`Config::guest_devices`], and whether it stores.
    Mmio(usize, bool),
    /// Guest-page fault in guest RAM.
    PageFault(Access),
    /// Another SBI call; index as given by [`extension_index`].
    SbiOther(u8),
    /// A CSR the guest may not use directly.
    Csr(u16),
    /// Anything else; index as given by [`cause_index`].
    Other(u8),
}

/// Number of [`cause_index`] values.
pub const CAUSES: usize = 128;

/// Packs an `xcause` value into 0..128: exceptions, then interrupts; codes above 63 share 63.
pub fn cause_index(cause: u64) -> u8 {
    let code = (cause & !INTERRUPT).min(63) as u8;
    if cause & INTERRUPT != 0 {
        64 + code
    } else {
        code
    }
}

/// The `xcause` value of an index.
pub fn cause_of(index: u8) -> u64 {
    let code = u64::from(index & 63);
    if index >= 64 { INTERRUPT | code } else { code }
}

/// Full name of a cause; codes without a name are spelled out.
pub fn cause_name(index: u8) -> String {
    match trapless_isa::cause::name(cause_of(index)) {
        Some(name) => name.to_string(),
        None if cause_of(index) == INTERRUPT | NOTIFY_IRQ => "notification interrupt".to_string(),
        None if cause_of(index) == INTERRUPT | VEI_IRQ => "event interrupt".to_string(),
        None if index >= 64 => format!("interrupt {}", index & 63),
        None => format!("exception {index}"),
    }
}

/// The specification's abbreviation of an interrupt (`STI`), the full name of an exception.
pub fn short_cause(index: u8) -> String {
    let text = match (index.wrapping_sub(64)).into() {
        interrupt::SSI => "SSI",
        interrupt::VSSI => "VSSI",
        interrupt::MSI => "MSI",
        interrupt::STI => "STI",
        interrupt::VSTI => "VSTI",
        interrupt::MTI => "MTI",
        interrupt::SEI => "SEI",
        interrupt::VSEI => "VSEI",
        interrupt::MEI => "MEI",
        interrupt::SGEI => "SGEI",
        interrupt::LCOFI => "LCOFI",
        NOTIFY_IRQ => "NOTIFY",
        VEI_IRQ => "VEI",
        _ => return cause_name(index),
    };
    text.to_string()
}

/// SBI extensions with their own index (the three legacy remote fences share one); the index after
/// the last stands for all others.
const EXTENSIONS: [u64; 17] = [
    eid::LEGACY_SET_TIMER,
    eid::LEGACY_PUTCHAR,
    eid::LEGACY_GETCHAR,
    eid::LEGACY_SEND_IPI,
    eid::LEGACY_REMOTE_FENCE_I,
    eid::BASE,
    eid::TIME,
    eid::IPI,
    eid::RFENCE,
    eid::HSM,
    eid::SRST,
    eid::PMU,
    eid::DBCN,
    eid::SUSP,
    eid::NACL,
    eid::STA,
    eid::FWFT,
];

/// Small index of an SBI extension id (`a7`).
pub fn extension_index(id: u64) -> u8 {
    let id = match id {
        eid::LEGACY_REMOTE_FENCE_I..=eid::LEGACY_REMOTE_SFENCE_ASID => eid::LEGACY_REMOTE_FENCE_I,
        other => other,
    };
    EXTENSIONS
        .iter()
        .position(|e| *e == id)
        .unwrap_or(EXTENSIONS.len()) as u8
}

/// Name of an extension index; `unknown` for ids without one.
pub fn extension_name(index: u8) -> &'static str {
    EXTENSIONS
        .get(usize::from(index))
        .and_then(|id| sbi::extension_name(*id))
        .unwrap_or("unknown")
}

/// `wfi`.
const WFI: u32 = 0x1050_0073;
/// `wrs.nto` (Zawrs).
const WRS_NTO: u32 = 0x00d0_0073;
/// `wrs.sto` (Zawrs).
const WRS_STO: u32 = 0x01d0_0073;

impl Reason {
    /// Classifies an exit. `timer_due`: the vCPU's deadline, set by SBI, has passed and has not
    /// been handled yet.
    pub fn classify(trap: &Trap, config: &Config, timer_due: bool) -> Self {
        if trap.is_interrupt() {
            return match trap.code() {
                interrupt::STI if timer_due => Self::TimerFire,
                interrupt::STI => Self::HostTimer,
                interrupt::SSI => Self::IpiReceive,
                interrupt::SEI => Self::ExternalInterrupt,
                interrupt::SGEI => Self::GuestExternal,
                NOTIFY_IRQ => Self::Notification,
                VEI_IRQ => Self::Event,
                code @ (interrupt::VSSI | interrupt::VSTI | interrupt::VSEI) => {
                    Self::VsLevel(code as u8)
                }
                _ => Self::Other(cause_index(trap.cause)),
            };
        }
        match trap.cause {
            exception::ECALL_VS => match trap.args[3] {
                eid::TIME | eid::LEGACY_SET_TIMER => Self::TimerSet,
                eid::IPI | eid::LEGACY_SEND_IPI => Self::IpiSend,
                eid::RFENCE => Self::RemoteFence,
                eid::LEGACY_REMOTE_FENCE_I..=eid::LEGACY_REMOTE_SFENCE_ASID => Self::RemoteFence,
                other => Self::SbiOther(extension_index(other)),
            },
            exception::FETCH_GUEST_PAGE => Self::fault(trap, config, Access::Fetch),
            exception::LOAD_GUEST_PAGE => Self::fault(trap, config, Access::Load),
            exception::STORE_GUEST_PAGE => Self::fault(trap, config, Access::Store),
            exception::VIRTUAL_INSTRUCTION | exception::ILLEGAL => match trap.insn {
                WFI => Self::Wfi,
                WRS_NTO | WRS_STO => Self::Wrs,
                _ => trap
                    .csr()
                    .map_or(Self::Other(cause_index(trap.cause)), Self::Csr),
            },
            cause => Self::Other(cause_index(cause)),
        }
    }

    fn fault(trap: &Trap, config: &Config, access: Access) -> Self {
        let device = config.guest_devices.find(trap.gpa);
        if device == config.guest_devices.len() && trap.gpa >= config.guest_ram_base {
            Self::PageFault(access)
        } else {
            Self::Mmio(device, access == Access::Store)
        }
    }

    /// Position in a table of [`table_len`] entries.
    pub fn index(self) -> usize {
        match self {
            Self::TimerSet => 0,
            Self::TimerFire => 1,
            Self::HostTimer => 2,
            Self::IpiSend => 3,
            Self::RemoteFence => 4,
            Self::IpiReceive => 5,
            Self::ExternalInterrupt => 6,
            Self::GuestExternal => 7,
            Self::Wfi => 8,
            Self::Wrs => 9,
            Self::PageFault(access) => 10 + access as usize,
            Self::Notification => 13,
            // 2, 6, 10
            Self::VsLevel(code) => 14 + usize::from(code / 4),
            Self::Event => 17,
            Self::SbiOther(e) => SBI + usize::from(e),
            Self::Other(c) => OTHER + usize::from(c),
            Self::Csr(c) => CSR + usize::from(c & 0xfff),
            Self::Mmio(device, write) => MMIO + device * 2 + usize::from(write),
        }
    }

    /// The reason at a position.
    pub fn from_index(index: usize) -> Self {
        match index {
            ..SBI => FIXED[index].0,
            SBI..OTHER => Self::SbiOther((index - SBI) as u8),
            OTHER..CSR => Self::Other((index - OTHER) as u8),
            CSR..MMIO => Self::Csr((index - CSR) as u16),
            _ => Self::Mmio((index - MMIO) / 2, (index - MMIO) % 2 == 1),
        }
    }
}

/// Reasons without a device, CSR, call or cause in their name, by [`Reason::index`], with their
/// keys in ledgers.
pub(crate) const FIXED: [(Reason, &str); SBI] = [
    (Reason::TimerSet, "timer_set"),
    (Reason::TimerFire, "timer_fire"),
    (Reason::HostTimer, "host_timer"),
    (Reason::IpiSend, "ipi_send"),
    (Reason::RemoteFence, "remote_fence"),
    (Reason::IpiReceive, "ipi_receive"),
    (Reason::ExternalInterrupt, "external_interrupt"),
    (Reason::GuestExternal, "guest_external"),
    (Reason::Wfi, "wfi"),
    (Reason::Wrs, "wrs"),
    (Reason::PageFault(Access::Fetch), "page_fault.fetch"),
    (Reason::PageFault(Access::Load), "page_fault.load"),
    (Reason::PageFault(Access::Store), "page_fault.store"),
    (Reason::Notification, "notification"),
    (Reason::VsLevel(2), "vs_level.software"),
    (Reason::VsLevel(6), "vs_level.timer"),
    (Reason::VsLevel(10), "vs_level.external"),
    (Reason::Event, "event"),
];

const SBI: usize = 18;
const OTHER: usize = SBI + EXTENSIONS.len() + 1;
const CSR: usize = OTHER + CAUSES;
const MMIO: usize = CSR + 4096;

/// Number of reasons with `devices` guest device windows (one more stands for unknown addresses).
pub fn table_len(devices: usize) -> usize {
    MMIO + 2 * (devices + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceMap;

    #[test]
    fn every_index_round_trips() {
        for index in 0..table_len(DeviceMap::virt().len()) {
            assert_eq!(Reason::from_index(index).index(), index);
        }
    }

    #[test]
    fn cause_index_keeps_interrupts_apart_and_bounds_custom_codes() {
        assert_eq!(cause_of(cause_index(INTERRUPT | 5)), INTERRUPT | 5);
        assert_eq!(cause_of(cause_index(23)), 23);
        assert_eq!(cause_index(u64::MAX), 127);
        assert_eq!(short_cause(cause_index(INTERRUPT | 7)), "MTI");
        assert_eq!(short_cause(9), "environment call from HS");
    }
}
