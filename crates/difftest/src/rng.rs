//! The generator's source of randomness: small, seedable, stable across versions.

use std::cell::RefCell;

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// The same seed always gives the same program.
#[derive(Clone, Debug)]
pub struct Rng(RefCell<Xoshiro256StarStar>);

/// 64-bit values at which integer and address arithmetic tends to be wrong.
const CORNERS: &[u64] = &[
    0,
    1,
    2,
    7,
    8,
    31,
    32,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x5555_5555_5555_5555,
    0xaaaa_aaaa_aaaa_aaaa,
    0x0102_0408_1020_4080,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_8000_0000,
    0xffff_ffff_7fff_ffff,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

impl Rng {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(RefCell::new(Xoshiro256StarStar::seed_from_u64(seed)))
    }

    /// Uniform 64 bits.
    pub fn next(&self) -> u64 {
        self.0.borrow_mut().next_u64()
    }

    /// Uniform in `0..n`; `n` must not be 0.
    pub fn below(&self, n: u64) -> u64 {
        self.next() % n
    }

    /// Uniform in `lo..=hi`.
    pub fn range(&self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    /// True with probability `num`/`den`.
    pub fn chance(&self, num: u64, den: u64) -> bool {
        self.below(den) < num
    }

    /// One element of a non-empty slice.
    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A 64-bit operand: corners, single bits, small and sign-extended values as often as noise.
    pub fn operand(&self) -> u64 {
        match self.below(8) {
            0 | 1 => self.pick(CORNERS),
            2 => 1 << self.below(64),
            3 => self.next() >> self.below(64),
            4 => self.next() as i32 as u64,
            5 => (self.next() as i64 >> self.below(64)) as u64,
            _ => self.next(),
        }
    }

    /// A random subset of the bits in `mask`: none, all, one, or noise.
    pub fn subset(&self, mask: u64) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => mask,
            2 => mask & (1 << self.below(64)),
            3 => mask & self.next() & self.next(),
            4 => mask & (self.next() | self.next()),
            _ => mask & self.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds in reports and bug tickets name programs: a seed must go on naming the same one.
    #[test]
    fn a_seed_names_the_same_program_for_ever() {
        let rng = Rng::new(42);
        let first: Vec<u64> = (0..3).map(|_| rng.next()).collect();
        assert_eq!(
            first,
            [
                1_546_998_764_402_558_742,
                6_990_951_692_964_543_102,
                12_544_586_762_248_559_009
            ]
        );
    }
}
