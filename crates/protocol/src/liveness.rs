//! Host and hardware come to rest: no endless chain of actions without the environment.
//!
//! Together with the property "nothing stuck" this is eventual delivery: once nothing is sent or
//! preempted any more, every schedule ends, and where it ends every post has been taken. The
//! checker's own "eventually" properties are not used: they are not sound for graphs with joins and
//! cycles.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use std::hash::BuildHasher;

use stateright::Model;

use crate::check::Path;
use crate::config::Config;
use crate::model::{Action, Protocol};
use crate::state::State;

/// Outcome of [`comes_to_rest`].
#[derive(Debug)]
pub struct Rest {
    /// Different states visited.
    pub states: usize,
    /// Transitions without the environment.
    pub transitions: usize,
    /// States from which an endless chain can be entered (0: the property holds).
    pub endless: usize,
    /// A path into an endless chain, and once around it.
    pub example: Option<(Path, Path)>,
    /// Wall-clock time.
    pub time: Duration,
}

/// Builds the graph of all reachable states and removes, again and again, those without successors
/// by [`Protocol::progress`]; what remains is endless.
pub fn comes_to_rest(config: Config) -> Rest {
    let start = Instant::now();
    let model = Protocol::new(config);
    // 64-bit fingerprints instead of states, as the checker has them.
    let hasher = std::hash::RandomState::new();
    let fingerprint = |state: &State| hasher.hash_one(state);
    let mut numbers = HashMap::new();
    let mut states = model.init_states();
    for (i, state) in states.iter().enumerate() {
        numbers.insert(fingerprint(state), i as u32);
    }
    // Predecessors by progress, as (state, predecessor) pairs; and the number of successors left.
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut left: Vec<u32> = Vec::new();
    let mut parents: Vec<Option<(u32, Action)>> = vec![None; states.len()];
    let mut actions = Vec::new();
    let mut at = 0;
    while at < states.len() {
        let state = states[at];
        model.progress(&state, &mut actions);
        let own = actions.len();
        model.environment(&state, &mut actions);
        let mut successors = 0;
        for (i, action) in actions.drain(..).enumerate() {
            let Some(next) = model.next_state(&state, action) else {
                continue;
            };
            let number = *numbers.entry(fingerprint(&next)).or_insert_with(|| {
                states.push(next);
                parents.push(Some((at as u32, action)));
                (states.len() - 1) as u32
            });
            if i < own {
                edges.push((number, at as u32));
                successors += 1;
            }
        }
        left.push(successors);
        at += 1;
    }
    edges.sort_unstable();
    let mut resting: Vec<u32> = (0u32..)
        .zip(&left)
        .filter(|&(_, &n)| n == 0)
        .map(|(i, _)| i)
        .collect();
    let mut rested = 0;
    while let Some(state) = resting.pop() {
        rested += 1;
        let first = edges.partition_point(|&(to, _)| to < state);
        for &(_, from) in edges[first..].iter().take_while(|&&(to, _)| to == state) {
            left[from as usize] -= 1;
            if left[from as usize] == 0 {
                resting.push(from);
            }
        }
    }
    Rest {
        states: states.len(),
        transitions: edges.len(),
        endless: states.len() - rested,
        example: left.iter().position(|&n| n > 0).map(|i| {
            let endless = |state: &State| left[numbers[&fingerprint(state)] as usize] > 0;
            example(&model, &states, &parents, i, endless)
        }),
        time: start.elapsed(),
    }
}

/// The way to state `at`, and from there around a cycle of progress among endless states.
fn example(
    model: &Protocol,
    states: &[State],
    parents: &[Option<(u32, Action)>],
    at: usize,
    endless: impl Fn(&State) -> bool,
) -> (Path, Path) {
    let mut stem = vec![(states[at], None)];
    let mut child = at;
    while let Some((parent, action)) = parents[child] {
        child = parent as usize;
        stem.push((states[child], Some(action)));
    }
    stem.reverse();
    let mut chain: Path = Vec::new();
    let mut state = states[at];
    let mut actions = Vec::new();
    loop {
        if let Some(start) = chain.iter().position(|(seen, _)| *seen == state) {
            let around = chain.split_off(start);
            // The part that leads from the stem to the cycle belongs to the stem.
            if !chain.is_empty() {
                stem.pop();
                stem.append(&mut chain);
                stem.push((state, None));
            }
            return (stem, around.into_iter().chain([(state, None)]).collect());
        }
        actions.clear();
        model.progress(&state, &mut actions);
        let step = actions.iter().find_map(|&action| {
            let next = model.next_state(&state, action)?;
            endless(&next).then_some((action, next))
        });
        let (action, next) = step.expect("an endless state has an endless successor");
        chain.push((state, Some(action)));
        state = next;
    }
}
