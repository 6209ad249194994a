//! What Xvei promises, on a vector as memory.

use std::sync::Arc;

use trapless_isa::Mode;
use trapless_isa::haiov::{bell, csr, event, hveiclaim, hveiq, hveitab, limits};

use super::Vei;
use crate::aclint_plic::{self, AclintPlic};
use crate::fake_memory::{RAM, Ram};
use crate::{
    CsrAccess, CsrFault, CsrOp, DoorbellAccess, DoorbellFault, Effects, EventOrigin,
    InterruptArchitecture, Snapshot, StepKind,
};

mod contexts;
mod inspect;

const HARTS: usize = 2;
/// Table of eight events.
const TABLE: u64 = RAM;
const PAGE: u64 = RAM + 0x1000;
const SHADOW: u64 = RAM + 0x2000;
const QUEUE: u64 = RAM + 0x3000;
/// The queue of hart 1 has four entries.
const QUEUE_SIZE: u64 = 2;
const IRQ: u64 = 1 << limits::VEI_IRQ;
const MISS: DoorbellFault = DoorbellFault { mmio: false };

struct World {
    intc: Vei<AclintPlic>,
    effects: Effects,
    ram: Ram,
}

fn machine(ram: &Ram) -> Vei<AclintPlic> {
    let inner = AclintPlic::new(aclint_plic::Config {
        harts: HARTS,
        cycles_per_tick: 100,
        sswi: true,
        edge_triggered: 0,
    });
    let mut intc = Vei::new(inner, HARTS, true);
    intc.attach_memory(Arc::new(ram.clone()));
    intc
}

impl World {
    /// Hart 0 runs a guest whose events go to hart 1: event n with VEIID 100 + n.
    fn new() -> Self {
        let ram = Ram::new();
        let mut effects = Effects::default();
        effects.steps.record();
        let mut world = Self {
            intc: machine(&ram),
            effects,
            ram,
        };
        for n in 0..8 {
            world.ram.set(event(n), event::CTL_V | to_hart(1, 100 + n));
        }
        world.host(0, csr::HVEITAB, CsrOp::Write(hveitab::V | TABLE | 3));
        world.host(1, csr::HVEIQ, CsrOp::Write(hveiq::EN | QUEUE | QUEUE_SIZE));
        world
    }

    fn access(&mut self, hart: usize, mode: Mode, csr: u16, op: CsrOp) -> Result<u64, CsrFault> {
        let access = CsrAccess {
            hart,
            csr,
            mode,
            vmid: 0,
            now: 7,
            op,
        };
        self.intc.csr(&access, &mut self.effects)
    }

    fn host(&mut self, hart: usize, csr: u16, op: CsrOp) -> u64 {
        self.access(hart, Mode::HS, csr, op).unwrap()
    }

    /// The guest posts an event.
    fn post(&mut self, request: u64) -> Result<u64, CsrFault> {
        self.access(0, Mode::VS, csr::SGENVEI, CsrOp::Write(request))
    }

    /// Hart 1 takes an event: its VEIID.
    fn claim(&mut self) -> Option<u64> {
        let value = self.host(1, csr::HVEICLAIM, CsrOp::Read);
        (value & hveiclaim::V != 0).then_some(value & hveiclaim::ID)
    }

    fn interrupted(&mut self, hart: usize) -> bool {
        self.intc.lines(hart, 7).level & IRQ != 0
    }

    fn bell(&mut self, offset: u16, size: u8, stored: Option<u64>) -> Result<u64, DoorbellFault> {
        let access = DoorbellAccess {
            hart: 0,
            mode: Mode::VS,
            now: 7,
            page: PAGE,
            offset,
            size,
            stored,
        };
        self.intc.doorbell(&access, &mut self.effects)
    }

    /// Makes a valid doorbell page with these doorbells, without shadow.
    fn doorbells(&mut self, all: &[(u64, u64)]) {
        let count = (all.len() as u64) << bell::HEADER_COUNT_SHIFT;
        self.ram.set(PAGE, bell::HEADER_V | count);
        for (index, (word, value)) in all.iter().enumerate() {
            let at = PAGE + bell::MATCH + 16 * index as u64;
            self.ram.set(at, bell::MATCH_V | *word);
            self.ram.set(at + 8, *value);
        }
    }

    fn steps(&mut self) -> Vec<StepKind> {
        self.effects.steps.drain().map(|step| step.kind).collect()
    }
}

fn event(n: u64) -> u64 {
    TABLE + n * event::SIZE
}

fn to_hart(hart: u64, id: u64) -> u64 {
    hart << event::CTL_HART_SHIFT | id << event::CTL_ID_SHIFT
}

/// A doorbell of 4 bytes at `offset` that posts `request`.
fn posts(offset: u64, request: u64) -> u64 {
    bell::MATCH_POST
        | 2 << bell::MATCH_WIDTH_SHIFT
        | offset << bell::MATCH_OFFSET_SHIFT
        | request << bell::MATCH_REQUEST_SHIFT
}

