//! The part of `go.mod` that a build needs: the version of Go, and the required modules.

use std::collections::BTreeSet;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};

use crate::commands::toolchains::numbers;
use mimir::file_error::file_error;

/// Oldest version of Go in which the SDK is written.
const SDK_GO: &str = "1.25";

/// The module of the SDK, which is on this machine.
const SDK_MODULE: &str = "mimir.local/sdk";

/// Maximum size of a `go.mod` in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Facts of a `go.mod`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GoModule {
    /// The version of Go that the module asks for.
    go_version: Option<String>,
    /// Required modules with their versions, without those that are replaced.
    requirements: Vec<(String, String)>,
}

impl GoModule {
    /// Reads a `go.mod`.
    pub fn read(file: &Path) -> Result<Self, ToolError> {
        let text = read_text(file, LinkPolicy::Refuse, MAX_FILE_SIZE);
        Ok(Self::parse(
            &text.map_err(|error| file_error("read", file, &error))?,
        ))
    }

    /// Parses the text of a `go.mod`. Go reports the errors in it.
    fn parse(text: &str) -> Self {
        let mut module = Self::default();
        let mut replaced = BTreeSet::new();
        let mut block: Option<&str> = None;
        for line in text.lines() {
            let line = line.split("//").next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let (verb, words) = match (block, &words[..]) {
                (_, []) => continue,
                (Some(_), [")"]) => {
                    block = None;
                    continue;
                }
                (None, [verb, "("]) => {
                    block = Some(verb);
                    continue;
                }
                (Some(verb), words) => (verb, words),
                (None, [verb, words @ ..]) => (*verb, words),
            };
            match (verb, words) {
                ("go", [version]) => module.go_version = Some(unquoted(version)),
                ("require", [path, version]) => {
                    let requirement = (unquoted(path), unquoted(version));
                    module.requirements.push(requirement);
                }
                ("replace", [path, ..]) => {
                    replaced.insert(unquoted(path));
                }
                _ => {}
            }
        }
        replaced.insert(SDK_MODULE.to_owned());
        module
            .requirements
            .retain(|(path, _)| !replaced.contains(path));
        module
    }

    /// Returns the version of Go for a workspace of the module and the SDK: the newer one of both.
    pub fn workspace_go_version(&self) -> &str {
        let own = self.go_version.as_deref();
        // With the same numbers, the own one is newer: Go sorts `1.25` before `1.25rc1` and `1.25.0`.
        own.filter(|version| numbers::<3>(version) >= numbers(SDK_GO))
            .unwrap_or(SDK_GO)
    }

    /// Returns the first required module, with its version, that the module cache does not have.
    pub fn missing_requirement(&self, modules: &Path) -> Option<String> {
        let mut requirements = self.requirements.iter();
        let missing = requirements.find(|(path, version)| {
            let folder = modules.join("cache/download").join(escaped(path));
            !folder
                .join("@v")
                .join(format!("{}.zip", escaped(version)))
                .is_file()
        });
        missing.map(|(path, version)| format!("{path} {version}"))
    }
}

fn unquoted(word: &str) -> String {
    word.trim_matches(['"', '`']).to_owned()
}

/// Returns a module path or version as the module cache writes it: `!a` for an upper-case `A`.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if character.is_ascii_uppercase() {
            escaped.push('!');
        }
        escaped.push(character.to_ascii_lowercase());
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "module example.com/words // words\n\ngo 1.26.1\n\nrequire mimir.local/sdk v0.0.0\n\
        require (\n\texample.com/A/b v1.0.0\n\texample.com/c v2.0.0 // indirect\n\t\"example.com/d\" v1.0.0\n)\n\
        replace (\n\texample.com/c => ../c\n)\nexclude (\n\texample.com/x v1.0.0\n)\n";

    #[test]
    fn go_module_requirements_are_those_from_the_network() {
        let module = GoModule::parse(EXAMPLE);
        let paths: Vec<&str> = module
            .requirements
            .iter()
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(paths, ["example.com/A/b", "example.com/d"]);
        assert_eq!(module.workspace_go_version(), "1.26.1");
    }

    #[test]
    fn go_workspace_is_at_least_as_new_as_the_sdk() {
        for (text, expected) in [
            ("module a\n", "1.25"),
            ("module a\ngo 1.9\n", "1.25"),
            ("go 1.25.3\n", "1.25.3"),
            ("go 1.25rc2\n", "1.25rc2"),
            ("go 1.26rc1\n", "1.26rc1"),
            ("go 1.24rc1\n", "1.25"),
        ] {
            assert_eq!(
                GoModule::parse(text).workspace_go_version(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn go_module_cache_has_escaped_paths() {
        let modules = tempfile::tempdir().unwrap();
        let module = GoModule::parse(EXAMPLE);
        let missing = || module.missing_requirement(modules.path());
        assert_eq!(missing().unwrap(), "example.com/A/b v1.0.0");
        for path in ["example.com/!a/b", "example.com/d"] {
            let folder = modules.path().join("cache/download").join(path).join("@v");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("v1.0.0.zip"), "").unwrap();
        }
        assert_eq!(missing(), None);
    }
}
