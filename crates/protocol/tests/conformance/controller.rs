//! The real controller with one domain in memory, driven and observed in the model's terms.

use std::sync::{Arc, Mutex};

use trapless_intc::trapless::{Config, Trapless};
use trapless_intc::{CsrAccess, CsrOp, Effects, InterruptArchitecture, Memory, aclint_plic};
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{
    csr, domain, file, hgenvsi, hifmap, hnotify, hnqbase, htlcfg, hvtablebase, kind, limits, op,
    sgenipi, source, state, vhart, vsenable,
};
use trapless_protocol::{Action, Kind, Note, Pc, RunState, State};

const RAM: u64 = 0x8000_0000;
const DOMAIN: u64 = 1;
const VHART_TABLE: u64 = RAM + 0x100;
const SOURCE_TABLE: u64 = RAM + 0x200;
const LINES: u64 = RAM + 0x300;
const FILES: u64 = RAM + 0x400;
const QUEUES: u64 = RAM + 0x4000;

#[derive(Clone)]
struct Ram(Arc<Mutex<Vec<u64>>>);

impl Memory for Ram {
    fn load(&self, _hart: usize, addr: u64) -> Option<u64> {
        let index = addr.checked_sub(RAM)? / 8;
        self.0.lock().unwrap().get(index as usize).copied()
    }

    fn store(&self, _hart: usize, addr: u64, value: u64) -> Option<()> {
        let index = addr.checked_sub(RAM)? / 8;
        *self.0.lock().unwrap().get_mut(index as usize)? = value;
        Some(())
    }
}

pub struct Controller {
    intc: Trapless,
    ram: Ram,
    queue: u8,
    /// VS-level interrupts that have arrived at V=0 on each hart since the guest ran.
    latched: Vec<bool>,
}

/// The source of each vCPU.
fn source_of(v: u8) -> u64 {
    u64::from(v) + 1
}

fn file_of(v: u8) -> u64 {
    FILES + u64::from(v) * file::SIZE
}

impl Controller {
    pub fn new(harts: u8, vcpus: u8, queue: u8) -> Self {
        let ram = Ram(Arc::new(Mutex::new(vec![0; 0x8000 / 8])));
        let set = |addr, value| ram.store(0, addr, value).unwrap();
        let entry = RAM + DOMAIN * domain::SIZE;
        let sources = u64::from(vcpus) << domain::CONFIG_SOURCES_SHIFT;
        set(
            entry + domain::CONFIG,
            domain::CONFIG_V | sources | u64::from(vcpus),
        );
        set(entry + domain::VHART_TABLE, VHART_TABLE);
        set(entry + domain::SOURCE_TABLE, SOURCE_TABLE);
        set(entry + domain::LINES, LINES);
        for v in 0..vcpus {
            let prio = 1 << source::ENTRY_PRIO_SHIFT;
            set(
                VHART_TABLE + u64::from(v) * vhart::SIZE,
                vhart::ENTRY_V | file_of(v),
            );
            set(
                SOURCE_TABLE + source_of(v) * source::SIZE,
                source::ENTRY_V | prio | u64::from(v),
            );
            set(file_of(v) + file::ENABLE, 1 << source_of(v));
        }
        let aclint = aclint_plic::Config {
            harts: usize::from(harts),
            cycles_per_tick: 100,
            sswi: true,
            edge_triggered: 0,
        };
        let mut intc = Trapless::new(Config { aclint, h: true });
        intc.attach_memory(Arc::new(ram.clone()));
        let latched = vec![false; usize::from(harts)];
        let mut controller = Self {
            intc,
            ram,
            queue,
            latched,
        };
        for hart in 0..harts {
            controller.hs(hart, csr::HVTABLEBASE, hvtablebase::V | RAM | 1);
            controller.hs(hart, csr::HTLCFG, htlcfg::EN);
            controller.open_queue(hart);
        }
        controller
    }

