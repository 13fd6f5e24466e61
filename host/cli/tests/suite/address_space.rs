//! With little address space there is no memory pool: calls still work, and `doctor` reports it.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs mimir with 4 GB of address space: less than a single memory reserves by default.
fn cramped(home: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_mimir"))
        .args(args)
        .current_dir(home.join("work"))
        .env("MIMIR_CONFIG_DIR", home.join("config"))
        .env(
            "MIMIR_CACHE_DIR",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/cramped"),
        )
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn call_works_with_limited_address_space() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("here.txt"), "a needle").unwrap();
    for args in [
        ["call", "file_info", "path=here.txt"].as_slice(),
        &["call", "file_search", "mode=grep", "query=needle"],
    ] {
        let (code, output) = cramped(home.path(), args);
        assert_eq!(code, Some(0), "{args:?}: {output}");
        assert!(
            output.contains("here.txt") || output.contains("file"),
            "{output}"
        );
    }
    let (_, output) = cramped(home.path(), &["doctor"]);
    assert!(output.contains("memory on demand"), "{output}");
}
