//! Guests with false descriptions. Each is quarantined with a reason; the honest plugin is not affected.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;

use super::nothing;
use crate::guests;

#[test]
fn describe_that_never_returns() {
    let arena = Arena::new(guests::DESCRIBE_NEVER_RETURNS);
    let left = arena.kit().quarantined().remove(0);
    // Its fuel and its five seconds end at about the same time; the order depends on the machine.
    assert!(
        matches!(
            left.code,
            ToolErrorCode::LimitExceeded | ToolErrorCode::Timeout
        ),
        "{left:?}"
    );
    assert!(left.reason.contains("describe"), "{}", left.reason);
}

#[test]
fn describe_that_crashes() {
    let left = Arena::new(guests::DESCRIBE_TRAPS).left_out(ToolErrorCode::ExecutionError);
    assert!(left.reason.contains("ask me tomorrow"), "{}", left.reason);
}

#[test]
fn describe_with_ten_thousand_tools_is_rejected() {
    let arena = Arena::new(guests::DESCRIBE_MANY_TOOLS);
    let left = arena
        .kit()
        .quarantined()
        .into_iter()
        .find(|left| left.location.contains("many_tools"))
        .unwrap();
    assert!(
        matches!(
            left.code,
            ToolErrorCode::InvalidInput | ToolErrorCode::LimitExceeded
        ),
        "{left:?}"
    );
    assert_eq!(arena.kit().tools().len(), 1, "only the honest one");
}

#[test]
fn describe_of_fifty_megabytes_exceeds_the_limit() {
    Arena::new(guests::DESCRIBE_HUGE).left_out(ToolErrorCode::LimitExceeded);
}

#[test]
fn describe_amplified_to_a_terabyte_exceeds_the_limit() {
    Arena::new(guests::DESCRIBE_AMPLIFIED).left_out(ToolErrorCode::LimitExceeded);
}

#[test]
fn describe_with_a_duplicate_tool_name_uses_the_first() {
    let arena = Arena::new(guests::DESCRIBE_DUPLICATES);
    let left = arena.left_out(ToolErrorCode::InvalidInput);
    assert!(left.reason.contains("twice"), "{}", left.reason);
    assert_eq!(arena.kit().tools().len(), 2, "the first counts");
}

#[test]
fn describe_without_tools_is_rejected() {
    Arena::new(guests::DESCRIBE_NOTHING).left_out(ToolErrorCode::InvalidInput);
}

#[test]
fn describe_with_an_invalid_input_schema_is_rejected() {
    let left = Arena::new(guests::DESCRIBE_BAD_SCHEMA).left_out(ToolErrorCode::InvalidInput);
    assert!(left.reason.contains("input schema"), "{}", left.reason);
}

#[test]
fn describe_with_a_schema_unfolding_to_millions_is_rejected() {
    let arena = Arena::new(guests::DESCRIBE_SCHEMA_UNFOLDS);
    let left = arena.kit().quarantined();
    for which in ["input", "output"] {
        let told = left.iter().any(|left| {
            left.code == ToolErrorCode::InvalidInput
                && left.reason.contains(which)
                && left.reason.contains("unfold")
        });
        assert!(told, "{which}: {left:?}");
    }
    arena.left_out(ToolErrorCode::InvalidInput);
}

#[test]
fn describe_with_a_remote_schema_reference_is_rejected() {
    let left = Arena::new(guests::DESCRIBE_REMOTE_SCHEMA).left_out(ToolErrorCode::InvalidInput);
    assert!(
        !left.reason.contains("root:"),
        "it was read: {}",
        left.reason
    );
}

#[test]
fn describe_with_a_path_as_tool_name_is_rejected() {
    let left = Arena::new(guests::DESCRIBE_BAD_NAME).left_out(ToolErrorCode::InvalidInput);
    let shown = format!("{}{}", left.location, left.reason);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn describe_that_is_not_utf8_is_rejected() {
    let left = Arena::new(guests::DESCRIBE_BAD_UTF8).left_out(ToolErrorCode::ExecutionError);
    assert!(left.reason.contains("not UTF-8"), "{}", left.reason);
}

#[test]
fn describe_with_needs_outside_the_workspace_is_rejected() {
    let left = Arena::new(guests::DESCRIBE_OUTSIDE_NEEDS).left_out(ToolErrorCode::InvalidInput);
    assert!(left.reason.contains("`../..`"), "{}", left.reason);
}

#[test]
fn describe_text_cannot_drive_the_terminal() {
    let arena = Arena::new(guests::DESCRIBE_DISGUISED);
    let tools = arena.kit().tools();
    let tool = tools
        .iter()
        .find(|tool| tool.name().as_str() == "describe_disguised")
        .unwrap();
    let shown = format!(
        "{}{}",
        tool.definition.description,
        tool.definition.title.clone().unwrap_or_default()
    );
    assert!(
        shown.contains("Safe") && !shown.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "{shown:?}"
    );
    assert_eq!(arena.call(nothing()).text(), "shown");
}
