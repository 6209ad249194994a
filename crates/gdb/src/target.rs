//! The machine as a target of gdb: harts are threads, memory is the current hart's virtual memory.

use std::convert::Infallible;

use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;
use trapless_hart::Hart;
use trapless_isa::page::{PAGE_SIZE, page_offset};
use trapless_machine::{History, Machine};

use crate::breaks::{Breaks, Step, Watch};
use crate::description::{self, Register, Riscv};
use crate::files::Files;
use crate::reverse::{Goal, Travel, towards_present};
use crate::{Host, harts, monitor};

/// Thread number of a hart; gdb counts from 1.
pub fn tid(hart: usize) -> Tid {
    Tid::new(hart + 1).unwrap_or(Tid::MIN)
}

/// A machine under a debugger.
pub struct Debugger<'m> {
    /// The machine.
    pub machine: &'m mut Machine,
    /// Its breakpoints, watchpoints and steps.
    pub breaks: Breaks,
    /// Its history.
    pub history: History,
    /// Reverse execution in progress.
    pub travel: Option<Travel>,
    /// gdb has changed the machine since it ran.
    changed: bool,
    /// It stopped where the present seemed to be.
    pub passed: bool,
    /// Addresses are physical.
    pub physical: bool,
    xml: String,
    /// Files that gdb has opened.
    pub files: Files,
    /// Harts named by the current resume command.
    named: Vec<usize>,
}

/// Not mapped.
const EFAULT: u8 = 14;

impl<'m> Debugger<'m> {
    /// A debugger of `machine`, with its history `known` if there is one, and at most `memory`
    /// bytes of history.
    pub fn new(machine: &'m mut Machine, known: Option<History>, memory: u64) -> Self {
        let xml = description::xml(machine);
        Self {
            machine,
            breaks: Breaks::default(),
            changed: known.is_none(),
            history: known.unwrap_or_else(|| History::new(memory)),
            travel: None,
            passed: false,
            physical: false,
            xml,
            files: Files::default(),
            named: Vec::new(),
        }
    }

    /// Called before the machine is changed by gdb. The past cannot be changed.
    fn change(&mut self) -> TargetResult<(), Self> {
        if self.history.present().is_some() {
            return Err(TargetError::NonFatal);
        }
        self.changed = true;
        Ok(())
    }

    /// The machine was changed, so its history begins here.
    pub fn diverge(&mut self) {
        self.changed = true;
    }

    /// Runs the machine to the present, wherever gdb has left it.
    pub fn return_to_present(&mut self, host: &mut dyn Host) {
        let mut none = Breaks::default();
        while self.history.present().is_some() && host.poll(self.machine) {
            towards_present(self.machine, &mut self.history, &mut none, &mut self.passed);
        }
    }

    fn turn_back(&mut self, goal: Goal) {
        self.breaks.only = None;
        self.breaks.steps.clear();
        if goal == Goal::Continue {
            self.breaks.resumed();
        }
        self.passed = false;
        self.renew_history();
        self.travel = Some(Travel::new(goal, self.machine));
    }

    /// Stops reverse execution that gdb has interrupted.
    pub fn stop_travel(&mut self) {
        self.travel = None;
        self.passed = false;
    }

    /// Makes the history lead to the present state. Harts that were held back catch up, which is
    /// not part of it.
    fn renew_history(&mut self) {
        let present = self.history.present().is_none();
        if present && self.breaks.only.is_none() && self.machine.recall() {
            self.changed = true;
        }
        if std::mem::take(&mut self.changed) {
            self.history.begin(self.machine);
        }
    }

    fn hart(&mut self, tid: Tid) -> Result<&mut Hart, TargetError<Infallible>> {
        let index = tid.get() - 1;
        if index < self.machine.harts().len() {
            Ok(self.machine.hart_mut(index))
        } else {
            Err(TargetError::NonFatal)
        }
    }

    /// Sets the program counter of a hart. If that ends a wait, the hart has waited until now.
    fn set_pc(&mut self, tid: Tid, pc: u64) -> TargetResult<(), Self> {
        let now = self.machine.now();
        let hart = self.hart(tid)?;
        if hart.waiting() && hart.pc() != pc {
            hart.advance_to(now);
        }
        hart.set_pc(pc);
        Ok(())
    }

