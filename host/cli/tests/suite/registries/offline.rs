//! `mimir tools verify` and `vendor`: checks and copies of installed components without the registry.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{RegistryWorkspace, TOOL, changed_plugin};
use crate::kit::oci_registry::digest_of;
use crate::kit::{plugin, run};

#[test]
fn tools_lock_of_a_checkout_names_no_file_elsewhere() {
    let work = RegistryWorkspace::new();
    let digest = work.push(&plugin::search(), "1", &[]);
    let (reference, layer) = (work.reference("1"), digest_of(&plugin::search()));
    for location in [
        "../outside.wasm",
        ".mimir/tools/../../outside.wasm",
        "docs/prob.wasm",
    ] {
        let lock = format!(
            "version: 1\nsources:\n  {location}: {{reference: '{reference}', manifest: '{digest}', layer: '{layer}'}}\n"
        );
        fs::create_dir_all(work.path().join(".mimir")).unwrap();
        fs::write(work.path().join(".mimir/tools.lock"), &lock).unwrap();
        let (code, out, err) = work.run(&["tools", "vendor"]);
        assert_ne!(code, 0, "{location}: {out}{err}");
        let (code, out, err) = work.run(&["tools", "verify"]);
        assert_eq!(code, 1, "{location}: {out}{err}");
        assert!(out.contains("does not name a file"), "{location}: {out}");
        let changed = digest.replace(['a', '1'], "0");
        let stale = lock.replace(&digest, &changed);
        fs::write(work.path().join(".mimir/tools.lock"), stale).unwrap();
        let (_, out, err) = work.run(&["tools", "update", "--yes"]);
        assert!(!out.contains(": updated"), "{location}: {out}{err}");
        assert!(!work.path().join("docs").exists() && !work.tool().exists());
        assert!(!work.path().parent().unwrap().join("outside.wasm").exists());
    }
}

#[test]
fn tools_verify_finds_changed_missing_and_unknown_files() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.configure(&work.trust("acme"));
    let component = plugin::search();
    work.push(&component, "1", &["--sign", "acme"]);
    assert_eq!(work.add("1", &[]).0, 0);
    // Without the registry from here on.
    work.registry
        .with(|content| content.login = Some("closed".to_owned()));
    let requests = work.registry.requests().len();
    let problems = || {
        let (code, result) = work.json(&["tools", "verify"]);
        assert_eq!(code == 0, result["ok"] == true, "{result}");
        let files = result["files"].as_array().unwrap();
        let problems = files
            .iter()
            .flat_map(|file| file["problems"].as_array().cloned());
        problems
            .flatten()
            .map(|line| line.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(problems().is_empty());

    let mut other = component.clone();
    other.push(0);
    fs::write(work.tool(), &other).unwrap();
    assert!(problems()[0].contains("another than"), "{:?}", problems());
    fs::write(work.tool(), &component).unwrap();

    let stored = work.path().join(".mimir/tools.signatures/prob.json");
    let text = fs::read_to_string(&stored).unwrap();
    fs::write(
        &stored,
        text.replace("application/wasm", "application/wasn"),
    )
    .unwrap();
    assert!(problems()[0].contains("another digest"), "{:?}", problems());
    fs::remove_file(&stored).unwrap();
    assert!(problems()[0].contains("missing"), "{:?}", problems());
    fs::write(&stored, &text).unwrap();

    // The key is no longer trusted.
    work.key("other");
    work.configure(&work.trust("other"));
    assert!(problems()[0].contains("trusted"), "{:?}", problems());
    work.configure(&work.trust("acme"));

    let planted = work.path().join(".mimir/tools/planted.wasm");
    fs::write(&planted, &component).unwrap();
    assert!(problems()[0].contains("unknown"), "{:?}", problems());
    fs::remove_file(&planted).unwrap();
    fs::remove_file(work.tool()).unwrap();
    assert!(problems()[0].contains("missing"), "{:?}", problems());
    assert_eq!(
        work.registry.requests().len(),
        requests,
        "it used the network"
    );
}

#[test]
fn tools_vendor_makes_a_clone_work_offline() {
    let work = RegistryWorkspace::new();
    let component = plugin::search();
    work.push(&component, "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    fs::remove_file(work.tool()).unwrap();
    fs::remove_dir_all(work.path().join(".mimir/tools.signatures")).unwrap();
    // The tag has moved meanwhile: the pinned build is restored.
    work.push(&changed_plugin(), "1", &["--force"]);
    let local = work.path().join(".mimir/tools/local.yml");
    fs::write(
        &local,
        "name: local_echo\ndescription: Echo.\ncode: return 1\n",
    )
    .unwrap();
    let (code, vendored) = work.json(&["tools", "vendor"]);
    assert_eq!(code, 0, "{vendored}");
    assert_eq!(vendored["restored"], json!([TOOL]));
    assert_eq!(vendored["pinned"], json!([".mimir/tools/local.yml"]));
    assert_eq!(fs::read(work.tool()).unwrap(), component);
    let (code, checked) = work.json(&["tools", "verify"]);
    assert_eq!(code, 0, "{checked}");

    // A clone has the folder, and verifies without the registry.
    let clone = tempfile::tempdir().unwrap();
    copy_folder(&work.path().join(".mimir"), &clone.path().join(".mimir"));
    let (code, out, err) = run(clone.path(), &["tools", "verify"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = run(clone.path(), &["tools", "vendor"]);
    assert!(code == 0 && out.contains("already"), "{out}{err}");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        // `state` is not under version control.
        if entry.file_name() == "state" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
