//! Broken rules: the model in which each is detected, and the properties that must fail.

use crate::config::Mutation::{self, *};
use crate::config::{Config, Features, Mutations, OnRules};
use crate::properties::{
    COMES_TO_REST, NO_DUPLICATE, NO_LOST_WAKEUP, NO_MISSED_DELIVERY, NO_WRONG_TARGET, ONE_HART,
    RESTRAINT, TOLD_ONCE,
};

/// A broken rule.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// The mutation.
    pub mutation: Mutation,
    /// Harts and vCPUs that suffice.
    pub size: (u8, u8),
    /// Properties that must fail under the rules `Draft`; none: all hold, because another rule
    /// compensates for it.
    pub draft: &'static [&'static str],
    /// The same under the rules `Strict`.
    pub strict: &'static [&'static str],
}

const LOST: &[&str] = &[NO_LOST_WAKEUP];
const NONE: &[&str] = &[];

impl Case {
    /// All cases.
    pub const ALL: &[Self] = &[
        case("lookup-before-post", LookupBeforePost, (2, 2), LOST, LOST),
        case(
            "attach-reads-first",
            AttachReadsFirst,
            (2, 2),
            MISSED,
            MISSED,
        ),
        case(
            "detach-rechecks-first",
            DetachRechecksFirst,
            (2, 2),
            LOST,
            LOST,
        ),
        case(
            "detach-without-recheck",
            DetachWithoutRecheck,
            (2, 2),
            LOST,
            LOST,
        ),
        case("detach-state-late", DetachStateLate, (2, 1), LOST, LOST),
        case(
            "detach-notifies-late",
            DetachNotifiesLate,
            (2, 1),
            NONE,
            NONE,
        ),
        case(
            "on-kept-while-loaded",
            OnKeptWhileLoaded,
            (2, 1),
            LOST,
            NONE,
        ),
        case("on-set-always", OnSetAlways, (2, 1), NONE, LOST),
        case("on-before-lookup", OnBeforeLookup, (2, 1), NONE, LOST),
        case("poke-with-payload", PokeWithPayload, (2, 2), WRONG, WRONG),
        case(
            "clear-in-two-steps",
            ClearInTwoSteps,
            (2, 2),
            MISSED,
            MISSED,
        ),
        case(
            "queue-dropped-on-disable",
            QueueDroppedOnDisable,
            (2, 1),
            LOST,
            LOST,
        ),
        case(
            "queue-chosen-then-stored",
            QueueChosenThenStored,
            (2, 1),
            LOST,
            LOST,
        ),
        case("on-cleared-unheard", OnClearedUnheard, (1, 1), NONE, LOST),
        case(
            "deliverability-early",
            DeliverabilityEarly,
            (2, 1),
            LOST,
            LOST,
        ),
        case("pokes-overlap", PokesOverlap, (2, 1), MISSED, MISSED),
        case("open-without-sync", OpenWithoutSync, (2, 1), LOST, LOST),
        case("open-without-scan", OpenWithoutScan, (1, 1), LOST, LOST),
        case("sleep-not-counted", SleepNotCounted, (1, 1), LOST, LOST),
        case("scan-takes-all", ScanTakesAll, (1, 2), NONE, &[RESTRAINT]),
        case("eval-without-sync", EvalWithoutSync, (2, 1), LOST, LOST),
        case(
            "overflow-unreported",
            OverflowUnreported,
            (1, 2),
            LOST,
            LOST,
        ),
        case("handler-clears-late", HandlerClearsLate, (2, 1), NONE, LOST),
        case("handler-keeps-on", HandlerKeepsOn, (2, 1), NONE, LOST),
        case(
            "handler-keeps-halted",
            HandlerKeepsHalted,
            (2, 1),
            NONE,
            &[TOLD_ONCE],
        ),
        case("handler-trusts-kind", HandlerTrustsKind, (2, 1), LOST, LOST),
        case(
            "blocks-halted",
            BlocksHalted,
            (1, 1),
            &[COMES_TO_REST],
            &[COMES_TO_REST],
        ),
        case("latch-ignored", LatchIgnored, (2, 1), NONE, NONE),
        case("interruptible-late", InterruptibleLate, (2, 1), NONE, NONE),
        case(
            "migrate-before-detach",
            MigrateBeforeDetach,
            (2, 1),
            &[ONE_HART],
            &[ONE_HART],
        ),
    ];

    /// The case of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|case| case.name == name)
    }

    /// The model in which it is checked, without merged steps.
    pub fn config(&self, rules: OnRules) -> Config {
        let (harts, vcpus) = self.size;
        let features = Features {
            hotplug: matches!(
                self.mutation,
                QueueDroppedOnDisable | QueueChosenThenStored | OpenWithoutSync
            ),
            sleep: matches!(
                self.mutation,
                OnClearedUnheard | OpenWithoutScan | SleepNotCounted
            ),
            enables: self.mutation == DeliverabilityEarly,
            priority: self.mutation == EvalWithoutSync,
            external: self.mutation == PokesOverlap,
            words: self.mutation == PokesOverlap,
            user: self.mutation == DetachStateLate,
            vsie: self.mutation == BlocksHalted,
            ..Features::default()
        };
        let alone = vcpus == 1;
        Config {
            in_flight: if alone { 1 } else { 2 },
            sends: (!alone).then_some(3),
            queue: if matches!(self.mutation, OverflowUnreported | ScanTakesAll) {
                1
            } else {
                vcpus
            },
            features,
            rules,
            mutations: Mutations::of(&[self.mutation]),
            merge: false,
            ..Config::new(harts, vcpus)
        }
    }

    /// Properties that must fail under these rules.
    pub fn violates(&self, rules: OnRules) -> &'static [&'static str] {
        if rules == OnRules::Strict {
            self.strict
        } else {
            self.draft
        }
    }
}

const MISSED: &[&str] = &[NO_MISSED_DELIVERY];
const WRONG: &[&str] = &[NO_WRONG_TARGET, NO_DUPLICATE];

const fn case(
    name: &'static str,
    mutation: Mutation,
    size: (u8, u8),
    draft: &'static [&'static str],
    strict: &'static [&'static str],
) -> Case {
    Case {
        name,
        mutation,
        size,
        draft,
        strict,
    }
}