    /// Splits a range of `tid`'s addresses into physical pieces inside pages, as far as they are
    /// mapped.
    fn pieces(&mut self, tid: Tid, start: u64, len: usize) -> Vec<(u64, usize)> {
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < len {
            let va = start.wrapping_add(done as u64);
            let room = (PAGE_SIZE - page_offset(va)) as usize;
            let pa = if self.physical {
                Some(va)
            } else {
                self.hart(tid)
                    .ok()
                    .and_then(|hart| hart.debug_translate(va))
            };
            let Some(pa) = pa else { break };
            let part = room.min(len - done);
            pieces.push((pa, part));
            done += part;
        }
        pieces
    }
}

impl Target for Debugger<'_> {
    type Arch = Riscv;
    type Error = Infallible;

    fn base_ops(&mut self) -> BaseOps<'_, Riscv, Infallible> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debugger<'_> {
    fn read_registers(
        &mut self,
        regs: &mut RiscvCoreRegs<u64>,
        tid: Tid,
    ) -> TargetResult<(), Self> {
        let hart = self.hart(tid)?;
        regs.x = std::array::from_fn(|i| hart.x(i));
        regs.pc = hart.pc();
        Ok(())
    }

    fn write_registers(&mut self, regs: &RiscvCoreRegs<u64>, tid: Tid) -> TargetResult<(), Self> {
        self.change()?;
        let hart = self.hart(tid)?;
        for (i, value) in regs.x.iter().enumerate() {
            hart.set_x(i, *value);
        }
        self.set_pc(tid, regs.pc)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let mut done = 0;
        for (pa, len) in self.pieces(tid, start, data.len()) {
            let read = self.machine.read_physical(pa, &mut data[done..done + len]);
            done += read;
            if read < len {
                break;
            }
        }
        if done == 0 && !data.is_empty() {
            return Err(TargetError::Errno(EFAULT));
        }
        Ok(done)
    }

    /// All or nothing, as gdb expects.
    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        let pieces = self.pieces(tid, start, data.len());
        let ram = self.machine.ram();
        let room = pieces
            .iter()
            .filter(|(pa, len)| ram.contains(*pa, *len as u64));
        if room.map(|(_, len)| len).sum::<usize>() < data.len() {
            return Err(TargetError::Errno(EFAULT));
        }
        self.change()?;
        let mut rest = data;
        for (pa, len) in pieces {
            let (piece, tail) = rest.split_at(len);
            self.machine.write_physical(pa, piece);
            rest = tail;
        }
        Ok(())
    }

    fn list_active_threads(&mut self, active: &mut dyn FnMut(Tid)) -> Result<(), Infallible> {
        (0..self.machine.harts().len()).for_each(|hart| active(tid(hart)));
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Debugger<'_> {
    fn read_register(
        &mut self,
        tid: Tid,
        reg: Register,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let hart = self.hart(tid)?;
        let value = match reg {
            Register::V => u64::from(hart.mode().v()),
            Register::Standard(RiscvRegId::Gpr(i)) => hart.x(i.into()),
            Register::Standard(RiscvRegId::Fpr(i)) => hart.f(i.into()),
            Register::Standard(RiscvRegId::Pc) => hart.pc(),
            Register::Standard(RiscvRegId::Priv) => hart.mode().privilege() as u64,
            Register::Standard(RiscvRegId::Csr(csr)) => match hart.peek_csr_as_m(csr) {
                Some(value) => value,
                // Shown as unavailable.
                None => return Ok(0),
            },
            Register::Standard(_) => return Err(TargetError::NonFatal),
        };
        let len = buf.len().min(8);
        buf[..len].copy_from_slice(&value.to_le_bytes()[..len]);
        Ok(len)
    }

    fn write_register(&mut self, tid: Tid, reg: Register, val: &[u8]) -> TargetResult<(), Self> {
        let mut bytes = [0; 8];
        let len = val.len().min(8);
        bytes[..len].copy_from_slice(&val[..len]);
        let value = u64::from_le_bytes(bytes);
        // Modes change by traps and returns only.
        let known = match reg {
            Register::Standard(RiscvRegId::Csr(csr)) => {
                self.hart(tid)?.peek_csr_as_m(csr).is_some()
            }
            Register::Standard(RiscvRegId::Priv) | Register::V => false,
            Register::Standard(_) => true,
        };
        if !known {
            return Err(TargetError::NonFatal);
        }
        self.change()?;
        let hart = self.hart(tid)?;
        match reg {
            Register::Standard(RiscvRegId::Gpr(i)) => hart.set_x(i.into(), value),
            Register::Standard(RiscvRegId::Fpr(i)) => hart.set_f(i.into(), value),
            Register::Standard(RiscvRegId::Pc) => self.set_pc(tid, value)?,
            Register::Standard(RiscvRegId::Csr(csr)) => {
                if !self.machine.poke_csr(tid.get() - 1, csr, value) {
                    return Err(TargetError::NonFatal);
                }
            }
            Register::Standard(_) | Register::V => return Err(TargetError::NonFatal),
        }
        Ok(())
    }
}

