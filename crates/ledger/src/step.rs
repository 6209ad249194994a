//! Names and fields of the steps of virtual interrupts, the same in streams, logs and traces.

use std::fmt;

use crate::class::{Left, NotificationKind};
use crate::event::{EventOrigin, StepKind};

/// Value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// A name.
    Name(&'static str),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Flag(flag) => u8::from(*flag).fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Name of a state that a vhart is left in (`hifmap.STATE`).
pub fn state_name(state: u8) -> &'static str {
    Left::of(state).map_or("other", Left::name)
}

/// Name of what posts an event.
pub fn origin_name(origin: EventOrigin) -> &'static str {
    match origin {
        EventOrigin::Guest => "guest",
        EventOrigin::Doorbell => "doorbell",
        EventOrigin::Host => "host",
    }
}

/// Name of a step, for instance `post_soft`.
pub fn name(kind: &StepKind) -> &'static str {
    match kind {
        StepKind::PostSoft { .. } => "post_soft",
        StepKind::PostSource { .. } => "post_source",
        StepKind::Hit { .. } => "hit",
        StepKind::Notified { .. } => "notified",
        StepKind::Silent { .. } => "silent",
        StepKind::Lowered { .. } => "lowered",
        StepKind::Claimed { .. } => "claimed",
        StepKind::Completed { .. } => "completed",
        StepKind::Attached { .. } => "attached",
        StepKind::Detached { .. } => "detached",
        StepKind::HartIpi { .. } => "hart_ipi",
        StepKind::Fetched { .. } => "fetched",
        StepKind::Overflow { .. } => "overflow",
        StepKind::Message { .. } => "message",
        StepKind::FileClaimed { .. } => "file_claimed",
        StepKind::FileSelected { .. } => "file_selected",
        StepKind::EventPosted { .. } => "event_posted",
        StepKind::EventQueued { .. } => "event_queued",
        StepKind::EventTaken { .. } => "event_taken",
        StepKind::ContextEntered { .. } => "context_entered",
        StepKind::ContextLeft { .. } => "context_left",
    }
}

/// Fields of a step with their names, in the order of its definition.
pub fn fields(kind: &StepKind) -> Vec<(&'static str, Field)> {
    let id = |n: u16| Field::Number(n.into());
    let hart = |n: usize| Field::Number(n as u64);
    let notification = |n: u8| Field::Name(NotificationKind::of(n).name());
    match *kind {
        StepKind::PostSoft { vhart, merged } => {
            vec![("vhart", id(vhart)), ("merged", Field::Flag(merged))]
        }
        StepKind::PostSource {
            vhart,
            source,
            merged,
        } => vec![
            ("vhart", id(vhart)),
            ("source", id(source)),
            ("merged", Field::Flag(merged)),
        ],
        StepKind::Hit { vhart, on } => vec![("vhart", id(vhart)), ("on", hart(on))],
        StepKind::Notified { vhart, to, kind } => vec![
            ("vhart", id(vhart)),
            ("to", hart(to)),
            ("kind", notification(kind)),
        ],
        StepKind::Silent { vhart } => vec![("vhart", id(vhart))],
        StepKind::Lowered { source } => vec![("source", id(source))],
        StepKind::Claimed { vhart, source } => {
            vec![("vhart", id(vhart)), ("source", id(source))]
        }
        StepKind::Completed {
            vhart,
            source,
            again,
        } => vec![
            ("vhart", id(vhart)),
            ("source", id(source)),
            ("again", Field::Flag(again)),
        ],
        StepKind::Attached { vhart } => vec![("vhart", id(vhart))],
        StepKind::Detached { vhart, state } => vec![
            ("vhart", id(vhart)),
            ("state", Field::Name(state_name(state))),
        ],
        StepKind::HartIpi { to } => vec![("to", hart(to))],
        StepKind::Fetched { id: what, kind } => {
            vec![("id", id(what)), ("kind", notification(kind))]
        }
        StepKind::Overflow { on } => vec![("on", hart(on))],
        StepKind::Message {
            on,
            file,
            identity,
            merged,
        } => vec![
            ("on", hart(on)),
            ("file", id(file.into())),
            ("identity", id(identity)),
            ("merged", Field::Flag(merged)),
        ],
        StepKind::FileClaimed { file, identity } => {
            vec![("file", id(file.into())), ("identity", id(identity))]
        }
        StepKind::FileSelected { file } => vec![("file", id(file.into()))],
        StepKind::EventPosted {
            request,
            by,
            merged,
        } => vec![
            ("request", id(request)),
            ("by", Field::Name(origin_name(by))),
            ("merged", Field::Flag(merged)),
        ],
        StepKind::EventQueued { to, id: what } => {
            vec![("to", hart(to)), ("id", Field::Number(what.into()))]
        }
        StepKind::EventTaken { id: what }
        | StepKind::ContextEntered { id: what }
        | StepKind::ContextLeft { id: what } => vec![("id", Field::Number(what.into()))],
    }
}
