//! Somebody who tells functions translations, as a test has written them down.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use trapless_devices::DeviceId;
use trapless_devices::ats::{
    Completion, GroupResponse, Message, PageRequest, Refusal, ResponseCode, Translation,
    TranslationAgent, TranslationRequest,
};
use trapless_devices::dma::{DmaAccess, DmaFault, Extent};

#[derive(Default)]
pub struct Agent {
    /// By page, that of the device; what is not there allows nothing.
    pub told: Mutex<HashMap<u64, Translation>>,
    /// Pages that were asked for, and whether for writing.
    pub asked: Mutex<Vec<(u64, bool)>>,
    pub wishes: Mutex<Vec<PageRequest>>,
    /// Answers wishes at once.
    pub answer: Mutex<Option<ResponseCode>>,
    pub messages: Mutex<VecDeque<(DeviceId, Message)>>,
    pub completed: Mutex<Vec<Completion>>,
    pub timed_out: Mutex<Vec<u8>>,
    /// Addresses of translated accesses.
    pub used: Mutex<Vec<u64>>,
}

/// A translation of what lies in `len` bytes at `address`.
pub fn to(address: u64, len: u64, write: bool) -> Translation {
    Translation {
        address,
        len,
        read: true,
        write,
        execute: false,
        privileged: false,
        global: false,
        untranslated_only: false,
    }
}

impl TranslationAgent for Agent {
    fn translation(&self, request: &TranslationRequest) -> Result<Translation, Refusal> {
        let mut asked = self.asked.lock().unwrap();
        asked.push((request.address, !request.no_write));
        let told = self.told.lock().unwrap();
        let nothing = Translation {
            read: false,
            ..to(0, 0x1000, false)
        };
        Ok(told.get(&request.address).copied().unwrap_or(nothing))
    }

    fn locate_translated(
        &self,
        _: DeviceId,
        address: u64,
        len: u64,
        _: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        self.used.lock().unwrap().push(address);
        Ok(Extent { address, len })
    }

    fn request_page(&self, request: &PageRequest) -> Option<GroupResponse> {
        self.wishes.lock().unwrap().push(*request);
        let answer = *self.answer.lock().unwrap();
        answer.map(|code| GroupResponse {
            process: None,
            group: request.group,
            code,
        })
    }

    fn take_message(&self) -> Option<(DeviceId, Message)> {
        self.messages.lock().unwrap().pop_front()
    }

    fn has_messages(&self) -> bool {
        !self.messages.lock().unwrap().is_empty()
    }

    fn complete(&self, completion: &Completion) {
        self.completed.lock().unwrap().push(*completion);
    }

    fn time_out(&self, tag: u8) {
        self.timed_out.lock().unwrap().push(tag);
    }
}