    fn access(&mut self, hart: u8, mode: Mode, csr: u16, op: CsrOp) -> u64 {
        let hart = usize::from(hart);
        let access = CsrAccess {
            hart,
            csr,
            mode,
            vmid: 0,
            now: 0,
            op,
        };
        let mut effects = Effects::default();
        self.intc
            .csr(&access, &mut effects)
            .expect("the access is allowed")
    }

    fn hs(&mut self, hart: u8, csr: u16, value: u64) {
        self.access(hart, Mode::HS, csr, CsrOp::Write(value));
    }

    fn vs(&mut self, hart: u8, csr: u16, value: u64) {
        self.access(hart, Mode::VS, csr, CsrOp::Write(value));
    }

    fn generate(&mut self, hart: u8, op: u64, id: u64) {
        let command = op << hgenvsi::OP_SHIFT | DOMAIN << hgenvsi::DOM_SHIFT | id;
        self.hs(hart, csr::HGENVSI, command);
    }

    pub fn open_queue(&mut self, hart: u8) {
        // Sizes are powers of two: 1, 2 or 4 entries for 1, 2 or 3.
        let size = u64::from(self.queue.next_power_of_two().trailing_zeros());
        let base = QUEUES + u64::from(hart) * 0x1000;
        self.hs(hart, csr::HNQBASE, hnqbase::EN | base | size);
    }

    pub fn close_queue(&mut self, hart: u8) {
        self.hs(hart, csr::HNQBASE, 0);
    }

    pub fn attach(&mut self, hart: u8, v: u8) {
        let slot = hifmap::V | DOMAIN << hifmap::DOM_SHIFT | u64::from(v);
        self.hs(hart, csr::HIFMAP, slot);
        self.latched[usize::from(hart)] = false;
    }

    pub fn detach(&mut self, hart: u8, state: RunState) {
        self.hs(hart, csr::HIFMAP, encode(state) << hifmap::STATE_SHIFT);
    }

    pub fn evaluate(&mut self, hart: u8, v: u8) {
        self.generate(hart, op::EVAL, u64::from(v));
    }

    /// As a guest sends to its like, if one runs on `hart`; else as the host does.
    pub fn post(&mut self, hart: u8, guest: bool, to: u8, kind: Kind) {
        match (kind, guest) {
            (Kind::Soft, true) => {
                self.vs(hart, csr::SGENIPI, u64::from(to) << sgenipi::BASE_SHIFT | 1);
            }
            (Kind::Soft, false) => self.generate(hart, op::SOFT, u64::from(to)),
            (Kind::External, _) => self.generate(hart, op::EDGE, source_of(to)),
        }
    }

    pub fn take(&mut self, hart: u8, v: u8, kind: Kind) {
        match kind {
            Kind::Soft => self.vs(hart, VSIP, 0),
            Kind::External => {
                let claimed = self.access(hart, Mode::VS, csr::VSCLAIM, CsrOp::Read);
                assert_eq!(claimed, source_of(v), "claimed by vCPU {v}");
                self.vs(hart, csr::VSCLAIM, claimed);
            }
        }
    }

    pub fn enable(&mut self, hart: u8, v: u8, on: bool) {
        let flag = if on { vsenable::E } else { 0 };
        self.vs(hart, csr::VSENABLE, flag | source_of(v));
    }

    pub fn set_threshold(&mut self, hart: u8, raised: bool) {
        self.vs(hart, csr::VSTHRESHOLD, raised.into());
    }

    /// As the host does it: the entry, SYNC, EVAL.
    pub fn set_priority(&mut self, hart: u8, v: u8, weak: bool) {
        let prio = u64::from(!weak) << source::ENTRY_PRIO_SHIFT;
        let entry = source::ENTRY_V | prio | u64::from(v);
        let addr = SOURCE_TABLE + source_of(v) * source::SIZE;
        self.ram.store(0, addr, entry).unwrap();
        self.generate(hart, op::SYNC, 0);
        self.generate(hart, op::EVAL, u64::from(v));
    }

