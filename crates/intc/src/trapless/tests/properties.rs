//! Random programs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{csr, file, hifmap, hnotify, kind, op, state};

use super::world::*;
use crate::{CsrOp, Snapshot, StepKind};

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(&Mode::ALL[..])
}

fn addr() -> impl Strategy<Value = u16> {
    let guest = csr::SGENIPI..=csr::VSTHRESHOLD;
    let host = csr::HIFMAP..=csr::HVTABLEBASE;
    prop_oneof![guest, host, Just(csr::UGENVSEI), Just(VSIP)]
}

/// Values near what matters: small fields, addresses in RAM, any bits.
fn value() -> impl Strategy<Value = u64> {
    let flags = prop::sample::select(&[0u64, 1 << 63, 1 << 60, 3 << 60, 1 << 61, 1 << 56][..]);
    prop_oneof![
        2 => any::<u64>(),
        6 => (flags.clone(), 0..4u64, 0..80u64).prop_map(|(f, dom, id)| f | dom << 32 | id),
        3 => (flags, 0..RAM_SIZE / 8, 0..32u64).prop_map(|(f, a, low)| f | (RAM + a * 8) | low),
    ]
}

fn csr_op() -> impl Strategy<Value = CsrOp> {
    prop_oneof![
        2 => Just(CsrOp::Read),
        4 => value().prop_map(CsrOp::Write),
        1 => value().prop_map(CsrOp::Swap),
        1 => value().prop_map(CsrOp::Set),
        1 => value().prop_map(CsrOp::Clear),
    ]
}

/// What a host and its guests do, as software that keeps to the rules does it.
#[derive(Clone, Copy, Debug)]
enum Act {
    Attach(usize, u16, u16),
    Detach(usize, u64),
    /// The guest on a hart interrupts a vhart, claims, completes, enables or sets a threshold.
    Guest(usize, u16, u64),
    Generate(usize, u64, u16, u16),
    /// The host handles what its hart's queue holds.
    Handle(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let hart = 0..HARTS;
    let domain = prop::sample::select(&DOMAINS[..]);
    let vhart = 0..VHARTS;
    let guest = csr::SGENIPI..=csr::VSTHRESHOLD;
    let states = prop::sample::select(&[state::STOPPED, state::PREEMPTED, state::HALTED][..]);
    prop_oneof![
        3 => (hart.clone(), domain.clone(), vhart).prop_map(|(h, d, v)| Act::Attach(h, d, v)),
        3 => (hart.clone(), states).prop_map(|(h, s)| Act::Detach(h, s)),
        6 => (hart.clone(), guest, 0..12u64).prop_map(|(h, c, v)| Act::Guest(h, c, v)),
        6 => (hart.clone(), 0..=op::SYNC, domain, 0..12u16)
            .prop_map(|(h, o, d, id)| Act::Generate(h, o, d, id)),
        2 => hart.prop_map(Act::Handle),
    ]
}

/// Sources 1..12 of both domains, of every kind and to every vhart.
fn routed() -> World {
    let mut w = World::new();
    for domain in DOMAINS {
        for number in 1..12 {
            let routing = Routing {
                vhart: number % (VHARTS - 1),
                priority: u64::from(number % 8),
                level: number % 3 > 0,
                resample: number % 3 == 2,
            };
            w.route(domain, number, routing);
        }
    }
    w
}

/// What the host may rely on, by vhart.
#[derive(Default, Clone, Copy)]
struct Notified {
    /// WAKE and YIELD notifications in all queues.
    queued: u32,
    /// ON was cleared since the last notification: the next one is due.
    may_be_notified: bool,
    /// The host was notified since the vhart was last loaded.
    named: bool,
}

#[derive(Default)]
struct Host {
    notified: BTreeMap<(u16, u16), Notified>,
    overflowed: bool,
}

impl Host {
    fn notified(&mut self, domain: u16, vhart: u16) -> &mut Notified {
        self.notified.entry((domain, vhart)).or_insert(Notified {
            may_be_notified: true,
            ..Notified::default()
        })
    }

