//! Plugins in TypeScript, built without any program in `PATH`: neither Node nor a bundler.

use std::fs;
use std::path::Path;

use crate::kit::mimir;
use crate::kit::scripts::workspace;

/// Builds `tools.ts` without any program in `PATH`; returns the exit code and the output.
pub fn build(home: &Path, code: &str) -> (i32, String) {
    fs::write(home.join("tools.ts"), code).unwrap();
    let output = mimir(home, &["tools", "build", "tools.ts"])
        .env("PATH", home)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(text).unwrap(),
    )
}

/// A workspace with the plugin.
pub fn built(code: &str) -> tempfile::TempDir {
    let home = workspace(&[]);
    let (exit, output) = build(home.path(), code);
    assert_eq!(exit, 0, "{output}");
    home
}
