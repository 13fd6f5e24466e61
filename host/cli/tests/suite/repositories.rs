//! The tool `git` in repositories that try to run programs, and in those whose result must mention what it leaves out.
#![cfg(target_os = "linux")]

use crate::kit;
mod config_commands;
mod filters;
mod staging;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with repositories.
struct GitFixture(TempDir);

impl GitFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs git directly, before any setting that would run programs.
    fn git(&self, folder: &str, words: &[&str]) -> String {
        let done = Command::new("git")
            .current_dir(self.at(folder))
            .args(["-c", "protocol.file.allow=always"])
            .args(words)
            .envs([
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_AUTHOR_NAME", "a"),
                ("GIT_AUTHOR_EMAIL", "a@b"),
                ("GIT_COMMITTER_NAME", "a"),
                ("GIT_COMMITTER_EMAIL", "a@b"),
            ])
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// A call of the tool in a folder, which a person approves.
    fn call(&self, folder: &str, operation: &str, args: &[&str]) -> (i32, Value) {
        let arguments = json!({"operation": operation, "args": args}).to_string();
        let words = ["--json", "call", "--approve", "always", "git", &arguments];
        let (code, out, err) = kit::run(&self.at(folder), &words);
        let output = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        (code, output)
    }

    fn succeeds(&self, folder: &str, operation: &str, args: &[&str]) -> String {
        let (code, output) = self.call(folder, operation, args);
        assert_eq!(code, 0, "{operation} {args:?}: {output:#}");
        output["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The error message of a refused operation.
    fn refused(&self, folder: &str, operation: &str, args: &[&str]) -> String {
        let (code, output) = self.call(folder, operation, args);
        assert_ne!(code, 0, "{operation} {args:?}: {output:#}");
        output["error"].to_string()
    }
}
