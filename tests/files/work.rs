//! Normal operation of the file tools.

use std::fs;

use mimir_testkit::json;

use super::{done, kit};

#[test]
fn file_tools_work_from_create_to_delete() {
    let kit = kit();
    let path = "new folder ä/file.txt";
    let written = done(
        &kit,
        "write_file",
        json!({"path": path, "content": "one\ntwo\n", "createDirs": true}),
    );
    assert_eq!(written["created"], true);
    assert_eq!(
        done(&kit, "read_file", json!({"path": path}))["content"],
        "one\ntwo\n"
    );
    assert_eq!(
        done(&kit, "file_info", json!({"path": path}))["exists"],
        true
    );
    let edited = done(
        &kit,
        "edit_file",
        json!({"path": path, "pattern": "two", "replacement": "three"}),
    );
    assert_eq!(edited["replacements"], 1);
    assert!(
        edited["diff"]["hunks"]
            .as_array()
            .is_some_and(|hunks| !hunks.is_empty()),
        "{edited}"
    );
    done(&kit, "move_file", json!({"from": path, "to": "moved.txt"}));
    assert_eq!(
        fs::read_to_string(kit.path().join("moved.txt")).unwrap(),
        "one\nthree\n"
    );
    let gone = done(&kit, "delete_file", json!({"path": "moved.txt"}));
    assert_eq!(gone["deleted"], json!(["moved.txt"]));
    assert_eq!(
        done(&kit, "file_info", json!({"path": "moved.txt"}))["exists"],
        false
    );
}

#[test]
fn file_tool_aliases_and_compact_form_behave_alike() {
    let kit = kit();
    done(&kit, "write", json!({"path": "a.txt", "content": "x"}));
    for (tool, arguments) in [
        ("read", json!({"path": "a.txt"})),
        ("file_read", json!({"path": "a.txt"})),
        (
            "file_operations",
            json!({"operation": "read", "path": "a.txt"}),
        ),
    ] {
        assert!(
            done(&kit, tool, arguments).to_string().contains("\"x\""),
            "{tool}"
        );
    }
    for (tool, arguments) in [
        ("list_files", json!({})),
        ("list_directory", json!({"path": "."})),
        ("file_operations", json!({"operation": "list", "path": "."})),
    ] {
        assert!(
            done(&kit, tool, arguments).to_string().contains("a.txt"),
            "{tool}"
        );
    }
    assert_eq!(kit.events().last().unwrap().tool, "file_operations");
    let read = kit
        .events()
        .into_iter()
        .find(|event| event.tool == "read_file");
    assert!(read.is_some(), "the record has the canonical name");
}

#[test]
fn file_search_finds_matches_and_honours_gitignore() {
    let kit = kit();
    let root = kit.path();
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(root.join(".gitignore"), "ignored.txt\n").unwrap();
    fs::write(root.join("ignored.txt"), "needle").unwrap();
    fs::write(
        root.join("src/deep/found.rs"),
        "let a = 1;\nlet needle = 2;\n",
    )
    .unwrap();
    fs::write(root.join("binary"), b"needle\0needle").unwrap();
    fs::write(root.join(".env"), "needle=secret").unwrap();
    for (mode, query) in [("grep", "needle"), ("regex", "need[l]e"), ("glob", "*.rs")] {
        let outcome = kit.call(
            "file_search",
            json!({"mode": mode, "query": query, "includeHidden": true}),
        );
        let text = outcome.text();
        assert!(text.contains("src/deep/found.rs"), "{mode}: {text}");
        assert!(
            !text.contains("ignored.txt") && !text.contains("secret"),
            "{mode}: {text}"
        );
    }
}

#[test]
fn file_search_accepts_its_second_form_of_arguments() {
    let kit = kit();
    let root = kit.path();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("src/a.rs"), "let needle = 1;\n").unwrap();
    fs::write(root.join("b.txt"), "needless\n").unwrap();
    for (arguments, files) in [
        (json!({"pattern": "*.rs"}), json!(["src/a.rs"])),
        (
            json!({"pattern": "*.txt", "type": "glob"}),
            json!(["b.txt"]),
        ),
        (
            json!({"pattern": "*", "type": "glob", "path": "src"}),
            json!(["src/a.rs"]),
        ),
        (
            json!({"pattern": "need.e\\b", "type": "grep"}),
            json!(["src/a.rs"]),
        ),
        (
            json!({"pattern": "need", "type": "grep", "path": "b.txt"}),
            json!(["b.txt"]),
        ),
    ] {
        let found = done(&kit, "file_search", arguments.clone());
        assert_eq!(found["files"], files, "{arguments}");
    }
    for arguments in [
        json!({"pattern": "a", "type": "dance"}),
        json!({"pattern": "a", "query": "b", "mode": "grep"}),
        json!({"type": "glob"}),
    ] {
        let outcome = kit.call("file_search", arguments.clone());
        let error = outcome.result().expect_err("it is not a form");
        assert_eq!(
            error.code,
            mimir_core::ToolErrorCode::InvalidInput,
            "{arguments}"
        );
    }
}

#[test]
fn file_content_round_trips_unchanged() {
    let kit = kit();
    for (name, content) in [
        ("crlf.txt", "one\r\ntwo\r\n"),
        ("empty.txt", ""),
        ("no_end.txt", "no line end"),
        ("bom.txt", "\u{feff}with a mark"),
        ("emoji 👩‍💻.txt", "ä 空 👩‍💻\n"),
    ] {
        done(
            &kit,
            "write_file",
            json!({"path": name, "content": content}),
        );
        assert_eq!(
            fs::read_to_string(kit.path().join(name)).unwrap(),
            content,
            "{name}"
        );
        assert_eq!(
            done(&kit, "read_file", json!({"path": name}))["content"],
            content,
            "{name}"
        );
    }
}

#[test]
fn file_bytes_round_trip_as_base64() {
    let kit = kit();
    done(
        &kit,
        "write_file",
        json!({"path": "raw", "content": "AP8BgA==", "encoding": "base64"}),
    );
    assert_eq!(
        fs::read(kit.path().join("raw")).unwrap(),
        [0, 0xff, 1, 0x80]
    );
    let read = done(
        &kit,
        "read_file",
        json!({"path": "raw", "encoding": "base64"}),
    );
    assert_eq!(read["content"], "AP8BgA==");
}
