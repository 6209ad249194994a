//! Functions that remember translations (PCI Express, Address Translation Services): their requests
//! (sections "PCIe ATS translation request handling" and "PCIe ATS Page Request handling"), and the
//! messages that tell them to forget (section "IOMMU PCIe ATS commands").

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use trapless_devices::DeviceId;
use trapless_devices::ats::{
    Completion, GroupResponse, Invalidation, Message, PageRequest, Refusal, ResponseCode,
    Translation, TranslationRequest,
};

use crate::Iommu;
use crate::counters::Event;
use crate::fault::{Cause, Fault, Inbound};
use crate::interrupts::Source;
use crate::queue::Lost;
use crate::tables::walk::Purpose;
use crate::translate::{Found, Target, Wanted};

/// Tags of Invalidate Requests.
const TAGS: usize = 32;
/// Most messages on their way at once.
const MAX_MESSAGES: usize = 64;

/// An Invalidate Request that has not been completed.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Pending {
    device: u32,
    /// Completions that have arrived.
    completions: u8,
}

/// A message on its way, as the command that sends it says it.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Outgoing {
    device: u32,
    process: Option<u32>,
    payload: u64,
    /// Of an Invalidate Request; `None`: it is a PRG Response.
    tag: Option<u8>,
}

/// Messages to functions.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Messages {
    pending: [Option<Pending>; TAGS],
    outgoing: VecDeque<Outgoing>,
    /// A request has timed out since the last fence.
    timed_out: bool,
}

/// There is no room for a message: the command has to wait.
pub(crate) struct NoRoom;

impl Messages {
    /// Whether it holds nothing but what it can.
    pub fn is_sound(&self) -> bool {
        let is_pending = |message: &Outgoing| {
            message.tag.is_none_or(|tag| {
                let pending = self.pending.get(usize::from(tag)).copied().flatten();
                pending.is_some_and(|pending| pending.device == message.device)
            })
        };
        let counts = |pending: &Pending| pending.completions < 8;
        self.outgoing.len() <= MAX_MESSAGES
            && self.outgoing.iter().all(is_pending)
            && self.pending.iter().flatten().all(counts)
    }

    /// Whether a request has not been completed yet.
    pub fn are_pending(&self) -> bool {
        self.pending.iter().any(Option::is_some)
    }

    /// Whether one has timed out since this was asked last.
    pub fn take_timeout(&mut self) -> bool {
        std::mem::take(&mut self.timed_out)
    }

    /// Sends an Invalidate Request.
    pub fn invalidate(
        &mut self,
        device: u32,
        process: Option<u32>,
        payload: u64,
    ) -> Result<(), NoRoom> {
        let free = self.pending.iter().position(Option::is_none);
        let tag = free.ok_or(NoRoom)?;
        self.send(Outgoing {
            device,
            process,
            payload,
            tag: Some(tag as u8),
        })?;
        self.pending[tag] = Some(Pending {
            device,
            completions: 0,
        });
        Ok(())
    }

    /// Sends a PRG Response.
    pub fn respond(
        &mut self,
        device: u32,
        process: Option<u32>,
        payload: u64,
    ) -> Result<(), NoRoom> {
        self.send(Outgoing {
            device,
            process,
            payload,
            tag: None,
        })
    }

    fn send(&mut self, message: Outgoing) -> Result<(), NoRoom> {
        if self.outgoing.len() == MAX_MESSAGES {
            return Err(NoRoom);
        }
        self.outgoing.push_back(message);
        Ok(())
    }

    /// Takes note of a completion.
    fn complete(&mut self, completion: &Completion) {
        for (tag, pending) in self.pending.iter_mut().enumerate() {
            let named = completion.tags >> tag & 1 != 0;
            let Some(request) = pending.as_mut().filter(|_| named) else {
                continue;
            };
            // Another device's is unexpected, and means nothing.
            if request.device != completion.device.0 {
                continue;
            }
            request.completions = (request.completions + 1) & 7;
            if request.completions == completion.count & 7 {
                *pending = None;
            }
        }
    }
}

