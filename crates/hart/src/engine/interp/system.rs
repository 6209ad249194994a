//! System instructions: environment calls, returns, waits, fences, cache-block operations and the
//! hypervisor's loads and stores.

use trapless_isa::cause::exception;
use trapless_isa::csr::{envcfg, hstatus, status};
use trapless_isa::inst::{Format, Inst, Op};
use trapless_isa::page::PAGE_MASK;
use trapless_isa::port::CsrFault;
use trapless_isa::{Mode, Priv};

use super::Flow;
use crate::config::CACHE_BLOCK;
use crate::hart::Hart;
use crate::memory::address::HostAddr;
use crate::memory::ram;
use crate::memory::tlb::Scope;
use crate::platform::Platform;
use crate::syndrome::{Fault, Syndrome};

impl Hart {
    pub(super) fn exec_system(
        &mut self,
        inst: &Inst,
        pc: u64,
        plat: &mut dyn Platform,
    ) -> Result<Flow, Fault> {
        match inst.op {
            Op::Ecall => {
                let cause = match self.mode {
                    Mode::U | Mode::VU => exception::ECALL_U,
                    Mode::HS => exception::ECALL_S,
                    Mode::VS => exception::ECALL_VS,
                    Mode::M => exception::ECALL_M,
                };
                return self.raise(Syndrome::of(cause));
            }
            Op::Ebreak => return self.fault(exception::BREAKPOINT, pc, self.mode),
            Op::Mret => return self.mret(inst, plat).map(Flow::Jump),
            Op::Sret => return self.sret(inst, plat).map(Flow::Jump),
            Op::Uret => return self.uret(inst, plat).map(Flow::Jump),
            Op::Wfi => self.wfi(inst)?,
            Op::WrsNto | Op::WrsSto => self.wait_on_reservation(inst, pc)?,
            Op::FenceI => {
                self.turn.compare_code();
                self.attention();
            }
            Op::SfenceVma | Op::SinvalVma => self.sfence_vma(inst)?,
            Op::SfenceWInval | Op::SfenceInvalIr => match self.mode {
                Mode::U => return self.illegal(inst),
                Mode::VU => return self.virtual_instruction(inst),
                _ => {}
            },
            Op::HfenceVvma | Op::HinvalVvma | Op::HfenceGvma | Op::HinvalGvma => {
                self.hfence(inst)?;
            }
            Op::CboInval | Op::CboClean | Op::CboFlush | Op::CboZero => {
                self.cache_block(inst, plat)?;
            }
            _ => self.guest_access(inst, plat)?,
        }
        Ok(Flow::Next)
    }

    /// WFI (privileged specification, "Wait for Interrupt"): waits until an enabled interrupt is
    /// pending.
    fn wfi(&mut self, inst: &Inst) -> Result<(), Fault> {
        let tw = self.csr.mstatus & status::TW != 0;
        match self.mode {
            Mode::M => {}
            _ if tw => return self.illegal(inst),
            Mode::U => return self.illegal(inst),
            Mode::VU => return self.virtual_instruction(inst),
            Mode::VS if self.csr.hstatus & hstatus::VTW != 0 => {
                return self.virtual_instruction(inst);
            }
            _ => {}
        }
        self.turn.waiting = true;
        self.attention();
        Ok(())
    }

    /// WRS.NTO and WRS.STO (Zawrs): wait until the reservation is lost. An interrupt, or the end of
    /// the turn, ends them, too.
    fn wait_on_reservation(&mut self, inst: &Inst, pc: u64) -> Result<(), Fault> {
        if self.state.reservation.host == 0 {
            return Ok(());
        }
        let tw = self.csr.mstatus & status::TW != 0 && self.mode != Mode::M;
        let vtw = self.csr.hstatus & hstatus::VTW != 0 && self.mode.v();
        if inst.op == Op::WrsSto || !tw && !vtw {
            self.turn.stall();
        } else if self.turn.stall_or_trap(pc) {
            return if tw {
                self.illegal(inst)
            } else {
                self.virtual_instruction(inst)
            };
        }
        self.attention();
        Ok(())
    }

