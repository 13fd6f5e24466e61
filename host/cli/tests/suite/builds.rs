//! `mimir tools build`: hostile builds, and messages that hold for all languages.

use std::fs;
#[cfg(unix)]
use std::path::Path;

use crate::kit::run;

#[cfg(target_os = "linux")]
mod hostile_plugins;

/// Writes a plugin in Rust without dependencies, whose build script has this body.
#[cfg(unix)]
fn plugin(home: &Path, build_script: &str) {
    let dir = home.join("hostile");
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::create_dir_all(home.join(".mimir")).unwrap();
    let manifest = "[package]\nname = \"hostile\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
        [lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    fs::write(dir.join("src/lib.rs"), "").unwrap();
    fs::write(
        dir.join("build.rs"),
        format!("fn main() {{\n{build_script}\n}}\n"),
    )
    .unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn build_script_cannot_leave_its_folder_or_reach_the_network() {
    let home = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        r#"let above = std::fs::read_dir("..").map(|entries| entries.count());
        println!("cargo::warning=sees {{above:?}}");
        for path in ["../escaped", "src/escaped", ".mimir/escaped"] {{
            let _ = std::fs::write(path, "x");
        }}
        let reached = std::net::TcpStream::connect(("127.0.0.1", {port})).is_ok();
        println!("cargo::warning=reached {{reached}}");
        println!("cargo::warning=ghp_{{}}", "0123456789abcdefghijABCDEFGHIJ012345");
        panic!("the end");"#
    );
    plugin(home.path(), &script);
    fs::write(home.path().join("secret"), "x").unwrap();
    let (code, _, err) = run(home.path(), &["tools", "build", "hostile"]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("the end"),
        "the build script has not run: {err}"
    );
    assert!(err.contains("reached false"), "{err}");
    // The folder above the plugin shows only the plugin.
    assert!(err.contains("sees Ok(1)"), "{err}");
    assert!(!home.path().join("escaped").exists(), "{err}");
    assert!(!home.path().join("hostile/src/escaped").exists(), "{err}");
    assert!(!home.path().join("hostile/.mimir").exists(), "{err}");
    assert!(!err.contains("0123456789abcdefghij"), "{err}");
    assert!(!home.path().join(".mimir/tools/hostile.wasm").exists());
}

#[cfg(unix)]
#[test]
fn build_without_a_sandbox_asks_for_the_network_option() {
    let home = tempfile::tempdir().unwrap();
    plugin(home.path(), "std::fs::write(\"ran\", \"\").unwrap();");
    fs::write(home.path().join(".mimir/config.yml"), "sandbox: none\n").unwrap();
    let accepted = run(home.path(), &["policy", "accept", "--yes"]);
    assert_eq!(accepted.0, 0, "{accepted:?}");
    let (code, _, err) = run(home.path(), &["tools", "build", "hostile"]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("--network") && err.contains("sandbox: auto"),
        "{err}"
    );
    assert!(!home.path().join("hostile/ran").exists());
}

#[test]
fn build_names_the_files_that_it_expects() {
    let home = tempfile::tempdir().unwrap();
    let (code, _, err) = run(home.path(), &["tools", "build", "."]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("tool.py") && err.contains("mimir tools new"),
        "{err}"
    );
    fs::write(home.path().join("tool.py"), "").unwrap();
    fs::write(home.path().join("tool.c"), "").unwrap();
    let (code, _, err) = run(home.path(), &["tools", "build", "."]);
    assert!(code == 2 && err.contains("--lang"), "{err}");
    let (code, _, err) = run(home.path(), &["tools", "build", ".", "--lang", "go"]);
    assert!(code == 2 && err.contains("expected go.mod"), "{err}");
}

#[test]
fn build_of_a_new_javascript_plugin_is_callable() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fs::create_dir(home.join(".mimir")).unwrap();
    let (code, _, err) = run(home, &["tools", "new", "greet", "--lang", "js"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = run(home, &["tools", "build", "greet"]);
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = run(home, &["call", "greet", "name=Ada"]);
    assert!(code == 0 && out.contains("Hello, Ada!"), "{out}{err}");
}
