//! User contexts keep their promises in every state of a small system, and each of their rules is
//! needed for one.

use trapless_protocol::contexts::{
    Broken, Contexts, FORGOTTEN, HANDLED, ONE_RUNNER, ONE_TOKEN, QUIET,
};
use trapless_protocol::visit;

#[test]
fn contexts_hold() {
    let model = Contexts {
        broken: None,
        posts: 4,
    };
    let found = visit(model, None);
    println!("{} states", found.states);
    assert!(found.violated.is_empty(), "{:#?}", found.violated);
    assert!(found.missing.is_empty(), "never: {:?}", found.missing);
    assert!(found.states > 10_000);
}

#[test]
fn each_rule_is_needed() {
    for (broken, property) in [
        (Broken::TokenFirst, HANDLED),
        (Broken::NoLook, HANDLED),
        (Broken::LookFirst, HANDLED),
        (Broken::HandOverWithoutToken, ONE_TOKEN),
        (Broken::HandOverWithoutToken, ONE_RUNNER),
        (Broken::CloseWithoutInterrupt, QUIET),
        (Broken::FreeWithoutDrain, FORGOTTEN),
    ] {
        let model = Contexts {
            broken: Some(broken),
            posts: 3,
        };
        let violated = visit(model, None).violated;
        let found = violated.iter().any(|(name, _)| *name == property);
        assert!(found, "{broken:?} violates {violated:#?}, not: {property}");
    }
}