    /// Checks what the controller says it did.
    fn follow(&mut self, w: &mut World) -> Result<(), TestCaseError> {
        for step in w.take_steps() {
            match step.kind {
                StepKind::Attached { vhart } => {
                    self.notified(step.domain, vhart).named = false;
                }
                StepKind::Notified { vhart, kind, .. } if kind != kind::RESAMPLE as u8 => {
                    let notified = self.notified(step.domain, vhart);
                    prop_assert!(notified.may_be_notified, "notified twice while ON was set");
                    notified.may_be_notified = false;
                    notified.queued += 1;
                    // After an overflow the host clears ON without having seen the queues.
                    let bounded = notified.queued <= 1 || self.overflowed;
                    prop_assert!(bounded, "two notifications are outstanding");
                }
                StepKind::Fetched { id, kind } if kind != kind::RESAMPLE as u8 => {
                    let notified = self.notified(step.domain, id);
                    prop_assert!(notified.queued > 0, "a notification without a cause");
                    notified.queued -= 1;
                }
                StepKind::Hit { vhart, on } => {
                    let holds = w.hs_read(on, csr::HIFMAP);
                    prop_assert_eq!(holds, slot(step.domain, vhart), "delivered to a stranger");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Clears ON of a vhart, as the host does before it wakes the vCPU.
    fn wake(&mut self, w: &World, domain: u16, vhart: u16) {
        w.set_ctl(domain, vhart, w.ctl(domain, vhart) & !file::CTL_ON);
        let notified = self.notified(domain, vhart);
        (notified.may_be_notified, notified.named) = (true, true);
    }

    /// Handles all notifications of a hart; after an overflow all vharts could be meant.
    fn handle(&mut self, w: &mut World, hart: usize) -> Result<(), TestCaseError> {
        // One read more than the queue holds finds it empty, and one may be an overflow alone.
        for _ in 0..(1 << QUEUE_SIZE) + 2 {
            let value = w.fetch(hart);
            self.follow(w)?;
            if value & hnotify::OVF != 0 {
                self.overflowed = true;
                for domain in DOMAINS {
                    for vhart in 0..VHARTS - 1 {
                        self.wake(w, domain, vhart);
                    }
                    w.ram.set(lines_of(domain) + 128, 0);
                }
            }
            if value & hnotify::V != 0 {
                let kind = (value & hnotify::KIND) >> hnotify::KIND_SHIFT;
                let domain = ((value & hnotify::DOM) >> hnotify::DOM_SHIFT) as u16;
                let id = (value & hnotify::ID) as u16;
                if kind == kind::RESAMPLE {
                    let word = lines_of(domain) + 128;
                    w.ram.set(word, w.ram.get(word) & !(1 << id));
                } else {
                    self.wake(w, domain, id);
                }
            } else if value == 0 {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("a queue without end"))
    }

    /// What must hold at any time.
    fn check(&mut self, w: &mut World) -> Result<(), TestCaseError> {
        let slots: Vec<_> = (0..HARTS)
            .map(|hart| w.hs_read(hart, csr::HIFMAP))
            .collect();
        for domain in DOMAINS {
            for vhart in 0..VHARTS - 1 {
                let ctl = w.ctl(domain, vhart);
                let state = (ctl & file::CTL_STATE) >> file::CTL_STATE_SHIFT;
                let drives = drives(w, domain, vhart);
                let on = slots.iter().position(|&held| held == slot(domain, vhart));
                prop_assert_eq!(on.is_some(), state == state::LOADED);
                if let Some(hart) = on {
                    let level = w.level(hart) & (SOFT | EXTERNAL);
                    prop_assert_eq!(level, drives, "a slot is stale");
                }
                if state == state::HALTED && drives != 0 {
                    let notified = ctl & file::CTL_ON != 0 || self.notified(domain, vhart).named;
                    prop_assert!(notified, "vhart {} of {} sleeps for ever", vhart, domain);
                }
            }
        }
        for (hart, held) in slots.iter().enumerate() {
            if *held == 0 {
                let level = w.level(hart) & (SOFT | EXTERNAL);
                prop_assert_eq!(level, 0, "an empty slot drives");
            }
        }
        Ok(())
    }
}

proptest! {
    /// Any access in any mode with any memory is answered or refused, and changes of lines are
    /// reported.
    #[test]
    fn hostile_accesses_are_answered_and_changes_are_reported(
        words in prop::collection::vec((0..RAM_SIZE / 8, value()), 0..60),
        accesses in prop::collection::vec((0..HARTS + 1, mode(), addr(), csr_op()), 1..120),
    ) {
        let mut w = routed();
        for (index, word) in words {
            w.ram.set(RAM + index * 8, word);
        }
        let mut seen: Vec<_> = (0..HARTS).map(|hart| w.level(hart)).collect();
        for (hart, mode, addr, op) in accesses {
            let _ = w.access(hart, mode, addr, op);
            let changed = w.take_changed();
            for (other, seen) in seen.iter_mut().enumerate() {
                let lines = w.lines(other);
                let differs = lines.level != *seen || lines.pulse | lines.arrived != 0;
                prop_assert!(!differs || changed >> other & 1 != 0, "hart {} changed silently", other);
                prop_assert_eq!(lines.arrived & !lines.level, 0);
                *seen = lines.level;
            }
        }
        let saved = w.intc.save();
        let mut copy = World::new();
        copy.intc.restore(&saved).unwrap();
        prop_assert_eq!(copy.intc.save(), saved);
    }

    /// With software that keeps to the rules no interrupt is lost, none reaches a stranger, and the
    /// host is notified at most once for each vhart and period.
    #[test]
    fn nothing_is_lost_doubled_or_misdelivered(acts in prop::collection::vec(act(), 1..200)) {
        let mut w = routed();
        let mut host = Host::default();
        w.steps();
        for act in acts {
            match act {
                Act::Attach(hart, domain, vhart) => {
                    // Software loads a vhart on one hart at a time.
                    let free = (0..HARTS).all(|other| {
                        w.hs_read(other, csr::HIFMAP) != slot(domain, vhart)
                    });
                    if free {
                        w.hs(hart, csr::HIFMAP, slot(domain, vhart));
                    }
                }
                Act::Detach(hart, state) => w.detach(hart, state),
                Act::Guest(hart, addr, value) => {
                    let loaded = w.hs_read(hart, csr::HIFMAP) & hifmap::V != 0;
                    let op = match (addr, value) {
                        (csr::VSCLAIM, 0) => CsrOp::Read,
                        (csr::VSENABLE, _) => CsrOp::Write(enable(value as u16, value & 1 == 0)),
                        _ => CsrOp::Write(value),
                    };
                    let done = w.access(hart, Mode::VS, addr, op);
                    prop_assert_eq!(done.is_ok(), loaded);
                }
                Act::Generate(hart, op, domain, id) => w.generate(hart, op, domain, id),
                Act::Handle(hart) => host.handle(&mut w, hart)?,
            }
            host.follow(&mut w)?;
            host.check(&mut w)?;
        }
        for hart in 0..HARTS {
            host.handle(&mut w, hart)?;
        }
        for ((domain, vhart), notified) in host.notified {
            prop_assert_eq!(notified.queued, 0, "vhart {} of {}", vhart, domain);
        }
    }
}

/// What a file drives, straight from the definition.
fn drives(w: &World, domain: u16, vhart: u16) -> u64 {
    let file = file_of(domain, vhart);
    let threshold = w.ram.get(file + file::THRESHOLD);
    let external = (1..12u16).any(|number| {
        let enabled = w.ram.get(word(domain, vhart, file::ENABLE, number)) >> number & 1 != 0;
        let priority = u64::from(number % 8);
        w.pending(domain, vhart, number) && enabled && priority > threshold
    });
    let soft = w.ctl(domain, vhart) & file::CTL_SOFT != 0;
    (u64::from(soft) * SOFT) | (u64::from(external) * EXTERNAL)
}
