//! A hostile host, hostile guests and devices: CSR accesses of the Xtrapless controller from every
//! mode, registers and pages of message windows, messages and wires, with tables of any content in
//! memory.
//!
//! The input is a list of steps. Memory begins with tables that are right, so that the steps reach
//! what lies behind their checks; some steps spoil them.

#![no_main]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_intc::aclint_plic;
use trapless_intc::trapless::{Config, Trapless};
use trapless_intc::{
    CsrAccess, CsrFault, CsrOp, Effects, InterruptArchitecture, Lines, Memory, MessageArrival,
    MmioAccess, NoRegister, Snapshot,
};
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{
    csr, domain, file, hifmap, hnqbase, htlcfg, hvtablebase, source, vhart, wcontrol, window,
};

const RAM: u64 = 0x8000_0000;
const WORDS: usize = 0x2000;
const HARTS: usize = 3;
/// Domains 0 and 1 exist.
const DOMAINS: u64 = 2;
const VHARTS: u64 = 4;
const SOURCES: u64 = 130;
const FILES: u64 = RAM + 0x4000;
const QUEUES: u64 = RAM + 0xc000;
/// log2 of the number of message windows.
const WINDOWS: u8 = 3;
const TABLE: u64 = RAM + 0xb000;
/// Registers and pages of windows.
const CONTROL: u64 = 0x302_0000;
const PAGES: u64 = 0x2800_0000;

/// Far above what one access may touch: 32 posts, and each hart's file and all priorities once or
/// twice.
const MOST_ACCESSES: u64 = 8_000;

/// RAM that counts its accesses.
#[derive(Clone)]
struct Ram(Arc<[AtomicU64]>, Arc<AtomicU64>);

impl Ram {
    fn new() -> Self {
        Self(
            (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            Arc::default(),
        )
    }

    fn word(&self, addr: u64) -> Option<&AtomicU64> {
        assert_eq!(addr % 8, 0, "accesses are aligned");
        self.0.get((addr.checked_sub(RAM)? / 8) as usize)
    }

    fn set(&self, addr: u64, value: u64) {
        self.word(addr)
            .expect("the tables lie in RAM")
            .store(value, Relaxed);
    }

    fn copy(&self) -> Self {
        let copy = Self::new();
        for (to, from) in copy.0.iter().zip(self.0.iter()) {
            to.store(from.load(Relaxed), Relaxed);
        }
        copy
    }
}

impl Memory for Ram {
    fn load(&self, _hart: usize, addr: u64) -> Option<u64> {
        self.1.fetch_add(1, Relaxed);
        Some(self.word(addr)?.load(Relaxed))
    }

    fn store(&self, _hart: usize, addr: u64, value: u64) -> Option<()> {
        self.1.fetch_add(1, Relaxed);
        self.word(addr)?.store(value, Relaxed);
        Some(())
    }
}

struct World {
    intc: Trapless,
    effects: Effects,
    ram: Ram,
    levels: [u64; HARTS],
}

impl World {
    fn on(ram: Ram, h: bool) -> Self {
        let aclint = aclint_plic::Config {
            harts: HARTS,
            cycles_per_tick: 100,
            sswi: false,
            edge_triggered: 0,
        };
        let mut intc = Trapless::new(Config { aclint, h }).with_windows(WINDOWS);
        intc.attach_memory(std::sync::Arc::new(ram.clone()));
        let mut effects = Effects::default();
        effects.steps.record();
        Self {
            intc,
            effects,
            ram,
            levels: [0; HARTS],
        }
    }

