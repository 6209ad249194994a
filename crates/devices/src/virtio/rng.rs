//! Entropy device (virtio 1.2, section 5.4).

use std::fs::File;
use std::io::{self, Read};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use virtio_bindings::virtio_ids::VIRTIO_ID_RNG;

use super::VirtioDevice;
use super::queue::{DriverFault, QueueIo};

const QUEUE_SIZE: u16 = 8;
/// Most bytes given for one request: the driver asks again for more (section 5.4.6.2 wants at least
/// one).
const MAX_BYTES: u64 = 4096;

/// Where random bytes come from.
pub trait Entropy: Send {
    /// Fills `data`. On an error the guest gets fewer bytes.
    fn fill(&mut self, data: &mut [u8]) -> io::Result<()>;
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

/// A sequence that depends on its seed alone: for the machine, whose runs repeat. It is
/// predictable: keys that a guest makes from it protect nothing.
#[derive(Debug, Clone)]
pub struct SeededEntropy(SplitMix64);

impl SeededEntropy {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        // SplitMix64 has no bad seed, 0 included.
        Self(SplitMix64::seed_from_u64(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&mut self, data: &mut [u8]) -> io::Result<()> {
        for part in data.chunks_mut(8) {
            part.copy_from_slice(&self.0.next_u64().to_le_bytes()[..part.len()]);
        }
        Ok(())
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_sequence_is_the_published_splitmix64() {
        // First outputs of the reference implementation for seed 1234567.
        let mut entropy = SeededEntropy::new(1_234_567);
        assert_eq!(entropy.0.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(entropy.0.next_u64(), 3_203_168_211_198_807_973);
    }
}
