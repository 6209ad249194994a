//! State shared by all parts of the compiler: the block, the code so far, and the location of guest
//! registers.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, NO_REG};

use super::copies::{Copies, Xmm};
use super::encode::{self, Assembler, LOAD_64, STORE_64};
use super::lifetimes::Lifetimes;
use super::regs::{Host, Place, RAX, RBX, Registers, x_at};
use super::trampolines::{Goal, Trampolines};
use super::words::Words;
use crate::native::bases::Bases;
use crate::native::precision::Nan;
use crate::native::probe::Probe;
use crate::native::region_code::{Beside, Shared};
use crate::native::target::{Target, Targets};
use crate::{Options, Position, Source};

/// Where registers are at a slow path in a long block.
pub(super) struct Moved {
    /// Before the instruction.
    pub before: Registers,
    /// When the hot code goes on.
    pub after: Registers,
}

/// Slow path of an instruction.
pub(super) struct Slow {
    pub at: Position,
    /// The instruction, if it is a CSR instruction; these end blocks.
    pub csr: Option<Inst>,
    /// Entry of the slow path.
    pub out: DynamicLabel,
    /// Entry after a miss of the inline TLB probe, with the offset of the entry in `rcx`.
    pub miss: DynamicLabel,
    /// Where the fast path resumes if the slow probe hits, with what is to be added to the address
    /// in `rcx`.
    pub hit: DynamicLabel,
    /// The inline TLB probe, if there is one, and the register that the address is in.
    pub probe: Option<(Probe, Host)>,
    /// Where the block resumes.
    pub back: DynamicLabel,
    /// What the block expects in a host register where it resumes.
    pub recent: Option<Recent>,
    /// The block does not resume: the interpreter executes the rest of it.
    pub rest: bool,
    /// Where registers are, in a long block.
    pub moved: Option<Box<Moved>>,
}

/// Slow path of a group: its accesses one by one.
pub(super) struct GroupSlow {
    /// Index of its first instruction, and that instruction's offset in the page.
    pub first: (usize, u32),
    /// Instructions.
    pub len: usize,
    pub out: DynamicLabel,
    pub back: DynamicLabel,
    /// As in [`Slow`].
    pub rest: bool,
    /// Where registers are, in a long block.
    pub moved: Option<Box<Moved>>,
    /// Copies of floating-point registers before the group, if it accesses these.
    pub copies: Option<Box<Copies>>,
}

/// An access whose base register has no address.
pub(super) struct Unknown {
    pub from: DynamicLabel,
    /// Where the access is made, with the host's address of the base register in `rax`.
    pub back: DynamicLabel,
    pub rs1: u8,
    pub imm: i32,
    pub probe: Probe,
    /// Of the access' slow path.
    pub miss: DynamicLabel,
    pub hit: DynamicLabel,
}

/// A block's look at the limit.
pub(super) struct Limit {
    /// Where it leads to if the limit is reached, or if it is by the block's charge.
    pub over: DynamicLabel,
    /// Where the block starts.
    pub start: DynamicLabel,
    /// What is charged before; 0: nothing.
    pub first: i32,
}

/// Rarely executed code of a block; it is placed behind the hot code of all blocks of a batch.
#[derive(Default)]
pub(super) struct Cold {
    pub limit: Option<Limit>,
    /// Taken if memory holds another instruction than the one across pages that was compiled.
    pub other: Option<DynamicLabel>,
    /// Taken if a call finds too many frames on the stack, and where it goes on.
    pub full: Option<(DynamicLabel, DynamicLabel)>,
    /// Taken if a return, whose target is in `rcx`, does not match the last call.
    pub unmatched: Option<DynamicLabel>,
    /// Taken branches to offsets that have no code yet.
    pub gotos: Vec<(DynamicLabel, i32)>,
    /// Sites, and the offsets in the page that their jumps go to.
    pub unlinked: Vec<(u32, i32)>,
    /// Lookups that go on in the second way of the fetch TLB, and where calls return.
    pub lookups: Vec<(DynamicLabel, Goal, Option<DynamicLabel>)>,
    pub beside: Beside,
    pub groups: Vec<GroupSlow>,
    pub unknown: Vec<Unknown>,
    pub nans: Vec<(Nan, Xmm)>,
    pub slow: Vec<Slow>,
}

