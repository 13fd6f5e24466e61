//! The memory folder: only one plugin of the binary may write to it, and only there.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_kit::{Arena, Outside, builtins, picture};
use mimir_testkit::{Approve, Testkit, Value, json};

use crate::guests;

fn kit() -> Testkit {
    let kit = Testkit::with_bundled(builtins()).unwrap();
    kit.approve(Approve::Always).workspace(|root| {
        fs::create_dir_all(root.join(".mimir/memory/folder")).unwrap();
        fs::write(root.join(".mimir/memory/notes.md"), "as it was\n").unwrap();
        fs::write(root.join(".mimir/config.yml"), "limits: {}\n").unwrap();
        fs::write(root.join("plain.md"), "plain\n").unwrap();
    })
}

/// The content of the workspace except for the state, which every call changes.
fn seen(kit: &Testkit) -> Vec<(String, String)> {
    let all = picture(kit.path()).into_iter();
    all.filter(|(name, _)| !name.starts_with(".mimir/state"))
        .collect()
}

#[test]
fn memory_names_cannot_lead_out_of_the_folder() {
    let kit = kit();
    let before = seen(&kit);
    let outside = Outside::new();
    let up = outside.relative().join("secret").display().to_string();
    let absolute = outside.path().join("secret").display().to_string();
    for name in [
        "../config.yml",
        "../../plain",
        "folder/x",
        "/plain",
        "..",
        ".",
        "",
        ".hidden",
        "a\\..\\b",
        "C:x",
        "notes.md/x",
        "nul",
        "a\0b",
        "ｎotes",
        &up,
        &absolute,
    ] {
        for (tool, arguments) in [
            ("memory_get", json!({ "name": name })),
            ("memory_save", json!({"name": name, "content": "changed"})),
            (
                "memory_save",
                json!({"name": name, "content": "changed", "mode": "replace"}),
            ),
        ] {
            let outcome = kit.call(tool, arguments);
            let error = outcome.result().unwrap_err();
            assert_eq!(
                error.code,
                ToolErrorCode::InvalidInput,
                "{tool} {name:?}: {error}"
            );
        }
    }
    // A folder with the name of a memory.
    fs::create_dir(kit.path().join(".mimir/memory/dir.md")).unwrap();
    assert!(
        !kit.call("memory_save", json!({"name": "dir", "content": "x"}))
            .is_ok()
    );
    fs::remove_dir(kit.path().join(".mimir/memory/dir.md")).unwrap();
    assert_eq!(seen(&kit), before);
    outside.intact();
}

#[cfg(unix)]
#[test]
fn memory_links_are_not_followed() {
    use std::os::unix::fs::symlink;

    let outside = Outside::new();
    let secret = outside.path().join("secret");
    let kit = kit();
    let folder = kit.path().join(".mimir/memory");
    symlink(&secret, folder.join("out.md")).unwrap();
    symlink("../config.yml", folder.join("config.md")).unwrap();
    symlink("../../plain.md", folder.join("plain.md")).unwrap();
    for name in ["out", "config", "plain"] {
        for (tool, arguments) in [
            ("memory_get", json!({ "name": name })),
            ("memory_save", json!({"name": name, "content": "changed"})),
            (
                "memory_save",
                json!({"name": name, "content": "changed", "mode": "replace"}),
            ),
        ] {
            let outcome = kit.call(tool, arguments);
            let output = format!("{outcome:?}");
            assert!(!outcome.is_ok(), "{tool} {name}: {output}");
            assert!(!output.contains(Outside::SECRET), "{output}");
        }
    }
    let found = kit.call("memory_search", json!({"query": "jewels limits plain"}));
    assert!(
        found.text().contains("nothing was found"),
        "{}",
        found.text()
    );
    // Temporary files.
    for name in [".new", ".save.lock", ".cleanup.lock"] {
        let _ = fs::remove_file(folder.join(name));
        symlink(&secret, folder.join(name)).unwrap();
    }
    let _ = kit.call("memory_save", json!({"name": "fresh", "content": "x"}));
    // The folder itself, and its parent.
    fs::remove_dir_all(&folder).unwrap();
    symlink(outside.path(), &folder).unwrap();
    for (tool, arguments) in [
        ("memory_get", json!({})),
        ("memory_get", json!({"name": "secret"})),
        ("memory_search", json!({"query": "jewels"})),
        ("memory_save", json!({"name": "x", "content": "x"})),
    ] {
        let outcome = kit.call(tool, arguments);
        let error = outcome.result().unwrap_err();
        assert_eq!(
            error.code,
            ToolErrorCode::PermissionDenied,
            "{tool}: {error}"
        );
    }
    outside.intact();
}

#[test]
fn memory_files_cannot_be_changed_by_other_tools() {
    let kit = kit();
    let before = seen(&kit);
    let path = ".mimir/memory/notes.md";
    for (tool, arguments) in [
        ("write_file", json!({"path": path, "content": "changed"})),
        (
            "write_file",
            json!({"path": ".mimir/memory/new.md", "content": "changed"}),
        ),
        (
            "write_file",
            json!({"path": ".MIMIR/Memory/new.md", "content": "changed", "createDirs": true}),
        ),
        (
            "edit_file",
            json!({"path": path, "pattern": "was", "replacement": "is"}),
        ),
        ("delete_file", json!({"path": path})),
        (
            "move_file",
            json!({"from": "plain.md", "to": ".mimir/memory/plain.md"}),
        ),
        ("move_file", json!({"from": path, "to": "mine.md"})),
        (
            "file_operations",
            json!({"operation": "write", "path": path, "content": "changed"}),
        ),
    ] {
        let outcome = kit.call(tool, arguments.clone());
        assert!(!outcome.is_ok(), "{tool} {arguments}: {}", outcome.text());
    }
    assert_eq!(seen(&kit), before);
}

#[test]
fn memory_folder_is_not_writable_by_third_party_plugins() {
    let arena = Arena::new(guests::FILE_PROBE).person(Approve::Always);
    let kit = arena.kit();
    fs::create_dir_all(kit.path().join(".mimir/memory")).unwrap();
    fs::write(kit.path().join(".mimir/memory/notes.md"), "as it was\n").unwrap();
    let steps: Vec<Value> = [
        ["write", ".mimir/memory/notes.md", "changed"],
        ["create", ".mimir/memory/new.md", ""],
        ["unlink", ".mimir/memory/notes.md", ""],
        ["rename", ".mimir/memory", "memory"],
    ]
    .map(|step| json!(step))
    .to_vec();
    let _ = arena.call(json!({ "steps": steps }));
    assert_eq!(
        fs::read_to_string(kit.path().join(".mimir/memory/notes.md")).unwrap(),
        "as it was\n"
    );
    assert!(!kit.path().join(".mimir/memory/new.md").exists());
}
