//! Messages: the entry of a window says what they may post.

use trapless_isa::port::MessageArrival;
use trapless_isa::xtrapless::window;

use super::super::operation::Operation;
use crate::words::field;

impl Operation<'_> {
    /// A message of a window (MSG-2, MSG-3). `data` is `None` for a store that is none (MSG-4).
    /// Returns where it has arrived; `None` if nothing takes it.
    pub(in super::super) fn message(
        &mut self,
        number: u16,
        data: Option<u32>,
    ) -> Option<MessageArrival> {
        let windows = self.state.windows.as_ref()?;
        let domains = windows.domains();
        let dropped = MessageArrival::Dropped { window: number };
        let Some(entry) = windows.entry(number) else {
            return Some(dropped);
        };
        // An entry that cannot be read does not exist.
        let Some(word) = self.words.load(entry, window::ENTRY) else {
            return Some(dropped);
        };
        let count = field(word, window::ENTRY_COUNT, window::ENTRY_COUNT_SHIFT);
        let index = data
            .map(u64::from)
            .filter(|&data| word & window::ENTRY_V != 0 && data < count);
        let Some(index) = index else {
            self.words
                .update(entry, window::DROPPED, |count| count.wrapping_add(1));
            return Some(dropped);
        };
        let first = field(word, window::ENTRY_FIRST, window::ENTRY_FIRST_SHIFT);
        let id = field(word, window::ENTRY_DOM, window::ENTRY_DOM_SHIFT) as u16;
        let source = u16::try_from(first + index).ok();
        let domain = self.domain_in(domains, id);
        let merged = source
            .zip(domain)
            .and_then(|(source, domain)| Some((source, self.pulse_source(&domain, source)?)));
        Some(match merged {
            Some((source, merged)) => MessageArrival::Window {
                window: number,
                domain: id,
                source,
                merged,
            },
            None => dropped,
        })
    }
}
