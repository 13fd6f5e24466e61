//! Prepares a server whose command line downloads a package: pins the package, and finds the workspace folders that
//! its arguments name.

use std::path::{Component, Path};

use mimir_core::ToolError;
use mimir_core::config::{McpPackage, SandboxMode};
use mimir_core::text::visible;
use mimir_mcp::client::{PackageRequest, package_request};
use serde_json::{Value, json};

use crate::output::{WARN, note, styled};

/// Returns the package that the command line of a block downloads, or `None` if it downloads none or runs in a
/// container, which has its own packages.
pub fn requested_package(block: &Value) -> Result<Option<PackageRequest>, ToolError> {
    if block["sandbox"] == json!(SandboxMode::Container) {
        return Ok(None);
    }
    let words =
        std::iter::once(&block["command"]).chain(block["args"].as_array().into_iter().flatten());
    let words: Vec<String> = words.filter_map(Value::as_str).map(str::to_owned).collect();
    package_request(&words).map_err(ToolError::invalid_input)
}

/// Replaces the command line of a block with the pinned package. The server gets access to `folders`, or, if that is
/// empty, to the workspace folders that its arguments name.
pub fn pinned_block(
    block: &Value,
    package: &McpPackage,
    args: Vec<String>,
    folders: &[String],
    root: &Path,
) -> Value {
    let mut block = block.clone();
    let (args, named_folders) = rewrite_workspace_paths(args, folders, root);
    for word in unclear_words(&args, root) {
        let word = visible(word);
        note(styled(
            WARN,
            format_args!(
                "`{word}` is passed on as a word; write `./{word}` for the workspace folder"
            ),
        ));
    }
    if let Some(map) = block.as_object_mut() {
        // A package starts in its own folder and does not run workspace code.
        for key in ["command", "args", "cwd", "workspaceCode"] {
            map.remove(key);
        }
        map.insert("package".into(), json!(package));
        if !args.is_empty() {
            map.insert("args".into(), args.into());
        }
        let folders = if folders.is_empty() {
            named_folders
        } else {
            folders.to_vec()
        };
        if !folders.is_empty() {
            map.insert("folders".into(), folders.into());
        }
    }
    block
}

/// Returns the plain words that a folder of the workspace has as its name. They may be commands of the server.
fn unclear_words<'a>(args: &'a [String], root: &Path) -> impl Iterator<Item = &'a String> {
    let is_plain = |word: &&String| !word.is_empty() && !word.contains(['.', '/', '=']);
    args.iter()
        .filter(is_plain)
        .filter(move |word| !word.starts_with('-') && root.join(word).is_dir())
}

/// Rewrites arguments that are workspace paths as relative paths, and collects their folders. A plain word is a path if
/// it is one of the `chosen` folders.
fn rewrite_workspace_paths(
    args: Vec<String>,
    chosen: &[String],
    root: &Path,
) -> (Vec<String>, Vec<String>) {
    let is_chosen = |word: &str| {
        let mut chosen = chosen.iter().map(|folder| folder.trim_end_matches('/'));
        chosen.any(|folder| folder.strip_prefix("./").unwrap_or(folder) == word)
    };
    let mut folders: Vec<String> = Vec::new();
    let args = args.into_iter().map(|word| {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => {
                (Some(option.to_owned()), value.to_owned())
            }
            _ => (None, word.clone()),
        };
        // Other plain words that happen to be file names are not paths.
        let is_path = value.contains(['.', '/']) || is_chosen(&value);
        let resolved = is_path.then(|| resolve_workspace_path(&value, root));
        let Some((relative, folder)) = resolved.flatten() else {
            return word;
        };
        if !folders.contains(&folder) {
            folders.push(folder);
        }
        match option {
            Some(option) => format!("{option}={relative}"),
            None => relative,
        }
    });
    let args = args.collect();
    // A folder inside another one needs no mount of its own.
    let all_folders = folders.clone();
    folders.retain(|folder| {
        !all_folders
            .iter()
            .any(|other| other != folder && (other == "." || Path::new(folder).starts_with(other)))
    });
    (args, folders)
}

/// Resolves an argument that names a workspace path. Returns the path relative to the workspace and the folder to
/// mount.
fn resolve_workspace_path(word: &str, root: &Path) -> Option<(String, String)> {
    if word.starts_with('-') || word.contains("://") {
        return None;
    }
    let path = root.join(word);
    let real = path.canonicalize().ok()?;
    let relative = real.strip_prefix(root.canonicalize().ok()?).ok()?;
    let text = |path: &Path| -> Option<String> {
        let parts: Option<Vec<&str>> = path
            .components()
            .map(|part| match part {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        Some(parts?.join("/"))
    };
    let folder = if real.is_dir() {
        relative
    } else {
        relative.parent()?
    };
    let folder = match text(folder)?.as_str() {
        "" => ".".to_owned(),
        folder => folder.to_owned(),
    };
    let relative = match text(relative)?.as_str() {
        "" => ".".to_owned(),
        relative => format!("./{relative}"),
    };
    Some((relative, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_arguments_in_the_workspace_become_launch_folders() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("docs/sub")).unwrap();
        std::fs::write(root.join("docs/a.db"), "").unwrap();
        std::fs::write(root.join("start"), "").unwrap();
        let rewrite = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            rewrite_workspace_paths(words, &[], root)
        };
        let here = root.display().to_string();
        for (words, args, folders) in [
            (vec!["."], vec!["."], vec!["."]),
            (vec![here.as_str()], vec!["."], vec!["."]),
            (vec!["docs/sub"], vec!["./docs/sub"], vec!["docs/sub"]),
            (
                vec!["--db=docs/a.db"],
                vec!["--db=./docs/a.db"],
                vec!["docs"],
            ),
            (
                vec!["docs/sub", "./docs"],
                vec!["./docs/sub", "./docs"],
                vec!["docs"],
            ),
            (
                vec!["start", "--port", "80"],
                vec!["start", "--port", "80"],
                vec![],
            ),
            (
                vec!["/usr", "..", "./nowhere"],
                vec!["/usr", "..", "./nowhere"],
                vec![],
            ),
            (
                vec!["https://h.example/."],
                vec!["https://h.example/."],
                vec![],
            ),
        ] {
            assert_eq!(
                rewrite(&words),
                (
                    args.iter().map(|it| (*it).to_owned()).collect(),
                    folders.iter().map(|it| (*it).to_owned()).collect()
                ),
                "{words:?}"
            );
        }
    }

    #[test]
    fn package_argument_without_a_slash_is_a_path_if_it_is_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["data", "serve"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let args: Vec<String> = ["serve", "data", "--to=data", "stdio"]
            .map(str::to_owned)
            .into();
        let rewrite = |chosen: &[&str]| {
            let chosen: Vec<String> = chosen.iter().map(|&it| it.to_owned()).collect();
            rewrite_workspace_paths(args.clone(), &chosen, root).0
        };
        assert_eq!(rewrite(&[]), args);
        for chosen in ["data", "./data/"] {
            let rewritten = rewrite(&[chosen]);
            assert_eq!(rewritten, ["serve", "./data", "--to=./data", "stdio"]);
            let unclear: Vec<&String> = unclear_words(&rewritten, root).collect();
            assert_eq!(unclear, ["serve"]);
        }
    }
}
