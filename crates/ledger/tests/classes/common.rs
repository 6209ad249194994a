//! What the tests of all classes use.

use trapless_isa::Mode::{HS, M, VS};
use trapless_isa::cause::{exception, interrupt};
use trapless_ledger::event::StepKind::{self, *};
use trapless_ledger::{InterruptClass, State};

use crate::script::{Script, V0, V1};

pub const SEI: u64 = interrupt::SEI;
pub const SSI: u64 = interrupt::SSI;
pub const STI: u64 = interrupt::STI;
pub const VSEI: u8 = interrupt::VSEI as u8;
pub const NOTIFY: u64 = 24;
pub const WFI: u32 = 0x1050_0073;
pub const KVM_RUN: u64 = 0xae80;
pub const KVM_INTERRUPT: u64 = 0x4004_ae86;

pub const PREEMPTED: u8 = 1;
pub const HALTED: u8 = 2;
pub const WAKE: u8 = 1;
pub const YIELD: u8 = 2;
pub const RESAMPLE: u8 = 3;

pub fn arrived(class: &InterruptClass) -> [u64; 4] {
    State::ALL.map(|s| class.arrived_in(s))
}

/// Latencies in a state: their number and the largest.
pub fn latency(class: &InterruptClass, state: State) -> (u64, u64) {
    class
        .latency
        .get(state.name())
        .map_or((0, 0), |l| (l.count, l.max))
}

pub fn cost(class: &InterruptClass) -> [u64; 4] {
    [
        class.exits,
        class.firmware_traps,
        class.host_traps,
        class.syscalls,
    ]
}

pub fn post_soft(vhart: u16) -> StepKind {
    PostSoft {
        vhart,
        merged: false,
    }
}

pub fn post_source(vhart: u16, source: u16) -> StepKind {
    PostSource {
        vhart,
        source,
        merged: false,
    }
}

/// vCPU 0 of domain 5 runs on hart 0 and vCPU 1 on hart 1, both in slots.
pub fn two_vcpus() -> Script {
    let mut s = Script::new();
    s.on(1, V1)
        .ret(M, HS)
        .step(HS, Attached { vhart: 1 }, 2)
        .ret(HS, VS);
    s.on(0, V0)
        .ret(M, HS)
        .step(HS, Attached { vhart: 0 }, 2)
        .ret(HS, VS);
    s
}

pub fn wfi_to_idle(s: &mut Script) -> &mut Script {
    s.insn(HS, exception::VIRTUAL_INSTRUCTION, WFI)
        .wait(HS, true)
}