/// A guest register that was written to its slot, and a host register that has its value, too.
#[derive(Clone, Copy)]
pub(super) struct Recent {
    pub x: u8,
    pub host: Host,
    /// Offset of the code behind: once there is more code, the host register may have changed.
    pub end: usize,
}

/// The state of the compilation of a block.
pub(super) struct BlockCompiler<'a> {
    pub ops: Assembler,
    /// Address that the code is assembled for.
    pub base: usize,
    /// The block being compiled.
    pub source: &'a Source<'a>,
    pub options: &'a Options,
    pub trampolines: &'a Trampolines,
    pub targets: Targets<'a>,
    /// Address of the array of sites' targets.
    pub slots: usize,
    /// Sites allocated.
    pub sites: &'a mut u32,
    /// Where the code is to which each site's jump goes until it is linked.
    pub stubs: Vec<(u32, usize)>,
    /// Offset in the page of the instruction being compiled.
    pub at: i32,
    pub cold: Cold,
    /// Where guest registers are.
    pub registers: Registers,
    /// In a long block.
    pub lifetimes: Option<Lifetimes>,
    /// In a long block, where guest registers were before the results of the instruction being
    /// compiled got their places.
    pub before: Option<Registers>,
    /// What is seen of the block's results.
    pub words: Words,
    /// Floating-point registers that are in host registers, too.
    pub copies: Copies,
    /// The guest register that was written last.
    pub recent: Option<Recent>,
    /// Base registers that the region does not change.
    pub bases: Bases,
    /// While blocks are compiled as parts of a region.
    pub region: Option<Shared>,
}

impl BlockCompiler<'_> {
    /// Code for an offset of the block's page, if it is known.
    pub fn direct(&self, offset: i32) -> Option<Target> {
        self.targets.find(self.source, offset)
    }

    /// Emits a jump to the helper that executes the block from an instruction on.
    pub fn finish(&mut self, at: Position) {
        let (at, block) = (at.bits() as i32, self.source.block as i32);
        let finish = self.trampolines.finish as usize;
        dynasm!(self.ops
            ; .arch x64
            ; mov eax, at
            ; mov ecx, block
            ; jmp extern finish
        );
    }

    /// Emits a call of the helper that executes an instruction.
    pub fn execute(&mut self, at: Position) {
        let (at, block) = (at.bits() as i32, self.source.block as i32);
        let execute = self.trampolines.execute as usize;
        dynasm!(self.ops
            ; .arch x64
            ; mov eax, at
            ; mov ecx, block
            ; call extern execute
        );
    }

    /// Host register with the value of guest register `x`: its own, or `scratch`.
    pub fn value(&mut self, x: u8, scratch: Host) -> Host {
        match self.registers.place(x) {
            Place::Zero => dynasm!(self.ops; .arch x64; xor Rd(scratch), Rd(scratch)),
            Place::Host(host) => return host,
            Place::Memory(x) => match self.recent(x) {
                Some(host) => encode::copy(&mut self.ops, scratch, host),
                None => encode::memory(&mut self.ops, LOAD_64, scratch, RBX, x_at(x)),
            },
        }
        scratch
    }

    /// The host register that has the value of guest register `x`, if the code so far ends with
    /// what wrote it.
    pub fn recent(&self, x: u8) -> Option<Host> {
        let recent = self.recent.filter(|recent| recent.x == x)?;
        (recent.end == self.ops.offset().0).then_some(recent.host)
    }

    /// Moves the value of guest register `x` to a host register.
    pub fn fetch(&mut self, host: Host, x: u8) {
        let from = self.value(x, host);
        encode::copy(&mut self.ops, host, from);
    }

    /// Host register in which to compute the value of guest register `x`: its own, or `rax`.
    pub fn target(&self, x: u8) -> Host {
        match self.registers.place(x) {
            Place::Host(host) => host,
            _ => RAX,
        }
    }

    /// Moves a value computed in `host` to the location of guest register `x`.
    pub fn put(&mut self, x: u8, host: Host) {
        match self.registers.place(x) {
            Place::Host(own) => encode::copy(&mut self.ops, own, host),
            // The result is discarded.
            Place::Memory(NO_REG) | Place::Zero => {}
            Place::Memory(x) => {
                encode::memory(&mut self.ops, STORE_64, host, RBX, x_at(x));
                let end = self.ops.offset().0;
                self.recent = Some(Recent { x, host, end });
            }
        }
    }
}
