//! Every broken rule is found, in the property that it breaks; rules that others make up for are
//! not.

use trapless_protocol::{COMES_TO_REST, Case, Config, OnRules, check, comes_to_rest, find, trace};

fn must_fail(case: &Case, rules: OnRules) {
    let config = case.config(rules);
    for &property in case.violates(rules) {
        if property == COMES_TO_REST {
            assert!(
                comes_to_rest(config).endless > 0,
                "{}: {property} holds",
                case.name
            );
            continue;
        }
        let outcome = find(config, property);
        let found = outcome
            .violations
            .iter()
            .find(|(name, _)| *name == property);
        let (_, path) = found.unwrap_or_else(|| panic!("{}: {property} holds", case.name));
        println!(
            "{} ({rules:?}): {property}\n{}",
            case.name,
            trace(&config, path)
        );
    }
}

#[test]
#[ignore = "long"]
fn mutations_of_the_draft_are_found() {
    for case in Case::ALL {
        must_fail(case, OnRules::Draft);
    }
}

#[test]
fn mutations_are_found() {
    for case in Case::ALL {
        must_fail(case, OnRules::Strict);
    }
}

#[test]
fn rules_that_others_make_up_for_may_be_dropped() {
    for case in Case::ALL.iter().filter(|case| case.strict.is_empty()) {
        let outcome = check(
            Config {
                merge: true,
                ..case.config(OnRules::Strict)
            },
            1,
        );
        assert!(
            outcome.violations.is_empty(),
            "{}: {:?}",
            case.name,
            outcome.violations
        );
    }
}

/// The same for the draft.
#[test]
#[ignore = "long"]
fn rules_that_others_make_up_for_may_be_dropped_from_the_draft() {
    for case in Case::ALL.iter().filter(|case| case.draft.is_empty()) {
        let outcome = check(
            Config {
                merge: true,
                ..case.config(OnRules::Draft)
            },
            1,
        );
        assert!(
            outcome.violations.is_empty(),
            "{}: {:?}",
            case.name,
            outcome.violations
        );
    }
}
