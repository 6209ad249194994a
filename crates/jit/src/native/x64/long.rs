//! Host registers in long blocks.
//!
//! Between blocks guest registers are at [`HOMES`]. In a long block any value may be in any of
//! these host registers. Before each instruction the operands that are read again are brought in,
//! and the result gets a place; what is read last makes room (Bélády's algorithm), and is written
//! to its slot in the context if this is older. At the block's end all is at home again.
//!
//! A slow path finds registers as they were before its instruction, and brings them home; after it,
//! all is loaded to where the hot code expects it.

use trapless_isa::Inst;

use super::compiler::{BlockCompiler, Moved};
use super::encode::{self, LOAD_64, STORE_64};
use super::lifetimes::{Use, result, sources};
use super::regs::{HOMES, Host, NUMBERS, Place, RBX, Registers, slot_at};
use super::template::template_of;

/// Reads of a value that must come for a register to be moved out of its home: it has to be stored,
/// and loaded at the end.
const WORTH: u8 = 2;
/// Instructions that a home is not read for so that one read is enough: until then other values
/// will take its place, too.
const FAR: u8 = 16;

/// The registers of a set of bits.
fn registers(mut bits: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let lowest = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (lowest < 64).then_some(lowest as u8)
    })
}

impl BlockCompiler<'_> {
    /// In a long block, assigns host registers to operands and results of `len` instructions from
    /// `index` on, which are compiled together.
    pub fn assign(&mut self, index: usize, len: usize) {
        let Some(lifetimes) = self.lifetimes.take() else {
            return;
        };
        let insts = &self.source.insts[index..index + len];
        if insts.iter().any(|inst| template_of(inst).is_none()) {
            // A helper executes it.
            self.bring_home();
        } else {
            self.bring_in(insts, lifetimes.before(index + len), index + len);
        }
        self.lifetimes = Some(lifetimes);
    }

    /// Assigns them for instructions behind which, from `end` on, values are used so.
    fn bring_in(&mut self, insts: &[Inst], uses: &[Use; NUMBERS], end: usize) {
        // `Lifetimes` are of blocks of less than 100 instructions.
        let at = end as u8;
        let of = |x: u8| uses[usize::from(x)];
        // Bits are registers.
        let (mut operands, mut results) = (0_u64, 0_u64);
        for inst in insts {
            let read = sources(inst).fold(0_u64, |read, x| read | 1 << x);
            operands |= read & !results;
            results |= result(inst).map_or(0, |x| 1 << x);
        }
        // Host registers that must stay.
        let mut taken = 0_u32;
        for x in registers(operands | results) {
            if let Place::Host(host) = self.registers.place(x) {
                taken |= 1 << host.0;
            }
        }
        for x in registers(operands) {
            if self.registers.place(x) != Place::Memory(x) || of(x).reads == 0 {
                continue;
            }
            let recent = self.recent(x);
            if let Some(host) = self.room(uses, at, of(x), taken) {
                match recent {
                    Some(recent) => encode::copy(&mut self.ops, host, recent),
                    None => encode::memory(&mut self.ops, LOAD_64, host, RBX, slot_at(x)),
                }
                self.registers.loaded(x, host);
                taken |= 1 << host.0;
            }
        }
        let mut places = [None; 32];
        for x in registers(results) {
            let host = match self.registers.place(x) {
                Place::Host(host) => Some(host),
                // An operand that found no room is read from memory: its place must stay there.
                _ if of(x).reads == 0 || operands & 1 << x != 0 => None,
                _ => self.room(uses, at, of(x), taken),
            };
            taken |= host.map_or(0, |host| 1 << host.0);
            places[usize::from(x)] = host;
        }
        self.before = Some(self.registers.clone());
        for x in registers(results) {
            if let Some(host) = places[usize::from(x)] {
                self.registers.assign(x, host);
            }
        }
    }

    /// A host register for a value that is used so from instruction `at` on, in which there is
    /// nothing any more: not one of `taken`, and none whose value is used more.
    fn room(&mut self, uses: &[Use; NUMBERS], at: u8, wanted: Use, taken: u32) -> Option<Host> {
        let registers = &self.registers;
        let free = HOMES.into_iter().map(|(_, host)| host);
        let free = free.filter(|host| taken & 1 << host.0 == 0);
        let host = free.max_by_key(|&host| match registers.content(host) {
            None => (u8::MAX, true),
            Some(x) => (uses[usize::from(x)].next, !registers.stale(x)),
        })?;
        if let Some(x) = registers.content(host) {
            let next = uses[usize::from(x)].next;
            let home = HOMES.contains(&(x, host));
            let soon = next < at.saturating_add(FAR);
            let reads = if home && soon { WORTH } else { 1 };
            if next <= wanted.next || wanted.reads < reads {
                return None;
            }
            if registers.stale(x) {
                encode::memory(&mut self.ops, STORE_64, host, RBX, slot_at(x));
            }
            self.registers.free(x);
        }
        Some(host)
    }

    /// Brings everything to where it is between blocks. Changes no flags.
    pub fn bring_home(&mut self) {
        let from = std::mem::replace(&mut self.registers, Registers::of_blocks());
        self.before = None;
        self.move_home(&from);
    }

    fn move_home(&mut self, from: &Registers) {
        for (x, host) in from.all() {
            if from.stale(x) && !HOMES.contains(&(x, host)) {
                encode::memory(&mut self.ops, STORE_64, host, RBX, slot_at(x));
            }
        }
        for (x, host) in HOMES {
            if from.place(x) != Place::Host(host) {
                encode::memory(&mut self.ops, LOAD_64, host, RBX, slot_at(x));
            }
        }
    }

    /// Places at a slow path of what is being compiled; `None` if all is at home.
    pub fn moved(&self) -> Option<Box<Moved>> {
        let before = self.before.clone()?;
        let after = self.registers.clone();
        Some(Box::new(Moved { before, after }))
    }

    /// Emits what comes before the call of a helper.
    pub fn before_helper(&mut self, moved: Option<&Moved>) {
        if let Some(moved) = moved {
            self.move_home(&moved.before);
        }
    }

    /// Emits what comes after the call of a helper.
    pub fn after_helper(&mut self, moved: Option<&Moved>) {
        let away = moved.into_iter().flat_map(|moved| moved.after.all());
        for (x, host) in away.filter(|place| !HOMES.contains(place)) {
            encode::memory(&mut self.ops, LOAD_64, host, RBX, slot_at(x));
        }
    }

    /// Begins the single accesses of a group's slow path.
    pub fn begin_single(&mut self, moved: Option<&Moved>) {
        self.before = moved.map(|moved| moved.before.clone());
        if let Some(before) = &self.before {
            self.registers = before.clone();
        }
    }

    /// Gives the result of the next single access the place that it has after the group.
    pub fn assign_single(&mut self, inst: &Inst, moved: Option<&Moved>) {
        let Some(moved) = moved else {
            return;
        };
        self.before = Some(self.registers.clone());
        if let Some(x) = result(inst)
            && let Place::Host(host) = moved.after.place(x)
        {
            self.registers.assign(x, host);
        }
    }

    /// Ends the single accesses of a group's slow path.
    pub fn end_single(&mut self, moved: Option<&Moved>) {
        if moved.is_some() {
            self.before = None;
            self.registers = Registers::of_blocks();
        }
    }
}
