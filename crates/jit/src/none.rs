//! Hosts without a compiler: everything is interpreted.

use crate::{Code, CodeListener, Context, Exit, Helpers, Known, Options, Region, Site, Source};

/// Never exists on this host.
pub enum Jit {}

impl Jit {
    /// There is no compiler for this host.
    #[must_use]
    pub fn new(_: Options, _: &Helpers, _: usize) -> Option<Self> {
        None
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    pub fn compile(&mut self, _: &[Source<'_>], _: Known<'_>) -> Option<Vec<Code>> {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    pub fn compile_region<'a>(
        &mut self,
        _: u32,
        _: &dyn Fn(u32) -> Option<(Source<'a>, Code)>,
        _: &dyn Fn(u32) -> u64,
    ) -> Option<Region> {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    pub fn list(&mut self, _: CodeListener, _: u64) {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    pub fn link(&mut self, _: Site, _: Code) {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    #[must_use]
    pub fn base(&self) -> u64 {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    #[must_use]
    pub fn offset(&self, _: Code) -> u32 {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    #[must_use]
    pub fn code(&self, _: u32) -> Option<Code> {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    pub fn reset(&mut self) {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    #[must_use]
    pub fn size(&self) -> usize {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match *self {}
    }

    /// Stub; unreachable because [`Jit::new`] returns `None`.
    ///
    /// # Safety
    /// None: it cannot be called.
    pub unsafe fn enter(&self, _: *mut Context, _: Code) -> Exit {
        match *self {}
    }
}