impl ThreadExtraInfo for Debugger<'_> {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, Infallible> {
        let text = match self.machine.harts().get(tid.get() - 1) {
            Some(hart) => harts::describe(hart),
            None => String::new(),
        };
        let len = text.len().min(buf.len());
        buf[..len].copy_from_slice(&text.as_bytes()[..len]);
        Ok(len)
    }
}

impl MultiThreadResume for Debugger<'_> {
    fn resume(&mut self) -> Result<(), Infallible> {
        self.breaks.resumed();
        self.renew_history();
        Ok(())
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn clear_resume_actions(&mut self) -> Result<(), Infallible> {
        self.breaks.steps.clear();
        self.breaks.only = None;
        self.named.clear();
        Ok(())
    }

    /// Harts have no signals.
    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        _: Option<Signal>,
    ) -> Result<(), Infallible> {
        self.named.push(tid.get() - 1);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl ReverseStep<Tid> for Debugger<'_> {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Infallible> {
        self.turn_back(Goal::Step(tid.get() - 1));
        Ok(())
    }
}

impl ReverseCont<Tid> for Debugger<'_> {
    fn reverse_cont(&mut self) -> Result<(), Infallible> {
        self.turn_back(Goal::Continue);
        Ok(())
    }
}

impl MultiThreadSingleStep for Debugger<'_> {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Infallible> {
        self.set_resume_action_range_step(tid, 0, 0)
    }
}

impl MultiThreadRangeStepping for Debugger<'_> {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Infallible> {
        self.named.push(tid.get() - 1);
        self.breaks
            .steps
            .push(Step::new(tid.get() - 1, (start, end)));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debugger<'_> {
    /// Harts share one clock, so the others cannot be stopped for long. They run, but are held
    /// where they would miss a breakpoint that gdb has removed while it steps a hart over it.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Infallible> {
        self.breaks.only = Some(self.named.clone());
        Ok(())
    }
}

impl Breakpoints for Debugger<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debugger<'_> {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.breaks.add(false, addr);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breaks.remove(false, addr))
    }
}

impl HwBreakpoint for Debugger<'_> {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.breaks.add(true, addr);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breaks.remove(true, addr))
    }
}

impl HwWatchpoint for Debugger<'_> {
    fn add_hw_watchpoint(
        &mut self,
        addr: u64,
        len: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.breaks.add_watch(Watch { addr, len, kind }))
    }

    fn remove_hw_watchpoint(
        &mut self,
        addr: u64,
        len: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.breaks.remove_watch(Watch { addr, len, kind }))
    }
}

impl TargetDescriptionXmlOverride for Debugger<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.xml.len());
        let rest = &self.xml.as_bytes()[start..];
        let len = rest.len().min(length).min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

impl MonitorCmd for Debugger<'_> {
    fn handle_monitor_cmd(
        &mut self,
        cmd: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Infallible> {
        let text = String::from_utf8_lossy(cmd);
        let answer = match text.trim() {
            "symbols" => self.files.last_result(),
            text => monitor::command(text, self.machine, &self.history, &mut self.physical),
        };
        out.write_raw(answer.as_bytes());
        Ok(())
    }
}