    pub fn fetch(&mut self, hart: u8) -> (Option<Note>, bool) {
        let value = self.access(hart, Mode::HS, csr::HNOTIFY, CsrOp::Read);
        let kind = (value & hnotify::KIND) >> hnotify::KIND_SHIFT;
        let note = Note {
            wake: kind == kind::WAKE,
            vcpu: (value & hnotify::ID) as u8,
        };
        (
            (value & hnotify::V != 0).then_some(note),
            value & hnotify::OVF != 0,
        )
    }

    /// The host's handler: no notification is outstanding, and none wanted until the next attach.
    pub fn clear_on(&mut self, v: u8) {
        let addr = file_of(v) + file::CTL;
        let mut ctl = self.ram.load(0, addr).unwrap() & !file::CTL_ON;
        if (ctl & file::CTL_STATE) >> file::CTL_STATE_SHIFT != state::LOADED {
            ctl = ctl & !file::CTL_STATE | state::STOPPED << file::CTL_STATE_SHIFT;
        }
        self.ram.store(0, addr, ctl).unwrap();
    }

    /// Everything that both sides know must be the same.
    pub fn compare(&mut self, s: &State, after: Action) {
        for (v, vcpu) in (0u8..).zip(&s.vcpus).filter(|&(v, _)| s_has(&self.ram, v)) {
            let word = |offset| self.ram.load(0, file_of(v) + offset).unwrap();
            let bit = 1 << source_of(v);
            let ctl = word(file::CTL);
            let seen = (
                ctl & file::CTL_SOFT != 0,
                ctl & file::CTL_ON != 0,
                (ctl & file::CTL_STATE) >> file::CTL_STATE_SHIFT,
                word(file::PENDING) & bit != 0,
                word(file::ENABLE) & bit != 0,
            );
            let expected = (
                vcpu.soft,
                vcpu.on,
                encode(vcpu.state),
                vcpu.external,
                vcpu.enabled,
            );
            assert_eq!(seen, expected, "file of vCPU {v} after {after:?}");
            if vcpu.state == RunState::Halted {
                let hart = (ctl & file::CTL_HART) >> file::CTL_HART_SHIFT;
                assert_eq!(
                    hart,
                    u64::from(vcpu.hart),
                    "hart of vCPU {v} after {after:?}"
                );
            }
        }
        for h in 0..self.latched.len() {
            self.compare_hart(h as u8, s, after);
        }
    }

    fn compare_hart(&mut self, h: u8, s: &State, after: Action) {
        let index = usize::from(h);
        let hart = &s.harts[index];
        let slot = self.access(h, Mode::HS, csr::HIFMAP, CsrOp::Read);
        let vcpu = (slot & hifmap::V != 0).then_some((slot & hifmap::VHART) as u8);
        assert_eq!(vcpu, hart.slot, "slot of hart {h} after {after:?}");
        let lines = self.intc.lines(index, 0);
        let seen = (lines.level & 1 << 2 != 0, lines.level & 1 << 10 != 0);
        assert_eq!(
            seen,
            (hart.ssip, hart.seip),
            "inputs of hart {h} after {after:?}"
        );
        let notify = lines.level >> limits::NOTIFY_IRQ & 1 != 0;
        assert_eq!(
            notify,
            hart.notified(),
            "notification of hart {h} after {after:?}"
        );
        // The latch itself is in the hart; the controller says what arrived.
        match hart.pc {
            Pc::Guest => self.latched[index] = false,
            _ => self.latched[index] |= lines.arrived != 0,
        }
        if matches!(after, Action::TakeLatch(hart) if hart == h) {
            self.latched[index] = false;
        }
        if hart.attached() {
            assert_eq!(
                self.latched[index], hart.latch,
                "latch of hart {h} after {after:?}"
            );
        }
    }
}

fn s_has(ram: &Ram, v: u8) -> bool {
    ram.load(0, VHART_TABLE + u64::from(v) * vhart::SIZE)
        .is_some_and(|entry| entry != 0)
}

fn encode(state: RunState) -> u64 {
    match state {
        RunState::Stopped => state::STOPPED,
        RunState::Preempted => state::PREEMPTED,
        RunState::Halted => state::HALTED,
        RunState::Loaded => state::LOADED,
    }
}
