//! A guest whose assessment of its own calls is faulty. In each case a person is asked.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::{Approve, Card, json};

use crate::guests;

/// Makes a call that the person denies; returns the approval card.
fn asked(how: &str) -> Card {
    let mut arena = Arena::new(guests::ASSESS_BADLY);
    arena = arena.person(Approve::by(|card| card.tool == "echo"));
    let error = arena.stopped(json!({ "how": how }), ToolErrorCode::ApprovalDenied);
    assert!(error.message.contains("a person said no"), "{error}");
    assert!(
        !arena.kit().path().join("assessed").exists(),
        "it wrote while it judged"
    );
    let cards = arena.kit().cards();
    cards
        .into_iter()
        .find(|card| card.tool == "assess_badly")
        .expect("a person was asked")
}

#[test]
fn assess_that_loops_asks_a_person() {
    asked("loop");
}

#[test]
fn assess_that_crashes_asks_a_person() {
    asked("crash");
}

#[test]
fn assess_of_megabytes_asks_with_a_bounded_card() {
    let card = asked("much");
    assert!(serde_json::to_string(&card).unwrap().len() < 1 << 20);
}

#[test]
fn assess_that_lies_still_asks_without_control_characters() {
    let card = asked("lie");
    let shown = format!("{}{}", card.summary, card.risks.concat());
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}
