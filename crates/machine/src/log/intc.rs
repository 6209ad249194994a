//! `intc` lines: an interrupt architecture that tells what happens to it.

use trapless_intc::{
    CsrAccess, CsrFault, CsrOp, FileAccess, FileRegister, InterruptArchitecture, Lines, Memory,
    NoFile, NoRegister, VirtualStep, Window,
};
use trapless_isa::{Mode, csr};
use vm_fdt::FdtWriter;

use super::{LogFile, start};

/// `mip` bits by name.
const BITS: [&str; 14] = [
    "0", "SSIP", "VSSIP", "MSIP", "4", "STIP", "VSTIP", "MTIP", "8", "SEIP", "VSEIP", "MEIP",
    "SGEIP", "LCOFIP",
];

/// What a hart's lines were when last asked for.
#[derive(Clone, Copy, Default)]
struct Seen {
    level: u64,
    hgeip: u64,
    /// Time of a change made by somebody else, which shows at the next question.
    changed_at: u64,
}

/// The architecture `inner` with a log.
pub(super) struct Logged {
    inner: Box<dyn InterruptArchitecture>,
    windows: Vec<Window>,
    file: LogFile,
    seen: Vec<Seen>,
    /// Time of the last access or edge.
    now: u64,
}

fn operation(op: CsrOp) -> String {
    match op {
        CsrOp::Read => "read".to_string(),
        CsrOp::Write(v) => format!("write {v:#x}"),
        CsrOp::Swap(v) => format!("swap {v:#x}"),
        CsrOp::Set(v) => format!("set {v:#x}"),
        CsrOp::Clear(v) => format!("clear {v:#x}"),
    }
}

impl Logged {
    pub fn new(inner: Box<dyn InterruptArchitecture>, file: LogFile) -> Self {
        Self {
            windows: inner.windows(),
            inner,
            file,
            seen: Vec::new(),
            now: 0,
        }
    }

    fn seen(&mut self, hart: usize) -> &mut Seen {
        if self.seen.len() <= hart {
            self.seen.resize(hart + 1, Seen::default());
        }
        &mut self.seen[hart]
    }

    fn access(&self, hart: usize, now: u64, verb: &str, addr: u64, size: u8, value: &str) {
        let inside = |w: &&Window| addr.wrapping_sub(w.base) < w.len;
        let window = self.windows.iter().find(inside);
        let (name, offset) = window.map_or(("?", addr), |w| (w.name, addr - w.base));
        let start = start(now, hart);
        self.file.line(format_args!(
            "{start} intc   {verb} {name}+{offset:#x} addr={addr:#x} size={size} {value}"
        ));
    }

    fn changes(&mut self, hart: usize, now: u64, lines: &Lines) {
        let file = self.file.clone();
        let seen = self.seen(hart);
        let now = now.max(std::mem::take(&mut seen.changed_at));
        let (edges, hgeip) = (seen.level ^ lines.level, seen.hgeip);
        seen.level = lines.level;
        seen.hgeip = lines.hgeip;
        if edges == 0 && lines.pulse == 0 && hgeip == lines.hgeip {
            return;
        }
        let start = start(now, hart);
        for bit in 0..64 {
            let name = || BITS.get(bit).map_or(bit.to_string(), |name| (*name).into());
            if edges >> bit & 1 != 0 {
                let level = if lines.level >> bit & 1 != 0 {
                    "high"
                } else {
                    "low"
                };
                file.line(format_args!("{start} intc   line  {} {level}", name()));
            }
            if lines.pulse >> bit & 1 != 0 {
                file.line(format_args!("{start} intc   line  {} pulse", name()));
            }
        }
        if hgeip != lines.hgeip {
            let new = lines.hgeip;
            file.line(format_args!(
                "{start} intc   line  hgeip {hgeip:#x} -> {new:#x}"
            ));
        }
    }
}

impl InterruptArchitecture for Logged {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn windows(&self) -> Vec<Window> {
        self.inner.windows()
    }

