//! From a device's address to a physical one (section "Process to translate an IOVA").

use trapless_devices::DeviceId;
use trapless_devices::dma::DmaFault;

use crate::Iommu;
use crate::counters::{Event, Transaction};
use crate::fault::{Cause, Fault};
use crate::registers::debug;
use crate::request::{Access, Request};
use crate::tables::cache::{MsiEntry, Page, Space};
use crate::tables::context::{DeviceContext, Mode, ProcessContext};
use crate::tables::walk::{First, Guest, Leaf};

/// Where an access goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To a physical address.
    Memory(u64),
    /// To a memory-resident interrupt file.
    Mrif {
        /// Its physical address.
        file: u64,
        /// Page that the notice goes to.
        notice: u64,
        /// What is written there.
        identity: u16,
    },
}

/// What the IOMMU says of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translated {
    /// Where it goes.
    pub target: Target,
    /// How many bytes from its address on it holds for.
    pub len: u64,
}

/// The address space of a request.
struct Spaces {
    device: DeviceContext,
    process: ProcessContext,
    guest: Option<Guest>,
    space: Space,
}

impl Iommu {
    /// Where an access goes. A fault has been reported as the device's context says.
    ///
    /// # Errors
    /// If the device must not make it.
    pub fn translate(&mut self, request: &Request) -> Result<Translated, DmaFault> {
        self.try_translate(request).map_err(|fault| {
            self.report(request, fault);
            DmaFault
        })
    }

    pub(crate) fn try_translate(&mut self, request: &Request) -> Result<Translated, Fault> {
        self.state.counters.current = Transaction {
            device: request.device.0,
            process: request.process,
            ..Transaction::default()
        };
        self.pass();
        self.count(Event::Request);
        match Mode::of(self.state.ddtp) {
            Mode::Off => return Err(Cause::AllDisallowed.into()),
            Mode::Bare => {
                return Ok(Translated {
                    target: Target::Memory(request.address),
                    len: u64::MAX,
                });
            }
            Mode::Directory(_) => {}
        }
        let device = self.device_context(request.device.0)?;
        let quiet = device.is_quiet();
        let target = self.with_context(request, device);
        let target = target.map_err(|cause| Fault { cause, quiet })?;
        let len = 0x1000 - (request.address & 0xfff);
        Ok(Translated { target, len })
    }

    fn with_context(&mut self, request: &Request, device: DeviceContext) -> Result<Target, Cause> {
        let guest = device.guest();
        self.state.counters.current.guest = guest.map(|guest| guest.id);
        let process = self.process_context(request.device.0, &device, request.process)?;
        if request.privileged && !process.allows_privilege() {
            return Err(Cause::TypeDisallowed);
        }
        let space = Space {
            guest: guest.map(|guest| guest.id),
            process: process.first().map(|_| process.id()),
        };
        self.state.counters.current.first = space.process;
        let spaces = Spaces {
            device,
            process,
            guest,
            space,
        };
        if (space.guest, space.process) == (None, None) {
            return Ok(Target::Memory(request.address));
        }
        let (page, inside) = (request.address & !0xfff, request.address & 0xfff);
        let allows = |known: &Page| {
            let kind = match request.access {
                Access::Read => known.read,
                Access::Write => known.write,
                Access::Execute => known.execute,
            };
            kind && known.user != request.privileged
        };
        if let Some(known) = self.state.cache.page(space, page, allows) {
            return Ok(Target::Memory(known.to | inside));
        }
        self.count(Event::Miss);
        self.walk(request, &spaces)
    }

