//! Hosts without a compiler: everything is interpreted.

use crate::{Code, CodeListener, Context, Exit, Helpers, Known, Options, Site, Source};

/// Never exists on this host.
pub enum Jit {}

impl Jit {
    /// There is no compiler for this host.
    #[must_use]
    pub fn new(_: Options, _: &Helpers, _: usize) -> Option<Self> {
        None
    }

    /// See the compiler of other hosts.
    pub fn compile(&mut self, _: &[Source<'_>], _: Known<'_>) -> Option<Vec<Code>> {
        match *self {}
    }

    /// See the compiler of other hosts.
    pub fn list(&mut self, _: CodeListener, _: u64) {
        match *self {}
    }

    /// See the compiler of other hosts.
    pub fn link(&mut self, _: Site, _: Code) {
        match *self {}
    }

    /// See the compiler of other hosts.
    #[must_use]
    pub fn base(&self) -> u64 {
        match *self {}
    }

    /// See the compiler of other hosts.
    #[must_use]
    pub fn offset(&self, _: Code) -> u32 {
        match *self {}
    }

    /// See the compiler of other hosts.
    #[must_use]
    pub fn code(&self, _: u32) -> Option<Code> {
        match *self {}
    }

    /// See the compiler of other hosts.
    pub fn reset(&mut self) {
        match *self {}
    }

    /// See the compiler of other hosts.
    #[must_use]
    pub fn size(&self) -> usize {
        match *self {}
    }

    /// See the compiler of other hosts.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match *self {}
    }

    /// See the compiler of other hosts.
    ///
    /// # Safety
    /// None: it cannot be called.
    pub unsafe fn enter(&self, _: *mut Context, _: Code) -> Exit {
        match *self {}
    }
}