    /// The address and ASID or VMID operands of a fence; `x0` stands for all.
    fn fence_operands(&self, inst: &Inst) -> (Option<u64>, Option<u16>) {
        let value = |r: u8| (r != 0).then(|| self.state.x[usize::from(r & 63)]);
        (value(inst.rs1), value(inst.rs2).map(|v| v as u16))
    }

    fn sfence_vma(&mut self, inst: &Inst) -> Result<(), Fault> {
        match self.mode {
            Mode::U => return self.illegal(inst),
            Mode::VU => return self.virtual_instruction(inst),
            Mode::HS if self.csr.mstatus & status::TVM != 0 => return self.illegal(inst),
            Mode::VS if self.csr.hstatus & hstatus::VTVM != 0 => {
                return self.virtual_instruction(inst);
            }
            _ => {}
        }
        let (va, asid) = self.fence_operands(inst);
        let scope = if self.mode == Mode::VS {
            Scope::Guest(self.vmid(), asid)
        } else {
            Scope::Host(asid)
        };
        self.tlb.flush(scope, va);
        Ok(())
    }

    fn hfence(&mut self, inst: &Inst) -> Result<(), Fault> {
        let gvma = matches!(inst.op, Op::HfenceGvma | Op::HinvalGvma);
        match self.mode {
            Mode::VS | Mode::VU => return self.virtual_instruction(inst),
            Mode::U => return self.illegal(inst),
            Mode::HS if gvma && self.csr.mstatus & status::TVM != 0 => {
                return self.illegal(inst);
            }
            _ => {}
        }
        self.watch.hfences += 1;
        let (va, id) = self.fence_operands(inst);
        if gvma {
            // Entries combine both stages, so a guest physical address does not name any:
            // everything of the VMID is dropped, including the VS-stage's part. KVM relies on that
            // when a vCPU moves to this hart.
            self.tlb.flush(Scope::GStage(id.map(|v| v & 0x3FFF)), None);
        } else {
            self.tlb.flush(Scope::Guest(self.vmid(), id), va);
        }
        Ok(())
    }

    /// Exception of a cache-block operation that needs one of the bits of `enable` in the
    /// environment configuration of the current mode; `None` if it is permitted.
    pub(crate) fn cache_block_fault(&self, enable: u64) -> Option<CsrFault> {
        let c = &self.csr;
        let off = |env: u64| env & enable == 0;
        let privilege = self.mode.privilege();
        if privilege != Priv::M && off(c.menvcfg) {
            return Some(CsrFault::Illegal);
        }
        let user = privilege == Priv::U && off(self.senvcfg());
        match self.mode.v() {
            true if off(c.henvcfg) || user => Some(CsrFault::Virtual),
            false if user => Some(CsrFault::Illegal),
            _ => None,
        }
    }

    /// Zicbom and Zicboz. Memory is coherent, so management operations only check permissions.
    fn cache_block(&mut self, inst: &Inst, plat: &mut dyn Platform) -> Result<(), Fault> {
        let enable = match inst.op {
            Op::CboZero => envcfg::CBZE,
            Op::CboInval => envcfg::CBIE,
            _ => envcfg::CBCFE,
        };
        match self.cache_block_fault(enable) {
            Some(CsrFault::Illegal) => return self.illegal(inst),
            Some(CsrFault::Virtual) => return self.virtual_instruction(inst),
            None => {}
        }
        let address = self.state.x[usize::from(inst.rs1 & 63)];
        let block = address & !(CACHE_BLOCK - 1);
        if inst.op == Op::CboZero {
            let entry = self.tlb.data(block);
            if entry.write == block & PAGE_MASK {
                let host = HostAddr::of(block, entry.addend);
                // SAFETY: the TLB maps this page to RAM for stores, and a block does not leave the
                // page.
                unsafe { ram::zero(host, CACHE_BLOCK as usize) };
                return Ok(());
            }
        }
        let eff = self.effective();
        let done = match inst.op {
            Op::CboZero => self.cbo_zero(block, &eff, plat),
            _ => self.cbo_permitted(block, &eff),
        };
        if done.is_err() {
            // The reported address is that of the program; the guest physical address of an
            // implicit access is that of a page-table entry.
            self.syndrome.tval = address;
            if self.syndrome.gpa != 0 && self.syndrome.tinst == 0 {
                self.syndrome.gpa += address - block;
            }
        }
        done
    }

