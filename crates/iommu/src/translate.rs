//! From a device's address to a physical one (section "Process to translate an IOVA").

use trapless_devices::DeviceId;
use trapless_devices::dma::DmaFault;

use crate::Iommu;
use crate::counters::{Event, Transaction};
use crate::fault::{Cause, Fault, Inbound};
use crate::registers::debug;
use crate::request::{Access, AddressType, Request};
use crate::tables::cache::{MsiEntry, Page, Space};
use crate::tables::context::{DeviceContext, Mode, ProcessContext};
use crate::tables::walk::{First, Guest, Leaf, Purpose, Rights};

/// Level of page tables whose leaves are as large as what is told at once where no stage
/// translates: 1 GiB, as the specification recommends.
const BARE_LEVEL: u8 = 2;

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
    /// `DC.tc.DTF` of the device: what is found wrong later is not reported either.
    pub(crate) quiet: bool,
}

/// What an address is looked up for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub address: u64,
    pub privileged: bool,
    pub purpose: Purpose,
}

/// The address space of a transaction.
pub(crate) struct Spaces {
    device: DeviceContext,
    process: ProcessContext,
    guest: Option<Guest>,
    space: Space,
}

/// What the tables say of an address.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub target: Target,
    /// Guest physical address, if there is a second stage, of that which comes after the first.
    pub gpa: u64,
    /// It is an interrupt file of a guest.
    pub is_file: bool,
    /// Level of page tables whose leaves are as large as the range that this holds for.
    pub level: u8,
    pub rights: Rights,
    pub global: bool,
}

impl Iommu {
    /// Where an access goes. A fault has been reported as the device's context says.
    ///
    /// # Errors
    /// If the device must not make it.
    pub fn translate(&mut self, request: &Request) -> Result<Translated, DmaFault> {
        self.try_translate(request).map_err(|fault| {
            self.report(&Inbound::from(request), fault);
            DmaFault
        })
    }

    fn try_translate(&mut self, request: &Request) -> Result<Translated, Fault> {
        let translated = request.address_type == AddressType::Translated;
        self.begin(request.device, request.process);
        self.count(match translated {
            true => Event::Translated,
            false => Event::Request,
        });
        if Mode::of(self.state.ddtp) == Mode::Bare && !translated {
            return Ok(Translated {
                target: Target::Memory(request.address),
                len: u64::MAX,
                quiet: false,
            });
        }
        let device = self.located(request.device)?;
        let quiet = device.is_quiet();
        let target = self.with_context(request, device);
        let target = target.map_err(|cause| Fault { cause, quiet })?;
        let len = 0x1000 - (request.address & 0xfff);
        Ok(Translated { target, len, quiet })
    }

    /// A transaction begins.
    pub(crate) fn begin(&mut self, device: DeviceId, process: Option<u32>) {
        self.state.counters.current = Transaction {
            device: device.0,
            process,
            ..Transaction::default()
        };
        self.pass();
    }

    /// The context of a device that does what there is no place for without one.
    pub(crate) fn located(&mut self, device: DeviceId) -> Result<DeviceContext, Fault> {
        match Mode::of(self.state.ddtp) {
            Mode::Off => Err(Cause::AllDisallowed.into()),
            Mode::Bare => Err(Cause::TypeDisallowed.into()),
            Mode::Directory(_) => Ok(self.device_context(device.0)?),
        }
    }

    fn with_context(&mut self, request: &Request, device: DeviceContext) -> Result<Target, Cause> {
        let wanted = Wanted {
            address: request.address,
            privileged: request.privileged,
            purpose: Purpose::Access(request.access),
        };
        let spaces = match request.address_type {
            AddressType::Untranslated => {
                self.spaces(request.device, device, request.process, request.privileged)?
            }
            AddressType::Translated => {
                if !device.allows_ats() || !device.accepts(request.process) {
                    return Err(Cause::TypeDisallowed);
                }
                if !device.answers_guest_addresses() {
                    return Ok(Target::Memory(request.address));
                }
                self.spaces_of(device, ProcessContext::BARE)
            }
        };
        self.find(&wanted, &spaces).map(|found| found.target)
    }

    /// The address space of a transaction that gives an address which has not been translated.
    pub(crate) fn spaces(
        &mut self,
        id: DeviceId,
        device: DeviceContext,
        process: Option<u32>,
        privileged: bool,
    ) -> Result<Spaces, Cause> {
        self.state.counters.current.guest = device.guest().map(|guest| guest.id);
        if !device.accepts(process) {
            return Err(Cause::TypeDisallowed);
        }
        let process = self.process_context(id.0, &device, process)?;
        if privileged && !process.allows_privilege() {
            return Err(Cause::TypeDisallowed);
        }
        Ok(self.spaces_of(device, process))
    }

