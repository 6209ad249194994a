//! Damages what `postcard` has written, number by number, so that it can be read again mostly.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;

/// Replaces a number or two by others: a number ends with a byte below 0x80. Those that are not 0,
/// and what is near them, say something.
pub fn damage(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    for _ in 0..=random.next_u64() % 2 {
        let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] < 0x80).collect();
        let used: Vec<usize> = (1..ends.len()).filter(|&n| bytes[ends[n]] != 0).collect();
        if used.is_empty() {
            return;
        }
        let near = random.next_u64() as usize % 3;
        let number = used[random.next_u64() as usize % used.len()] + near;
        let number = number.min(ends.len() - 1);
        let values = [0, 1, 2, 3, 4, 0x7f, 0x80, 0x1fff, 0xffff_ffff, u64::MAX];
        let value = values[random.next_u64() as usize % values.len()];
        let value = postcard::to_stdvec(&value).expect("a vector takes everything");
        bytes.splice(ends[number - 1] + 1..=ends[number], value);
    }
}