    /// `hlv`, `hlvx`, `hsv` (privileged specification, "Hypervisor Virtual-Machine Load and Store
    /// Instructions").
    fn guest_access(&mut self, inst: &Inst, plat: &mut dyn Platform) -> Result<(), Fault> {
        match self.mode {
            Mode::VS | Mode::VU => return self.virtual_instruction(inst),
            Mode::U if self.csr.hstatus & hstatus::HU == 0 => return self.illegal(inst),
            _ => {}
        }
        let va = self.state.x[usize::from(inst.rs1 & 63)];
        let hlvx = matches!(inst.op, Op::HlvxHu | Op::HlvxWu);
        let eff = self.effective_guest(hlvx);
        let extend: fn(u64) -> u64;
        let size;
        match inst.op {
            Op::HlvB => (size, extend) = (1, |v| v as i8 as u64),
            Op::HlvBu => (size, extend) = (1, |v| v),
            Op::HlvH => (size, extend) = (2, |v| v as i16 as u64),
            Op::HlvHu | Op::HlvxHu => (size, extend) = (2, |v| v),
            Op::HlvW => (size, extend) = (4, |v| v as i32 as u64),
            Op::HlvWu | Op::HlvxWu => (size, extend) = (4, |v| v),
            Op::HlvD => (size, extend) = (8, |v| v),
            store => {
                let size = match store {
                    Op::HsvB => 1,
                    Op::HsvH => 2,
                    Op::HsvW => 4,
                    Op::HsvD => 8,
                    other => unreachable!("{other:?} is executed elsewhere"),
                };
                let value = self.state.x[usize::from(inst.rs2 & 63)];
                return self.store_slow(va, size, value, &eff, plat);
            }
        }
        let value = self.load_slow(va, size, &eff, plat)?;
        self.state.x[usize::from(inst.rd & 63)] = extend(value);
        Ok(())
    }

    /// Gives an explicit load or store that took a guest-page fault its transformed instruction in
    /// `tinst` ("Transformed Instruction or Pseudoinstruction for mtinst or htinst"), unless an
    /// implicit access faulted.
    pub(super) fn transform_tinst(&mut self, inst: &Inst) {
        let s = &mut self.syndrome;
        let page_fault = matches!(
            s.cause,
            exception::LOAD_GUEST_PAGE
                | exception::STORE_GUEST_PAGE
                | exception::LOAD_MMIO_PAGE
                | exception::STORE_MMIO_PAGE
        );
        if !page_fault || s.tinst != 0 {
            return;
        }
        let address = self.state.x[usize::from(inst.rs1 & 63)].wrapping_add(inst.imm as i64 as u64);
        s.tinst = transformed(inst, s.tval.wrapping_sub(address) as u32 & 0x1F);
    }
}

/// Transformed standard instruction: immediate dropped, `rs1` replaced by the offset of the
/// faulting address; compressed instructions are expanded and have bit 1 clear.
fn transformed(inst: &Inst, offset: u32) -> u64 {
    // Major opcode and funct3; for compressed instructions, those of their expansion.
    let (code, _) = inst.op.encoding();
    let operand = match inst.op.format() {
        Format::Load | Format::FLoad => u32::from(inst.rd & 0x1F) << 7,
        Format::Store | Format::FStore => u32::from(inst.rs2 & 0x1F) << 20,
        // Atomics, cache-block and hypervisor accesses keep all but `rs1`.
        _ => return u64::from(inst.raw & !(0x1F << 15) | offset << 15),
    };
    let word = code | offset << 15 | operand;
    u64::from(if inst.len == 2 { word & !2 } else { word })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_isa::decode::decode;

    #[test]
    fn transformed_instructions_follow_the_specified_layout() {
        // sd a2, 24(a5): 0x00c7bc23 -> rs2, funct3 and opcode stay.
        assert_eq!(transformed(&decode(0x00c7_bc23), 0), 0x00c0_3023);
        // lw a0, 4(a1), with the second byte faulting.
        assert_eq!(transformed(&decode(0x0045_a503), 1), 0x0000_a503);
        // c.lw a0, 0(a0): expanded, bit 1 clear.
        assert_eq!(transformed(&decode(0x4108), 0), 0x0000_2501);
    }
}