    fn spaces_of(&mut self, device: DeviceContext, process: ProcessContext) -> Spaces {
        let guest = device.guest();
        let space = Space {
            guest: guest.map(|guest| guest.id),
            process: process.first().map(|_| process.id()),
        };
        let current = &mut self.state.counters.current;
        (current.guest, current.first) = (space.guest, space.process);
        Spaces {
            device,
            process,
            guest,
            space,
        }
    }

    /// What the tables say of an address, or the cache.
    pub(crate) fn find(&mut self, wanted: &Wanted, spaces: &Spaces) -> Result<Found, Cause> {
        let (page, inside) = (wanted.address & !0xfff, wanted.address & 0xfff);
        if (spaces.space.guest, spaces.space.process) == (None, None) {
            return Ok(Found {
                target: Target::Memory(wanted.address),
                gpa: wanted.address,
                is_file: false,
                level: BARE_LEVEL,
                rights: Rights::ALL,
                global: false,
            });
        }
        let allows = |known: &Page| {
            wanted.purpose.is_content_with(known.rights) && known.user != wanted.privileged
        };
        if let Some(known) = self.state.cache.page(spaces.space, page, allows) {
            return Ok(found(&known, inside, spaces));
        }
        self.count(Event::Miss);
        self.walk(wanted, spaces)
    }

    /// Both stages, out of memory.
    fn walk(&mut self, wanted: &Wanted, spaces: &Spaces) -> Result<Found, Cause> {
        let (page, inside) = (wanted.address & !0xfff, wanted.address & 0xfff);
        let (guest, process) = (spaces.guest.as_ref(), &spaces.process);
        let first = match process.first() {
            Some((scheme, root)) => {
                let first = First {
                    scheme,
                    root,
                    update: spaces.device.updates_first(),
                    privileged: wanted.privileged,
                    sees_users: process.sees_users(),
                };
                self.walk_first(&first, guest, wanted.address, wanted.purpose)?
            }
            None => Leaf::same(page),
        };
        let gpa = first.page | inside;
        let second = match guest {
            Some(guest) => {
                if let Some(entry) = spaces.device.message_entry(gpa) {
                    let rights = first.rights.and(Rights::MESSAGES);
                    return Ok(Found {
                        target: self.interrupt_file(guest.id, entry, gpa, wanted.purpose)?,
                        gpa,
                        is_file: true,
                        level: 0,
                        rights,
                        global: false,
                    });
                }
                self.walk_second(guest, gpa, wanted.purpose.after(first.rights))?
            }
            None => Leaf::same(first.page),
        };
        let known = Page {
            space: spaces.space,
            from: page,
            gpa: first.page,
            to: second.page,
            first_level: first.level,
            second_level: second.level,
            rights: first.rights.and(second.rights),
            user: !wanted.privileged,
            global: first.global,
        };
        self.state.cache.keep_page(known);
        Ok(found(&known, inside, spaces))
    }

    /// Where a transaction with a guest's interrupt file goes, whose MSI table entry is at `place`
    /// (section "Process to translate addresses of MSIs").
    fn interrupt_file(
        &mut self,
        guest: u16,
        place: u64,
        gpa: u64,
        purpose: Purpose,
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
        match purpose {
            Purpose::Access(Access::Execute) => Err(Cause::Access),
            _ => Ok(target),
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
            address_type: AddressType::Untranslated,
            access,
        };
        let page = match self.translate(&request) {
            Ok(Translated { target, quiet, .. }) => match target {
                Target::Memory(page) => Ok(page),
                // Nothing but a message goes there (section "Debug support").
                Target::Mrif { .. } => {
                    let cause = Cause::TypeDisallowed;
                    self.report(&Inbound::from(&request), Fault { cause, quiet });
                    Err(DmaFault)
                }
            },
            Err(fault) => Err(fault),
        };
        self.state.response = page.map_or(debug::FAULT, |page| {
            (page >> 12 << 10) & (0xfff_ffff_ffff << 10)
        });
        self.state.request_control &= !debug::GO;
    }
}

/// What a page that is known says of the byte `inside` it.
fn found(known: &Page, inside: u64, spaces: &Spaces) -> Found {
    let mut level = known.first_level.min(known.second_level);
    // Interrupt files within a leaf are translated otherwise.
    while level > 0 && spaces.device.has_files_within(known.gpa, level) {
        level -= 1;
    }
    Found {
        target: Target::Memory(known.to | inside),
        gpa: known.gpa | inside,
        is_file: false,
        level,
        rights: known.rights,
        global: known.global,
    }
}
