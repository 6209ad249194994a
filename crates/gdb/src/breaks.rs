//! Breakpoints, watchpoints and single steps, checked before instructions: before those that a
//! breakpoint or watchpoint may concern, and before each one while there is a step.

use std::sync::Arc;

use gdbstub::target::ext::breakpoints::WatchKind;
use trapless_hart::{DataTrigger, Hart, Observer, Triggers};
use trapless_isa::inst::Inst;

/// A watched range of virtual addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Accesses that stop.
    pub kind: WatchKind,
}

/// Why the machine stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hit {
    /// A software breakpoint.
    Software,
    /// A hardware breakpoint.
    Hardware,
    /// A watchpoint.
    Watch(Watch),
    /// A step is done.
    Step,
    /// A hart that gdb holds stopped reached a breakpoint or watchpoint.
    Held,
}

/// A step of one hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Hart.
    pub hart: usize,
    /// The step continues while `pc` is in this range; empty for one instruction.
    pub range: (u64, u64),
    /// Whether the first instruction has been executed.
    begun: bool,
}

impl Step {
    /// Steps `hart` once, and further while `pc` is in `range.0..range.1`.
    pub fn new(hart: usize, range: (u64, u64)) -> Self {
        Self {
            hart,
            range,
            begun: false,
        }
    }
}

/// Everything that can stop the machine before an instruction.
#[derive(Default)]
pub struct Breaks {
    /// Addresses of software breakpoints, sorted.
    software: Vec<u64>,
    /// Addresses of hardware breakpoints, sorted.
    hardware: Vec<u64>,
    watches: Vec<Watch>,
    /// Breakpoints removed since the last stop. gdb removes them while it steps a hart over one,
    /// and assumes that the other harts are stopped meanwhile.
    lifted: Vec<u64>,
    /// Steps in progress.
    pub steps: Vec<Step>,
    /// The only harts that gdb asked to run, if not all.
    pub only: Option<Vec<usize>>,
    /// Why the machine stopped last.
    pub hit: Option<Hit>,
    /// The machine re-executes its past, where no hart can be held back.
    pub past: bool,
    /// The breakpoints and watchpoints as triggers of harts.
    triggers: Arc<Triggers>,
}

fn insert(list: &mut Vec<u64>, addr: u64) {
    if let Err(at) = list.binary_search(&addr) {
        list.insert(at, addr);
    }
}

fn remove(list: &mut Vec<u64>, addr: u64) -> bool {
    match list.binary_search(&addr) {
        Ok(at) => {
            list.remove(at);
            true
        }
        Err(_) => false,
    }
}

impl Breaks {
    /// Whether instructions must be checked.
    pub fn active(&self) -> bool {
        !(self.software.is_empty()
            && self.hardware.is_empty()
            && self.watches.is_empty()
            && self.steps.is_empty())
    }

    /// Adds a breakpoint.
    pub fn add(&mut self, hardware: bool, addr: u64) {
        insert(self.list(hardware), addr);
    }

    /// Removes a breakpoint; `false` if there is none.
    pub fn remove(&mut self, hardware: bool, addr: u64) -> bool {
        let found = remove(self.list(hardware), addr);
        if found {
            self.lifted.push(addr);
        }
        found
    }

    fn list(&mut self, hardware: bool) -> &mut Vec<u64> {
        if hardware {
            &mut self.hardware
        } else {
            &mut self.software
        }
    }

    /// Adds a watchpoint; `false` if it has no bytes.
    pub fn add_watch(&mut self, watch: Watch) -> bool {
        if watch.len != 0 {
            self.watches.push(watch);
        }
        watch.len != 0
    }

    /// Removes a watchpoint; `false` if there is none.
    pub fn remove_watch(&mut self, watch: Watch) -> bool {
        match self.watches.iter().position(|w| *w == watch) {
            Some(at) => {
                self.watches.remove(at);
                true
            }
            None => false,
        }
    }

    /// The stepped hart, if it has executed its instruction and now waits: the instruction was a
    /// `wfi`.
    pub fn asleep(&self, harts: &[Hart]) -> Option<usize> {
        let mut done = self.steps.iter().filter(|step| step.begun);
        done.find(|step| harts.get(step.hart).is_some_and(Hart::waiting))
            .map(|step| step.hart)
    }

    /// The breakpoints and watchpoints as triggers of harts since [`resumed`](Self::resumed).
    pub fn triggers(&self) -> &Arc<Triggers> {
        &self.triggers
    }