impl Outgoing {
    fn message(&self) -> Message {
        let (process, payload) = (self.process, self.payload);
        match self.tag {
            Some(tag) => {
                let first = payload & !0xfff;
                // With S, the lowest zero of the address tells how large the range is.
                let inside = match payload >> 11 & 1 {
                    0 => 0xfff,
                    _ => (first | 0xfff) ^ (first | 0xfff).wrapping_add(1),
                };
                Message::Invalidate(Invalidation {
                    tag,
                    process,
                    global: payload & 1 != 0,
                    first: first & !inside,
                    last: first | inside,
                })
            }
            None => Message::Respond(GroupResponse {
                process,
                group: (payload >> 32 & 0x1ff) as u16,
                code: ResponseCode::of((payload >> 44 & 0xf) as u8),
            }),
        }
    }
}

impl Iommu {
    /// Answers a translation request. A refusal has been reported as the device's context says.
    ///
    /// # Errors
    /// [`Refusal`] if the device may not ask, or something is wrong with the tables.
    pub fn translation(&mut self, request: &TranslationRequest) -> Result<Translation, Refusal> {
        // Both stand where the process ID does.
        let request = TranslationRequest {
            privileged: request.privileged && request.process.is_some(),
            execute: request.execute && request.process.is_some(),
            ..*request
        };
        self.begin(request.device, request.process);
        self.count(Event::Translation);
        self.try_translation(&request).or_else(|fault| {
            let refusal = match fault.cause {
                Cause::Page | Cause::Guest { .. } | Cause::PdtInvalid | Cause::MsiInvalid => {
                    return Ok(Translation {
                        address: 0,
                        len: 0x1000,
                        read: false,
                        write: false,
                        execute: false,
                        privileged: request.privileged,
                        global: false,
                        untranslated_only: false,
                    });
                }
                Cause::AllDisallowed
                | Cause::DdtLoad
                | Cause::DdtInvalid
                | Cause::DdtMisconfigured
                | Cause::TypeDisallowed => Refusal::Unsupported,
                Cause::Access
                | Cause::MsiLoad
                | Cause::MsiMisconfigured
                | Cause::MrifAccess
                | Cause::PdtLoad
                | Cause::PdtMisconfigured => Refusal::Aborted,
            };
            self.report(&Inbound::from(&request), fault);
            Err(refusal)
        })
    }

    fn try_translation(&mut self, request: &TranslationRequest) -> Result<Translation, Fault> {
        let device = self.located(request.device)?;
        let in_context = |cause| Fault {
            cause,
            quiet: device.is_quiet(),
        };
        if !device.allows_ats() {
            return Err(in_context(Cause::TypeDisallowed));
        }
        let wanted = Wanted {
            address: request.address,
            privileged: request.privileged,
            purpose: Purpose::Answer {
                write: !request.no_write,
                execute: request.execute,
            },
        };
        let spaces = self.spaces(request.device, device, request.process, request.privileged);
        let found = spaces.and_then(|spaces| self.find(&wanted, &spaces));
        let found = found.map_err(in_context)?;
        Ok(answer(request, &found, device.answers_guest_addresses()))
    }

    /// Takes a page request. Answered at once are those that no software will answer.
    pub fn request_page(&mut self, request: &PageRequest) -> Option<GroupResponse> {
        self.begin(request.device, request.process);
        let (code, wants_process) = match self.queue_page(request) {
            Ok(()) => return None,
            Err(refused) => refused,
        };
        let stop = request.process.is_some() && !request.read && !request.write;
        (request.last && !stop).then(|| GroupResponse {
            process: request.process.filter(|_| wants_process),
            group: request.group & 0x1ff,
            code,
        })
    }

