//! A representative of all states that differ only in the numbering of harts and vCPUs.
//!
//! Sound because no rule compares numbers: where the preferred queue is closed, any other will do
//! (DEL-11).

use crate::config::Config;
use crate::state::{Access, Decision, Handler, MAX, RunState, Stage, State};

type Permutation = [u8; MAX];

const PERMUTATIONS: [Permutation; 6] = [
    [0, 1, 2],
    [1, 0, 2],
    [0, 2, 1],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// Permutations that move the first `n` numbers only.
fn permutations(n: u8) -> &'static [Permutation] {
    match n {
        1 => &PERMUTATIONS[..1],
        2 => &PERMUTATIONS[..2],
        _ => &PERMUTATIONS,
    }
}

/// The smallest of all states that result from renumbering `s`.
pub(crate) fn representative(config: &Config, s: &State) -> State {
    let mut least: Option<State> = None;
    for harts in permutations(config.harts) {
        for vcpus in permutations(config.vcpus) {
            let next = renumber(config, s, harts, vcpus);
            if least.is_none_or(|least| next < least) {
                least = Some(next);
            }
        }
    }
    least.unwrap_or(*s)
}

fn renumber(config: &Config, s: &State, harts: &Permutation, vcpus: &Permutation) -> State {
    let hart = |h: u8| harts[usize::from(h)];
    let vcpu = |v: u8| vcpus[usize::from(v)];
    let set = |old: u8| {
        let members = (0..MAX as u8).filter(|h| old >> h & 1 == 1);
        members.fold(0, |new, h| new | 1 << hart(h))
    };
    let decision = |d: Decision| match d {
        Decision::Wake(h) => Decision::Wake(hart(h)),
        Decision::Yield(h) => Decision::Yield(hart(h)),
    };
    let access = |a: &Access| {
        let stage = match a.stage {
            Stage::Free => return *a,
            Stage::LatePost(hit) => Stage::LatePost(hit.map(hart)),
            Stage::Lookup(decided) => Stage::Lookup(decided.map(decision)),
            Stage::Poke(h) => Stage::Poke(hart(h)),
            Stage::PokeRest(h, soft) => Stage::PokeRest(hart(h), soft),
            Stage::Queue(decided, closed) => Stage::Queue(decision(decided), set(closed)),
            Stage::Store(decided, h) => Stage::Store(decision(decided), hart(h)),
            other => other,
        };
        Access {
            stage,
            target: vcpu(a.target),
            ..*a
        }
    };
    let mut next = *s;
    for (i, old) in s.harts.iter().enumerate() {
        let mut new = *old;
        new.slot = old.slot.map(vcpu);
        new.thread = old.thread.map(vcpu);
        for note in new.queue.iter_mut().flatten() {
            note.vcpu = vcpu(note.vcpu);
        }
        match &mut new.handler {
            Handler::Clear(note) | Handler::Wake(note) => note.vcpu = vcpu(note.vcpu),
            _ => {}
        }
        next.harts[usize::from(harts[i])] = new;
        next.rechecks[usize::from(harts[i])] = access(&s.rechecks[i]);
    }
    for (i, old) in s.vcpus.iter().enumerate() {
        let mut new = *old;
        let named = match old.state {
            RunState::Halted | RunState::Preempted => true,
            RunState::Loaded => config.features.directory,
            RunState::Stopped => false,
        };
        if named {
            new.hart = hart(old.hart);
        }
        next.vcpus[usize::from(vcpus[i])] = new;
    }
    next.rechecks[MAX] = access(&s.rechecks[MAX]);
    next.posts = s.posts.map(|post| access(&post));
    next.posts.sort_unstable_by(|a, b| b.cmp(a));
    next
}
