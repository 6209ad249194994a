//! Register model of the RISC-V platform-level interrupt controller (PLIC).
//!
//! Behaviour: RISC-V PLIC specification 1.0.0; register layout: SiFive's, which the specification
//! adopted. The model is independent of harts and time, so a VMM can use it with one context per
//! vCPU.
//!
//! ```text
//!  wire --> gateway --> pending bit --> (priority, enable, threshold) per context --> interrupt
//!             ^ closed from claim to completion of that source
//! ```

mod inspect;

use serde::{Deserialize, Serialize};

use crate::mmio::{NoRegister, check_access};

/// Highest source number a PLIC can have (specification, section 1).
pub const MAX_SOURCES: u32 = 1023;
/// Maximum number of contexts of a PLIC (specification, section 3).
pub const MAX_CONTEXTS: usize = 15872;
/// Highest priority this model implements; the field is WARL and keeps the low three bits, as on
/// QEMU's `virt`.
pub const MAX_PRIORITY: u32 = 7;

const PENDING: u64 = 0x1000;
const ENABLE: u64 = 0x2000;
const ENABLE_STRIDE: u64 = 0x80;
const CONTEXT: u64 = 0x20_0000;
const CONTEXT_STRIDE: u64 = 0x1000;

/// One target of interrupts: a privilege mode of a hart, or a vCPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Context {
    /// Bit per source.
    enable: Vec<u32>,
    threshold: u32,
    /// What [`Plic::context_pending`] returns, recomputed whenever an input of it changes.
    raised: bool,
}

/// A PLIC with sources `1..=sources`, level-triggered except those of
/// [`set_edge_triggered`](Self::set_edge_triggered).
///
/// ```
/// use trapless_intc::plic::Plic;
///
/// let mut plic = Plic::new(31, 1);
/// plic.store(4 * 10, 4, 1).unwrap(); // priority of source 10
/// plic.store(0x2000, 4, 1 << 10).unwrap(); // enable it for context 0
/// plic.set_level(10, true);
/// assert!(plic.context_pending(0));
/// assert_eq!(plic.load(0x20_0004, 4), Ok(10)); // claim
/// assert!(!plic.context_pending(0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plic {
    sources: u32,
    priority: Vec<u32>,
    /// Wires, pending bits and sources between claim and completion; bit per source.
    wire: Vec<u32>,
    pending: Vec<u32>,
    claimed: Vec<u32>,
    /// Edges deferred to completion, of sources whose wire is still high; absent in older states.
    #[serde(default)]
    edges: Vec<u32>,
    /// Sources with an edge-triggered gateway: wiring, not state.
    #[serde(skip)]
    edge: Vec<u32>,
    contexts: Vec<Context>,
}

impl Plic {
    /// A PLIC after reset: everything disabled, all priorities and thresholds 0.
    ///
    /// # Panics
    /// If `sources` is not in 1..=[`MAX_SOURCES`] or `contexts` exceeds [`MAX_CONTEXTS`].
    #[must_use]
    pub fn new(sources: u32, contexts: usize) -> Self {
        assert!(
            (1..=MAX_SOURCES).contains(&sources),
            "a PLIC has 1..=1023 sources"
        );
        assert!(
            contexts <= MAX_CONTEXTS,
            "a PLIC has at most 15872 contexts"
        );
        let words = sources as usize / 32 + 1;
        let context = Context {
            enable: vec![0; words],
            threshold: 0,
            raised: false,
        };
        Self {
            sources,
            priority: vec![0; sources as usize + 1],
            wire: vec![0; words],
            pending: vec![0; words],
            claimed: vec![0; words],
            edges: vec![0; words],
            edge: vec![0; words],
            contexts: vec![context; contexts],
        }
    }

    /// Gives `source` an edge-triggered gateway (specification, section 2.1; the choice is the
    /// platform's): each time its wire is driven high there is a request, and a high wire at
    /// completion alone is not one. A request that arrives while the source is being serviced is
    /// forwarded at completion, or ignored if the wire has fallen by then.
    pub fn set_edge_triggered(&mut self, source: u32) {
        let (word, bit) = position(source);
        if let Some(edge) = self.edge.get_mut(word) {
            *edge |= bit;
        }
    }

    /// Highest source number.
    #[must_use]
    pub fn sources(&self) -> u32 {
        self.sources
    }

    /// Number of contexts.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Whether the interrupt of `context` is raised: a pending, enabled source has a priority above
    /// the threshold. `false` for contexts that do not exist.
    #[must_use]
    pub fn context_pending(&self, context: usize) -> bool {
        self.contexts.get(context).is_some_and(|c| c.raised)
    }