#[test]
fn an_event_of_a_guest_interrupts_the_hart_that_its_entry_names() {
    let mut w = World::new();
    assert_eq!(w.post(3), Ok(0));
    assert!(w.interrupted(1) && !w.interrupted(0));
    assert_eq!(w.effects.changed & 2, 2, "hart 1 is notified");
    assert_eq!(w.claim(), Some(103));
    assert!(!w.interrupted(1));
    assert_eq!(w.claim(), None);
    let by = EventOrigin::Guest;
    let expected = [
        StepKind::EventPosted {
            request: 3,
            by,
            merged: false,
        },
        StepKind::EventQueued { to: 1, id: 103 },
        StepKind::EventTaken { id: 103 },
    ];
    assert_eq!(w.steps(), expected);
}

/// A guest that posts without end costs the host one interrupt for each time that it looks.
#[test]
fn an_event_is_queued_once_until_the_host_has_looked() {
    let mut w = World::new();
    for _ in 0..100 {
        w.post(3).unwrap();
    }
    assert_eq!((w.claim(), w.claim()), (Some(103), None));
    w.post(3).unwrap();
    assert_eq!(w.claim(), None, "P is still set");
    w.ram.set(event(3), w.ram.get(event(3)) & !event::CTL_P);
    w.post(3).unwrap();
    assert_eq!(w.claim(), Some(103));
}

#[test]
fn masked_events_are_recorded_without_notification() {
    let mut w = World::new();
    w.ram.set(event(3), w.ram.get(event(3)) | event::CTL_M);
    w.post(3).unwrap();
    assert!(!w.interrupted(1));
    assert_eq!(w.ram.get(event(3)) & event::CTL_P, event::CTL_P);
}

#[test]
fn what_is_no_event_changes_nothing() {
    let mut w = World::new();
    let before = w.ram.words();
    w.ram.set(event(2), to_hart(1, 102));
    for request in [2, 8, 0xffff] {
        assert_eq!(w.post(request), Ok(0));
    }
    w.ram.set(event(2), before[4]);
    assert_eq!(w.ram.words(), before);
    assert!(!w.interrupted(1));
    // No such hart, no queue, another kind of target: recorded without notification.
    for target in [to_hart(9, 1), to_hart(0, 1), 1 << event::CTL_KIND_SHIFT] {
        w.ram.set(event(2), event::CTL_V | target);
        w.post(2).unwrap();
        assert!(!w.interrupted(0) && !w.interrupted(1));
    }
}

#[test]
fn a_full_queue_is_reported_once() {
    let mut w = World::new();
    for request in 0..6 {
        w.post(request).unwrap();
    }
    let first = w.host(1, csr::HVEICLAIM, CsrOp::Read);
    assert_eq!(first & hveiclaim::OVF, hveiclaim::OVF);
    let rest: Vec<_> = (0..4).map(|_| w.claim()).collect();
    assert_eq!(rest, [Some(101), Some(102), Some(103), None]);
    // Those that were dropped are noted in their entries.
    assert_eq!(w.ram.get(event(5)) & event::CTL_P, event::CTL_P);
}

#[test]
fn rights_are_those_of_the_specification() {
    let mut w = World::new();
    for csr in [csr::HVEITAB, csr::HVEIQ, csr::HVEICLAIM, csr::HGENVEI] {
        assert!(w.access(0, Mode::M, csr, CsrOp::Read).is_ok());
        assert_eq!(
            w.access(0, Mode::U, csr, CsrOp::Read),
            Err(CsrFault::Illegal)
        );
        for mode in [Mode::VS, Mode::VU] {
            assert_eq!(w.access(0, mode, csr, CsrOp::Read), Err(CsrFault::Virtual));
        }
        assert!(w.intc.describe().csrs.contains(&csr));
    }
    let modes = [Mode::M, Mode::HS, Mode::U, Mode::VU];
    let found = modes.map(|mode| w.access(0, mode, csr::SGENVEI, CsrOp::Write(1)));
    let (illegal, virt) = (Err(CsrFault::Illegal), Err(CsrFault::Virtual));
    assert_eq!(found, [illegal, illegal, illegal, virt]);
    // Without a table the host decides what the guest gets.
    w.host(0, csr::HVEITAB, CsrOp::Write(0));
    assert_eq!(w.post(3), virt);
}

/// VEI-3: a host that puts a large table at an address that is not a multiple of its size reads
/// back which table is used.
#[test]
fn a_table_is_aligned_to_its_size() {
    let mut w = World::new();
    for (size, align) in [(3, 1 << 12), (8, 1 << 12), (9, 1 << 13), (10, 1 << 14)] {
        let written = hveitab::V | (RAM + 0x7000) | size;
        w.host(0, csr::HVEITAB, CsrOp::Write(written));
        let kept = hveitab::V | (RAM + 0x7000) & !(align - 1) | size;
        assert_eq!(w.host(0, csr::HVEITAB, CsrOp::Read), kept);
    }
}

