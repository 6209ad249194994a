//! The CSRs: from an access to what it does.

use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{
    csr, hgenvsi, hgrant, htlcfg, op, sgenipi, state, ugenvsei, vsclaim, vsenable,
};

use super::access::{Access, access};
use super::slot::Slot;
use super::{Actor, SSI_HS, StepKind, Trapless, field};
use crate::{CsrAccess, CsrFault, CsrOp, InterruptArchitecture};

/// The value that an access writes to a register that read as `old`, if it writes.
fn written(op: CsrOp, old: u64) -> Option<u64> {
    match op {
        CsrOp::Read => None,
        CsrOp::Write(value) | CsrOp::Swap(value) => Some(value),
        CsrOp::Set(bits) => Some(old | bits),
        CsrOp::Clear(bits) => Some(old & !bits),
    }
}

/// The value written to a CSR that only takes writes: single bits of an operation make no sense
/// (CSR-1).
fn commanded(op: CsrOp) -> Result<Option<u64>, NoSuchAccess> {
    match op {
        CsrOp::Set(_) | CsrOp::Clear(_) => Err(NoSuchAccess),
        _ => Ok(written(op, 0)),
    }
}

/// Setting or clearing bits of a CSR that has none.
struct NoSuchAccess;

impl Trapless {
    /// A CSR access of a hart.
    pub(super) fn access_csr(&mut self, request: &CsrAccess) -> Result<u64, CsrFault> {
        let by = Actor::of(request);
        let Some(hart) = self.state.harts.get(by.hart) else {
            return Err(CsrFault::Illegal);
        };
        if request.csr == VSIP && self.state.h {
            return Ok(self.access_ssip(by, request.op));
        }
        let Some(right) = access(request.csr, by.mode, self.state.h) else {
            return self.inner.csr(request);
        };
        let op = request.op;
        match right {
            Access::Illegal => Err(CsrFault::Illegal),
            Access::Virtual => Err(CsrFault::Virtual),
            Access::ReadWrite => Ok(self.access_register(by, request.csr, op)),
            Access::WriteOnly => {
                if let Some(value) = commanded(op).map_err(|_| CsrFault::Illegal)? {
                    match request.csr {
                        csr::SGENIPI => self.send_to_harts(by, value),
                        _ => self.generate(by, value),
                    }
                }
                Ok(0)
            }
            Access::Slot => {
                let slot = hart.slot.ok_or(CsrFault::Virtual)?;
                self.access_guest(by, slot, request.csr, op)
                    .map_err(|_| CsrFault::Virtual)
            }
            Access::Grant => {
                let closed = by.mode == Mode::U && !hart.enabled();
                if closed || hart.grant & hgrant::V == 0 {
                    return Err(CsrFault::Illegal);
                }
                let grant = hart.grant;
                if let Some(value) = commanded(op).map_err(|_| CsrFault::Illegal)? {
                    self.generate_granted(by, grant, value)?;
                }
                Ok(0)
            }
        }
    }

    /// Registers of the host that can be read and written.
    fn access_register(&mut self, by: Actor, addr: u16, op: CsrOp) -> u64 {
        if addr == csr::HNOTIFY {
            return self.fetch(by, op);
        }
        let hart = &mut self.state.harts[by.hart];
        let old = match addr {
            csr::HIFMAP => Slot::encode(hart.slot),
            csr::HTLCFG => hart.config,
            csr::HGRANT => hart.grant,
            csr::HNQBASE => hart.queue.base(),
            _ => hart.tables,
        };
        if let Some(value) = written(op, old) {
            match addr {
                csr::HIFMAP => self.write_slot(by, value),
                csr::HTLCFG => self.write_config(by, value),
                csr::HGRANT => hart.set_grant(value),
                csr::HNQBASE => hart.queue.set_base(value),
                _ => hart.set_tables(value),
            }
            self.changed |= 1 << by.hart;
        }
        old
    }

