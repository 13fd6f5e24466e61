//! Invalid files.

use mimir_core::ToolErrorCode;
use mimir_testkit::{Testkit, json};

use super::find_quarantined;
use crate::guests;

/// A kit with one good plugin and one file with this content.
fn beside_a_good_one(content: &[u8]) -> Testkit {
    let kit = Testkit::new(guests::ADDER.path).unwrap();
    kit.add_bytes("bad", content).unwrap();
    let sum = kit.call("add", json!({"a": 40, "b": 2}));
    assert_eq!(
        sum.result().unwrap().structured,
        Some(json!({"result": 42})),
        "the good one goes on"
    );
    kit
}

/// The reason why a file is quarantined, which must be understandable without knowledge of mimir.
fn reason(content: &[u8]) -> String {
    let left = find_quarantined(&beside_a_good_one(content), "bad.wasm");
    assert_eq!(left.code, ToolErrorCode::InvalidInput, "{}", left.reason);
    left.reason
}

#[test]
fn loader_rejects_files_that_are_not_webassembly() {
    for content in [
        &b""[..],
        b"hello",
        b"\x7fELF\x02\x01\x01\x00",
        b"\0asm",
        b"\0asm\x01",
        &[0xff; 4096],
    ] {
        let reason = reason(content);
        assert!(
            reason.contains("WebAssembly") || reason.contains("truncated"),
            "{reason}"
        );
    }
}

#[test]
fn loader_runs_a_core_module_of_number_functions() {
    let kit = Testkit::new(guests::CORE_MODULE.path).unwrap();
    let sum = kit.call("add", json!({"a": 40, "b": 2}));
    assert_eq!(
        sum.result().unwrap().structured,
        Some(json!({"result": 42}))
    );
}

#[test]
fn loader_names_both_versions_of_an_unsupported_contract() {
    for guest in [guests::NEWER_CONTRACT, guests::OTHER_CONTRACT] {
        let reason = reason(&guest.bytes());
        let asked = if guest.name == "newer_contract" {
            "1.9.0"
        } else {
            "7.0.0"
        };
        assert!(
            reason.contains(asked) && reason.contains("1.0.0"),
            "{reason}"
        );
    }
}

#[test]
fn loader_names_an_unknown_import() {
    let reason = reason(&guests::UNKNOWN_IMPORT.bytes());
    assert!(reason.contains("evil:host/backdoor@1.0.0"), "{reason}");
}

#[test]
fn loader_rejects_a_component_without_functions() {
    let reason = reason(&guests::NOTHING_TO_CALL.bytes());
    assert!(reason.contains("nothing to call"), "{reason}");
}

#[test]
fn loader_survives_truncated_files() {
    let whole = guests::ADDER.bytes();
    let kit = Testkit::new(guests::ECHO.path).unwrap();
    for length in 0..whole.len() {
        kit.add_bytes("cut", &whole[..length]).unwrap();
        let left = kit.quarantined();
        let tools = kit.tools().len();
        // A file cut between two sections can still be a component, with fewer parts.
        assert_eq!(left.len() + tools, 2, "cut at {length}: {left:?}");
        assert!(
            left.is_empty() || left[0].code == ToolErrorCode::InvalidInput,
            "cut at {length}: {left:?}"
        );
    }
    let large = guests::ECHO.bytes();
    for length in (0..large.len()).step_by(large.len() / 50) {
        kit.add_bytes("cut", &large[..length]).unwrap();
        assert_eq!(
            find_quarantined(&kit, "cut.wasm").code,
            ToolErrorCode::InvalidInput,
            "cut at {length}"
        );
    }
    assert!(kit.call("echo", json!({})).is_ok());
}

#[test]
fn loader_survives_flipped_bits() {
    let whole = guests::ADDER.bytes();
    let kit = Testkit::new(guests::ECHO.path).unwrap();
    let kit = kit.settings(json!({"limits": {"timeMs": 2_000}})).unwrap();
    // Three and eight have no common factor, so every bit position is covered.
    for at in (0..whole.len() * 8).step_by(3) {
        let mut flipped = whole.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        kit.add_bytes("flipped", &flipped).unwrap();
        for tool in kit.tools() {
            if tool.name().as_str() != "echo" {
                // It may still be a component. If so, it runs within its limits.
                let outcome = kit.call(tool.name().as_str(), json!({"a": 1, "b": 2}));
                let code = outcome.result().err().map(|error| error.code);
                assert_ne!(
                    code,
                    Some(ToolErrorCode::Internal),
                    "bit {at}: {}",
                    outcome.text()
                );
            }
        }
    }
    assert!(kit.call("echo", json!({})).is_ok());
}

#[test]
fn loader_survives_flipped_bytes_of_a_real_plugin() {
    let whole = guests::ECHO.bytes();
    let kit = Testkit::new(guests::ADDER.path).unwrap();
    let kit = kit.settings(json!({"limits": {"timeMs": 2_000}})).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 25) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x55;
        kit.add_bytes("flipped", &flipped).unwrap();
        let outcome = kit.call("echo", json!({"x": 1}));
        let code = outcome.result().err().map(|error| error.code);
        assert_ne!(
            code,
            Some(ToolErrorCode::Internal),
            "byte {at}: {}",
            outcome.text()
        );
    }
    assert!(kit.call("add", json!({"a": 1, "b": 2})).is_ok());
}
