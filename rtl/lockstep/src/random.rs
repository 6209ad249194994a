//! Numbers that only depend on a seed.

/// xorshift64*.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// A sequence for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Neighboring seeds must not give similar beginnings, and 0 would stay 0.
        let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ mixed >> 31).max(1))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.bits() >> 11) % end
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}
