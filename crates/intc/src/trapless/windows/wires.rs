//! Wires that are given to a domain: their level is the line of a source.

use serde::{Deserialize, Serialize};
use trapless_isa::xtrapless::wcontrol;

use super::super::operation::Operation;

/// Whose a wire is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in super::super) struct Given {
    pub domain: u16,
    pub source: u16,
    /// Level of the wire.
    pub high: bool,
    /// It is edge-triggered.
    pub edge: bool,
}

/// What a given wire does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Change {
    /// It is driven to this level; a high wire may be driven high again.
    Driven(bool),
    /// It begins to be the domain's, or is so anew (WIRE-3).
    Given,
    /// It ends to be the domain's (WIRE-4).
    TakenBack,
}

impl Given {
    /// Value of its register.
    pub fn encode(&self) -> u64 {
        wcontrol::WIRE_V
            | u64::from(self.domain) << wcontrol::WIRE_DOM_SHIFT
            | u64::from(self.source) << wcontrol::WIRE_ID_SHIFT
    }
}

impl Operation<'_> {
    /// The source of a wire follows what the wire does (WIRE-1).
    pub(in super::super) fn drive_wire(&mut self, given: Given, change: Change) {
        let Some(domains) = self.state.windows.as_ref().map(super::Windows::domains) else {
            return;
        };
        let Some(domain) = self.domain_in(domains, given.domain) else {
            return;
        };
        match change {
            Change::Driven(true) if given.edge => {
                self.pulse_source(&domain, given.source);
            }
            _ if given.edge => {}
            Change::Driven(true) => self.raise_source(&domain, given.source),
            Change::Given if given.high => self.raise_source(&domain, given.source),
            Change::Given => {}
            Change::Driven(false) | Change::TakenBack => {
                self.lower_source(&domain, given.source);
            }
        }
    }
}
