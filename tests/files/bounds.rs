//! Files and folders that are larger than anyone should read at once.

use std::fs;

use mimir_core::Code;
use mimir_testkit::json;

use super::{done, fails, kit};

#[test]
fn a_file_of_a_gigabyte_is_refused_or_read_by_lines() {
    let kit = kit();
    let file = fs::File::create(kit.path().join("huge.txt")).unwrap();
    file.set_len(1 << 30).unwrap();
    fails(
        &kit,
        "read_file",
        json!({"path": "huge.txt"}),
        Code::LimitExceeded,
    );
    assert_eq!(
        done(&kit, "file_info", json!({"path": "huge.txt"}))["size"],
        1_u64 << 30
    );
    let outcome = kit.call("file_search", json!({"mode": "grep", "query": "x"}));
    assert!(outcome.is_ok(), "{}", outcome.text());
}

#[test]
fn a_folder_of_a_hundred_thousand_entries_is_listed_within_bounds() {
    let kit = kit();
    let folder = kit.path().join("many");
    fs::create_dir(&folder).unwrap();
    for at in 0..100_000 {
        fs::File::create(folder.join(format!("file-{at:06}"))).unwrap();
    }
    let outcome = kit.call("list_directory", json!({"path": "many"}));
    let output = outcome.result().unwrap();
    assert!(output.structured.is_some() && outcome.text().len() < 1 << 20);
    let outcome = kit.call("file_search", json!({"mode": "glob", "query": "*-099999"}));
    assert!(
        outcome.text().contains("many/file-099999"),
        "{}",
        outcome.text()
    );
}

#[test]
fn what_is_no_text_says_how_to_read_it() {
    let kit = kit().workspace(|root| fs::write(root.join("raw"), [0, 0xff, 0xfe, 1]).unwrap());
    let outcome = kit.call("read_file", json!({"path": "raw"}));
    assert!(outcome.text().contains("base64"), "{}", outcome.text());
}
