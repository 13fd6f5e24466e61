//! Thousands of open files, endless files, and pipes without a writer.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::json;

use super::super::{bounded, nothing};
use super::arena;
#[cfg(target_os = "linux")]
use super::refused;
use crate::guests;

#[test]
fn file_handles_of_a_guest_are_limited() {
    let arena = Arena::new(guests::OPEN_MANY).limits(json!({"timeMs": 30_000}));
    fs::write(arena.kit().path().join("file.txt"), "x").unwrap();
    let outcome = arena.call(nothing());
    match outcome.result() {
        Ok(_) => {
            let open: u64 = outcome.text().split(' ').next().unwrap().parse().unwrap();
            assert!((1..=64).contains(&open), "{}", outcome.text());
        }
        Err(error) => assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}"),
    }
}

#[test]
fn file_streams_of_a_guest_are_limited() {
    let arena = Arena::new(guests::STREAMS_MANY).limits(json!({"timeMs": 30_000}));
    fs::write(arena.kit().path().join("file.txt"), "x").unwrap();
    let outcome = arena.call(nothing());
    match outcome.result() {
        Ok(_) => {
            let digits = |word: &str| word.parse::<u64>().ok();
            let held: u64 = outcome.text().split([' ', ',']).filter_map(digits).sum();
            assert!((1..=10_000).contains(&held), "{}", outcome.text());
        }
        Err(error) => assert!(
            matches!(
                error.code,
                ToolErrorCode::LimitExceeded | ToolErrorCode::ExecutionError
            ),
            "{error}"
        ),
    }
}

#[test]
fn file_read_of_a_terabyte_is_bounded() {
    let arena = arena();
    let file = fs::File::create(arena.kit().path().join("sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    let outcome = arena.call(json!({"steps": [["read-huge", "sparse"]]}));
    match outcome.result() {
        Ok(output) => {
            let length = &output.structured.as_ref().unwrap()["results"][0]["length"];
            assert!(
                length.as_u64().is_some_and(|length| length <= 256 << 20),
                "{length}"
            );
        }
        Err(error) => assert!(bounded(error.code), "{error}"),
    }
}

#[test]
#[cfg(target_os = "linux")]
fn file_access_to_a_named_pipe_does_not_hang() {
    let arena = Arena::new(guests::FILE_PROBE).limits(json!({"timeMs": 1_000}));
    let pipe = arena.kit().path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    for verb in ["read", "write", "append"] {
        let outcome = arena.call(json!({"steps": [[verb, "pipe", "x"]]}));
        match outcome.result() {
            Ok(output) => {
                let result = &output.structured.as_ref().unwrap()["results"][0];
                assert!(refused(result), "{verb}: {result}");
            }
            Err(error) => assert_eq!(error.code, ToolErrorCode::Timeout, "{error}"),
        }
    }
}