    /// Both stages, out of memory.
    fn walk(&mut self, request: &Request, spaces: &Spaces) -> Result<Target, Cause> {
        let (address, access) = (request.address, request.access);
        let (page, inside) = (address & !0xfff, address & 0xfff);
        let (guest, process) = (spaces.guest.as_ref(), &spaces.process);
        let first = match process.first() {
            Some((scheme, root)) => {
                let first = First {
                    scheme,
                    root,
                    update: spaces.device.updates_first(),
                    privileged: request.privileged,
                    sees_users: process.sees_users(),
                };
                self.walk_first(&first, guest, address, access)?
            }
            None => same(page),
        };
        let gpa = first.page | inside;
        let second = match guest {
            Some(guest) => {
                if let Some(entry) = spaces.device.message_entry(gpa) {
                    return self.interrupt_file(guest.id, entry, gpa, access);
                }
                self.walk_second(guest, gpa, access)?
            }
            None => same(first.page),
        };
        self.state.cache.keep_page(Page {
            space: spaces.space,
            from: page,
            gpa: first.page,
            to: second.page,
            first_level: first.level,
            second_level: second.level,
            read: first.read && second.read,
            write: first.write && second.write,
            execute: first.execute && second.execute,
            user: !request.privileged,
            global: process.first().is_some() && first.global,
        });
        Ok(Target::Memory(second.page | inside))
    }

    /// Where an access to a guest's interrupt file goes, whose MSI table entry is at `place`
    /// (section "Process to translate addresses of MSIs").
    fn interrupt_file(
        &mut self,
        guest: u16,
        place: u64,
        gpa: u64,
        access: Access,
    ) -> Result<Target, Cause> {
        const M_MRIF: u64 = 1;
        const M_BASIC: u64 = 3;
        let page = gpa & !0xfff;
        let words = match self.state.cache.message(guest, page) {
            Some(words) => words,
            None => {
                let words: [u64; 2] = self.load_words(place).ok_or(Cause::MsiLoad)?;
                if words[0] & 1 == 0 {
                    return Err(Cause::MsiInvalid);
                }
                let gpa = page;
                let entry = MsiEntry { guest, gpa, words };
                self.state.cache.keep_message(entry);
                words
            }
        };
        let [low, high] = words;
        // Bit 63 is for entries that are interpreted otherwise, which there are none of.
        let target = match low >> 1 & 3 {
            M_BASIC if low & !(0x7 | 0xfff_ffff_ffff << 10) == 0 => {
                Target::Memory((low >> 10 & 0xfff_ffff_ffff) << 12 | gpa & 0xfff)
            }
            M_MRIF
                if low & !(0x7 | 0x7fff_ffff_ffff << 7) == 0
                    && high & !(0x3f_ffff_ffff_ffff | 1 << 60) == 0 =>
            {
                Target::Mrif {
                    file: (low >> 7 & 0x7fff_ffff_ffff) << 9,
                    notice: (high >> 10 & 0xfff_ffff_ffff) << 12,
                    identity: (high & 0x3ff | (high >> 60 & 1) << 10) as u16,
                }
            }
            _ => return Err(Cause::MsiMisconfigured),
        };
        match access {
            Access::Execute => Err(Cause::Access),
            Access::Read | Access::Write => Ok(target),
        }
    }

    /// A translation for the debug interface (registers `tr_req_iova` to `tr_response`).
    pub(crate) fn answer_debugger(&mut self) {
        let control = self.state.request_control;
        let process = control & debug::PROCESS_VALID != 0;
        let access = match (control & debug::EXECUTE, control & debug::NO_WRITE) {
            (0, 0) => Access::Write,
            (0, _) => Access::Read,
            _ => Access::Execute,
        };
        let request = Request {
            device: DeviceId((control >> 40) as u32),
            process: process.then_some((control >> 12) as u32 & 0xf_ffff),
            privileged: process && control & debug::PRIVILEGED != 0,
            address: self.state.request_address,
            access,
        };
        self.state.response = match self.try_translate(&request) {
            Ok(Translated { target, .. }) => {
                let (Target::Memory(page) | Target::Mrif { notice: page, .. }) = target;
                (page >> 12 << 10) & (0xfff_ffff_ffff << 10)
            }
            Err(fault) => {
                self.report(&request, fault);
                debug::FAULT
            }
        };
        self.state.request_control &= !debug::GO;
    }
}

/// What a stage that translates nothing says.
fn same(page: u64) -> Leaf {
    Leaf {
        page,
        level: 0,
        read: true,
        write: true,
        execute: true,
        global: false,
    }
}
