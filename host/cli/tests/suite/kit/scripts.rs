//! Workspaces with tools in YAML files, and calls of them.

use std::fs;
use std::path::Path;

use crate::kit::run;
use serde_json::Value;
use tempfile::TempDir;

/// A workspace with these tools: file name and content.
pub fn workspace(tools: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir/tools")).unwrap();
    for (name, text) in tools {
        fs::write(home.path().join(".mimir/tools").join(name), text).unwrap();
    }
    home
}

/// A tool without arguments.
pub fn tool(name: &str, code: &str) -> String {
    let lines: String = code.lines().map(|line| format!("  {line}\n")).collect();
    format!("name: {name}\ndescription: A test.\nschema: {{type: object}}\ncode: |\n{lines}")
}

/// The outcome of a call that a person approves.
pub fn call(home: &Path, words: &[&str]) -> Value {
    let words = [&["call", "--json", "--approve", "always"], words].concat();
    let (_, out, err) = run(home, &words);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

pub fn text(outcome: &Value) -> &str {
    let text = outcome["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{outcome:#}"))
}
