//! Files and folders that are too large to read at once.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use mimir_core::ToolErrorCode;
use mimir_testkit::json;

use super::{done, fails, kit};

/// Writes two lines, one of a gigabyte, and a fourth.
fn huge(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(b"one\ntwo\n").unwrap();
    file.set_len(1 << 30).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\nlast\n").unwrap();
}

#[test]
#[ignore = "needs time"]
fn read_file_finds_a_line_after_a_gigabyte() {
    let kit = kit();
    huge(&kit.path().join("huge.txt"));
    let arguments = json!({"path": "huge.txt", "startLine": 4, "endLine": 9});
    let last = done(&kit, "read_file", arguments);
    assert_eq!(
        (&last["content"], &last["totalLines"]),
        (&json!("last\n"), &json!(4))
    );
}

#[test]
fn huge_file_is_refused_or_read_by_lines() {
    let kit = kit();
    huge(&kit.path().join("huge.txt"));
    let read =
        |start: u64, end: u64| json!({"path": "huge.txt", "startLine": start, "endLine": end});
    let some = done(&kit, "read_file", read(1, 2));
    assert_eq!(some["content"], "one\ntwo\n");
    for (tool, arguments) in [
        ("read_file", json!({"path": "huge.txt"})),
        (
            "read_file",
            json!({"path": "huge.txt", "encoding": "base64"}),
        ),
        ("read_file", read(3, 3)),
        (
            "edit_file",
            json!({"path": "huge.txt", "pattern": "one", "replacement": "1"}),
        ),
        // Exceeds the backup limit.
        (
            "write_file",
            json!({"path": "huge.txt", "content": "small"}),
        ),
        ("delete_file", json!({"path": "huge.txt"})),
    ] {
        let error = fails(&kit, tool, arguments, ToolErrorCode::LimitExceeded);
        assert!(
            error.message.contains("huge.txt") || error.message.contains("backup"),
            "{error}"
        );
    }
    let info = done(&kit, "file_info", json!({"path": "huge.txt"}));
    assert_eq!(info["size"], (1_u64 << 30) + 6);
    let found = done(
        &kit,
        "file_search",
        json!({"mode": "grep", "query": "last"}),
    );
    assert_eq!(found["matches"], json!([]), "it is not text");
    let moved = done(
        &kit,
        "move_file",
        json!({"from": "huge.txt", "to": "moved"}),
    );
    assert_eq!(moved["backup"], json!(null), "moving back undoes it");
}

#[test]
fn file_search_finds_text_in_a_line_of_megabytes() {
    let kit = kit();
    let half = "x".repeat(4 << 20);
    fs::write(kit.path().join("one.js"), format!("{half}needle{half}")).unwrap();
    let error = fails(
        &kit,
        "read_file",
        json!({"path": "one.js"}),
        ToolErrorCode::LimitExceeded,
    );
    assert!(error.message.contains("file_search"), "{error}");
    let found = done(
        &kit,
        "file_search",
        json!({"mode": "grep", "query": "needle", "path": "one.js"}),
    );
    let hit = &found["matches"][0];
    assert_eq!(hit["column"], (4 << 20) + 1);
    let text = hit["text"].as_str().unwrap();
    assert!(text.contains("xneedlex") && text.len() < 1_000, "{text}");
}

#[test]
fn edit_file_with_millions_of_matches_stays_within_limits() {
    let kit = kit();
    // One match per byte: twice as many would be near the limit of fuel.
    let size = 8 << 20;
    for (content, replacement) in [("a", "b"), ("\n", "\n ")] {
        fs::write(kit.path().join("a.txt"), content.repeat(size)).unwrap();
        let edited = done(
            &kit,
            "edit_file",
            json!({"path": "a.txt", "pattern": content, "replacement": replacement, "all": true}),
        );
        assert_eq!(edited["replacements"], size, "{content:?}");
    }
    fs::write(kit.path().join("a.txt"), "a".repeat(size)).unwrap();
    let error = fails(
        &kit,
        "edit_file",
        json!({"path": "a.txt", "pattern": "a", "replacement": "aaaaa", "all": true}),
        ToolErrorCode::LimitExceeded,
    );
    assert!(error.message.contains("would have more than"), "{error}");
}

#[test]
fn list_directory_with_100_000_entries_is_truncated() {
    let kit = kit();
    let folder = kit.path().join("many");
    fs::create_dir(&folder).unwrap();
    for at in 0..100_000 {
        let path = folder.join(format!("file-{at:06}"));
        // Hard links are faster to create than files, but some file systems limit their number per file.
        match at % 20_000 {
            0 => fs::write(path, "").unwrap(),
            more => {
                let first = format!("file-{:06}", at - more);
                fs::hard_link(folder.join(first), path).unwrap();
            }
        }
    }
    let listing = done(&kit, "list_directory", json!({"path": "many"}));
    assert_eq!(
        (&listing["total"], &listing["truncated"]),
        (&json!(100_000), &json!(true))
    );
    let entries = listing["entries"].as_array().unwrap();
    assert!(entries.len() <= 1_000 && entries[0]["name"] == "file-000000");
    let all = done(&kit, "file_search", json!({"mode": "glob", "query": "*"}));
    assert_eq!(all["truncated"], true);
    assert!(all["files"].as_array().unwrap().len() <= 2_000);
    let outcome = kit.call("file_search", json!({"mode": "glob", "query": "*-099999"}));
    assert!(
        outcome.text().contains("many/file-099999"),
        "{}",
        outcome.text()
    );
}

#[test]
fn read_file_of_binary_data_suggests_base64() {
    let kit = kit().workspace(|root| fs::write(root.join("raw"), [0, 0xff, 0xfe, 1]).unwrap());
    let outcome = kit.call("read_file", json!({"path": "raw"}));
    assert!(outcome.text().contains("base64"), "{}", outcome.text());
}
