//! Reproducible random numbers.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// Random number generator that yields edge cases often.
pub struct Rng(SplitMix64);

/// Values at which arithmetic changes its ways.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    u64::MAX,
    u64::MAX - 1,
    i64::MIN as u64,
    i64::MAX as u64,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x1_0000_0000,
    0xFFFF_FFFF_8000_0000,
    0xFFFF_FFFF_7FFF_FFFF,
    0x7F,
    0x80,
    0x7FFF,
    0x8000,
    0xFFFF_FFFF_FFFF_8000,
];

impl Rng {
    pub fn new(seed: u64) -> Self {
        let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D1CE_4E5B;
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// In `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Index into `weights`, each as often as it weighs.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum::<u64>().max(1));
        for (i, weight) in weights.iter().enumerate() {
            if at < *weight {
                return i;
            }
            at -= weight;
        }
        0
    }

    /// An integer operand.
    pub fn integer(&mut self) -> u64 {
        match self.below(4) {
            0 => self.pick(&EDGES),
            1 => self.next(),
            2 => self.below(200).wrapping_sub(100),
            _ => self.next() >> self.below(64),
        }
    }

    /// A single in its box, or in a broken one.
    pub fn single(&mut self) -> u64 {
        const EDGES: [u32; 14] = [
            0,
            0x8000_0000,
            0x3F80_0000,
            0xBF80_0000,
            0x7F80_0000,
            0xFF80_0000,
            0x7FC0_0000,
            0x7F80_0001,
            0xFFC1_2345,
            1,
            0x807F_FFFF,
            0x0080_0000,
            0x7F7F_FFFF,
            0x4F00_0000,
        ];
        let bits = match self.below(8) {
            0 => self.pick(&EDGES),
            1 => self.next() as u32,
            // Near 1, so that sums neither vanish nor overflow.
            2 | 3 => (0x3F00_0000 + self.below(0x0180_0000) as u32) | (self.next() as u32) << 31,
            // Products of these underflow or overflow, or just not.
            4 => (0x1F00_0000 + self.below(0x0200_0000) as u32) | (self.next() as u32) << 31,
            5 => 0x5F00_0000 + self.below(0x0200_0000) as u32,
            6 => self.below(0x0100_0000) as u32,
            _ => (self.below(2000) as f32 - 1000.0).to_bits(),
        };
        let high = if self.chance(3) {
            self.next() << 32
        } else {
            0xFFFF_FFFF << 32
        };
        high | u64::from(bits)
    }

    /// A double.
    pub fn double(&mut self) -> u64 {
        const EDGES: [u64; 14] = [
            0,
            1 << 63,
            0x3FF0_0000_0000_0000,
            0xBFF0_0000_0000_0000,
            0x7FF0_0000_0000_0000,
            0xFFF0_0000_0000_0000,
            0x7FF8_0000_0000_0000,
            0x7FF0_0000_0000_0001,
            1,
            0x800F_FFFF_FFFF_FFFF,
            0x0010_0000_0000_0000,
            0x7FEF_FFFF_FFFF_FFFF,
            0x41DF_FFFF_FFC0_0000,
            0x43E0_0000_0000_0000,
        ];
        let near = |rng: &mut Self, exponent: u64| {
            ((exponent << 52) + rng.below(0x0030_0000_0000_0000)) | rng.next() << 63
        };
        match self.below(9) {
            0 => self.pick(&EDGES),
            1 => self.next(),
            2 | 3 => near(self, 0x3FE),
            4 => near(self, 0x1FF),
            5 => near(self, 0x5FE),
            6 => self.below(1 << 53),
            // Where conversions to singles and to integers overflow and underflow.
            7 => {
                let exponent = self.pick(&[0x36A, 0x380, 0x41D, 0x43D, 0x47D]);
                near(self, exponent)
            }
            _ => (self.below(2000) as f64 / 8.0 - 100.0).to_bits(),
        }
    }

    /// Bits of a floating-point register.
    pub fn float(&mut self) -> u64 {
        if self.chance(50) {
            self.single()
        } else {
            self.double()
        }
    }
}
