//! Guests with excessive output.

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::json;

use super::nothing;
use crate::guests;

/// Most lines logged for one call, including the one with the number of dropped lines.
const LINES: usize = 1_001;

/// Most bytes of a logged line: the limit and the truncation mark.
const LINE: usize = (4 << 10) + '…'.len_utf8();

fn within_bounds(arena: &Arena) {
    let log = arena.kit().log();
    assert!(!log.is_empty());
    // The honest guest logs nothing, so all lines are from the hostile one.
    assert!(log.len() <= LINES, "{} lines", log.len());
    let longest = log.iter().map(|line| line.text.len()).max().unwrap();
    assert!(longest <= LINE, "a line of {longest} bytes");
}

#[test]
fn log_of_a_gigabyte_on_stdout_is_bounded() {
    let arena = Arena::new(guests::STDOUT_GIGABYTE).limits(json!({"timeMs": 8_000}));
    let outcome = arena.call(nothing());
    match outcome.result() {
        Ok(_) => assert_eq!(outcome.text(), "written"),
        Err(error) => assert!(
            matches!(
                error.code,
                ToolErrorCode::Timeout | ToolErrorCode::LimitExceeded
            ),
            "{error}"
        ),
    }
    within_bounds(&arena);
}

#[test]
fn log_of_a_million_lines_is_bounded() {
    let arena = Arena::new(guests::LOG_FLOOD).limits(json!({"timeMs": 60_000}));
    let outcome = arena.call(nothing());
    assert!(outcome.is_ok(), "{}", outcome.text());
    within_bounds(&arena);
    let log = arena.kit().log();
    assert!(
        log.last().unwrap().text.contains("limits.logLines"),
        "{:?}",
        log.last()
    );
    assert!(
        arena.kit().progress().len() <= 10_000,
        "{}",
        arena.kit().progress().len()
    );
}

#[test]
fn log_lines_of_a_hundred_megabytes_are_bounded() {
    let arena = Arena::new(guests::LOG_LONG_LINE).limits(json!({"timeMs": 60_000}));
    let outcome = arena.call(nothing());
    if let Err(error) = outcome.result() {
        assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
        return;
    }
    within_bounds(&arena);
    for progress in arena.kit().progress() {
        assert!(progress.message.unwrap_or_default().len() <= LINE);
    }
}