    fn write_config(&mut self, by: Actor, value: u64) {
        if value & htlcfg::EN == 0 {
            self.detach(by, state::PREEMPTED);
        }
        let hart = &mut self.state.harts[by.hart];
        // Only the controller sets ERR and FLT; writing 1 leaves them as they are.
        let sticky = hart.config & value & (htlcfg::ERR | htlcfg::FLT);
        hart.config = value & (htlcfg::EN | htlcfg::ANY) | sticky;
    }

    /// `hnotify`: reading takes a notification, which a plain write must not do.
    fn fetch(&mut self, by: Actor, op: CsrOp) -> u64 {
        if matches!(op, CsrOp::Write(_)) {
            return 0;
        }
        let (value, taken) = self.state.harts[by.hart].queue.pop(&self.words);
        self.changed |= 1 << by.hart;
        if let Some(notification) = taken {
            let step = StepKind::Fetched {
                id: notification.id,
                kind: notification.kind as u8,
            };
            self.step(by, notification.domain, step);
        }
        value
    }

    /// CSRs of a guest, which has the vhart of `slot`.
    fn access_guest(
        &mut self,
        by: Actor,
        slot: Slot,
        addr: u16,
        op: CsrOp,
    ) -> Result<u64, NoSuchAccess> {
        match addr {
            csr::SGENIPI => {
                if let Some(value) = commanded(op)? {
                    self.send_to_vharts(by, slot, value);
                }
                Ok(0)
            }
            csr::VSCLAIM => {
                if let Some(value) = commanded(op)? {
                    let source = field(value, vsclaim::ID, vsclaim::ID_SHIFT) as u16;
                    self.complete(by, slot, source);
                }
                // A plain write must not claim.
                Ok(match op {
                    CsrOp::Write(_) => 0,
                    _ => self.claim(by, slot),
                })
            }
            csr::VSENABLE => {
                if let Some(value) = commanded(op)? {
                    self.enable(by, slot, value);
                }
                Ok(0)
            }
            _ => {
                let target = self.slot_file(by.hart, slot);
                let threshold = target.and_then(|(_, file)| file.threshold(&self.words));
                let old = threshold.map_or(0, u64::from);
                if let (Some(value), Some((_, file))) = (written(op, old), target) {
                    file.set_threshold(&self.words, value);
                    self.refresh(by.hart);
                }
                Ok(old)
            }
        }
    }

    fn enable(&mut self, by: Actor, slot: Slot, value: u64) {
        let source = field(value, vsenable::ID, vsenable::ID_SHIFT) as u16;
        if let Some((domain, file)) = self.slot_file(by.hart, slot) {
            if (1..=domain.sources).contains(&source) {
                file.set_enable(&self.words, source, value & vsenable::E != 0);
                self.refresh(by.hart);
            }
        }
    }

    fn claim(&mut self, by: Actor, slot: Slot) -> u64 {
        let source = self
            .slot_file(by.hart, slot)
            .and_then(|(domain, file)| file.claim(&self.words, &domain))
            .unwrap_or(0);
        self.refresh(by.hart);
        let vhart = slot.vhart;
        self.step(by, slot.domain, StepKind::Claimed { vhart, source });
        u64::from(source)
    }

    /// Completes a source of the own domain (EXT-6 to EXT-9). It need not be the vhart's any more:
    /// the host may have moved it between claim and completion.
    fn complete(&mut self, by: Actor, slot: Slot, number: u16) {
        let Some(domain) = self.domain(by.hart, slot.domain) else {
            return;
        };
        let Some(source) = domain.source(&self.words, number) else {
            return;
        };
        let again = if source.resample {
            domain.set_line(&self.words, number, false);
            false
        } else {
            source.level && domain.line(&self.words, number) == Some(true)
        };
        let step = StepKind::Completed {
            vhart: slot.vhart,
            source: number,
            again,
        };
        self.step(by, domain.id, step);
        if again {
            self.post_source(by, &domain, number, source);
        }
        if source.resample {
            self.notify_resample(by, &domain, slot.vhart, number);
        }
    }

