//! Entropy device (virtio 1.2, section 5.4).

use std::fs::File;
use std::io::{self, Read};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use virtio_bindings::virtio_ids::VIRTIO_ID_RNG;

use super::VirtioDevice;
use super::queue::{DriverFault, QueueIo};
use crate::state::{StateError, StateReader, StateWriter};

const QUEUE_SIZE: u16 = 8;
/// Maximum number of bytes for one request: the driver repeats the request for more (section
/// 5.4.6.2 requires at least one).
const MAX_BYTES: u64 = 4096;

/// A source of random bytes.
pub trait Entropy: Send {
    /// Fills `data`. On an error the guest gets fewer bytes.
    fn fill(&mut self, data: &mut [u8]) -> io::Result<()>;

    /// Position in a reproducible sequence; 0 for other sources.
    fn position(&self) -> u64 {
        0
    }

    /// Sets the [`position`](Self::position) in the same sequence.
    fn seek(&mut self, position: u64) {
        let _ = position;
    }
}

/// The host's `/dev/urandom`: for the VMM.
#[derive(Debug)]
pub struct HostEntropy(File);

impl HostEntropy {
    /// Opens the host's generator.
    pub fn open() -> io::Result<Self> {
        File::open("/dev/urandom").map(Self)
    }
}

impl Entropy for HostEntropy {
    fn fill(&mut self, data: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(data)
    }
}

/// A sequence that depends only on its seed: for the machine, whose runs are reproducible. It is
/// predictable: keys that a guest makes from it are not secret.
#[derive(Debug, Clone)]
pub struct SeededEntropy {
    seed: u64,
    /// Words given.
    given: u64,
    words: SplitMix64,
}

impl SeededEntropy {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self::at(seed, 0)
    }

    fn at(seed: u64, given: u64) -> Self {
        // SplitMix64 has no bad seed, 0 included; each word adds the same number to it.
        let state = seed.wrapping_add(given.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self {
            seed,
            given,
            words: SplitMix64::from_seed(state.to_le_bytes()),
        }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&mut self, data: &mut [u8]) -> io::Result<()> {
        for part in data.chunks_mut(8) {
            part.copy_from_slice(&self.words.next_u64().to_le_bytes()[..part.len()]);
            self.given = self.given.wrapping_add(1);
        }
        Ok(())
    }

    fn position(&self) -> u64 {
        self.given
    }

    fn seek(&mut self, position: u64) {
        *self = Self::at(self.seed, position);
    }
}

/// A virtio entropy device.
pub struct Rng {
    entropy: Box<dyn Entropy>,
}

impl Rng {
    /// A device that takes its bytes from `entropy`.
    pub fn new(entropy: Box<dyn Entropy>) -> Self {
        Self { entropy }
    }
}

impl VirtioDevice for Rng {
    fn device_id(&self) -> u32 {
        VIRTIO_ID_RNG
    }

    fn name(&self) -> &'static str {
        "virtio-rng"
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &[u16] {
        &[QUEUE_SIZE]
    }

    fn notify(&mut self, queue: usize, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        while let Some(mut chain) = io.pop(queue)? {
            if chain.writable() == 0 {
                io.guest_error("entropy request without room");
            }
            let mut bytes = [0; MAX_BYTES as usize];
            let bytes = &mut bytes[..chain.writable().min(MAX_BYTES) as usize];
            if self.entropy.fill(bytes).is_ok() {
                chain.write(io, bytes)?;
            }
            io.complete(chain)?;
        }
        Ok(())
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.entropy.position());
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.entropy.seek(from.number()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_goes_on_where_it_was() {
        let mut whole = SeededEntropy::new(7);
        let (mut first, mut rest) = ([0; 40], [0; 16]);
        whole.fill(&mut first).unwrap();
        let mut again = SeededEntropy::new(7);
        again.seek(whole.position());
        whole.fill(&mut rest).unwrap();
        let mut same = [0; 16];
        again.fill(&mut same).unwrap();
        assert_eq!(same, rest);
        let mut reference = SplitMix64::seed_from_u64(7);
        assert_eq!(first[..8], reference.next_u64().to_le_bytes());
    }

    #[test]
    fn seeded_sequence_is_the_published_splitmix64() {
        // First outputs of the reference implementation for seed 1234567.
        let mut entropy = SeededEntropy::new(1_234_567);
        assert_eq!(entropy.words.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(entropy.words.next_u64(), 3_203_168_211_198_807_973);
    }
}