    fn load(&mut self, hart: usize, now: u64, addr: u64, size: u8) -> Result<u64, NoRegister> {
        self.now = now;
        let result = self.inner.load(hart, now, addr, size);
        let value = match &result {
            Ok(value) => format!("value={value:#x}"),
            Err(NoRegister) => "fault".into(),
        };
        self.access(hart, now, "load ", addr, size, &value);
        result
    }

    fn store(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), NoRegister> {
        self.now = now;
        let result = self.inner.store(hart, now, addr, size, value);
        let fault = if result.is_err() { " fault" } else { "" };
        let value = format!("value={value:#x}{fault}");
        self.access(hart, now, "store", addr, size, &value);
        result
    }

    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        self.now = access.now;
        let result = self.inner.csr(access);
        let op = operation(access.op);
        let value = match &result {
            Ok(value) => format!("value={value:#x}"),
            Err(CsrFault::Illegal) => "illegal".into(),
            Err(CsrFault::Virtual) => "virtual".into(),
        };
        let start = start(access.now, access.hart);
        let name = csr::name(access.csr);
        self.file.line(format_args!(
            "{start} intc   csr   {} {name} {op} {value}",
            access.mode
        ));
        result
    }

    fn guest_files(&self) -> Option<u8> {
        self.inner.guest_files()
    }

    fn interrupt_cells(&self, source: u32) -> Vec<u32> {
        self.inner.interrupt_cells(source)
    }

    fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        self.now = access.now;
        let result = self.inner.interrupt_file(access);
        let value = match &result {
            Ok(value) => format!("value={value:#x}"),
            Err(NoFile) => "none".into(),
        };
        let register = match access.register {
            FileRegister::Top => "topei".to_string(),
            FileRegister::Indirect(select) => format!("{select:#x}"),
        };
        let start = start(access.now, access.hart);
        let op = operation(access.op);
        self.file.line(format_args!(
            "{start} intc   file  {:?} {register} {op} {value}",
            access.file
        ));
        result
    }

    fn has_csr(&self, csr: u16) -> bool {
        self.inner.has_csr(csr)
    }

    fn attach_memory(&mut self, memory: Box<dyn Memory>) {
        self.inner.attach_memory(memory);
    }

    fn supervisor_interrupts(&self) -> u64 {
        self.inner.supervisor_interrupts()
    }

    fn custom_csrs(&self) -> bool {
        self.inner.custom_csrs()
    }

    fn isa_extensions(&self) -> &'static [&'static str] {
        self.inner.isa_extensions()
    }

    fn take_switched(&mut self) -> u64 {
        self.inner.take_switched()
    }

    fn record_steps(&mut self, on: bool) {
        self.inner.record_steps(on);
    }

    fn take_steps(&mut self) -> Vec<VirtualStep> {
        self.inner.take_steps()
    }

    fn set_source(&mut self, now: u64, source: u32, level: bool) {
        self.now = now;
        let level_name = if level { "high" } else { "low" };
        self.file.line(format_args!(
            "{now:>14}  - intc   wire  {source} {level_name}"
        ));
        self.inner.set_source(now, source, level);
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let lines = self.inner.lines(hart, now);
        self.changes(hart, now, &lines);
        lines
    }

    fn take_changed(&mut self) -> u64 {
        let changed = self.inner.take_changed();
        let mut rest = changed;
        while rest != 0 {
            let hart = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let now = self.now;
            self.seen(hart).changed_at = now;
        }
        changed
    }

    fn wants_mode_changes(&self) -> bool {
        self.inner.wants_mode_changes()
    }

    fn mode_changed(&mut self, hart: usize, now: u64, mode: Mode, vmid: u16) {
        self.now = now;
        let start = start(now, hart);
        self.file
            .line(format_args!("{start} intc   mode  {mode} vmid={vmid}"));
        self.inner.mode_changed(hart, now, mode, vmid);
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error> {
        self.inner.fdt(fdt, cpu_intc)
    }

    fn external_phandle(&self) -> u32 {
        self.inner.external_phandle()
    }

    fn save(&self) -> serde_json::Value {
        self.inner.save()
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), String> {
        self.inner.restore(state)
    }
}