    /// `sgenipi` of a guest: the domain is that of its own slot, whatever it writes.
    fn send_to_vharts(&mut self, by: Actor, slot: Slot, value: u64) {
        if let Some(domain) = self.domain(by.hart, slot.domain) {
            for vhart in targets(value) {
                self.post_soft(by, &domain, vhart);
            }
        }
    }

    /// `sgenipi` of HS- and M-mode.
    fn send_to_harts(&mut self, by: Actor, value: u64) {
        for hart in targets(value) {
            let to = usize::from(hart);
            if let Some(target) = self.state.harts.get_mut(to) {
                target.ipi = true;
                self.changed |= 1 << to;
                self.step(by, 0, StepKind::HartIpi { to });
            }
        }
    }

    /// `hgenvsi`.
    fn generate(&mut self, by: Actor, value: u64) {
        let operation = field(value, hgenvsi::OP, hgenvsi::OP_SHIFT);
        let id = field(value, hgenvsi::ID, hgenvsi::ID_SHIFT) as u16;
        let domain = field(value, hgenvsi::DOM, hgenvsi::DOM_SHIFT) as u16;
        // Harts take turns, so that no lookup is ever under way here.
        if operation == op::SYNC {
            return;
        }
        let Some(domain) = self.domain(by.hart, domain) else {
            return;
        };
        match operation {
            op::SOFT => self.post_soft(by, &domain, id),
            op::EVAL => self.evaluate(by, &domain, id),
            _ => self.drive_source(by, &domain, operation, id),
        }
    }

    /// `ugenvsei` with the grant that the hart holds.
    fn generate_granted(&mut self, by: Actor, grant: u64, value: u64) -> Result<(), CsrFault> {
        let operation = field(value, ugenvsei::OP, ugenvsei::OP_SHIFT);
        let source = field(value, ugenvsei::ID, ugenvsei::ID_SHIFT);
        let first = field(grant, hgrant::FIRST, hgrant::FIRST_SHIFT);
        let count = field(grant, hgrant::COUNT, hgrant::COUNT_SHIFT);
        let known = matches!(operation, op::EDGE | op::ASSERT | op::DEASSERT);
        if !known || !(first..first + count).contains(&source) {
            return Err(CsrFault::Illegal);
        }
        let id = field(grant, hgrant::DOM, hgrant::DOM_SHIFT) as u16;
        if let Some(domain) = self.domain(by.hart, id) {
            self.drive_source(by, &domain, operation, source as u16);
        }
        Ok(())
    }

    /// `vsip.SSIP` of a loaded vhart, which the hart hands on: it lives in the file.
    fn access_ssip(&mut self, by: Actor, op: CsrOp) -> u64 {
        let slot = self.state.harts[by.hart].slot;
        let Some((_, file)) = slot.and_then(|slot| self.slot_file(by.hart, slot)) else {
            return 0;
        };
        let old = file.update(&self.words, |ctl| {
            let old = u64::from(ctl.soft()) << SSI_HS;
            let new = written(op, old).unwrap_or(old);
            ctl.with_soft(new >> SSI_HS & 1 != 0)
        });
        self.refresh(by.hart);
        old.map_or(0, |ctl| u64::from(ctl.soft()) << SSI_HS)
    }
}

/// The numbers that an operand of `sgenipi` names.
fn targets(value: u64) -> impl Iterator<Item = u16> {
    let base = field(value, sgenipi::BASE, sgenipi::BASE_SHIFT) as u16;
    let mask = field(value, sgenipi::MASK, sgenipi::MASK_SHIFT);
    (0..32u16)
        .filter(move |&i| mask >> i & 1 != 0)
        .filter_map(move |i| base.checked_add(i))
}
