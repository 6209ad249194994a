//! The protocol as the checker sees it, and running the checker.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use crate::config::Config;
use crate::model::{Action, Protocol};
use crate::state::State;
use crate::{properties, symmetry};

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.initial()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        self.environment(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let next = self.apply(state, action)?;
        Some(if self.config.symmetry {
            symmetry::representative(&self.config, &next)
        } else {
            next
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(&self.config)
    }
}

/// States along a path with the action that leaves each.
pub type Path = Vec<(State, Option<Action>)>;

/// What a run found.
#[derive(Debug)]
pub struct Outcome {
    /// Different states visited.
    pub states: usize,
    /// Transitions taken.
    pub transitions: usize,
    /// Longest of the shortest paths from the initial state.
    pub depth: usize,
    /// Wall-clock time.
    pub time: Duration,
    /// Properties that failed, each with a shortest path if `threads` was 1.
    pub violations: Vec<(&'static str, Path)>,
    /// What ought to be reachable and is not.
    pub unreachable: Vec<&'static str>,
}

/// Visit every state; stop at the first violation of any property.
pub fn check(config: Config, threads: usize) -> Outcome {
    run(config, threads, HasDiscoveries::AnyFailures, None)
}

/// As [`check`], but give up after about this many transitions: the outcome covers what was
/// visited.
pub fn check_some(config: Config, threads: usize, limit: usize) -> Outcome {
    run(config, threads, HasDiscoveries::AnyFailures, Some(limit))
}

/// Look for a shortest counterexample of this property.
pub fn find(config: Config, property: &'static str) -> Outcome {
    // Renumbered states would make the path unreadable.
    run(
        Config {
            symmetry: false,
            ..config
        },
        1,
        HasDiscoveries::AllOf(BTreeSet::from([property])),
        None,
    )
}

fn run(config: Config, threads: usize, until: HasDiscoveries, limit: Option<usize>) -> Outcome {
    let start = Instant::now();
    let mut builder = Protocol::new(config)
        .checker()
        .threads(threads)
        .finish_when(until);
    if let Some(limit) = limit {
        builder = builder.target_state_count(limit);
    }
    let checker = builder.spawn_bfs().join();
    let properties = Protocol::new(config).properties();
    let mut found = checker.discoveries();
    let mut violations = Vec::new();
    let mut unreachable = Vec::new();
    for property in properties {
        let discovery = found.remove(property.name);
        match (property.expectation, discovery) {
            (Expectation::Sometimes, None) => unreachable.push(property.name),
            (Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => violations.push((property.name, path.into_vec())),
        }
    }
    Outcome {
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        depth: checker.max_depth(),
        time: start.elapsed(),
        violations,
        unreachable,
    }
}

/// What [`visit`] found.
#[derive(Debug)]
pub struct Verdict {
    /// Different states visited.
    pub states: usize,
    /// Properties that failed, each with the actions of a path.
    pub violated: Vec<(&'static str, String)>,
    /// What ought to be reachable and is not.
    pub missing: Vec<&'static str>,
}

/// Visits every state of a small model; with the name of a property, only until that fails.
pub fn visit<M>(model: M, until: Option<&'static str>) -> Verdict
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let expected = model.properties();
    let until = until.map_or(HasDiscoveries::All, |name| {
        HasDiscoveries::AllOf(BTreeSet::from([name]))
    });
    let checker = model.checker().finish_when(until).spawn_bfs().join();
    let mut found = checker.discoveries();
    let (mut violated, mut missing) = (Vec::new(), Vec::new());
    for property in expected {
        match (property.expectation, found.remove(property.name)) {
            (Expectation::Sometimes, None) => missing.push(property.name),
            (Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => {
                violated.push((property.name, format!("{:?}", path.into_actions())));
            }
        }
    }
    Verdict {
        states: checker.unique_state_count(),
        violated,
        missing,
    }
}