    /// Drives the wire of `source`. Sources that do not exist are ignored.
    ///
    /// A rising wire makes a source pending unless it is being serviced. A falling wire does not
    /// withdraw a request that is already pending: only a claim does (specification, section 2.1).
    pub fn set_level(&mut self, source: u32, level: bool) {
        if source == 0 || source > self.sources {
            return;
        }
        let (word, bit) = position(source);
        if level {
            self.wire[word] |= bit;
            self.edges[word] |= bit & self.edge[word];
            self.open_gateway(source);
        } else {
            self.wire[word] &= !bit;
            self.edges[word] &= !bit;
        }
    }

    /// Takes the wire of `source` away: for the PLIC it is low from now on, the source is not
    /// pending, and its gateway is as after reset, even if the source had been claimed.
    pub fn detach(&mut self, source: u32) {
        self.set_level(source, false);
        let (word, bit) = position(source);
        if let (Some(pending), Some(claimed)) =
            (self.pending.get_mut(word), self.claimed.get_mut(word))
        {
            *pending &= !bit;
            *claimed &= !bit;
            self.refresh();
        }
    }

    /// Connects the wire of `source` again, at this level: a level-triggered source whose wire is
    /// high becomes pending; an edge-triggered one does with the next edge.
    pub fn attach(&mut self, source: u32, level: bool) {
        if level && source != 0 && source <= self.sources {
            let (word, bit) = position(source);
            self.wire[word] |= bit;
            self.open_gateway(source);
        }
    }

    /// Level of the wire of `source`.
    #[must_use]
    pub fn level(&self, source: u32) -> bool {
        let (word, bit) = position(source);
        self.wire.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Claims the most important pending interrupt of `context`, lowest number first among equals;
    /// 0 if there is none. The threshold does not matter here (specification, section 9).
    pub fn claim(&mut self, context: usize) -> u32 {
        let Some(source) = self.best(context, 0) else {
            return 0;
        };
        let (word, bit) = position(source);
        self.pending[word] &= !bit;
        self.claimed[word] |= bit;
        self.refresh();
        source
    }

    /// Completes `source` for `context`: its gateway opens again, and if the wire is still high the
    /// source becomes pending once more (an edge-triggered one only if it has been driven high
    /// since the claim). Ignored if the source is not enabled for the context.
    pub fn complete(&mut self, context: usize, source: u32) {
        let (word, bit) = position(source);
        let enabled = |c: &Context| c.enable.get(word).is_some_and(|w| w & bit != 0);
        if source == 0
            || source > self.sources
            || !self.contexts.get(context).is_some_and(enabled)
            || self.claimed[word] & bit == 0
        {
            return;
        }
        self.claimed[word] &= !bit;
        self.open_gateway(source);
    }

    /// Reads the register at byte `offset` of the PLIC.
    ///
    /// Reserved registers read as zero.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn load(&mut self, offset: u64, size: u8) -> Result<u32, NoRegister> {
        check_access(offset, size, 4)?;
        let value = match offset {
            CONTEXT.. => {
                let (context, register) = split(offset - CONTEXT, CONTEXT_STRIDE);
                match register {
                    0 => self.contexts.get(context).map(|c| c.threshold),
                    4 => Some(self.claim(context)),
                    _ => None,
                }
            }
            ENABLE.. => {
                let (context, byte) = split(offset - ENABLE, ENABLE_STRIDE);
                self.contexts
                    .get(context)
                    .and_then(|c| c.enable.get(byte / 4))
                    .copied()
            }
            PENDING.. => self.pending.get((offset - PENDING) as usize / 4).copied(),
            _ => self.priority.get(offset as usize / 4).copied(),
        };
        Ok(value.unwrap_or(0))
    }

