//! Real-time boosts keep their promises in every state, and each of their rules is needed for one.

use trapless_protocol::boosts::{BOUNDED, Boosts, Broken, EFFECTIVE, ENDED, NOT_INHERITED, PAID};
use trapless_protocol::visit;

#[test]
fn boosts_hold() {
    let found = visit(Boosts { broken: None }, None);
    println!("{} states", found.states);
    assert!(found.violated.is_empty(), "{:#?}", found.violated);
    assert!(found.missing.is_empty(), "never: {:?}", found.missing);
    assert!(found.states > 1_000);
}

#[test]
fn each_rule_is_needed() {
    for (broken, property) in [
        (Broken::OwnPolicy, ENDED),
        (Broken::OwnPolicy, NOT_INHERITED),
        (Broken::NeverClosed, ENDED),
        (Broken::NoUnlock, ENDED),
        (Broken::RaisedWithoutLock, PAID),
        (Broken::NoLookAtLoad, BOUNDED),
        (Broken::NotWoken, EFFECTIVE),
        (Broken::NotIdle, PAID),
    ] {
        let model = Boosts {
            broken: Some(broken),
        };
        let violated = visit(model, None).violated;
        let found = violated.iter().any(|(name, _)| *name == property);
        assert!(found, "{broken:?} violates {violated:#?}, not: {property}");
    }
}
