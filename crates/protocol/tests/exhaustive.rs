//! The protocol keeps its promises in every state of small systems.

use trapless_protocol::{BOUNDED, Config, Features, OnRules, check, comes_to_rest, find, trace};

fn holds(config: Config) -> usize {
    let outcome = check(config, 1);
    let seconds = outcome.time.as_secs_f64();
    println!(
        "{config:?}: {} states, depth {}, {seconds:.1} s",
        outcome.states, outcome.depth
    );
    if let Some((name, path)) = outcome.violations.first() {
        panic!("{name}:\n{}", trace(&config, path));
    }
    assert!(
        outcome.unreachable.is_empty(),
        "never: {:?}",
        outcome.unreachable
    );
    outcome.states
}

fn rests(config: Config) {
    let rest = comes_to_rest(config);
    println!(
        "{config:?}: {} states, {:.1} s",
        rest.states,
        rest.time.as_secs_f64()
    );
    if let Some((stem, around)) = &rest.example {
        panic!(
            "{}\nand then for ever\n{}",
            trace(&config, stem),
            trace(&config, around)
        );
    }
}

fn one_at_a_time(harts: u8, vcpus: u8) -> Config {
    Config {
        in_flight: 1,
        ..Config::new(harts, vcpus)
    }
}

#[test]
fn two_harts_and_two_vcpus_hold() {
    holds(Config {
        sends: Some(2),
        ..one_at_a_time(2, 2)
    });
}

#[test]
fn two_harts_and_one_vcpu_hold_without_bound_on_sends() {
    holds(Config {
        in_flight: 3,
        ..Config::new(2, 1)
    });
}

#[test]
fn one_hart_and_two_vcpus_hold_without_bound_on_sends() {
    holds(Config {
        in_flight: 2,
        ..Config::new(1, 2)
    });
}

#[test]
fn three_harts_and_one_vcpu_hold_without_bound_on_sends() {
    holds(one_at_a_time(3, 1));
}

#[test]
fn one_send_among_three_vcpus_holds() {
    for (harts, vcpus) in [(2, 3), (3, 2)] {
        holds(Config {
            sends: Some(1),
            ..one_at_a_time(harts, vcpus)
        });
    }
}

#[test]
fn optional_parts_hold() {
    let none = Features::default();
    for features in [
        Features {
            external: true,
            enables: true,
            ..none
        },
        Features { vsie: true, ..none },
        Features {
            vsie: true,
            external: true,
            ..none
        },
        Features { user: true, ..none },
        Features {
            hotplug: true,
            ..none
        },
        Features { any: true, ..none },
        Features {
            directory: true,
            ..none
        },
    ] {
        holds(Config {
            features,
            ..Config::new(2, 1)
        });
    }
}

/// What a post reads to learn whether it is deliverable may change at any moment, and a hart reads
/// its file word by word.
#[test]
fn loads_in_several_steps_hold() {
    let none = Features::default();
    for features in [
        Features {
            enables: true,
            threshold: true,
            ..none
        },
        Features {
            external: true,
            words: true,
            ..none
        },
    ] {
        holds(Config {
            features,
            ..one_at_a_time(2, 1)
        });
    }
    holds(Config {
        sends: Some(1),
        features: Features {
            priority: true,
            ..none
        },
        ..one_at_a_time(2, 1)
    });
}

/// Harts fall asleep until no queue is open.
#[test]
fn closed_queues_lose_nothing() {
    let features = Features {
        sleep: true,
        ..Features::default()
    };
    let config = Config {
        features,
        ..one_at_a_time(1, 1)
    };
    holds(config);
    rests(config);
    holds(Config {
        sends: Some(1),
        features,
        ..one_at_a_time(2, 1)
    });
}

#[test]
fn overflowing_queues_lose_nothing() {
    holds(Config {
        queue: 1,
        sends: Some(2),
        ..one_at_a_time(1, 2)
    });
}

#[test]
fn host_and_hardware_come_to_rest() {
    let vsie = Features {
        vsie: true,
        ..Features::default()
    };
    rests(Config::new(2, 1));
    rests(Config {
        features: vsie,
        ..Config::new(2, 1)
    });
    rests(one_at_a_time(1, 2));
    rests(Config {
        sends: Some(1),
        ..one_at_a_time(2, 2)
    });
}

/// What is merged and identified is invisible: verdicts are the same without.
#[test]
fn reductions_change_no_verdict() {
    for (harts, vcpus) in [(2, 1), (1, 2)] {
        let reduced = one_at_a_time(harts, vcpus);
        let some = holds(reduced);
        assert!(
            some < holds(Config {
                merge: false,
                ..reduced
            })
        );
        assert!(
            some < holds(Config {
                symmetry: false,
                ..reduced
            })
        );
    }
}

/// Why the draft was given up: notifications of one vCPU pile up.
#[test]
fn draft_lets_notifications_pile_up() {
    let config = Config {
        rules: OnRules::Draft,
        check_bound: true,
        merge: false,
        ..Config::new(2, 1)
    };
    let outcome = find(config, BOUNDED);
    assert!(outcome.violations.iter().any(|(name, _)| *name == BOUNDED));
}

/// The host's handler could be changed before the controller; and the draft lost nothing either.
#[test]
#[ignore = "long"]
fn draft_holds_with_either_handler() {
    for rules in [OnRules::Draft, OnRules::StrictHandler] {
        holds(Config {
            rules,
            ..one_at_a_time(2, 1)
        });
    }
}

/// Minutes: `cargo test --release -p trapless-protocol -- --ignored --nocapture`.
#[test]
#[ignore = "long"]
fn larger_systems_hold() {
    holds(one_at_a_time(2, 2));
    holds(Config {
        sends: Some(2),
        ..Config::new(2, 2)
    });
    holds(Config {
        sends: Some(1),
        ..one_at_a_time(3, 3)
    });
    let none = Features::default();
    for features in [
        Features {
            sleep: true,
            ..none
        },
        Features {
            priority: true,
            enables: true,
            threshold: true,
            ..none
        },
        Features {
            external: true,
            words: true,
            directory: true,
            ..none
        },
    ] {
        holds(Config {
            features,
            ..one_at_a_time(2, 1)
        });
    }
    holds(Config {
        sends: Some(1),
        features: Features {
            sleep: true,
            ..none
        },
        ..one_at_a_time(2, 2)
    });
}
