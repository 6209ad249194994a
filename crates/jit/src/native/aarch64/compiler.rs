//! State shared by all parts of the compiler: the block, the code so far, and the location of guest
//! registers.

use dynasmrt::DynamicLabel;
use trapless_isa::inst::{Inst, NO_REG};

use super::encode::{self, Assembler, LOAD_64, STORE_64};
use super::regs::{CONTEXT, Host, Place, Registers, X0, X1, ZERO, x_at};
use super::trampolines::Trampolines;
use crate::native::bases::Bases;
use crate::native::precision::Nan;
use crate::native::probe::Probe;
use crate::native::region_code::{Beside, Shared};
use crate::native::target::{Target, Targets};
use crate::{Options, Position, Source};

/// Slow path of an instruction.
pub(super) struct Slow {
    pub at: Position,
    /// The instruction, if it is a CSR instruction; these end blocks.
    pub csr: Option<Inst>,
    /// Entry of the slow path.
    pub out: DynamicLabel,
    /// Entry after a miss of the inline TLB probe: address in `x0`, address of the entry in `x1`.
    pub miss: DynamicLabel,
    /// Where the fast path resumes if the slow probe hits, with the addend in `x1`.
    pub hit: DynamicLabel,
    /// The inline TLB probe, if there is one.
    pub probe: Option<Probe>,
    /// Where the block resumes.
    pub back: DynamicLabel,
}

/// Slow path of a group: its accesses one by one.
pub(super) struct GroupSlow {
    /// Index of its first instruction, and that instruction's offset in the page.
    pub first: (usize, u32),
    /// Instructions.
    pub len: usize,
    pub out: DynamicLabel,
    pub back: DynamicLabel,
}

/// An access whose base register has no address.
pub(super) struct Unknown {
    pub from: DynamicLabel,
    pub rs1: u8,
    pub imm: i32,
    pub probe: Probe,
    /// Of the access' slow path.
    pub miss: DynamicLabel,
    pub hit: DynamicLabel,
}

/// A result that may be tiny: the host has perhaps raised underflow, and RISC-V might not.
pub(super) struct Underflow {
    pub from: DynamicLabel,
    pub back: DynamicLabel,
    /// Where the interpreter computes.
    pub slow: DynamicLabel,
}

/// Rarely executed code of a block; it is placed behind the hot code of all blocks of a batch.
#[derive(Default)]
pub(super) struct Cold {
    /// Taken if the limit is reached at the block's start, and that start.
    pub limit_reached: Option<(DynamicLabel, DynamicLabel)>,
    /// Taken if memory holds another instruction than the one across pages that was compiled.
    pub other: Option<DynamicLabel>,
    /// Taken if a call finds too many frames on the stack, and where it goes on.
    pub full: Option<(DynamicLabel, DynamicLabel)>,
    /// Taken if a return, whose target is in `x0`, does not match the last call.
    pub unmatched: Option<DynamicLabel>,
    /// Taken branches to offsets that have no code yet.
    pub gotos: Vec<(DynamicLabel, i32)>,
    /// Sites, and the offsets in the page that their jumps go to.
    pub unlinked: Vec<(u32, i32)>,
    pub beside: Beside,
    pub nans: Vec<Nan>,
    pub underflows: Vec<Underflow>,
    pub groups: Vec<GroupSlow>,
    pub unknown: Vec<Unknown>,
    pub slow: Vec<Slow>,
}

/// The state of the compilation of a block.
pub(super) struct BlockCompiler<'a> {
    pub ops: Assembler,
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

    /// Moves what the helpers for an instruction are told to their registers.
    pub fn tell(&mut self, at: Position) {
        encode::set(&mut self.ops, X0, at.bits().into());
        encode::set(&mut self.ops, X1, self.source.block.into());
    }

    /// Emits a jump to the helper that executes the last instruction.
    pub fn finish(&mut self, at: Position) {
        self.tell(at);
        self.ops.jump(self.trampolines.finish as usize);
    }

    /// Emits a call of the helper that executes an instruction.
    pub fn execute(&mut self, at: Position) {
        self.tell(at);
        self.ops.call(self.trampolines.execute as usize);
    }

    /// Host register with the value of guest register `x`: its own, the zero register, or
    /// `scratch`.
    pub fn value(&mut self, x: u8, scratch: Host) -> Host {
        match self.registers.place(x) {
            Place::Zero => ZERO,
            Place::Host(host) => host,
            Place::Memory(x) => {
                encode::memory(&mut self.ops, LOAD_64, scratch, CONTEXT, x_at(x));
                scratch
            }
        }
    }

    /// Host register in which to compute the value of guest register `x`: its own, or `x0`.
    pub fn target(&self, x: u8) -> Host {
        match self.registers.place(x) {
            Place::Host(host) => host,
            _ => X0,
        }
    }

    /// Moves a value computed in `host` to the location of guest register `x`.
    pub fn put(&mut self, x: u8, host: Host) {
        match self.registers.place(x) {
            Place::Host(own) => encode::copy(&mut self.ops, own, host),
            // The result is discarded.
            Place::Memory(NO_REG) | Place::Zero => {}
            Place::Memory(x) => {
                encode::memory(&mut self.ops, STORE_64, host, CONTEXT, x_at(x));
            }
        }
    }
}
