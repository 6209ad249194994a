//! A small generator for what must look random and be the same in each run.

/// SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[allow(
        clippy::should_implement_trait,
        reason = "an endless stream is no iterator to loop over"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}
