//! Execution of CSR accesses.

use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::port::{CsrFault, CsrOp, StepKind};
use trapless_isa::xtrapless::{csr, hgenvsi, hgrant, htlcfg, limits, op, state, ugenvsei};

use super::access::{Access, access};
use super::operand::{targets, value_of_write};
use super::operation::Operation;
use super::slot::Slot;
use crate::words::field;

impl Operation<'_> {
    /// Executes an access of CSR `addr`.
    pub fn run(mut self, addr: u16, op: CsrOp) -> Result<u64, CsrFault> {
        self.words.take_touched();
        let kept = self.effects.steps.kept().len();
        let result = self.access(addr, op);
        if self.words.take_failed() {
            self.state.harts[self.by.hart].config |= htlcfg::FLT;
        }
        self.close(kept);
        result
    }

    fn access(&mut self, addr: u16, op: CsrOp) -> Result<u64, CsrFault> {
        let Some(hart) = self.state.harts.get(self.by.hart) else {
            return Err(CsrFault::Illegal);
        };
        if addr == VSIP && self.state.h {
            return Ok(self.access_ssip(op));
        }
        let right = access(addr, self.by.mode, self.state.h).ok_or(CsrFault::Illegal)?;
        match right {
            Access::Illegal => Err(CsrFault::Illegal),
            Access::Virtual => Err(CsrFault::Virtual),
            Access::ReadWrite => Ok(self.access_register(addr, op)),
            Access::WriteOnly => {
                if let Some(value) = value_of_write(op).map_err(|_| CsrFault::Illegal)? {
                    match addr {
                        csr::SGENIPI => self.send_to_harts(value),
                        _ => self.generate(value),
                    }
                }
                Ok(0)
            }
            Access::Slot => {
                let slot = hart.slot.ok_or(CsrFault::Virtual)?;
                self.access_guest(slot, addr, op)
                    .map_err(|_| CsrFault::Virtual)
            }
            Access::Grant => {
                let closed = self.by.mode == Mode::U && !hart.enabled();
                if closed || hart.grant & hgrant::V == 0 {
                    return Err(CsrFault::Illegal);
                }
                let grant = hart.grant;
                if let Some(value) = value_of_write(op).map_err(|_| CsrFault::Illegal)? {
                    self.generate_granted(grant, value)?;
                }
                Ok(0)
            }
        }
    }

    /// Registers of the host that can be read and written.
    fn access_register(&mut self, addr: u16, op: CsrOp) -> u64 {
        if addr == csr::HNOTIFY {
            return self.fetch(op);
        }
        let hart = &mut self.state.harts[self.by.hart];
        let old = match addr {
            csr::HIFMAP => Slot::encode(hart.slot),
            csr::HTLCFG => hart.config | limits::VERSION << htlcfg::VERSION_SHIFT,
            csr::HGRANT => hart.grant,
            csr::HNQBASE => hart.queue.base(),
            _ => hart.tables,
        };
        if let Some(value) = op.written(old) {
            match addr {
                csr::HIFMAP => self.write_slot(value),
                csr::HTLCFG => self.write_config(value),
                csr::HGRANT => hart.set_grant(value),
                csr::HNQBASE => hart.queue.set_base(value),
                _ => hart.set_tables(value),
            }
            self.effects.change(self.by.hart);
        }
        old
    }

    fn write_config(&mut self, value: u64) {
        if value & htlcfg::EN == 0 {
            self.detach(state::PREEMPTED);
        }
        let hart = &mut self.state.harts[self.by.hart];
        // Only the controller sets ERR and FLT; writing 1 leaves them as they are.
        let sticky = hart.config & value & (htlcfg::ERR | htlcfg::FLT);
        hart.config = value & (htlcfg::EN | htlcfg::ANY) | sticky;
    }

    /// `hnotify`: reading takes a notification, which a plain write must not do.
    fn fetch(&mut self, op: CsrOp) -> u64 {
        if matches!(op, CsrOp::Write(_)) {
            return 0;
        }
        let (value, taken) = self.state.harts[self.by.hart].queue.pop(self.words);
        self.effects.change(self.by.hart);
        if let Some(notification) = taken {
            let step = StepKind::Fetched {
                id: notification.id,
                kind: notification.kind as u8,
            };
            self.step(notification.domain, step);
        }
        value
    }

    /// `sgenipi` of HS- and M-mode.
    fn send_to_harts(&mut self, value: u64) {
        for hart in targets(value) {
            let to = usize::from(hart);
            if let Some(target) = self.state.harts.get_mut(to) {
                target.ipi = true;
                self.effects.change(to);
                self.step(0, StepKind::HartIpi { to });
            }
        }
    }

    /// `hgenvsi`.
    fn generate(&mut self, value: u64) {
        let operation = field(value, hgenvsi::OP, hgenvsi::OP_SHIFT);
        let id = field(value, hgenvsi::ID, hgenvsi::ID_SHIFT) as u16;
        let domain = field(value, hgenvsi::DOM, hgenvsi::DOM_SHIFT) as u16;
        // Harts take turns, so no lookup is in progress here.
        if operation == op::SYNC {
            return;
        }
        let Some(domain) = self.domain(self.by.hart, domain) else {
            return;
        };
        match operation {
            op::SOFT => self.post_soft(&domain, id),
            op::EVAL => self.evaluate(&domain, id),
            _ => self.drive_source(&domain, operation, id),
        }
    }

    /// `ugenvsei` with the grant that the hart holds.
    fn generate_granted(&mut self, grant: u64, value: u64) -> Result<(), CsrFault> {
        let operation = field(value, ugenvsei::OP, ugenvsei::OP_SHIFT);
        let source = field(value, ugenvsei::ID, ugenvsei::ID_SHIFT);
        let first = field(grant, hgrant::FIRST, hgrant::FIRST_SHIFT);
        let count = field(grant, hgrant::COUNT, hgrant::COUNT_SHIFT);
        let known = matches!(operation, op::EDGE | op::ASSERT | op::DEASSERT);
        if !known || !(first..first + count).contains(&source) {
            return Err(CsrFault::Illegal);
        }
        let id = field(grant, hgrant::DOM, hgrant::DOM_SHIFT) as u16;
        if let Some(domain) = self.domain(self.by.hart, id) {
            self.drive_source(&domain, operation, source as u16);
        }
        Ok(())
    }
}
