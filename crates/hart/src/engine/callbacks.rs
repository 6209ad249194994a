//! Callbacks of compiled code: the interpreter executes an instruction that has no template or is
//! on its slow path.

use std::mem::offset_of;

use trapless_isa::inst::Inst;
use trapless_isa::port::CsrOp;
use trapless_jit::{
    CSR_DONE, CSR_MOVED, CSR_REFUSED, Context, CsrAnswer, CsrRequest, Helpers, Position,
};

use super::interp::Flow;
use crate::code::CodeCache;
use crate::hart::Hart;
use crate::observe::activity::Activity;
use crate::platform::Platform;
use crate::syndrome::Fault;

const _: () = assert!(offset_of!(Hart, state) == 0, "both have the same address");

/// Callbacks for everything compiled code does not inline.
pub(super) const HELPERS: Helpers = Helpers {
    finish,
    execute,
    csr,
};

/// Environment of callbacks besides the hart.
pub(super) struct Session<'a> {
    pub code: *const CodeCache,
    pub plat: *mut (dyn Platform + 'a),
}

/// Calls `f` with the hart, the code cache and the platform of the session that `context` is in.
///
/// # Safety
/// To be called by callbacks of compiled code only.
unsafe fn in_session<R>(
    context: *mut Context,
    f: impl FnOnce(&mut Hart, &CodeCache, &mut dyn Platform) -> R,
) -> R {
    // SAFETY: compiled code passes the pointer that `run_code` gave it, to the first field of a
    // hart that is not used otherwise meanwhile; the pointer was made from one to all of the hart.
    let hart = unsafe { &mut *context.cast::<Hart>() };
    // SAFETY: `run_code` put the address of a live session there.
    let session = unsafe { &*hart.state.session.cast::<Session<'_>>() };
    // SAFETY: both outlive the session, and only helpers, one at a time, use the platform while
    // compiled code runs.
    let (code, plat) = unsafe { (&*session.code, &mut *session.plat) };
    hart.state.end_counting();
    hart.take_changes();
    hart.record_noted_timer(plat);
    let result = f(hart, code, plat);
    hart.state.begin_counting();
    result
}

impl Hart {
    /// Lets `f` execute some of a block: it is given the instructions from the one at `at` on, and
    /// the address of that one.
    fn help<R>(
        &mut self,
        code: &CodeCache,
        (block, at): (u32, Position),
        f: impl FnOnce(&mut Self, &[Inst], u64) -> R,
    ) -> R {
        self.watch.meter.set(Activity::Helper);
        self.watch.counts.helpers += 1;
        let block = code.block(block);
        let pc = self.state.pc.wrapping_add(at.offset());
        let result = f(self, &code.any_insts(&block)[at.index()..], pc);
        self.prepare();
        result
    }

    /// Executes the instructions of `rest`, of which the first is at `pc`, and sets the program
    /// counter; `rest` ends a block. `false`: one of them trapped.
    fn finish(
        &mut self,
        mut rest: &[Inst],
        mut pc: u64,
        code: &CodeCache,
        plat: &mut dyn Platform,
    ) -> bool {
        while !rest.is_empty() {
            let Some(next) = self.step(rest, pc, code, plat) else {
                return false;
            };
            (rest, pc) = (&rest[1..], next);
        }
        self.state.pc = pc;
        true
    }

    /// Executes the first instruction of `rest`, which is at `pc`; `rest` ends a block. Returns the
    /// address of the next one, unless it traps.
    fn step(
        &mut self,
        rest: &[Inst],
        pc: u64,
        code: &CodeCache,
        plat: &mut dyn Platform,
    ) -> Option<u64> {
        match self.exec_one(&rest[0], pc, plat) {
            Ok(Flow::Next) => Some(pc.wrapping_add(u64::from(rest[0].len))),
            Ok(Flow::Jump(target)) => Some(target),
            Err(Fault) => {
                self.abort(rest, pc, code.cost(), plat);
                None
            }
        }
    }

    /// Executes a CSR access of compiled code.
    fn access_csr(
        &mut self,
        request: CsrRequest,
        operand: u64,
        plat: &mut dyn Platform,
    ) -> CsrAnswer {
        self.watch.meter.set(Activity::Csr);
        self.watch.counts.csr_helpers += 1;
        let op = request.op(operand);
        let value = self.own_csr(request.number(), op, plat);
        self.watch.meter.set(Activity::Compiled);
        let code = self.state.fetch_tlb;
        if op != CsrOp::Read {
            self.prepare();
        }
        CsrAnswer {
            value: value.unwrap_or(0),
            done: match value {
                None => CSR_REFUSED,
                Some(_) if self.state.fetch_tlb == code => CSR_DONE,
                Some(_) => CSR_MOVED,
            },
        }
    }
}

/// See [`Helpers::finish`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn finish(context: *mut Context, block: u32, at: Position) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        in_session(context, |hart, code, plat| {
            hart.help(code, (block, at), |hart, rest, pc| {
                hart.finish(rest, pc, code, plat)
            })
        })
    }
}

/// See [`Helpers::execute`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn execute(context: *mut Context, block: u32, at: Position) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        in_session(context, |hart, code, plat| {
            hart.help(code, (block, at), |hart, rest, pc| {
                hart.step(rest, pc, code, plat).is_some()
            })
        })
    }
}

/// See [`Helpers::csr`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn csr(context: *mut Context, request: CsrRequest, operand: u64) -> CsrAnswer {
    // SAFETY: promised by the caller.
    unsafe {
        in_session(context, |hart, _, plat| {
            hart.access_csr(request, operand, plat)
        })
    }
}
