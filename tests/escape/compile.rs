//! Components designed to overload the compiler: a few kilobytes that take gigabytes and minutes.

use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_testkit::{Testkit, json};

use super::nothing;
use crate::guests;

/// A component with one function of this many variables and branches.
fn tangle(locals: usize, branches: usize) -> Vec<u8> {
    let locals = "i32 ".repeat(locals);
    let branches =
        "local.get 0 if local.get 1 local.get 2 i32.add local.set 3 end ".repeat(branches);
    wat::parse_str(format!(
        r#"(component
            (core module $m (func (export "big") (result i32) (local {locals}) {branches} i32.const 7))
            (core instance $i (instantiate $m))
            (func (export "big") (result s32) (canon lift (core func $i "big"))))"#
    ))
    .unwrap()
}

#[test]
fn compile_time_limit_stops_a_slow_function() {
    let kit = Testkit::empty().unwrap();
    kit.add(guests::ECHO.path).unwrap();
    kit.add_bytes("bomb", &tangle(1_000, 20_000)).unwrap();
    let begun = Instant::now();
    let outcome = kit.call("big", nothing());
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
    assert!(
        error.message.contains("bomb.wasm: it would take too long"),
        "{error}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    assert!(kit.call("echo", json!({"still": "here"})).is_ok());
}

#[test]
fn compile_accepts_a_smaller_tangled_function() {
    let kit = Testkit::empty().unwrap();
    kit.add_bytes("fine", &tangle(100, 500)).unwrap();
    assert!(kit.call("big", nothing()).text().contains('7'));
}
