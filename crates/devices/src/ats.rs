//! Address Translation Services and Page Request Interface (PCI Express Base 5.0, chapter 10): what
//! functions that remember translations say to whoever translates, and what they are told.

use crate::DeviceId;
use crate::dma::{DmaAccess, DmaFault, Extent};

/// Asks what an address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslationRequest {
    /// Who asks.
    pub device: DeviceId,
    /// Process ID (PASID), if the request has one.
    pub process: Option<u32>,
    /// Privileged Mode Requested; only with a process ID.
    pub privileged: bool,
    /// Execute Requested; only with a process ID.
    pub execute: bool,
    /// No Write: it does not ask for the right to write.
    pub no_write: bool,
    /// Address; the lowest 12 bits do not count.
    pub address: u64,
}

/// What an address means: a completion with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// Address that the range begins at, a multiple of its length. With `untranslated_only`, or
    /// without a right, it says nothing.
    pub address: u64,
    /// Bytes of the range around the address that was asked for, a power of two from 4096 on.
    pub len: u64,
    /// Reads are allowed.
    pub read: bool,
    /// Writes are.
    pub write: bool,
    /// Execution is, and was asked for.
    pub execute: bool,
    /// What is allowed is for privileged accesses.
    pub privileged: bool,
    /// It holds for all process IDs.
    pub global: bool,
    /// Only untranslated requests reach the range (U).
    pub untranslated_only: bool,
}

/// A completion without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Unsupported Request: the device may not ask.
    Unsupported,
    /// Completer Abort: something is wrong with the tables.
    Aborted,
}

/// A Page Request message: a page is wanted that there is not, or that does not allow enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Who asks.
    pub device: DeviceId,
    /// Process ID (PASID), if the message has one.
    pub process: Option<u32>,
    /// Privileged Mode Requested; only with a process ID.
    pub privileged: bool,
    /// Execute Requested; only with a process ID.
    pub execute: bool,
    /// Address of the page; the lowest 12 bits do not count.
    pub address: u64,
    /// Page Request Group Index, nine bits.
    pub group: u16,
    /// It is the last one of its group, which wants an answer.
    pub last: bool,
    /// The page is wanted for writing.
    pub write: bool,
    /// It is wanted for reading. The last one of a group with a process ID that is wanted for
    /// neither is a Stop Marker, which wants no answer.
    pub read: bool,
}

/// Response Code of a [`GroupResponse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseCode {
    /// All pages are there.
    Success,
    /// One is not there, or does not allow what was asked for.
    InvalidRequest,
    /// The interface does not work any more, and is off until software enables it again.
    Failure,
}

impl ResponseCode {
    /// That of four bits; codes without a meaning are failures.
    #[must_use]
    pub fn of(bits: u8) -> Self {
        match bits {
            0 => Self::Success,
            1 => Self::InvalidRequest,
            _ => Self::Failure,
        }
    }
}

/// A PRG Response message: what became of a group of page requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupResponse {
    /// Process ID (PASID), if the message has one.
    pub process: Option<u32>,
    /// Page Request Group Index, nine bits.
    pub group: u16,
    /// What became of it.
    pub code: ResponseCode,
}

/// An Invalidate Request message: translations that must be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalidation {
    /// Which request it is (ITag), 0..=31.
    pub tag: u8,
    /// Process ID (PASID) whose translations it is about, if it has one.
    pub process: Option<u32>,
    /// It is about all process IDs.
    pub global: bool,
    /// Address of the first byte.
    pub first: u64,
    /// Address of the last byte.
    pub last: u64,
}

/// An Invalidate Completion message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Who has forgotten.
    pub device: DeviceId,
    /// Bit *n*: the request with tag *n*.
    pub tags: u32,
    /// How many such messages there are for each, 0 meaning 8.
    pub count: u8,
}

/// What a function is told by messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Translations must be forgotten.
    Invalidate(Invalidation),
    /// A group of page requests has been answered.
    Respond(GroupResponse),
}

/// Whoever translates for functions that remember translations (PCI Express: translation agent).
pub trait TranslationAgent {
    /// What an address means.
    ///
    /// # Errors
    /// [`Refusal`] if that is not told. Whoever refuses has reported that.
    fn translation(&self, request: &TranslationRequest) -> Result<Translation, Refusal>;

    /// As [`Dma::locate`](crate::Dma::locate), for an address that has been translated already.
    ///
    /// # Errors
    /// [`DmaFault`] if the device must not access it. Whoever refuses has reported that.
    fn locate_translated(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault>;

    /// Passes on a page request. Answered at once are those that nobody else will answer.
    fn request_page(&self, request: &PageRequest) -> Option<GroupResponse>;

    /// Takes the oldest message that is on its way to a function, and tells which function that is.
    fn take_message(&self) -> Option<(DeviceId, Message)>;

    /// Whether there is one.
    fn has_messages(&self) -> bool;

    /// A function has forgotten what it was told to.
    fn complete(&self, completion: &Completion);

    /// Nobody will complete the request with this tag.
    fn time_out(&self, tag: u8);
}