    /// Puts a page request into the queue; else tells how it is answered, and whether with its
    /// process ID.
    fn queue_page(&mut self, request: &PageRequest) -> Result<(), (ResponseCode, bool)> {
        let device = match self.located(request.device) {
            Ok(device) => device,
            Err(fault) => {
                self.report(&Inbound::from(request), fault);
                return Err(match fault.cause {
                    Cause::TypeDisallowed => (ResponseCode::InvalidRequest, false),
                    _ => (ResponseCode::Failure, true),
                });
            }
        };
        let wants_process = device.answers_processes();
        if !device.allows_page_requests() {
            let fault = Fault {
                cause: Cause::TypeDisallowed,
                quiet: device.is_quiet(),
            };
            self.report(&Inbound::from(request), fault);
            return Err((ResponseCode::InvalidRequest, wants_process));
        }
        let queue = &self.state.pages;
        if !queue.is_on() || queue.has_memory_fault() {
            return Err((ResponseCode::Failure, true));
        }
        if queue.has_overflow() {
            return Err((ResponseCode::Success, wants_process));
        }
        self.append(Source::Pages, &record(request))
            .map_err(|lost| match lost {
                Lost::Full => (ResponseCode::Success, wants_process),
                Lost::NoMemory => (ResponseCode::Failure, true),
            })
    }

    /// Takes the oldest message that is on its way to a function, and tells which function that is.
    pub fn take_message(&mut self) -> Option<(DeviceId, Message)> {
        let message = self.state.messages.outgoing.pop_front()?;
        // A command may have waited for the room.
        self.carry_out();
        Some((DeviceId(message.device), message.message()))
    }

    /// Whether a message is on its way.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        !self.state.messages.outgoing.is_empty()
    }

    /// A function has forgotten what it was told to. What nobody waits for means nothing.
    pub fn complete(&mut self, completion: &Completion) {
        self.state.messages.complete(completion);
        self.carry_out();
    }

    /// Nobody will complete the request with this tag, which the next fence tells.
    pub fn time_out(&mut self, tag: u8) {
        let pending = self.state.messages.pending.get_mut(usize::from(tag));
        if pending.and_then(Option::take).is_some() {
            self.state.messages.timed_out = true;
        }
        self.carry_out();
    }
}

/// The completion of a translation request.
fn answer(request: &TranslationRequest, found: &Found, guest_addresses: bool) -> Translation {
    let len = 0x1000 << (9 * u32::from(found.level));
    let (address, untranslated_only) = match found.target {
        Target::Mrif { .. } => (request.address, true),
        Target::Memory(_) if guest_addresses => (found.gpa, false),
        Target::Memory(address) => (address, false),
    };
    let rights = found.rights;
    Translation {
        address: address & !(len - 1),
        len,
        read: rights.read,
        write: rights.write,
        execute: rights.execute && rights.read && request.execute,
        privileged: request.privileged,
        global: found.global && request.process.is_some() && !found.is_file,
        untranslated_only,
    }
}

/// The record of a page request (section "Page-Request-Queue").
fn record(request: &PageRequest) -> [u64; 2] {
    let process = request.process.map_or(0, |process| {
        u64::from(process) << 12
            | 1 << 32
            | u64::from(request.privileged) << 33
            | u64::from(request.execute) << 34
    });
    let device = u64::from(request.device.0 & 0xff_ffff) << 40;
    let flags = u64::from(request.read)
        | u64::from(request.write) << 1
        | u64::from(request.last) << 2
        | u64::from(request.group & 0x1ff) << 3;
    [process | device, request.address & !0xfff | flags]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: messages out of a checkpoint are some that could be on their way.
    #[test]
    fn impossible_messages_are_told() {
        let mut sent = Messages::default();
        assert!(sent.invalidate(8, None, 0).is_ok());
        assert!(sent.is_sound());
        let mut of_another = sent.clone();
        of_another.outgoing[0].device = 9;
        let mut unknown = sent.clone();
        unknown.outgoing[0].tag = Some(40);
        let mut completed = sent.clone();
        completed.pending[0] = None;
        let mut counted = sent;
        counted.pending[0] = counted.pending[0].map(|pending| Pending {
            completions: 8,
            ..pending
        });
        for wrong in [of_another, unknown, completed, counted] {
            assert!(!wrong.is_sound());
        }
    }
}
