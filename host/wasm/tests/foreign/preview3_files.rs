//! Files through WASI 0.3: the same rules, limits and undo as through WASI 0.2.

use std::fs;
use std::path::Path;

use mimir_core::ToolErrorCode;
use mimir_core::grants::named_folder;
use mimir_core::needs::{DirectoryAccess, Needs};
use mimir_testkit::{Testkit, Value, json};

use super::{failure, grant, guest, result};

/// Content that no guest may ever see.
const SECRET: &str = "the secret";

fn fill(root: &Path) {
    fs::create_dir_all(root.join("work/sub")).unwrap();
    fs::create_dir_all(root.join("other")).unwrap();
    fs::write(root.join("work/a.txt"), "grüße").unwrap();
    fs::write(root.join("work/.env"), SECRET).unwrap();
    fs::write(root.join("other/key"), SECRET).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../other/key", root.join("work/planted")).unwrap();
        std::os::unix::fs::symlink("../other", root.join("work/elsewhere")).unwrap();
    }
}

/// A kit whose guest may use the folder `work` only.
fn kit(access: DirectoryAccess, limits: Value) -> Testkit {
    granted(
        Testkit::new(guest("preview3_files")).unwrap(),
        access,
        limits,
    )
}

fn granted(kit: Testkit, access: DirectoryAccess, limits: Value) -> Testkit {
    let kit = kit.workspace(fill);
    let kit = kit.settings(json!({ "limits": limits })).unwrap();
    let needs = Needs {
        files: vec![named_folder("work", access)],
        ..Needs::default()
    };
    grant(&kit, needs);
    kit
}

/// Returns the arguments of a tool that gets a path and perhaps text.
fn arguments(tool: &str, path: &str) -> Value {
    match tool {
        "write" | "append" => json!({ "path": path, "text": "x" }),
        _ => json!({ "path": path }),
    }
}

fn writable() -> Testkit {
    kit(DirectoryAccess::ReadWrite, json!({ "timeMs": 20_000 }))
}

#[test]
fn preview3_files_are_read_and_written() {
    let kit = writable();
    let path = |path: &str| json!({ "path": path });
    assert_eq!(result(&kit, "read", path("a.txt"))["result"], "grüße");
    for (tool, text) in [("write", "first "), ("append", "second")] {
        let outcome = kit.call(tool, json!({ "path": "sub/b.txt", "text": text }));
        assert!(outcome.is_ok(), "{}", outcome.text());
    }
    let written = kit.path().join("work/sub/b.txt");
    assert_eq!(fs::read_to_string(&written).unwrap(), "first second");
    // Larger than any buffer, and through no memory of the guest.
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(kit.path().join("work/large"), &large).unwrap();
    let copied = kit.call(
        "copy",
        json!({ "source": "large", "target": "copy", "offset": 1_000 }),
    );
    assert!(copied.is_ok(), "{}", copied.text());
    assert_eq!(
        fs::read(kit.path().join("work/copy")).unwrap(),
        large[1_000..]
    );
    let entries = result(&kit, "list_entries", path("."));
    let expected = ["a.txt", "copy", "elsewhere", "large", "planted", "sub/"];
    let expected: Vec<&str> = expected
        .into_iter()
        .filter(|name| cfg!(unix) || !["elsewhere", "planted"].contains(name))
        .collect();
    assert_eq!(
        entries["result"],
        json!(expected),
        "hidden entries are not listed"
    );
    let described = result(&kit, "describe", path("a.txt"));
    assert_eq!(
        described["result"],
        "DescriptorType::RegularFile 7 DescriptorFlags(READ) true true"
    );
}

#[cfg(unix)]
#[test]
fn preview3_files_are_changed_in_every_way() {
    let kit = writable();
    let changed = result(&kit, "change", json!({ "path": "a.txt" }));
    assert_eq!(changed["result"], "moved");
    assert_eq!(
        fs::read(kit.path().join("work/a.txt")).unwrap(),
        "gr\u{fc}".as_bytes()[..3].to_vec()
    );
    assert!(!kit.path().join("work/a.txt.d").exists());
}

