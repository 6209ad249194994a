//! Messages of an APLIC and their addresses.

use serde::{Deserialize, Serialize};

/// `mmsiaddrcfgh.L` and all its fields; `smsiaddrcfgh` has LHXS and the base only.
const LOCK: u32 = 1 << 31;
const MACHINE_HIGH: u32 = 0x9F77_FFFF;
const SUPERVISOR_HIGH: u32 = 0x0070_0FFF;

/// A message that a domain sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Hart index, as programmed: any 14-bit number.
    pub hart: u32,
    /// Guest index, 0 for none.
    pub guest: u32,
    /// Interrupt identity, the data of the message.
    pub identity: u32,
    /// Source that caused it; 0 for `genmsi`.
    pub source: u32,
}

/// Addresses of messages: `mmsiaddrcfg`, `mmsiaddrcfgh`, `smsiaddrcfg`, `smsiaddrcfgh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Addresses([u32; 4]);

impl Addresses {
    pub fn read(&self, index: usize) -> u32 {
        self.0[index]
    }

    pub fn write(&mut self, index: usize, value: u32) {
        if self.0[1] & LOCK == 0 {
            self.0[index] = match index {
                1 => value & MACHINE_HIGH,
                3 => value & SUPERVISOR_HIGH,
                _ => value,
            };
        }
    }

    /// Address of a message (section "Addresses and data for outgoing MSIs").
    pub fn of(&self, message: &Message, machine: bool) -> u64 {
        let [machine_low, machine_high, supervisor_low, supervisor_high] = self.0;
        let (low, high) = if machine {
            (machine_low, machine_high)
        } else {
            (supervisor_low, supervisor_high)
        };
        let field = |word: u32, shift: u32, bits: u32| u64::from(word >> shift & ((1 << bits) - 1));
        let (group_width, width) = (field(machine_high, 16, 3), field(machine_high, 12, 4));
        let (group_shift, shift) = (field(machine_high, 24, 5), field(high, 20, 3));
        let index = u64::from(message.hart);
        let group = index >> width & ((1 << group_width) - 1);
        let hart = index & ((1 << width) - 1);
        let base = field(high, 0, 12) << 32 | u64::from(low);
        (base | group << (group_shift + 12) | hart << shift | u64::from(message.guest)) << 12
    }
}
