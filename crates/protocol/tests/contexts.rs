//! User contexts keep their promises in every state of a small system, and each of their rules is
//! needed for one.

use trapless_protocol::contexts::{
    Broken, Contexts, FORGOTTEN, ONE_RUNNER, ONE_TOKEN, QUIET, TOLD, check_contexts,
};

#[test]
fn contexts_hold() {
    let (states, violated, missing) = check_contexts(Contexts {
        broken: None,
        posts: 4,
    });
    println!("{states} states");
    assert!(violated.is_empty(), "{violated:#?}");
    assert!(missing.is_empty(), "never: {missing:?}");
    assert!(states > 10_000);
}

#[test]
fn each_rule_is_needed() {
    for (broken, property) in [
        (Broken::TokenFirst, TOLD),
        (Broken::NoLook, TOLD),
        (Broken::LookFirst, TOLD),
        (Broken::HandOverWithoutToken, ONE_TOKEN),
        (Broken::HandOverWithoutToken, ONE_RUNNER),
        (Broken::CloseWithoutInterrupt, QUIET),
        (Broken::FreeWithoutDrain, FORGOTTEN),
    ] {
        let (_, violated, _) = check_contexts(Contexts {
            broken: Some(broken),
            posts: 3,
        });
        let found = violated.iter().any(|path| path.starts_with(property));
        assert!(found, "{broken:?} violates {violated:#?}, not: {property}");
    }
}
