//! CSRs: access rights and execution of accesses.

use trapless_isa::Mode;
use trapless_isa::haiov::{context as words, csr, hgenvei, hucsave, hveiclaim, hveitab, sgenvei};
use trapless_isa::port::{CsrFault, CsrOp, EventOrigin, StepKind};

use super::context;
use super::operation::Operation;
use crate::words::field;

/// Addresses of all CSRs of Xvei.
pub(super) const CSRS: &[u16] = &[
    csr::SGENVEI,
    csr::HVEITAB,
    csr::HVEIQ,
    csr::HVEICLAIM,
    csr::HGENVEI,
];

/// Those that Xhcs adds.
pub(super) const CONTEXT_CSRS: &[u16] = &[
    csr::SUSCRATCH,
    csr::SUATP,
    csr::HUCSAVE,
    csr::HUCONTEXT,
    csr::HUCSHARE,
];

/// The value written to a write-only CSR; setting or clearing bits is illegal. `None` for a read.
fn value_of_write(op: CsrOp) -> Result<Option<u64>, CsrFault> {
    match op {
        CsrOp::Set(_) | CsrOp::Clear(_) => Err(CsrFault::Illegal),
        _ => Ok(op.written(0)),
    }
}

impl Operation<'_> {
    /// Executes an access to one of [`CSRS`].
    pub fn access(&mut self, addr: u16, op: CsrOp) -> Result<u64, CsrFault> {
        let mode = self.by.mode;
        if addr == csr::SGENVEI {
            return match mode {
                Mode::VS => self.generate(op),
                Mode::VU => Err(CsrFault::Virtual),
                _ => Err(CsrFault::Illegal),
            };
        }
        match mode {
            Mode::VS | Mode::VU => return Err(CsrFault::Virtual),
            Mode::U => return Err(CsrFault::Illegal),
            Mode::HS | Mode::M => {}
        }
        match addr {
            csr::HGENVEI => {
                if let Some(value) = value_of_write(op)? {
                    self.generate_any(value);
                }
                Ok(0)
            }
            csr::HVEICLAIM => Ok(self.claim(op)),
            _ => Ok(self.access_register(addr, op)),
        }
    }

    /// `sgenvei`.
    fn generate(&mut self, op: CsrOp) -> Result<u64, CsrFault> {
        let hart = &self.harts[self.by.hart];
        if hart.table & hveitab::V == 0 {
            return Err(CsrFault::Virtual);
        }
        if let Some(value) = value_of_write(op).map_err(|_| CsrFault::Virtual)? {
            let request = field(value, sgenvei::REQUEST, sgenvei::REQUEST_SHIFT);
            self.post_request(request as u16, EventOrigin::Guest);
        }
        Ok(0)
    }

    /// `hgenvei`. Harts take turns, so no post is in progress here.
    fn generate_any(&mut self, value: u64) {
        let entry = value & hgenvei::ENTRY;
        if entry != 0 {
            self.post(entry, 0, EventOrigin::Host);
        }
    }

    /// `hveiclaim`: reading takes an event, which a plain write must not do.
    fn claim(&mut self, op: CsrOp) -> u64 {
        if matches!(op, CsrOp::Write(_)) {
            return 0;
        }
        let taken = self.dequeue();
        self.effects.change(self.by.hart);
        let mut value = if taken.overflow { hveiclaim::OVF } else { 0 };
        if let Some(word) = taken.word {
            let (flags, id) = self.identity(word);
            value |= hveiclaim::V | flags | id & hveiclaim::ID;
            self.step(StepKind::EventTaken { id: id as u32 });
        }
        value
    }

    /// Flags and identity of a queue's entry in `hveiclaim`, without the valid bit.
    fn identity(&self, word: u64) -> (u64, u64) {
        let Some(at) = context::named(word) else {
            return (0, word);
        };
        let ctl = self.words.load(at, words::CTL).unwrap_or(0);
        let id = field(ctl, words::CTL_ID, words::CTL_ID_SHIFT);
        (hveiclaim::CTX, id)
    }

    fn access_register(&mut self, addr: u16, op: CsrOp) -> u64 {
        let now = self.by.now;
        let hart = &mut self.harts[self.by.hart];
        let old = match addr {
            csr::HVEITAB => hart.table,
            csr::HUCSAVE => hart.save,
            csr::HUCONTEXT => hart.context,
            csr::HUCSHARE => hart.share_register(now),
            csr::SUATP => hart.suatp,
            csr::SUSCRATCH => hart.suscratch,
            _ => hart.queue_register(),
        };
        if let Some(value) = op.written(old) {
            match addr {
                csr::HVEITAB => hart.set_table(value),
                csr::HUCSAVE => hart.save = value & (hucsave::V | hucsave::ADDRESS),
                csr::HUCONTEXT => hart.set_context(value, now),
                csr::HUCSHARE => hart.share.write(value, now),
                csr::SUATP => hart.suatp = value,
                csr::SUSCRATCH => hart.suscratch = value,
                _ => hart.set_queue(value),
            }
            self.effects.change(self.by.hart);
        }
        old
    }
}
