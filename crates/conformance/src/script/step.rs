//! Accesses to CSRs and memory.

use trapless_asm::reg::{A0, T0, T1};

use super::{Amo, FENCE, Script, TP};

impl Script<'_> {
    /// `csrrw` without a result.
    pub fn write(&mut self, register: u16, value: u64) {
        self.a.li(T0, value).csrw(register, T0);
    }

    /// `csrrs`, without a result.
    pub fn set(&mut self, register: u16, bits: u64) {
        self.a.li(T0, bits).csrs(register, T0);
    }

    /// `csrrc`, without a result.
    pub fn clear(&mut self, register: u16, bits: u64) {
        self.a.li(T0, bits).csrc(register, T0);
    }

    /// `csrrw`, with what it returns in `a0`.
    pub fn swap(&mut self, register: u16, value: u64) {
        self.a.li(T0, value).csrrw(A0, register, T0);
    }

    /// `csrrs` with `rs1`=`x0`, the result in `a0`.
    pub fn read(&mut self, register: u16) {
        self.a.csrr(A0, register);
    }

    /// Stores a word.
    pub fn store(&mut self, addr: u64, value: u64) {
        self.a.li(T0, addr).li(T1, value).sd(T1, T0, 0);
    }

    /// Stores `size` bytes, 1, 4 or 8.
    pub fn store_bytes(&mut self, addr: u64, size: u8, value: u64) {
        self.a.li(T0, addr).li(T1, value);
        match size {
            1 => self.a.sb(T1, T0, 0),
            4 => self.a.sw(T1, T0, 0),
            _ => self.a.sd(T1, T0, 0),
        };
    }

    /// Loads a word into `a0`.
    pub fn load(&mut self, addr: u64) {
        self.a.li(T0, addr).ld(A0, T0, 0);
    }

    /// An atomic operation on a word, with the old value in `a0`.
    pub fn amo(&mut self, op: Amo, addr: u64, value: u64) {
        self.a.li(T0, addr).li(T1, value).word(op.word(A0, T1, T0));
    }

    /// `fence iorw, iorw`.
    pub fn fence(&mut self) {
        self.a.word(FENCE);
    }

    /// Loads what `a1` was when the program began into `a0`.
    pub fn load_device_tree(&mut self) {
        self.a.ld(A0, TP, super::runtime::DEVICE_TREE);
    }
}