    /// The set stays the same if gdb has set again what it had removed, as it does at each stop:
    /// harts keep compiled code as long as it is the same.
    fn renew_triggers(&mut self) {
        let execute = [&self.software[..], &self.hardware[..]].concat();
        let data = self.watches.iter().map(|watch| DataTrigger {
            addr: watch.addr,
            len: watch.len,
            load: watch.kind != WatchKind::Write,
            store: watch.kind != WatchKind::Read,
        });
        let triggers = Triggers::new(execute, data.collect());
        if *self.triggers != triggers {
            self.triggers = Arc::new(triggers);
        }
    }

    /// Whether each instruction must be checked.
    pub fn observes_all(&self) -> bool {
        !self.steps.is_empty() || self.only.is_some()
    }

    /// The machine is about to run, forwards or backwards.
    pub fn resumed(&mut self) {
        self.hit = None;
        // While a hart steps over a breakpoint, gdb has removed it.
        if !self.observes_all() {
            self.renew_triggers();
        }
        if self.only.is_none() {
            self.lifted.clear();
        }
    }

    /// Range and kind of the first watchpoint that `inst` will hit. For `watch`, gdb ignores stores
    /// that do not change the watched value, so these are not reported.
    pub fn watched(&self, hart: &Hart, inst: &Inst) -> Option<Watch> {
        let access = hart.memory_access(inst)?;
        let hit = |w: &&Watch| {
            let kind = match w.kind {
                WatchKind::Write => access.store,
                WatchKind::Read => access.load,
                WatchKind::ReadWrite => true,
            };
            let touched = kind && access.overlaps(w.addr, w.len);
            touched && (w.kind != WatchKind::Write || hart.store_changes(inst, w.addr, w.len))
        };
        self.watches.iter().find(hit).copied()
    }

    /// The breakpoint at `pc`.
    pub fn breakpoint(&self, pc: u64) -> Option<Hit> {
        if self.software.binary_search(&pc).is_ok() {
            return Some(Hit::Software);
        }
        self.hardware
            .binary_search(&pc)
            .is_ok()
            .then_some(Hit::Hardware)
    }

    fn check(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> Option<Hit> {
        let id = hart.id();
        let mut first = false;
        if let Some(step) = self.steps.iter_mut().find(|step| step.hart == id) {
            first = !std::mem::replace(&mut step.begun, true);
            if !first && !(step.range.0..step.range.1).contains(&pc) {
                return Some(Hit::Step);
            }
        }
        // A step from a breakpoint leaves it. Watchpoints are removed by gdb itself.
        let breakpoint = self.breakpoint(pc).filter(|_| !first);
        if breakpoint.is_some() {
            return breakpoint;
        }
        self.watched(hart, inst).map(Hit::Watch)
    }
}

impl Observer for Breaks {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        self.hit = self.check(hart, pc, inst);
        if let Some(only) = &self.only {
            if !only.contains(&hart.id()) && (self.hit.is_some() || self.lifted.contains(&pc)) {
                self.hit = (!self.past).then_some(Hit::Held);
            }
        }
        self.hit.is_none()
    }

    fn triggers(&self) -> Option<&Arc<Triggers>> {
        (!self.observes_all()).then_some(&self.triggers)
    }
}

/// Two observers: the first decides, and the second sees instructions that are executed.
pub struct Both<'a> {
    /// Decides.
    pub first: &'a mut dyn Observer,
    /// Watches.
    pub other: Option<&'a mut dyn Observer>,
}

impl Observer for Both<'_> {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        self.first.before(hart, pc, inst)
            && self
                .other
                .as_mut()
                .is_none_or(|other| other.before(hart, pc, inst))
    }

    fn triggers(&self) -> Option<&Arc<Triggers>> {
        self.first.triggers().filter(|_| self.other.is_none())
    }

    fn after(&mut self, hart: &Hart, pc: u64, inst: &Inst) {
        if let Some(other) = &mut self.other {
            other.after(hart, pc, inst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchpoint_without_bytes_is_refused() {
        let mut breaks = Breaks::default();
        let watch = |len| Watch {
            addr: 0x1000,
            len,
            kind: WatchKind::Write,
        };
        assert!(!breaks.add_watch(watch(0)) && !breaks.active());
        assert!(!breaks.remove_watch(watch(0)));
        assert!(breaks.add_watch(watch(1)) && breaks.active());
    }
}
