//! The folder of tools itself.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_kit::BOUND;
use mimir_testkit::{Testkit, json};

use super::find_quarantined;
use crate::guests;

#[test]
fn loader_collision_names_both_sources() {
    let kit = Testkit::new(guests::ADDER.path).unwrap();
    kit.add_bytes("second_adder", &guests::ADDER.bytes())
        .unwrap();
    let left = find_quarantined(&kit, "second_adder.wasm");
    assert_eq!(left.code, ToolErrorCode::AlreadyExists);
    assert!(left.reason.contains("adder.wasm"), "{}", left.reason);
    assert!(left.reason.contains("`add`"), "{}", left.reason);
    assert!(
        kit.call("add", json!({"a": 1, "b": 1})).is_ok(),
        "the first one stays"
    );
}

#[test]
fn loader_skips_folders_broken_links_and_pipes() {
    let kit = Testkit::new(guests::ADDER.path).unwrap();
    let tools = kit.path().join(".mimir/tools");
    fs::create_dir(tools.join("folder.wasm")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere.wasm", tools.join("dangling.wasm")).unwrap();
        std::os::unix::fs::symlink("looped.wasm", tools.join("looped.wasm")).unwrap();
    }
    #[cfg(target_os = "linux")]
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        tools.join("pipe.wasm"),
        rustix::fs::Mode::RWXU,
    )
    .unwrap();
    let start = std::time::Instant::now();
    kit.reload();
    assert!(
        start.elapsed() < BOUND,
        "it waited for a writer of the pipe"
    );
    find_quarantined(&kit, "folder.wasm");
    #[cfg(unix)]
    for link in ["dangling.wasm", "looped.wasm"] {
        find_quarantined(&kit, link);
    }
    #[cfg(target_os = "linux")]
    find_quarantined(&kit, "pipe.wasm");
    assert!(kit.call("add", json!({"a": 1, "b": 1})).is_ok());
}

#[test]
#[cfg(target_os = "linux")]
fn loader_reports_a_file_name_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let kit = Testkit::new(guests::ADDER.path).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.wasm");
    let path = kit.path().join(".mimir/tools").join(name);
    fs::write(path, guests::ECHO.bytes()).unwrap();
    kit.reload();
    let left = find_quarantined(&kit, "caf\u{fffd}.wasm");
    assert_eq!(left.code, ToolErrorCode::InvalidInput);
    assert!(left.reason.contains("rename"), "{}", left.reason);
    assert!(kit.call("add", json!({"a": 1, "b": 1})).is_ok());
}

#[test]
#[cfg(unix)]
fn loader_reports_an_unreadable_tools_folder() {
    use std::os::unix::fs::PermissionsExt;
    let kit = Testkit::new(guests::ADDER.path).unwrap();
    let tools = kit.path().join(".mimir/tools");
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o000)).unwrap();
    let root = fs::read_dir(&tools).is_ok();
    kit.reload();
    let left = kit.quarantined();
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o700)).unwrap();
    // The superuser can read everything, so there is nothing to report.
    if !root {
        assert_eq!(left[0].code, ToolErrorCode::PermissionDenied, "{left:?}");
        assert!(left[0].reason.contains("tools"), "{left:?}");
    }
}

#[test]
fn loader_reports_a_tools_folder_that_is_a_file() {
    let kit = Testkit::empty().unwrap();
    let tools = kit.path().join(".mimir/tools");
    fs::remove_dir(&tools).unwrap();
    fs::write(&tools, "not a folder").unwrap();
    kit.reload();
    let left = kit.quarantined();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].location.contains("tools"), "{left:?}");
}

#[test]
fn workspace_path_can_have_spaces_and_unicode() {
    let folder = tempfile::Builder::new()
        .prefix("mimir ä 空 'quoted' $HOME ")
        .tempdir()
        .unwrap();
    fs::create_dir(folder.path().join("sub dir ö")).unwrap();
    fs::write(folder.path().join("sub dir ö/naïve file.txt"), "found").unwrap();
    let kit = Testkit::at(folder, vec![], |options| options).unwrap();
    kit.add(guests::FILE_PROBE.path).unwrap();
    let outcome = kit.call(
        "file_probe",
        json!({"steps": [["read", "sub dir ö/naïve file.txt"]]}),
    );
    let output = outcome.result().unwrap();
    assert_eq!(
        output.structured,
        Some(json!({"results": [{"read": "found"}]}))
    );
}

#[test]
fn loader_refuses_a_file_changed_after_listing() {
    let kit = Testkit::new(guests::ADDER.path).unwrap();
    fs::write(
        kit.path().join(".mimir/tools/adder.wasm"),
        guests::ECHO.bytes(),
    )
    .unwrap();
    let outcome = kit.call("add", json!({"a": 1, "b": 1}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    kit.reload();
    assert!(kit.call("echo", json!({})).is_ok());
    assert_eq!(
        kit.call("add", json!({"a": 1, "b": 1}))
            .result()
            .unwrap_err()
            .code,
        ToolErrorCode::NotFound
    );
}