    /// Writes the register at byte `offset` of the PLIC.
    ///
    /// Writes to reserved and to read-only registers are ignored.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn store(&mut self, offset: u64, size: u8, value: u32) -> Result<(), NoRegister> {
        check_access(offset, size, 4)?;
        match offset {
            CONTEXT.. => {
                let (context, register) = split(offset - CONTEXT, CONTEXT_STRIDE);
                match (register, self.contexts.get_mut(context)) {
                    (0, Some(c)) => {
                        c.threshold = value & MAX_PRIORITY;
                        self.refresh();
                    }
                    (4, Some(_)) => self.complete(context, value),
                    _ => {}
                }
            }
            ENABLE.. => {
                let (context, byte) = split(offset - ENABLE, ENABLE_STRIDE);
                let mask = self.existing(byte / 4);
                let word = self
                    .contexts
                    .get_mut(context)
                    .and_then(|c| c.enable.get_mut(byte / 4));
                if let Some(word) = word {
                    *word = value & mask;
                    self.refresh();
                }
            }
            PENDING.. => {}
            _ => {
                let source = offset as usize / 4;
                if source != 0 && source < self.priority.len() {
                    self.priority[source] = value & MAX_PRIORITY;
                    self.refresh();
                }
            }
        }
        Ok(())
    }

    /// Restores a saved state.
    ///
    /// # Errors
    /// If the state belongs to a PLIC of another size.
    pub fn restore(&mut self, mut state: Self) -> Result<(), String> {
        let words = self.wire.len();
        if state.edges.is_empty() {
            state.edges.resize(words, 0);
        }
        let fits = state.sources == self.sources
            && state.priority.len() == self.priority.len()
            && state.priority.iter().all(|&p| p <= MAX_PRIORITY)
            && [&state.wire, &state.pending, &state.claimed, &state.edges]
                .iter()
                .all(|w| w.len() == words)
            && state.contexts.len() == self.contexts.len()
            && state.contexts.iter().all(|c| c.enable.len() == words);
        if !fits {
            return Err(format!(
                "the saved PLIC does not have {} sources and {} contexts",
                self.sources,
                self.contexts.len()
            ));
        }
        let edge = std::mem::take(&mut self.edge);
        *self = Self { edge, ..state };
        // Bits of sources that do not exist would index out of the priority table.
        for word in 0..words {
            let mask = self.existing(word);
            self.wire[word] &= mask;
            self.pending[word] &= mask;
            self.claimed[word] &= mask;
            self.edges[word] &= mask & self.edge[word];
            for context in &mut self.contexts {
                context.enable[word] &= mask;
            }
        }
        self.refresh();
        Ok(())
    }

    /// Makes `source` pending if there is a reason, unless it is being serviced.
    fn open_gateway(&mut self, source: u32) {
        let (word, bit) = position(source);
        let reasons = self.wire[word] & !self.edge[word] | self.edges[word];
        if reasons & !self.claimed[word] & bit != 0 {
            self.edges[word] &= !bit;
            self.pending[word] |= bit;
            self.refresh();
        }
    }

    /// Mask of sources in `word` that exist.
    fn existing(&self, word: usize) -> u32 {
        let first = word as u32 * 32;
        let mut mask = match (self.sources + 1).saturating_sub(first) {
            0 => 0,
            n if n >= 32 => u32::MAX,
            n => (1 << n) - 1,
        };
        if word == 0 {
            mask &= !1;
        }
        mask
    }

    /// The pending, enabled source of the highest priority above `threshold`.
    fn best(&self, context: usize, threshold: u32) -> Option<u32> {
        let context = self.contexts.get(context)?;
        let mut best = None;
        let mut limit = threshold;
        for (word, (pending, enable)) in self.pending.iter().zip(&context.enable).enumerate() {
            let mut bits = pending & enable;
            while bits != 0 {
                let source = word as u32 * 32 + bits.trailing_zeros();
                bits &= bits - 1;
                let priority = self.priority[source as usize];
                if priority > limit {
                    limit = priority;
                    best = Some(source);
                }
            }
        }
        best
    }

    fn refresh(&mut self) {
        for index in 0..self.contexts.len() {
            let raised = self.best(index, self.contexts[index].threshold).is_some();
            self.contexts[index].raised = raised;
        }
    }
}

fn position(source: u32) -> (usize, u32) {
    (source as usize / 32, 1 << (source % 32))
}