    fn new(h: bool) -> Self {
        let mut world = Self::on(Ram::new(), h);
        let ram = &world.ram;
        for id in 0..DOMAINS {
            let (entry, vharts) = (RAM + id * domain::SIZE, RAM + 0x800 + id * 0x100);
            let (sources, lines) = (RAM + 0x1000 + id * 0x800, RAM + 0xa00 + id * 0x100);
            ram.set(
                entry + domain::CONFIG,
                domain::CONFIG_V | SOURCES << domain::CONFIG_SOURCES_SHIFT | VHARTS,
            );
            ram.set(entry + domain::VHART_TABLE, vharts);
            ram.set(entry + domain::SOURCE_TABLE, sources);
            ram.set(entry + domain::LINES, lines);
            for number in 0..VHARTS {
                let at = FILES + (id * VHARTS + number) * file::SIZE;
                ram.set(vharts + number * vhart::SIZE, vhart::ENTRY_V | at);
                for word in 0..=SOURCES / 64 {
                    ram.set(at + file::ENABLE + word * file::ENABLE_STRIDE, !0);
                }
            }
            for number in 1..=SOURCES {
                let kind = [
                    0,
                    source::ENTRY_LEVEL,
                    source::ENTRY_LEVEL | source::ENTRY_RESAMPLE,
                ][number as usize % 3];
                let priority = (number % 8) << source::ENTRY_PRIO_SHIFT;
                let entry = source::ENTRY_V | kind | priority | (number % VHARTS);
                ram.set(sources + number * source::SIZE, entry);
            }
        }
        for hart in 0..HARTS {
            let queue = hnqbase::EN | (QUEUES + hart as u64 * 0x1000) | 1;
            for (csr, value) in [
                (csr::HVTABLEBASE, hvtablebase::V | RAM | 1),
                (csr::HTLCFG, htlcfg::EN),
                (csr::HNQBASE, queue),
                (csr::HIFMAP, hifmap::V | hart as u64),
            ] {
                let op = CsrOp::Write(value);
                let mode = Mode::HS;
                world.act(Act::Csr {
                    hart,
                    csr,
                    mode,
                    op,
                });
            }
        }
        for number in 0..4 {
            let entry = window::ENTRY_V | (number % DOMAINS) << window::ENTRY_DOM_SHIFT;
            let range = (8 << window::ENTRY_COUNT_SHIFT) | (number * 8 + 1);
            world.ram.set(TABLE + number * window::SIZE, entry | range);
        }
        for (register, value) in [
            (wcontrol::DOMAINS, wcontrol::DOMAINS_V | RAM | 1),
            (wcontrol::TABLE, wcontrol::TABLE_V | TABLE | 2),
        ] {
            let addr = CONTROL + register;
            world.act(Act::Store {
                addr,
                size: 8,
                value,
            });
        }
        world
    }

    /// Does something; its result and the lines of all harts afterwards.
    fn act(&mut self, act: Act) -> Outcome {
        self.ram.1.store(0, Relaxed);
        let mmio = |addr, size| MmioAccess {
            hart: 1,
            mode: Mode::HS,
            now: 0,
            addr,
            size,
        };
        let (intc, effects) = (&mut self.intc, &mut self.effects);
        let result = match act {
            Act::Csr {
                hart,
                csr,
                mode,
                op,
            } => {
                let access = CsrAccess {
                    hart,
                    csr,
                    mode,
                    vmid: 0,
                    now: 0,
                    op,
                };
                Answer::Csr(intc.csr(&access, effects))
            }
            Act::Load { addr, size } => Answer::Mmio(intc.load(&mmio(addr, size), effects)),
            Act::Store { addr, size, value } => {
                let stored = intc.store(&mmio(addr, size), value, effects);
                Answer::Mmio(stored.map(|()| 0))
            }
            Act::Message { addr, data } => Answer::Message(intc.message(0, addr, data, effects)),
            Act::Wire { source, level } => {
                intc.set_source(0, source, level, effects);
                Answer::Wire
            }
        };
        assert!(self.ram.1.load(Relaxed) <= MOST_ACCESSES, "too much work");
        let changed = std::mem::take(&mut self.effects.changed);
        let lines: Vec<_> = (0..HARTS).map(|hart| self.intc.lines(hart, 0)).collect();
        for (hart, lines) in lines.iter().enumerate() {
            let differs = lines.level != self.levels[hart] || lines.pulse | lines.arrived != 0;
            assert!(
                !differs || changed >> hart & 1 != 0,
                "a change that the effects lack"
            );
            assert_eq!(
                lines.arrived & !lines.level,
                0,
                "an arrival that is not pending"
            );
            self.levels[hart] = lines.level;
        }
        assert!(self.effects.steps.drain().count() <= 3 * 32 + 3);
        (result, lines, std::mem::take(&mut self.effects.switched))
    }

