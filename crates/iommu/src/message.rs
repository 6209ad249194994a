//! Messages of devices: stores of words that may go to interrupt files, in the IMSIC or in memory
//! (Advanced Interrupt Architecture, chapter "IOMMU Support for MSIs to Virtual Machines").

use trapless_devices::DeviceId;
use trapless_devices::dma::DmaFault;

use crate::fault::{Cause, Fault, Inbound};
use crate::request::{Access, AddressType, Request};
use crate::translate::Target;
use crate::{Iommu, Step};

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// To this physical address, where somebody else takes it.
    At(u64),
    /// Into a memory-resident interrupt file; the notice has been sent.
    InMemory,
    /// Nowhere: it is no message that such a file takes.
    Dropped,
}

/// Highest identity of an interrupt file in memory.
const LAST: u32 = 2047;

impl Iommu {
    /// `device` stores the word `data` at `address`.
    ///
    /// # Errors
    /// If it must not. That has been reported.
    pub fn message(
        &mut self,
        device: DeviceId,
        address: u64,
        data: u32,
    ) -> Result<Arrived, DmaFault> {
        let request = Request {
            device,
            process: None,
            privileged: false,
            address,
            address_type: AddressType::Untranslated,
            access: Access::Write,
        };
        let found = self.translate(&request)?;
        match found.target {
            Target::Memory(address) => Ok(Arrived::At(address)),
            Target::Mrif {
                file,
                notice,
                identity,
            } => {
                let data = match address & 0xfff {
                    0 => data,
                    4 => data.swap_bytes(),
                    _ => return Ok(Arrived::Dropped),
                };
                if data > LAST {
                    return Ok(Arrived::Dropped);
                }
                // Words of 64 pending and 64 enable bits by turns.
                let place = file + u64::from(data / 64) * 16;
                let bits = self.load_u64(place).map(|bits| bits | 1 << (data % 64));
                let stored = bits.and_then(|bits| self.store(place, &bits.to_le_bytes()));
                if stored.is_none() {
                    let (cause, quiet) = (Cause::MrifAccess, found.quiet);
                    self.report(&Inbound::from(&request), Fault { cause, quiet });
                    return Err(DmaFault);
                }
                // Whether the identity is enabled is for whoever gets the notice. If nothing takes
                // that there is no cause to report: the message is stored.
                let _ = self.write_word(notice, identity.into());
                (self.observe)(Step::Stored {
                    device,
                    file,
                    // At most `LAST`
                    identity: data as u16,
                });
                Ok(Arrived::InMemory)
            }
        }
    }
}