#[test]
fn the_host_posts_by_address() {
    let mut w = World::new();
    w.host(0, csr::HVEITAB, CsrOp::Write(0));
    w.host(0, csr::HGENVEI, CsrOp::Write(event(6)));
    assert_eq!(w.claim(), Some(106));
    w.host(0, csr::HGENVEI, CsrOp::Write(0));
    w.host(0, csr::HGENVEI, CsrOp::Write(0xff_ffff_ffff_fff0));
    assert_eq!(w.claim(), None);
    let register = w.host(0, csr::HVEIQ, CsrOp::Read);
    assert_eq!(register & hveiq::FLT, hveiq::FLT, "outside memory");
    w.host(0, csr::HVEIQ, CsrOp::Write(0));
    assert_eq!(w.host(0, csr::HVEIQ, CsrOp::Read), 0);
}

/// What `KVM_IOEVENTFD` can say: offset, width or any width, value or any value.
#[test]
fn stores_ring_the_doorbell_that_they_match() {
    let mut w = World::new();
    let data = bell::MATCH_DATA;
    w.doorbells(&[
        (posts(0x50, 1) | data, 0),
        (posts(0x50, 2) | data, 1),
        (posts(0x60, 3) | bell::MATCH_ANY, 0),
    ]);
    w.bell(0x50, 4, Some(1)).unwrap();
    // Only the bytes that are stored count.
    w.bell(0x50, 4, Some(0xffff_ffff_0000_0000)).unwrap();
    w.bell(0x60, 1, Some(5)).unwrap();
    let rung: Vec<_> = (0..4).map(|_| w.claim()).collect();
    assert_eq!(rung, [Some(102), Some(101), Some(103), None]);
    for (offset, size, value) in [(0x50, 4, 2), (0x50, 2, 1), (0x54, 4, 1), (0x51, 4, 0)] {
        assert_eq!(w.bell(offset, size, Some(value)), Err(MISS));
    }
    assert_eq!(w.bell(0x50, 4, None), Err(MISS));
    assert!(!w.interrupted(1));
}

#[test]
fn loads_are_answered_by_the_shadow_where_the_page_says_so() {
    let mut w = World::new();
    w.doorbells(&[]);
    w.ram.set(PAGE + bell::SHADOW, bell::SHADOW_V | SHADOW);
    w.ram.set(PAGE + bell::LOADS, 1 << 24 | 1 << 25);
    w.ram.set(SHADOW + 0x60, 0x8877_6655_4433_2211);
    assert_eq!(w.bell(0x60, 4, None), Ok(0x4433_2211));
    assert_eq!(w.bell(0x64, 2, None), Ok(0x6655));
    assert_eq!(w.bell(0x60, 8, None), Ok(0x8877_6655_4433_2211));
    assert_eq!(w.bell(0x68, 4, None), Err(MISS));
    assert_eq!(w.bell(0x62, 4, None), Err(MISS));
    w.ram.set(PAGE + bell::SHADOW, SHADOW);
    assert_eq!(w.bell(0x60, 4, None), Err(MISS));
}

/// `InterruptACK` of virtio-mmio without an exit.
#[test]
fn a_doorbell_can_clear_what_the_shadow_shows() {
    let mut w = World::new();
    let clear = bell::MATCH_CLEAR
        | 2 << bell::MATCH_WIDTH_SHIFT
        | 0x64 << bell::MATCH_OFFSET_SHIFT
        | 0x18 << bell::MATCH_UNIT_SHIFT;
    w.doorbells(&[(clear, 0)]);
    assert_eq!(w.bell(0x64, 4, Some(1)), Err(MISS), "no shadow");
    w.ram.set(PAGE + bell::SHADOW, bell::SHADOW_V | SHADOW);
    w.ram.set(SHADOW + 0x60, 0x3_0000_0003);
    w.bell(0x64, 4, Some(1)).unwrap();
    assert_eq!(w.ram.get(SHADOW + 0x60), 0x3_0000_0002);
    assert!(!w.interrupted(1));
}

#[test]
fn a_doorbell_whose_event_is_not_there_acts_as_if_it_were_not_there() {
    let mut w = World::new();
    w.doorbells(&[(posts(0x50, 9), 0)]);
    assert_eq!(w.bell(0x50, 4, Some(0)), Err(MISS));
    w.ram.set(PAGE, w.ram.get(PAGE) | bell::HEADER_MMIO);
    let redirected = DoorbellFault { mmio: true };
    assert_eq!(w.bell(0x50, 4, Some(0)), Err(redirected));
    w.ram.set(PAGE, w.ram.get(PAGE) & !bell::HEADER_V);
    assert_eq!(w.bell(0x50, 4, Some(0)), Err(MISS));
}

#[test]
fn state_can_be_taken_out_and_put_back() {
    let mut w = World::new();
    w.post(3).unwrap();
    let saved = w.intc.save();
    w.intc = machine(&w.ram);
    assert!(!w.interrupted(1));
    w.intc.restore(&saved).unwrap();
    assert!(w.interrupted(1));
    assert_eq!(w.claim(), Some(103));
    let mut wrong = saved;
    wrong["xvei"] = serde_json::json!([]);
    assert!(w.intc.restore(&wrong).is_err());
}