    /// The same machine, restored from a snapshot.
    fn restored(&self, h: bool) -> Self {
        let mut copy = Self::on(self.ram.copy(), h);
        copy.intc
            .restore(&self.intc.save())
            .expect("own snapshots fit");
        assert_eq!(copy.intc.save(), self.intc.save());
        copy.levels = self.levels;
        copy
    }
}

/// What a hart or a device does.
#[derive(Clone, Copy)]
enum Act {
    Csr {
        hart: usize,
        csr: u16,
        mode: Mode,
        op: CsrOp,
    },
    Load {
        addr: u64,
        size: u8,
    },
    Store {
        addr: u64,
        size: u8,
        value: u64,
    },
    Message {
        addr: u64,
        data: u32,
    },
    Wire {
        source: u32,
        level: bool,
    },
}

#[derive(PartialEq, Debug)]
enum Answer {
    Csr(std::result::Result<u64, CsrFault>),
    Mmio(std::result::Result<u64, NoRegister>),
    Message(Option<MessageArrival>),
    Wire,
}

type Outcome = (Answer, Vec<Lines>, u64);

/// Operands with fields in range, addresses in RAM, or any bits.
fn value(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match input.int_in_range(0..=5)? {
        0 => input.arbitrary()?,
        1 => {
            (RAM + input.int_in_range(0..=WORDS as u64)? * 8)
                | (u64::from(input.arbitrary::<u8>()?) << 56)
        }
        _ => {
            let high = u64::from(input.arbitrary::<u8>()?) << 56;
            high | input.int_in_range(0..=DOMAINS)? << 32 | input.int_in_range(0..=SOURCES + 2)?
        }
    })
}

/// A register, a wire's register, or an address in the pages of windows.
fn place(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match input.int_in_range(0..=2)? {
        0 => CONTROL + input.int_in_range(0..=4u64)? * 8,
        1 => CONTROL + wcontrol::WIRE + input.int_in_range(0..=96u64)? * 8,
        _ => PAGES + input.int_in_range(0..=1 << WINDOWS)? * 4096 + input.int_in_range(0..=8u64)?,
    })
}

/// What devices and stores to windows do.
fn device(input: &mut Unstructured<'_>) -> Result<Act> {
    let size = *input.choose(&[8, 8, 4, 4, 2, 1])?;
    Ok(match input.int_in_range(0..=4)? {
        0 => Act::Load {
            addr: place(input)?,
            size,
        },
        1 => Act::Store {
            addr: place(input)?,
            size,
            value: value(input)?,
        },
        2 => Act::Wire {
            source: input.int_in_range(0..=97)?,
            level: input.arbitrary()?,
        },
        _ => Act::Message {
            addr: place(input)?,
            data: match input.arbitrary()? {
                true => input.arbitrary()?,
                false => input.int_in_range(0..=9)?,
            },
        },
    })
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let h = input.ratio(15, 16)?;
    let mut world = World::new(h);
    let mut copy: Option<World> = None;
    while !input.is_empty() {
        match input.int_in_range(0..=15)? {
            0 => {
                let (index, value) = (input.int_in_range(0..=WORDS as u64 - 1)?, value(input)?);
                for world in [Some(&world), copy.as_ref()].into_iter().flatten() {
                    world.ram.set(RAM + index * 8, value);
                }
            }
            1 => copy = Some(world.restored(h)),
            2..=6 => both(&mut world, copy.as_mut(), device(input)?),
            _ => {
                let csr = match input.int_in_range(0..=12)? {
                    0 => csr::UGENVSEI,
                    1 => VSIP,
                    guest @ 2..=5 => csr::SGENIPI + guest - 2,
                    host => csr::HIFMAP + host - 6,
                };
                let (hart, mode) = (
                    input.int_in_range(0..=HARTS - 1)?,
                    *input.choose(&Mode::ALL)?,
                );
                let value = value(input)?;
                let op = *input.choose(&[
                    CsrOp::Read,
                    CsrOp::Write(value),
                    CsrOp::Swap(value),
                    CsrOp::Set(value),
                    CsrOp::Clear(value),
                ])?;
                both(
                    &mut world,
                    copy.as_mut(),
                    Act::Csr {
                        hart,
                        csr,
                        mode,
                        op,
                    },
                );
            }
        }
    }
    Ok(())
}

/// Does the same to a machine and to its restored copy.
fn both(world: &mut World, copy: Option<&mut World>, act: Act) {
    let outcome = world.act(act);
    if let Some(copy) = copy {
        assert_eq!(copy.act(act), outcome, "a restored controller differs");
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
