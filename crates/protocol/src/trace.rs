//! Text of paths.

use std::fmt::Write;

use crate::check::Path;
use crate::config::{Config, Mutation, Mutations};
use crate::model::Action;
use crate::state::{
    Access, Decision, Handler, Hart, Kind, MAX, Note, Pc, RunState, Scan, Stage, State, Vcpu,
};

/// One line for each action, with what it changes, and the state it ends in.
pub fn trace(config: &Config, path: &Path) -> String {
    let mut text = String::new();
    for (number, pair) in path.windows(2).enumerate() {
        let [(before, action), (after, _)] = pair else {
            continue;
        };
        let Some(action) = action else { continue };
        let words = describe(config.mutations, before, *action);
        let _ = writeln!(text, "{:3}. {words}{}", number + 1, changes(before, after));
    }
    if let Some((last, _)) = path.last() {
        for (v, vcpu) in last
            .vcpus
            .iter()
            .enumerate()
            .filter(|(_, v)| **v != Vcpu::default())
        {
            let _ = writeln!(
                text,
                "     vCPU {v}: {}, thread {:?}",
                file(vcpu),
                vcpu.thread
            );
        }
    }
    text
}

fn state(state: RunState) -> &'static str {
    match state {
        RunState::Stopped => "STOPPED",
        RunState::Preempted => "PREEMPTED",
        RunState::Halted => "HALTED",
        RunState::Loaded => "LOADED",
    }
}

fn file(vcpu: &Vcpu) -> String {
    let flag = |set, name| if set { name } else { "" };
    format!(
        "{}{}{}{}",
        state(vcpu.state),
        flag(vcpu.soft, " SOFT"),
        flag(vcpu.external, " PENDING"),
        flag(vcpu.on, " ON")
    )
}

fn lines(hart: &Hart) -> String {
    let flag = |set, name| if set { name } else { "" };
    let text = format!(
        "{}{}{}",
        flag(hart.ssip, " vsip.SSIP"),
        flag(hart.seip, " vsip.SEIP"),
        flag(hart.latch, " hip latch")
    );
    if text.is_empty() {
        " nothing".to_owned()
    } else {
        text
    }
}

fn changes(before: &State, after: &State) -> String {
    let mut text = String::new();
    for (v, (old, new)) in before.vcpus.iter().zip(&after.vcpus).enumerate() {
        if file(old) != file(new) {
            let _ = write!(text, "  [file {v}: {}]", file(new));
        }
        if old.thread != new.thread {
            let _ = write!(text, "  [thread {v}: {:?}]", new.thread);
        }
    }
    for (h, (old, new)) in before.harts.iter().zip(&after.harts).enumerate() {
        if lines(old) != lines(new) {
            let _ = write!(text, "  [hart {h} shows{}]", lines(new));
        }
    }
    text
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Soft => "software interrupt",
        Kind::External => "external interrupt",
    }
}

fn note(note: Note) -> String {
    format!(
        "{} of vCPU {}",
        if note.wake { "WAKE" } else { "YIELD" },
        note.vcpu
    )
}

fn access(access: &Access, who: &str) -> String {
    let v = access.target;
    match access.stage {
        Stage::Free => "nothing".to_owned(),
        Stage::LatePost(_) | Stage::Write => format!("{who} for vCPU {v} writes the file"),
        Stage::LateState(to) => format!("{who}: CTL of vCPU {v} becomes {}", state(to)),
        Stage::EarlyOn => format!("{who} for vCPU {v} updates CTL"),
        Stage::Lookup(_) => format!("{who} for vCPU {v} compares with the slots"),
        Stage::Poke(h) => format!("{who} for vCPU {v}: hart {h} reads its file again"),
        Stage::PokeRest(h, _) => format!("{who} for vCPU {v}: hart {h} reads the other words"),
        Stage::Check => format!("{who} for vCPU {v}: is anything deliverable?"),
        Stage::CheckThreshold => format!("{who} for vCPU {v} reads the threshold"),
        Stage::Sync => format!("SYNC after the change of the source of vCPU {v}"),
        Stage::Amo => format!("{who} for vCPU {v}: atomic update of CTL"),
        Stage::Queue(Decision::Wake(_), _) | Stage::Store(Decision::Wake(_), _) => {
            format!("{who} queues WAKE of vCPU {v}")
        }
        Stage::Queue(Decision::Yield(_), _) | Stage::Store(Decision::Yield(_), _) => {
            format!("{who} queues YIELD of vCPU {v}")
        }
    }
}

fn rechecker(index: usize) -> String {
    if index == MAX {
        "EVAL".to_owned()
    } else {
        format!("re-check of hart {index}")
    }
}

/// A notification meets the queue of hart `h`.
fn queue(s: &State, by: &Access, who: &str, h: u8) -> String {
    let refused = if s.harts[usize::from(h)].queue_enabled() {
        ""
    } else {
        ", which is closed"
    };
    format!("{} at hart {h}{refused}", access(by, who))
}

