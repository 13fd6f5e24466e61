//! Guests that look for foreign data: the host's environment, another call's state, the person's keys.

use mimir_core::ToolErrorCode;
use mimir_core::tool::ToolTrust;
use mimir_kit::Arena;
use mimir_testkit::{Testkit, json};

use super::nothing;
use crate::guests;

#[test]
fn environment_and_arguments_are_empty() {
    assert!(
        std::env::vars_os().next().is_some(),
        "the host has something to hide"
    );
    let outcome = Arena::new(guests::ENVIRONMENT).call(nothing());
    assert_eq!(outcome.text(), "[] [] None");
}

#[test]
fn stdin_is_empty() {
    let outcome = Arena::new(guests::READ_STDIN).call(nothing());
    assert_eq!(outcome.text(), "0 bytes, true");
}

#[test]
fn calls_do_not_see_each_other() {
    let arena = Arena::new(guests::SHARED_STATE);
    for _ in 0..3 {
        assert_eq!(arena.call(nothing()).text(), "0");
    }
    let at_once: Vec<_> = (0..16)
        .map(|_| arena.kit().start("shared_state", nothing()))
        .collect();
    for outcome in arena.kit().block_on(futures::future::join_all(at_once)) {
        assert_eq!(outcome.text(), "0");
    }
}

#[test]
fn ungranted_capabilities_are_refused() {
    let arena = Arena::new(guests::UNGRANTED);
    let outcome = arena.call(nothing());
    let text = outcome.text();
    assert!(!text.contains("done"), "{text}");
    assert_eq!(text.matches("PermissionDenied").count(), 4, "{text}");
    assert!(!arena.kit().path().join("pwned").exists());
}

#[test]
fn model_grant_opens_nothing_but_the_model() {
    let kit = Testkit::new(guests::UNGRANTED.path)
        .unwrap()
        .model(|prompt| format!("heard {prompt}"));
    let told = |granted: bool| {
        mimir_kit::change(&kit, |tool| {
            tool.trust = ToolTrust::Trusted;
            tool.definition.needs.model = true;
            tool.granted.model = granted;
        });
        kit.call("ungranted", nothing()).text()
    };
    assert_eq!(told(false).matches("PermissionDenied").count(), 4);
    let text = told(true);
    assert!(text.ends_with("done"), "{text}");
    assert_eq!(text.matches("PermissionDenied").count(), 3, "{text}");
    let asked =
        |event: &&mimir_core::AuditEvent| event.subject.as_deref() == Some("the model test/model");
    assert_eq!(kit.events().iter().filter(asked).count(), 1);
}

#[test]
fn recursive_tool_calls_are_limited() {
    let arena = Arena::new(guests::NESTED_BOMB)
        .settings(json!({"limits": {"timeMs": 3_000, "concurrent": 64}}));
    let outcome = arena.call(nothing());
    let code = outcome.result().unwrap_err().code;
    assert!(
        matches!(code, ToolErrorCode::LimitExceeded | ToolErrorCode::Timeout),
        "{}",
        outcome.text()
    );
}