#[test]
fn preview3_files_outside_of_the_grant_are_not_reached() {
    let kit = writable();
    let mut paths = vec![
        "../other/key",
        "sub/../../other/key",
        "/etc/passwd",
        ".env",
        "sub/../.env",
        "../work/../other/key",
    ];
    if cfg!(unix) {
        paths.extend(["planted", "elsewhere/key"]);
    }
    for path in paths {
        for tool in ["read", "append", "remove", "describe"] {
            // The link itself is in the folder.
            if (tool, path) == ("remove", "planted") {
                continue;
            }
            let outcome = kit.call(tool, arguments(tool, path));
            assert!(
                outcome.result().is_err(),
                "{tool} {path}: {}",
                outcome.text()
            );
            assert!(!outcome.text().contains(SECRET), "{tool} {path}");
        }
        for (source, target) in [(path, "stolen"), ("a.txt", path)] {
            let arguments = json!({ "source": source, "target": target, "offset": 0 });
            let outcome = kit.call("copy", arguments);
            assert!(outcome.result().is_err(), "{path}: {}", outcome.text());
        }
    }
    for file in ["work/.env", "other/key"] {
        assert_eq!(fs::read_to_string(kit.path().join(file)).unwrap(), SECRET);
    }
    // A link that the guest makes is not followed out of the folder either.
    for target in ["../other/key", "/etc/passwd"] {
        let followed = result(&kit, "follow", json!({ "link": "own", "target": target }));
        let followed = followed["result"].as_str().unwrap().to_owned();
        assert!(
            !followed.contains("Ok(\"") && !followed.contains(SECRET),
            "{followed}"
        );
    }
}

#[test]
fn preview3_files_granted_for_reading_are_not_changed() {
    let kit = kit(DirectoryAccess::Read, json!({ "timeMs": 20_000 }));
    assert_eq!(
        result(&kit, "read", json!({ "path": "a.txt" }))["result"],
        "grüße"
    );
    for tool in ["write", "append", "change", "remove"] {
        let outcome = kit.call(tool, arguments(tool, "a.txt"));
        assert!(outcome.result().is_err(), "{tool}: {}", outcome.text());
    }
    let (_, message) = failure(&kit, "remove", json!({ "path": "a.txt" }));
    assert!(message.contains("granted for reading only"), "{message}");
    let path = kit.path().join("work/a.txt");
    assert_eq!(fs::read_to_string(path).unwrap(), "grüße");
}

/// A kit whose guest starts changes and does not wait for them.
fn pending_changes() -> Testkit {
    let component = wat::parse_str(include_str!("pending_changes.wat")).unwrap();
    let kit = Testkit::from_bytes("pending_changes", &component).unwrap();
    granted(kit, DirectoryAccess::ReadWrite, json!({ "timeMs": 10_000 }))
}

#[test]
fn preview3_pending_changes_do_not_delay_the_result() {
    let kit = pending_changes();
    for count in [1, 2, 30] {
        result(&kit, "start", json!({ "n": count }));
        let first = kit.path().join("work/daa");
        assert!(first.exists(), "{count}: a change in progress ends");
        fs::remove_dir(first).unwrap();
    }
    let (code, message) = failure(&kit, "fail", json!({ "n": 3 }));
    assert_eq!(code, ToolErrorCode::ExecutionError, "{message}");
    assert!(message.contains("unreachable"), "{message}");
}

#[test]
fn preview3_changes_with_long_paths_are_never_pending() {
    /// The status of a function that has returned, in the canonical ABI.
    const RETURNED: u32 = 2;
    let kit = pending_changes();
    let status = result(&kit, "large", json!({ "n": 20, "mb": 2 }));
    assert_eq!(status["result"], RETURNED);
}

#[test]
fn preview3_files_keep_the_limits_of_the_call() {
    let kit = kit(
        DirectoryAccess::ReadWrite,
        json!({ "timeMs": 5_000, "openFiles": 16 }),
    );
    // Both ends of the copy are the host's, which must let the timeout fire.
    let endless = json!({ "path": "a.txt" });
    let (code, message) = failure(&kit, "append_to_itself", endless);
    assert!(
        matches!(code, ToolErrorCode::Timeout | ToolErrorCode::LimitExceeded),
        "{message}"
    );
    fs::write(kit.path().join("work/a.txt"), "small").unwrap();
    let (code, message) = failure(&kit, "open_many", json!({ "path": "a.txt" }));
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
    let (code, message) = failure(&kit, "streams", json!({ "path": "a.txt" }));
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
    assert_eq!(
        result(&kit, "read", json!({ "path": "a.txt" }))["result"],
        "small"
    );
}