fn describe(broken: Mutations, s: &State, action: Action) -> String {
    let hart = |h: u8| &s.harts[usize::from(h)];
    let on = |h: u8| {
        hart(h)
            .thread
            .map_or_else(|| "nobody".to_owned(), |v| format!("vCPU {v}"))
    };
    match action {
        Action::Post { to, kind: k } => format!("somebody posts a {} to vCPU {to}", kind(k)),
        Action::Advance(i) => access(&s.posts[i], "post"),
        Action::AdvanceRecheck(h) => access(&s.rechecks[h], &rechecker(h)),
        Action::Queue(i, h) => queue(s, &s.posts[i], "post", h),
        Action::QueueRecheck(i, h) => queue(s, &s.rechecks[i], &rechecker(i), h),
        Action::Step(h) => step(broken, s, h),
        Action::Enter(h) => format!("hart {h} enters the guest of {}", on(h)),
        Action::Take(h, k) => format!("hart {h}: the guest of {} takes the {}", on(h), kind(k)),
        Action::Wfi(h) => format!("hart {h}: the guest of {} executes WFI, which traps", on(h)),
        Action::Trap(h) => format!("hart {h}: the guest of {} traps", on(h)),
        Action::Preempt(h) => format!("hart {h}: the scheduler preempts {}", on(h)),
        Action::Return(h) => format!("hart {h}: KVM_RUN of {} returns to user space", on(h)),
        Action::ScheduleIn(h, v) => {
            format!(
                "hart {h}: the scheduler switches to vCPU {v}; {}",
                attach(broken, 1)
            )
        }
        Action::Fetch(h) => {
            let entry = hart(h).queue[0].map_or_else(|| "only OVF".to_owned(), note);
            format!("hart {h} takes the notification interrupt: {entry}")
        }
        Action::Handle(h) => match hart(h).handler {
            Handler::Clear(n) => format!("hart {h}: the handler clears ON ({})", note(n)),
            Handler::Wake(n) => format!("hart {h}: the handler wakes vCPU {}", n.vcpu),
            Handler::Latch => format!("hart {h}: the handler of 2 and 10 wakes {}", on(h)),
            Handler::None => format!("hart {h}: nothing"),
        },
        Action::Scan(v) => match s.vcpus[usize::from(v)].scan {
            Scan::Clear => format!("work after the overflow clears ON of vCPU {v}"),
            _ => format!("work after the overflow wakes vCPU {v}"),
        },
        Action::TakeLatch(h) => format!("hart {h} takes VS-level interrupt 2 or 10 at V=0"),
        Action::FlipEnable(h) => format!("hart {h}: {} flips the enable bit of its source", on(h)),
        Action::FlipThreshold(h) => format!("hart {h}: {} changes its threshold", on(h)),
        Action::SetPriority(v) => {
            format!("the host changes the priority of the source of vCPU {v}")
        }
        Action::FlipMask(h) => format!("hart {h}: {} flips vsie", on(h)),
        Action::Unplug(h) => format!("hart {h} goes away: its queue is closed"),
        Action::Plug(h) => format!("hart {h} comes back: its queue is opened"),
    }
}

/// Description of a step of an attach, in the order of the rules, or of a mutation.
fn attach(broken: Mutations, step: u8) -> &'static str {
    let early = broken.has(Mutation::AttachReadsFirst);
    match (step, early) {
        (1, false) => "attach 1: the slot is visible",
        (2, false) => "attach 2: CTL becomes LOADED",
        (_, false) => "attach 3: the file is read",
        (1, true) => "attach 3, too early: the file is read",
        (2, true) => "attach 1: the slot is visible",
        (_, true) => "attach 2: CTL becomes LOADED",
    }
}

fn detach(broken: Mutations, step: u8, to: RunState) -> String {
    let to = state(to);
    match (step, broken.has(Mutation::DetachRechecksFirst)) {
        (1, false) | (2, true) => format!("detach 1 ({to}): the slot disappears"),
        (1, true) => format!("detach 2 and 3, too early: CTL becomes {to}, the file is checked"),
        (2, false) if broken.has(Mutation::DetachStateLate) => {
            format!("detach 2 ({to}) begins; the hart switches away")
        }
        (2, false) => format!("detach 2: CTL becomes {to}"),
        (3, false) => "detach 3 starts looking at the file".to_owned(),
        _ => "detach 3 is complete; the hart switches away".to_owned(),
    }
}

fn step(broken: Mutations, s: &State, h: u8) -> String {
    let hart = &s.harts[usize::from(h)];
    let what = match hart.pc {
        Pc::Attach(step) => attach(broken, step),
        Pc::Detach(step, to) => return format!("hart {h}: {}", detach(broken, step, to)),
        Pc::GuestClear => "the guest's clearing reaches the slot",
        Pc::SetInterruptible => "the thread sets TASK_INTERRUPTIBLE",
        Pc::CheckBlock => "kvm_vcpu_check_block reads the file",
        Pc::Schedule => "schedule(), which decides on the state to leave the vCPU in",
        Pc::Draining => "the queue is empty",
        Pc::Disable => "hnqbase is written",
        Pc::Opening => "SYNC is complete; the queue counts as open",
        Pc::Idle | Pc::Host | Pc::Guest | Pc::Offline => "nothing",
    };
    format!("hart {h}: {what}")
}