fn split(offset: u64, stride: u64) -> (usize, usize) {
    ((offset / stride) as usize, (offset % stride) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources 1 and 2 with priority 1, both enabled for context 0.
    fn plic() -> Plic {
        let mut plic = Plic::new(95, 2);
        plic.store(4, 4, 1).unwrap();
        plic.store(8, 4, 1).unwrap();
        plic.store(ENABLE, 4, 0b110).unwrap();
        plic
    }

    #[test]
    fn level_source_pends_again_only_after_completion() {
        let mut plic = plic();
        plic.set_level(1, true);
        assert_eq!(plic.claim(0), 1);
        plic.set_level(1, true);
        assert!(!plic.context_pending(0), "gateway is closed while claimed");
        plic.complete(0, 1);
        assert!(plic.context_pending(0), "wire is still high");
        assert_eq!(plic.claim(0), 1);
        plic.set_level(1, false);
        plic.complete(0, 1);
        assert!(!plic.context_pending(0));
    }

    #[test]
    fn edge_triggered_source_pends_at_edges_only() {
        let mut plic = plic();
        plic.set_edge_triggered(1);
        plic.set_level(1, true);
        assert_eq!(plic.claim(0), 1);
        plic.complete(0, 1);
        assert!(!plic.context_pending(0), "high, but no new edge");
        plic.set_level(1, true);
        assert_eq!(plic.claim(0), 1, "a new reason while the wire is high");
        plic.set_level(1, true);
        assert_eq!(plic.load(PENDING, 4), Ok(0), "its gateway is closed");
        let text = serde_json::to_string(&plic).unwrap();
        plic.restore(serde_json::from_str(&text).unwrap()).unwrap();
        plic.complete(0, 1);
        assert_eq!(plic.claim(0), 1, "an edge while claimed is kept");
        plic.set_level(1, true);
        plic.set_level(1, false);
        plic.complete(0, 1);
        assert!(!plic.context_pending(0), "the reason has gone");
    }

    /// Promise: what a gateway has passed on stays pending until it is claimed, however the source
    /// is triggered. A driver that switches a reason off after its interrupt gets one too many.
    #[test]
    fn a_request_stays_pending_until_it_is_claimed() {
        for edge in [false, true] {
            let mut plic = plic();
            if edge {
                plic.set_edge_triggered(1);
            }
            plic.set_level(1, true);
            plic.set_level(1, false);
            assert_eq!(plic.load(PENDING, 4), Ok(0b10));
            assert_eq!(plic.claim(0), 1);
            plic.complete(0, 1);
            assert_eq!((plic.load(PENDING, 4), plic.claim(0)), (Ok(0), 0));
        }
    }

    #[test]
    fn falling_wire_does_not_take_back_a_request() {
        let mut plic = plic();
        plic.set_level(2, true);
        plic.set_level(2, false);
        assert!(plic.context_pending(0));
        assert_eq!(plic.load(PENDING, 4), Ok(0b100));
        assert_eq!(plic.claim(0), 2);
        assert_eq!(plic.claim(0), 0);
    }

    #[test]
    fn priority_orders_claims_and_ties_go_to_the_lowest_number() {
        let mut plic = plic();
        plic.set_level(1, true);
        plic.set_level(2, true);
        let mut tie = plic.clone();
        assert_eq!((tie.claim(0), tie.claim(0)), (1, 2));
        plic.store(8, 4, 5).unwrap();
        assert_eq!((plic.claim(0), plic.claim(0)), (2, 1));
    }

    #[test]
    fn threshold_masks_the_interrupt_but_not_the_claim() {
        let mut plic = plic();
        plic.store(CONTEXT, 4, 1).unwrap();
        plic.set_level(1, true);
        assert!(!plic.context_pending(0));
        assert_eq!(plic.load(CONTEXT + 4, 4), Ok(1));
    }

    #[test]
    fn priority_zero_never_interrupts() {
        let mut plic = plic();
        plic.store(4, 4, 0).unwrap();
        plic.set_level(1, true);
        assert!(!plic.context_pending(0));
        assert_eq!(plic.claim(0), 0);
        plic.store(4, 4, 1).unwrap();
        assert!(plic.context_pending(0), "the request was kept");
    }

    #[test]
    fn completion_is_ignored_unless_enabled_for_that_context() {
        let mut plic = plic();
        plic.set_level(1, true);
        plic.claim(0);
        plic.complete(1, 1);
        plic.complete(0, 2);
        assert!(!plic.context_pending(0));
        plic.complete(0, 1);
        assert!(plic.context_pending(0));
    }

    #[test]
    fn fields_are_warl() {
        let mut plic = Plic::new(40, 1);
        plic.store(0, 4, 7).unwrap();
        plic.store(4, 4, 0xffff_ffff).unwrap();
        plic.store(ENABLE, 4, u32::MAX).unwrap();
        plic.store(ENABLE + 4, 4, u32::MAX).unwrap();
        assert_eq!(plic.load(0, 4), Ok(0), "source 0 does not exist");
        assert_eq!(plic.load(4, 4), Ok(MAX_PRIORITY));
        assert_eq!(plic.load(ENABLE, 4), Ok(!1));
        assert_eq!(plic.load(ENABLE + 4, 4), Ok(0x1ff));
        assert_eq!(plic.load(4, 8), Err(NoRegister));
        assert_eq!(plic.load(6, 4), Err(NoRegister));
    }

    #[test]
    fn restore_refuses_another_size_and_keeps_state() {
        let mut plic = plic();
        plic.set_level(1, true);
        let text = serde_json::to_string(&plic).unwrap();
        let mut fresh = Plic::new(95, 2);
        fresh.restore(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(fresh, plic);
        assert!(Plic::new(31, 2).restore(plic).is_err());
    }
}
