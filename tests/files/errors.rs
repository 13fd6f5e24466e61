//! Errors that tell the caller what to do.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_testkit::json;

use super::{fails, kit};

#[test]
fn file_tool_failures_have_their_error_code() {
    let kit = kit().workspace(|root| {
        fs::write(root.join("file.txt"), "one one").unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        fs::write(root.join("folder/inside.txt"), "x").unwrap();
    });
    fails(
        &kit,
        "read_file",
        json!({"path": "missing.txt"}),
        ToolErrorCode::FileNotFound,
    );
    fails(
        &kit,
        "edit_file",
        json!({"path": "missing.txt", "pattern": "a", "replacement": "b"}),
        ToolErrorCode::FileNotFound,
    );
    fails(
        &kit,
        "delete_file",
        json!({"path": "missing.txt"}),
        ToolErrorCode::FileNotFound,
    );
    fails(
        &kit,
        "move_file",
        json!({"from": "missing.txt", "to": "x"}),
        ToolErrorCode::FileNotFound,
    );
    fails(
        &kit,
        "move_file",
        json!({"from": "file.txt", "to": "folder/inside.txt"}),
        ToolErrorCode::AlreadyExists,
    );
    fails(
        &kit,
        "read_file",
        json!({"path": "file.txt", "startLine": 9}),
        ToolErrorCode::InvalidInput,
    );
    fails(
        &kit,
        "read_file",
        json!({"path": "file.txt", "unknown": 1}),
        ToolErrorCode::InvalidInput,
    );
    let error = fails(
        &kit,
        "file_search",
        json!({"mode": "grep", "query": "x", "path": "missing"}),
        ToolErrorCode::FileNotFound,
    );
    assert_eq!(error.message, "`missing` does not exist");
    fails(
        &kit,
        "file_search",
        json!({"mode": "regex", "query": "("}),
        ToolErrorCode::InvalidInput,
    );
    let error = fails(
        &kit,
        "edit_file",
        json!({"path": "file.txt", "pattern": "one", "replacement": "b"}),
        ToolErrorCode::InvalidInput,
    );
    assert!(
        error.message.contains('2') || error.message.contains("all"),
        "{error}"
    );
    for path in ["", "a\0b"] {
        let outcome = kit.call("read_file", json!({"path": path}));
        let code = outcome.result().unwrap_err().code;
        assert!(
            matches!(
                code,
                ToolErrorCode::InvalidPath | ToolErrorCode::InvalidInput
            ),
            "{path:?}: {}",
            outcome.text()
        );
    }
    assert_eq!(
        fs::read_to_string(kit.path().join("file.txt")).unwrap(),
        "one one"
    );
}
