//! Attach and detach of vharts, and the lookup of a vhart's hart.

use trapless_isa::port::StepKind;
use trapless_isa::xtrapless::{hifmap, htlcfg, state};

use super::file::File;
use super::operation::Operation;
use super::slot::Slot;
use super::tables::Domain;
use crate::words::field;

impl Operation<'_> {
    /// Writes `hifmap` (SLOT-1, SLOT-2).
    pub(super) fn write_slot(&mut self, value: u64) {
        let old = self.state.harts[self.by.hart].slot;
        if value & hifmap::V == 0 {
            self.detach(field(value, hifmap::STATE, hifmap::STATE_SHIFT));
            return;
        }
        let id = field(value, hifmap::DOM, hifmap::DOM_SHIFT) as u16;
        let vhart = field(value, hifmap::VHART, hifmap::VHART_SHIFT) as u16;
        let target = self.domain(self.by.hart, id);
        let target = target.and_then(|domain| Some((domain, domain.file(self.words, vhart)?)));
        let target = target.filter(|_| self.state.harts[self.by.hart].enabled());
        if target.is_none() || old.is_some_and(|old| (old.domain, old.vhart) != (id, vhart)) {
            self.detach(state::PREEMPTED);
        }
        if let Some((domain, file)) = target {
            self.attach(&domain, vhart, file);
        }
    }

    /// SLOT-3 to SLOT-5.
    fn attach(&mut self, domain: &Domain, vhart: u16, file: File) {
        // Harts that run concurrently rely on the order of steps 1 to 3 (ORD-6).
        let known = self.state.harts[self.by.hart].slot.is_some();
        self.state.harts[self.by.hart].slot = Some(Slot {
            domain: domain.id,
            vhart,
            lines: 0,
        });
        let loaded = file.update(self.words, |ctl| {
            // ON stays set: a notification is outstanding (NTF-9).
            ctl.with_state(state::LOADED).with_hart(self.by.hart)
        });
        if loaded.is_none() {
            // The entry points to memory that the hart must not write: there is no such vhart.
            self.state.harts[self.by.hart].slot = None;
            self.switched(self.by.hart);
            return;
        }
        let lines = file.lines(self.words, domain);
        if let Some(slot) = &mut self.state.harts[self.by.hart].slot {
            slot.lines = lines;
        }
        if !known {
            self.switched(self.by.hart);
        }
        self.effects.change(self.by.hart);
        self.step(domain.id, StepKind::Attached { vhart });
    }

    /// Detaches the vhart of the acting hart, if there is one, and leaves it in `next` (SLOT-6).
    pub(super) fn detach(&mut self, next: u64) {
        // SLOT-7: in the state LOADED posts would neither find the vhart nor notify the host.
        let next = if next == state::LOADED {
            state::PREEMPTED
        } else {
            next
        };
        let Some(slot) = self.state.harts[self.by.hart].slot.take() else {
            return;
        };
        self.switched(self.by.hart);
        let target = self.slot_file(self.by.hart, slot).filter(|(_, file)| {
            let old = file.update(self.words, |ctl| ctl.with_state(next));
            old.is_some()
        });
        let kind = StepKind::Detached {
            vhart: slot.vhart,
            state: next as u8,
        };
        self.step(slot.domain, kind);
        if let Some((domain, _)) = target.filter(|_| next == state::HALTED) {
            self.evaluate(&domain, slot.vhart);
        }
    }

    /// Hart whose slot holds a vhart (DEL-5). Two matches are a host bug and set `htlcfg.ERR` of
    /// the acting hart.
    pub(super) fn lookup(&mut self, domain: u16, vhart: u16) -> Option<usize> {
        let holds = |slot: Option<Slot>| {
            slot.is_some_and(|slot| slot.domain == domain && slot.vhart == vhart)
        };
        let mut matches = (0..self.state.harts.len()).filter(|&i| holds(self.state.harts[i].slot));
        let first = matches.next();
        let ambiguous = matches.next().is_some();
        if ambiguous && !self.by.window {
            self.state.harts[self.by.hart].config |= htlcfg::ERR;
        }
        first
    }

    /// Makes `hart` reread the file of the vhart in its slot (DEL-6, DEL-7).
    pub(super) fn poke(&mut self, hart: usize) {
        let risen = self.refresh(hart);
        self.state.harts[hart].arrived |= risen;
    }

    /// Rereads the file of the slot's vhart; returns the inputs that rose.
    pub(super) fn refresh(&mut self, hart: usize) -> u64 {
        let Some(slot) = self.state.harts[hart].slot else {
            return 0;
        };
        let lines = self
            .slot_file(hart, slot)
            .map_or(0, |(domain, file)| file.lines(self.words, &domain));
        if lines != slot.lines {
            self.state.harts[hart].slot = Some(Slot { lines, ..slot });
            self.effects.change(hart);
        }
        lines & !slot.lines
    }

    /// Domain and file of a slot's vhart, as long as the tables hold them.
    pub(super) fn slot_file(&self, hart: usize, slot: Slot) -> Option<(Domain, File)> {
        let domain = self.domain(hart, slot.domain)?;
        let file = domain.file(self.words, slot.vhart)?;
        Some((domain, file))
    }

    /// `hart` runs another vhart: arrivals not yet reported were meant for the previous one.
    fn switched(&mut self, hart: usize) {
        self.state.harts[hart].arrived = 0;
        self.effects.switched |= 1 << hart;
        self.effects.change(hart);
    }
}
