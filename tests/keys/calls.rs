//! Calls under settings with a single key.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mimir_core::{Decision, Tool};
use mimir_kit::Guest;
use mimir_testkit::{Approve, Outcome, Testkit, ToolErrorCode, Value, json};

use crate::guests;

thread_local! {
    /// True while the key of a check is left out.
    static LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a check, then asserts that it fails without its key: a check that passes without the key proves nothing.
pub fn shows(key: &str, check: impl Fn(&str)) {
    check(key);
    LEFT_OUT.set(true);
    let held = catch_unwind(AssertUnwindSafe(|| check(key))).is_ok();
    assert!(!held, "what is shown of {key} holds without it, too");
}

/// Settings with only this key. `*` stands for `name`; a list has this one item.
pub fn only(key: &str, name: &str, value: Value) -> Value {
    match LEFT_OUT.get() {
        true => json!({}),
        false => nested(key, name, value),
    }
}

/// Settings with a block at its path, and this key in the block.
pub fn among(place: &str, name: &str, mut block: Value, key: &str, value: Value) -> Value {
    if !LEFT_OUT.get() {
        block[key] = value;
    }
    nested(place, name, block)
}

fn nested(key: &str, name: &str, value: Value) -> Value {
    key.rsplit('.')
        .fold(value, |inner, part| match part.strip_suffix("[]") {
            Some(list) => json!({ list: [inner] }),
            None if part == "*" => json!({ name: inner }),
            None => json!({ part: inner }),
        })
}

/// A kit with this guest and a person who denies everything.
pub fn kit(guest: Guest) -> Testkit {
    Testkit::new(guest.path).unwrap().approve(Approve::Never)
}

/// A kit with two tools that are allowed by default: `echo` and `add`.
pub fn echo(settings: Value) -> Testkit {
    let kit = kit(guests::ECHO);
    kit.add(guests::ADDER.path).unwrap();
    set(kit, settings)
}

pub fn set(kit: Testkit, settings: Value) -> Testkit {
    let shown = settings.to_string();
    kit.settings(settings)
        .unwrap_or_else(|error| panic!("{shown}: {error}"))
}

/// The error of settings that are refused as a whole.
pub fn refused(settings: Value) -> String {
    let shown = settings.to_string();
    match Testkit::empty().unwrap().settings(settings) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{shown} is not refused"),
    }
}

/// Changes the tools of a kit, until its settings change.
pub fn changed(kit: Testkit, change: impl Fn(&mut Tool)) -> Testkit {
    mimir_kit::change(&kit, change);
    kit
}

/// The decision about a call, derived from its outcome.
pub fn goes(kit: &Testkit, tool: &str, arguments: Value) -> Decision {
    let asked = kit.cards().len();
    let outcome = kit.call(tool, arguments);
    let asked = kit.cards().len() > asked;
    match outcome.result().err().map(|error| error.code) {
        None if !asked => Decision::Allow,
        Some(ToolErrorCode::ApprovalDenied) if asked => Decision::Ask,
        Some(ToolErrorCode::PolicyDenied) if !asked => Decision::Deny,
        code => panic!("`{tool}` ended with {code:?}: {}", outcome.text()),
    }
}

/// Runs a call that must succeed.
pub fn runs(kit: &Testkit, tool: &str, arguments: Value) -> Outcome {
    let outcome = kit.call(tool, arguments);
    assert!(outcome.is_ok(), "`{tool}`: {}", outcome.text());
    outcome
}

/// The message of a call that must fail with this code.
pub fn ending(kit: &Testkit, tool: &str, arguments: Value, code: ToolErrorCode) -> String {
    let outcome = kit.call(tool, arguments);
    let error = outcome.result().expect_err(tool);
    assert_eq!(error.code, code, "{error}");
    error.message.clone()
}
