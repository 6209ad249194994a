//! The state of windows as rows.

use trapless_isa::xtrapless::window;

use super::Windows;
use crate::inspect::{Part, Row};
use crate::words::{Words, field};

impl Windows {
    /// Registers, windows that are in use or have dropped something, and wires that are given.
    pub fn rows(&self, words: &Words, rows: &mut Vec<Row>) {
        let mut part = Part::new(rows, None, "message windows");
        part.row(false, "DOMAINS", format!("{:#x}", self.domains()));
        part.row(false, "written by", format!("hart {}", self.hart()));
        part.row(self.failed, "STATUS.FLT", u8::from(self.failed).to_string());
        let last = u16::try_from((1u32 << self.size()) - 1).unwrap_or(u16::MAX);
        for number in 0..=last {
            let Some(entry) = self.entry(number) else {
                break;
            };
            let word = words.load(entry, window::ENTRY).unwrap_or(0);
            let dropped = words.load(entry, window::DROPPED).unwrap_or(0);
            if word & window::ENTRY_V == 0 && dropped == 0 {
                continue;
            }
            let get = |mask, shift| field(word, mask, shift);
            let use_ = if word & window::ENTRY_V == 0 {
                "not in use".into()
            } else {
                format!(
                    "domain {}, {} sources from {} on",
                    get(window::ENTRY_DOM, window::ENTRY_DOM_SHIFT),
                    get(window::ENTRY_COUNT, window::ENTRY_COUNT_SHIFT),
                    get(window::ENTRY_FIRST, window::ENTRY_FIRST_SHIFT),
                )
            };
            let value = format!("{use_}, {dropped} dropped");
            part.row(true, format!("window {number}"), value);
        }
        for (wire, given) in &self.wires {
            let level = if given.high { "high" } else { "low" };
            let value = format!("domain {} source {}, {level}", given.domain, given.source);
            part.row(true, format!("wire {wire}"), value);
        }
    }
}
