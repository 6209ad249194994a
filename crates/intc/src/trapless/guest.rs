//! CSRs of a guest: they act for the vhart in the slot of its hart.

use trapless_isa::port::{CsrOp, StepKind};
use trapless_isa::xtrapless::{csr, vsclaim, vsenable};

use super::layout::SSI_HS;
use super::operand::{NoSuchAccess, targets, value_of_write};
use super::operation::Operation;
use super::slot::Slot;
use crate::words::field;

impl Operation<'_> {
    /// CSRs of a guest, which has the vhart of `slot`.
    pub(super) fn access_guest(
        &mut self,
        slot: Slot,
        addr: u16,
        op: CsrOp,
    ) -> Result<u64, NoSuchAccess> {
        match addr {
            csr::SGENIPI => {
                if let Some(value) = value_of_write(op)? {
                    self.send_to_vharts(slot, value);
                }
                Ok(0)
            }
            csr::VSCLAIM => {
                if let Some(value) = value_of_write(op)? {
                    let source = field(value, vsclaim::ID, vsclaim::ID_SHIFT) as u16;
                    self.complete(slot, source);
                }
                // A plain write must not claim.
                Ok(match op {
                    CsrOp::Write(_) => 0,
                    _ => self.claim(slot),
                })
            }
            csr::VSENABLE => {
                if let Some(value) = value_of_write(op)? {
                    self.enable(slot, value);
                }
                Ok(0)
            }
            _ => {
                let Some((_, file)) = self.slot_file(self.by.hart, slot) else {
                    return Ok(0);
                };
                let old = if op == CsrOp::Read {
                    file.threshold(self.words)
                } else {
                    let old = file.change_threshold(self.words, |old| op.written(old));
                    self.refresh(self.by.hart);
                    old
                };
                let old = old.map_or(0, u64::from);
                Ok(old)
            }
        }
    }

    fn enable(&mut self, slot: Slot, value: u64) {
        let source = field(value, vsenable::ID, vsenable::ID_SHIFT) as u16;
        if let Some((domain, file)) = self.slot_file(self.by.hart, slot) {
            if (1..=domain.sources).contains(&source) {
                file.set_enable(self.words, source, value & vsenable::E != 0);
                self.refresh(self.by.hart);
            }
        }
    }

    fn claim(&mut self, slot: Slot) -> u64 {
        let source = self
            .slot_file(self.by.hart, slot)
            .and_then(|(domain, file)| file.claim(self.words, &domain))
            .unwrap_or(0);
        self.refresh(self.by.hart);
        let vhart = slot.vhart;
        self.step(slot.domain, StepKind::Claimed { vhart, source });
        u64::from(source)
    }

    /// Completes a source of the own domain (EXT-6 to EXT-9). It need not be the vhart's any more:
    /// the host may have rerouted it between claim and completion.
    fn complete(&mut self, slot: Slot, number: u16) {
        let Some(domain) = self.domain(self.by.hart, slot.domain) else {
            return;
        };
        let Some(source) = domain.source(self.words, number) else {
            return;
        };
        let line = if source.resample {
            domain.set_line(self.words, number, false).map(|_| false)
        } else if source.level {
            domain.line(self.words, number)
        } else {
            Some(false)
        };
        let again = line == Some(true);
        let step = StepKind::Completed {
            vhart: slot.vhart,
            source: number,
            again,
        };
        self.step(domain.id, step);
        if again {
            self.post_source(&domain, number, source);
        }
        if source.resample && line.is_some() {
            self.notify_resample(&domain, slot.vhart, number);
        }
    }

    /// `sgenipi` of a guest: the domain is that of its own slot, whatever it writes.
    fn send_to_vharts(&mut self, slot: Slot, value: u64) {
        if let Some(domain) = self.domain(self.by.hart, slot.domain) {
            for vhart in targets(value) {
                self.post_soft(&domain, vhart);
            }
        }
    }

    /// `vsip.SSIP` of a loaded vhart, which is in its file: the hart forwards accesses.
    pub(super) fn access_ssip(&mut self, op: CsrOp) -> u64 {
        let slot = self.state.harts[self.by.hart].slot;
        let Some((_, file)) = slot.and_then(|slot| self.slot_file(self.by.hart, slot)) else {
            return 0;
        };
        let old = file.update(self.words, |ctl| {
            let old = u64::from(ctl.soft()) << SSI_HS;
            let new = op.written(old).unwrap_or(old);
            ctl.with_soft(new >> SSI_HS & 1 != 0)
        });
        self.refresh(self.by.hart);
        old.map_or(0, |ctl| u64::from(ctl.soft()) << SSI_HS)
    }
}
