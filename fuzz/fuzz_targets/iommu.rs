//! A hostile kernel before the IOMMU, and hostile functions behind it: stores of any value to its
//! registers, directories, page tables, MSI tables and queues of any content in memory, and
//! translation requests, page requests and completions that nobody has asked for.
//!
//! Besides not panicking and ending: what is translated keeps its place in the page, what a
//! function is told is a range of that size around its address, at most 64 messages are on their
//! way, and an IOMMU that is saved and restored is the same.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_devices::ats::{Completion, Message, PageRequest, TranslationRequest};
use trapless_devices::{Clock, DeviceId, GuestRam, IrqLine, StateReader, StateWriter};
use trapless_iommu::{Access, AddressType, Iommu, Request, Target, WIRES};
use vm_memory::{Bytes, GuestAddress};

const RAM: u64 = 0x8000_0000;
const RAM_LEN: u64 = 0x1_0000;
const DEVICES: u32 = 70;

/// Time stands still.
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }
}

fn iommu(ram: &Arc<GuestRam>) -> Iommu {
    let wires = [(); WIRES].map(|()| Box::new(()) as Box<dyn IrqLine>);
    // Something takes words at half of all pages outside RAM.
    let post = Box::new(|address: u64, _| address & 0x1000 == 0);
    Iommu::new(ram.clone(), wires, Box::new(Still), post)
}

struct Guest {
    iommu: Iommu,
    ram: Arc<GuestRam>,
}

impl Guest {
    fn put(&self, offset: u64, word: u64) {
        let place = GuestAddress(RAM + offset % (RAM_LEN - 8) / 8 * 8);
        self.ram.write_obj(word, place).expect("it is in RAM");
    }

    /// A word that makes sense in some table: it points into RAM.
    fn entry(input: &mut Unstructured<'_>) -> Result<u64> {
        let page = RAM / 0x1000 + u64::from(input.int_in_range(0..=17_u8)?);
        let flags = u64::from(input.arbitrary::<u8>()?);
        Ok(match input.int_in_range(0..=4_u8)? {
            0 => page << 10 | flags,
            1 => u64::from(flags as u8 % 12) << 60 | page,
            2 => flags | u64::from(input.arbitrary::<u16>()?) << 4,
            3 => input.arbitrary()?,
            _ => page << 12,
        })
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=8_u8)? {
            0 => {
                let offset = u64::from(input.arbitrary::<u16>()?) % 0x408;
                let len = *input.choose(&[1, 2, 4, 8])?;
                self.iommu.write(offset, len, input.arbitrary()?);
                let _ = self.iommu.read(offset, len);
            }
            // A directory or a queue somewhere in RAM, switched on.
            1 => {
                let page = RAM / 0x1000 + u64::from(input.int_in_range(0..=15_u8)?);
                let (register, low) = *input.choose(&[
                    (0x10, 2),
                    (0x10, 3),
                    (0x10, 4),
                    (0x18, 3),
                    (0x28, 3),
                    (0x38, 1),
                ])?;
                self.iommu.write(register, 8, page << 10 | low);
            }
            2 => {
                self.iommu.write(0x48, 4, 3 | 1 << 10);
                self.iommu.write(0x4c, 4, 3);
                self.iommu.write(0x50, 4, 3);
            }
            3 | 4 => {
                let offset = u64::from(input.arbitrary::<u16>()?);
                let word = Self::entry(input)?;
                self.put(offset, word);
            }
            5 => {
                // A context with a chance to be one.
                let at = u64::from(input.arbitrary::<u16>()?) / 64 * 64;
                self.put(at, 1 | u64::from(input.arbitrary::<u16>()?) & 0x3fe);
                for word in 1..8 {
                    let value = match input.arbitrary()? {
                        true => 0,
                        false => Self::entry(input)?,
                    };
                    self.put(at + 8 * word, value);
                }
            }
            6 => self.access(input)?,
            7 => self.ask(input)?,
            _ => self.answer(input)?,
        }
        Ok(())
    }

    fn device(input: &mut Unstructured<'_>) -> Result<DeviceId> {
        Ok(DeviceId(input.arbitrary::<u32>()? % DEVICES))
    }

    fn address(input: &mut Unstructured<'_>) -> Result<u64> {
        match input.arbitrary()? {
            true => Ok(input.arbitrary::<u16>()?.into()),
            false => input.arbitrary(),
        }
    }

    /// A function wants to know a translation, or wants a page.
    fn ask(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let device = Self::device(input)?;
        let process = input.arbitrary::<Option<u16>>()?.map(u32::from);
        let (privileged, execute) = input.arbitrary()?;
        let address = Self::address(input)?;
        let told = self.iommu.translation(&TranslationRequest {
            device,
            process,
            privileged,
            execute,
            no_write: input.arbitrary()?,
            address,
        });
        if let Ok(told) = told {
            assert!(told.len.is_power_of_two() && told.len >= 0x1000);
            assert_eq!(told.address & (told.len - 1), 0);
            assert!(process.is_some() || !(told.execute || told.privileged || told.global));
        }
        let _ = self.iommu.request_page(&PageRequest {
            device,
            process,
            privileged,
            execute,
            address,
            group: input.arbitrary()?,
            last: input.arbitrary()?,
            write: input.arbitrary()?,
            read: input.arbitrary()?,
        });
        Ok(())
    }

    /// Functions take messages and answer, or answer without.
    fn answer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let mut tag = input.arbitrary()?;
        for taken in 0..64 {
            match self.iommu.take_message() {
                Some((_, Message::Invalidate(what))) => {
                    assert!(what.first <= what.last);
                    tag = what.tag;
                }
                Some(_) => {}
                None => break,
            }
            // A full queue goes on when one is taken.
            if taken % 16 == 15 && !input.arbitrary::<bool>()? {
                break;
            }
        }
        if input.arbitrary()? {
            self.iommu.time_out(tag);
        } else {
            let tags = 1_u32.checked_shl(tag.into()).unwrap_or(u32::MAX);
            self.iommu.complete(&Completion {
                device: Self::device(input)?,
                tags,
                count: input.arbitrary()?,
            });
        }
        Ok(())
    }

    fn access(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let request = Request {
            device: Self::device(input)?,
            process: input.arbitrary::<Option<u16>>()?.map(u32::from),
            privileged: false,
            address: Self::address(input)?,
            address_type: *input.choose(&[AddressType::Untranslated, AddressType::Translated])?,
            access: *input.choose(&[Access::Read, Access::Write, Access::Execute])?,
        };
        if let Ok(found) = self.iommu.translate(&request) {
            assert!(found.len > 0);
            if let Target::Memory(address) = found.target {
                assert_eq!(address % 0x1000, request.address % 0x1000);
            }
        }
        let _ = self
            .iommu
            .message(request.device, request.address & !3, input.arbitrary()?);
        Ok(())
    }

    fn check_saved(&self) {
        let save = |iommu: &Iommu| {
            let mut state = StateWriter::default();
            iommu.save(&mut state);
            state.into_bytes()
        };
        let state = save(&self.iommu);
        let mut other = iommu(&self.ram);
        let restored = other.restore(&mut StateReader::new(&state));
        assert_eq!(restored, Ok(()));
        assert_eq!(save(&other), state);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), RAM_LEN as usize)]);
    let ram = Arc::new(ram.expect("64 KiB of RAM"));
    let mut guest = Guest {
        iommu: iommu(&ram),
        ram,
    };
    while !input.is_empty() {
        if guest.step(&mut input).is_err() {
            break;
        }
    }
    guest.check_saved();
});
