//! The testkit for authors of tools: building a package and running the component.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_testkit::{Testkit, TestkitError, json};
use tempfile::TempDir;

/// A package with one source file and no dependencies.
fn package(file: &str, source: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"greeter\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src").join(file), source).unwrap();
    folder
}

#[test]
fn testkit_builds_and_calls_a_package() {
    let folder = package(
        "main.rs",
        r#"fn main() {
            let mut text = String::new();
            std::io::stdin().read_line(&mut text).unwrap();
            let names: Vec<String> = std::env::args().skip(1).collect();
            eprintln!("a line for the log");
            if names.is_empty() {
                eprintln!("nobody to greet");
                std::process::exit(3);
            }
            println!("{} {}", text.trim(), names.join(" and "));
        }"#,
    );
    let kit = Testkit::build(folder.path()).unwrap();
    let outcome = kit.call(
        "greeter",
        json!({"args": ["Ada", "Grace"], "stdin": "Hello"}),
    );
    assert_eq!(outcome.text().trim(), "Hello Ada and Grace");
    assert!(
        kit.log()
            .iter()
            .any(|line| line.text == "a line for the log"),
        "{:?}",
        kit.log()
    );

    let failed = kit.call("greeter", json!({}));
    let error = failed.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ExecutionError);
    assert!(
        error.message.contains("exit code") && error.message.contains("nobody to greet"),
        "{error}"
    );
}

#[test]
fn testkit_reports_compiler_errors() {
    let folder = package("main.rs", "fn main() { not_there() }");
    match Testkit::build(folder.path()) {
        Err(TestkitError::Build { reason, .. }) => {
            assert!(reason.contains("not_there"), "{reason}")
        }
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn testkit_names_the_missing_cdylib_crate_type() {
    let folder = package("lib.rs", "");
    let error = Testkit::build(folder.path()).err().unwrap().to_string();
    assert!(error.contains("crate-type = [\"cdylib\"]"), "{error}");
}

#[test]
fn testkit_explains_why_a_plugin_is_refused() {
    let error = Testkit::from_bytes("broken", b"not a component")
        .err()
        .unwrap();
    assert!(
        matches!(&error, TestkitError::Refused { reason, .. } if reason.contains("WebAssembly")),
        "{error}"
    );
    let missing = Testkit::new("nowhere/plugin.wasm")
        .err()
        .unwrap()
        .to_string();
    assert!(missing.contains("nowhere/plugin.wasm"), "{missing}");
}
