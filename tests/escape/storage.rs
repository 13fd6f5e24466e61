//! Plugins that store too much, or try to read values of others.

use std::fs;
use std::path::PathBuf;

use mimir_core::ToolErrorCode;
use mimir_kit::Arena;
use mimir_testkit::{Testkit, json};

use super::nothing;
use crate::guests;

/// The storage folders of plugins.
fn folders(kit: &Testkit) -> Vec<PathBuf> {
    let all = fs::read_dir(kit.path().join(".mimir/state/storage")).unwrap();
    all.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn storage_is_limited_and_stays_in_its_folder() {
    for (arguments, told) in [
        (
            json!({"small": true}),
            "1000 ErrorCode::LimitExceeded false",
        ),
        (nothing(), "15 ErrorCode::LimitExceeded false"),
    ] {
        let arena = Arena::new(guests::STORAGE_FLOOD).limits(json!({"timeMs": 120_000}));
        let before = mimir_kit::picture(arena.kit().path());
        assert_eq!(arena.call(arguments).text(), told);
        let own = [".mimir/state", ".mimir/.gitignore"];
        let state = |name: &String| !own.iter().any(|own| name.starts_with(own));
        let after = mimir_kit::picture(arena.kit().path());
        let (before, after) = (before.keys(), after.keys());
        assert!(
            after
                .filter(|name| state(name))
                .eq(before.filter(|name| state(name)))
        );
        let [folder] = folders(arena.kit()).try_into().unwrap();
        let sizes = fs::read_dir(folder).unwrap();
        let all: u64 = sizes
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        assert!(all <= 16 << 20, "{all} bytes were kept");
    }
}

#[test]
fn storage_is_separate_per_plugin_and_persistent() {
    let kit = Testkit::empty().unwrap();
    kit.add(guests::KEEPER.path).unwrap();
    let other = kit.path().join("other.wasm");
    fs::copy(guests::KEEPER.path, &other).unwrap();
    let said = |what: &str, with: &str| {
        let outcome = kit.call("keeper", json!({ what: with }));
        assert!(outcome.is_ok(), "{outcome:?}");
        outcome.text()
    };
    assert_eq!(said("get", "a"), "nothing");
    assert_eq!(said("delete", "a"), "gone");
    assert_eq!(said("set", "a=first"), "kept");
    assert_eq!(said("set", "a=second"), "kept");
    assert_eq!(said("set", "b/../ü=x"), "kept");
    assert_eq!(said("get", "a"), "second");
    assert_eq!(said("keys", ""), "a,b/../ü");
    assert_eq!(said("keys", "b"), "b/../ü");
    assert_eq!(said("delete", "a"), "gone");
    assert_eq!(said("get", "a"), "nothing");
    // A component under another name is another plugin.
    fs::remove_file(kit.path().join(".mimir/tools/keeper.wasm")).unwrap();
    kit.add(&other).unwrap();
    assert_eq!(said("keys", ""), "");
    assert_eq!(folders(&kit).len(), 1, "a look makes nothing");
}

#[cfg(unix)]
#[test]
fn storage_refuses_links_from_a_checkout() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let outside = tempfile::tempdir().unwrap();
    let arena = Arena::new(guests::KEEPER);
    let (kit, set) = (arena.kit(), json!({"set": "a=first"}));
    assert!(arena.call(set.clone()).is_ok());
    let [folder] = folders(kit).try_into().unwrap();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o077, 0);
    let ignored = kit.path().join(".mimir/state/.gitignore");
    assert_eq!(fs::read_to_string(ignored).unwrap(), "*\n");
    let of_value = |entry: &PathBuf| entry.file_name().is_some_and(|name| name.len() == 64);
    let mut files = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let file = files.find(of_value).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0);

    let refused = |arguments: &mimir_testkit::Value| {
        let outcome = arena.call(arguments.clone());
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
        assert!(error.message.contains("is a link; remove it"), "{error}");
    };
    // Replaces a value, a temporary file, and the folder.
    fs::write(outside.path().join("secret"), "not theirs").unwrap();
    fs::remove_file(&file).unwrap();
    symlink(outside.path().join("secret"), &file).unwrap();
    refused(&json!({"get": "a"}));
    for name in ["new", "turn"] {
        let _ = fs::remove_file(folder.join(name));
        symlink(outside.path().join("made"), folder.join(name)).unwrap();
        refused(&json!({"set": "b=first"}));
        let _ = fs::remove_file(folder.join(name));
    }
    fs::remove_dir_all(&folder).unwrap();
    symlink(outside.path(), &folder).unwrap();
    for arguments in [
        &set,
        &json!({"get": "a"}),
        &json!({"keys": ""}),
        &json!({"delete": "a"}),
    ] {
        refused(arguments);
    }
    let result: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(result.len(), 1, "{result:?}");
}
