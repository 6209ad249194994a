//! A program with harts, memory and a device.

use std::fmt::Write;

use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{CodeCache, Hart, Observer, Ram, Stop};
use trapless_isa::Mode;
use trapless_isa::csr;
use trapless_isa::inst::{Inst, Op};
use trapless_isa::port::{CsrAccess, CsrFault, Lines};
use trapless_ledger::event::Event;

use super::handler;
use super::instruction::CUSTOM;
use super::program::Program;
use super::rng::Rng;
use super::tables::{DATA, DATA_PAGES, DEVICE, PAGE, RAM, SIZE};

/// A device that answers at random, raises interrupts on request, and writes everything down.
pub struct Device {
    rng: Rng,
    level: u64,
    timer: u64,
    /// Bits of harts that have not read its lines since they changed. Harts that are interpreted
    /// read them in each slice.
    changed: u64,
    compiled: bool,
    /// What reached it, and all events.
    pub log: String,
}

impl Platform for Device {
    fn load(
        &mut self,
        hart: usize,
        now: u64,
        at: u64,
        size: u8,
        mode: Mode,
    ) -> Result<u64, BusFault> {
        let _ = writeln!(self.log, "hart {hart} at {now}: load {size} {at:#x} {mode}");
        if at & !0xFFF != DEVICE {
            return Err(BusFault);
        }
        Ok(self.rng.next() >> (64 - 8 * u32::from(size)))
    }

    fn store(
        &mut self,
        hart: usize,
        now: u64,
        at: u64,
        size: u8,
        value: u64,
        mode: Mode,
    ) -> Result<(), BusFault> {
        let _ = writeln!(
            self.log,
            "hart {hart} at {now}: store {size} {at:#x} {value:#x} {mode}"
        );
        self.changed = u64::MAX;
        match at.wrapping_sub(DEVICE) {
            0 => (self.level, self.timer) = (0, u64::MAX),
            at if at >= 0x1000 => return Err(BusFault),
            at if at & 8 != 0 => self.level = value & 0xAAA,
            _ => self.timer = now + value % 2000,
        }
        Ok(())
    }

    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        if access.csr != CUSTOM {
            return Err(CsrFault::Illegal);
        }
        let _ = writeln!(self.log, "{access:?}");
        Ok(self.rng.next())
    }

    fn lines_changed(&self, hart: usize) -> bool {
        !self.compiled || self.changed >> hart & 1 != 0
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        self.changed &= !(1 << hart);
        let due = now >= self.timer;
        Lines {
            level: self.level | u64::from(due) << 7,
            deadline: if due { u64::MAX } else { self.timer },
            ..Lines::default()
        }
    }

    fn record(&mut self, event: &Event) {
        let _ = writeln!(self.log, "{event:?}");
    }
}

/// Stops after so many instructions.
pub struct Stops {
    pub every: u64,
    pub left: u64,
}

impl Observer for Stops {
    fn before(&mut self, _: &Hart, _: u64, _: &Inst) -> bool {
        let go_on = self.left > 0;
        self.left = if go_on { self.left - 1 } else { self.every };
        go_on
    }
}

/// Harts that run a program, with their memory and device.
pub struct World {
    pub harts: Vec<Hart>,
    pub code: CodeCache,
    pub device: Device,
    pub ram: Ram,
}

/// Lets every `fence.i` compare all code with memory, as if each page had been written.
pub struct Distrust(pub Ram);

impl Observer for Distrust {
    fn before(&mut self, _: &Hart, _: u64, inst: &Inst) -> bool {
        if inst.op == Op::FenceI {
            for page in (RAM..RAM + SIZE).step_by(PAGE as usize) {
                let word = self.0.load(page, 8).unwrap_or_default();
                self.0.store(page, 8, word);
            }
        }
        true
    }
}

impl World {
    /// The world in which `program` is about to run; `compiled` says by which engine.
    pub fn new(program: &Program, compiled: bool) -> Self {
        let ram = Ram::new(RAM, SIZE).expect("a little memory");
        let put = |at: u64, size: u8, value: u64| ram.store(at, size, value).expect("it is in RAM");
        let rng = &mut Rng::new(program.noise);
        for page in 0..DATA_PAGES {
            for at in (0..PAGE).step_by(8) {
                let value = match at / 8 % 4 {
                    0 => rng.double(),
                    1 => rng.single(),
                    2 if rng.chance(50) => rng.double(),
                    3 if rng.chance(50) => rng.single(),
                    _ => rng.integer(),
                };
                put(DATA + page * PAGE + at, 8, value);
            }
        }
        for slot in &program.slots {
            put(slot.at, slot.len, slot.word.into());
        }
        for (at, word) in &program.words {
            put(*at, 8, *word);
        }
        let mut code = CodeCache::new(&ram, program.config.extensions, program.config.cost);
        code.set_limits(program.limits);
        if compiled {
            code.compile(program.tiers, &program.config);
        }
        let mut device = Device {
            rng: Rng::new(program.noise),
            level: 0,
            timer: u64::MAX,
            changed: u64::MAX,
            compiled,
            log: String::new(),
        };
        let harts = program.harts.iter().enumerate().map(|(id, start)| {
            let frame = handler::frame(id);
            put(frame + handler::FRAME_DEVICE, 8, DEVICE);
            put(frame + handler::FRAME_STEP, 8, program.step);
            for (i, space) in program.spaces.iter().enumerate() {
                put(frame + handler::FRAME_SPACES + 8 * i as u64, 8, *space);
            }
            for (i, entry) in program.entries.iter().enumerate() {
                put(frame + handler::FRAME_ENTRIES + 8 * i as u64, 8, *entry);
            }
            let mut hart = Hart::new(id, program.config.clone(), ram.clone());
            for i in 0..32 {
                hart.set_x(i, start.x[i]);
                hart.set_f(i, start.f[i]);
            }
            for (address, value) in &program.csrs {
                hart.poke_csr(*address, *value, &mut device);
            }
            hart.poke_csr(csr::MSCRATCH, frame, &mut device);
            hart
        });
        let harts = harts.collect();
        Self {
            harts,
            code,
            device,
            ram,
        }
    }

    /// Lets each hart run to `until`.
    pub fn run(&mut self, until: u64, mut observer: Option<&mut dyn Observer>) {
        for hart in &mut self.harts {
            let mut earliest = hart.now();
            // A block that an observer stopped in is brought to its end.
            let mut inside = false;
            while inside || hart.now() < until {
                if hart.waiting() {
                    let wake = hart.wake_time().max(earliest);
                    if wake >= until {
                        break;
                    }
                    hart.advance_to(wake);
                }
                let watcher: Option<&mut dyn Observer> = match &mut observer {
                    Some(observer) => Some(&mut **observer),
                    None => None,
                };
                let stop = hart.run(&mut self.code, &mut self.device, until, watcher);
                inside = stop == Stop::Observer;
                match stop {
                    Stop::Wfi => earliest = hart.now() + 1,
                    Stop::Observer => {}
                    _ => break,
                }
            }
        }
    }

    /// All of memory.
    pub fn memory(&self) -> Vec<u64> {
        let words = (RAM..RAM + SIZE).step_by(8);
        words
            .map(|at| self.ram.load(at, 8).unwrap_or_default())
            .collect()
    }
}
