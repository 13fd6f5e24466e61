//! Every key of the settings file: the effect of the key alone on a call.
//!
//! `keys!` declares a test for a key: a check that gets the key, and that must fail without it. A key of the schema
//! without a test fails here, and so does a test of an unknown key.

/// Declares tests of keys, and the list of those keys.
macro_rules! keys {
    ($($test:ident: $key:literal => $check:expr,)*) => {
        /// The keys tested in this file.
        pub(super) const KEYS: &[&str] = &[$($key),*];

        $(
            #[test]
            fn $test() {
                $crate::keys::calls::shows($key, $check);
            }
        )*
    };
}

mod calls;
mod elsewhere;
mod limits;
mod lists;
mod program;
mod repeated;
mod rules;
mod schema;
mod template;
mod tools;

use std::collections::BTreeSet;

use mimir_testkit::json;

use calls::{among, changed, echo, ending, goes, kit, only, refused, runs, set};

#[test]
fn keys_of_the_config_are_all_tested() {
    let keys = schema::keys();
    let rooms = [
        limits::KEYS,
        lists::KEYS,
        program::KEYS,
        repeated::KEYS,
        rules::KEYS,
        tools::KEYS,
    ];
    let here = rooms.into_iter().flatten().copied();
    let shown: Vec<&str> = here.chain(elsewhere::keys()).collect();
    let set: BTreeSet<String> = shown.iter().map(|&key| key.to_owned()).collect();
    assert_eq!(set.len(), shown.len(), "a key is in two lists: {shown:#?}");
    let missing: Vec<_> = keys.difference(&set).collect();
    assert!(missing.is_empty(), "nothing shows these keys: {missing:#?}");
    let extra: Vec<_> = set.difference(&keys).collect();
    assert!(
        extra.is_empty(),
        "these keys are not in the schema: {extra:#?}"
    );
}

#[test]
#[should_panic(expected = "holds without it")]
fn key_check_that_shows_nothing_fails() {
    calls::shows("limits.fuel", |key| {
        runs(&echo(only(key, "echo", json!(1 << 30))), "echo", json!({}));
    });
}
