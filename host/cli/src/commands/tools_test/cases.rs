//! The file `cases.yml` of a plugin: calls of its tools, and what they are expected to return.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_script::yaml::check_yaml;
use serde::Deserialize;
use serde_json::{Map, Value};

use mimir::file_error::file_error;
use mimir::settings::explain;

mod case_mismatch;

/// Name of the file in the folder of a plugin.
pub const CASES_FILE: &str = "cases.yml";

/// Maximum size of the file in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Maximum number of cases. Each has a workspace of its own.
const MAX_CASES: usize = 1_000;

/// A call and what it is expected to return. Without `text`, `contains`, `structured` and `error`, it must only succeed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginCase {
    /// Name of the case.
    pub name: String,
    /// Name or alias of the tool.
    pub call: String,
    /// Arguments of the call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The whole text of the result. Line breaks at its end are not compared.
    text: Option<String>,
    /// Parts of the text of the result, or of the message of the error.
    #[serde(default)]
    contains: TextParts,
    /// The structured result.
    structured: Option<Value>,
    /// Code of the error.
    error: Option<ToolErrorCode>,
    /// Texts of files in the workspace before the call, by their paths.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// False if the person refuses to approve the call.
    #[serde(default = "approved_by_default")]
    pub approve: bool,
    /// Values of secrets that the call can use, by their names.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
}

fn approved_by_default() -> bool {
    true
}

/// One part of a text, or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`contains` must be a text or a list of texts")]
enum TextParts {
    One(String),
    All(Vec<String>),
}

impl Default for TextParts {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl TextParts {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(part) => std::slice::from_ref(part),
            Self::All(parts) => parts,
        }
    }
}

/// Reads the cases in the folder of a plugin. A plugin without the file has none.
///
/// # Errors
///
/// Fails if the file cannot be read, or is not valid. The error has the line.
pub fn read_cases(folder: &Path) -> Result<Vec<PluginCase>, ToolError> {
    let path = folder.join(CASES_FILE);
    match files::read_text(&path, LinkPolicy::Refuse, MAX_FILE_SIZE) {
        Ok(text) => parse_cases(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(file_error("read", &path, &error)),
    }
}

/// Parses the text of a file.
fn parse_cases(text: &str) -> Result<Vec<PluginCase>, ToolError> {
    let error = |message: String| ToolError::invalid_input(message);
    check_yaml(text).map_err(|rejection| error(format!("{CASES_FILE}:{rejection}")))?;
    let cases: Option<Vec<PluginCase>> = serde_yaml::from_str(text)
        .map_err(|e| error(without_index(&explain(CASES_FILE, &e).message)))?;
    let cases = cases.unwrap_or_default();
    if cases.len() > MAX_CASES {
        let count = cases.len();
        let message = format!("{CASES_FILE} has {count} cases: expected at most {MAX_CASES}");
        return Err(error(message));
    }
    let lines = item_lines(text);
    let mut names = BTreeSet::new();
    for (at, case) in cases.iter().enumerate() {
        let problem = if names.insert(&case.name) {
            case.problem()
        } else {
            Some(format!(
                "two cases are named `{}`: give each case a name of its own",
                visible(&case.name)
            ))
        };
        if let Some(problem) = problem {
            // In a list in brackets, items have no lines of their own.
            let position = match lines.get(at).filter(|_| lines.len() == cases.len()) {
                Some(line) => format!("{CASES_FILE}:{line}"),
                None => format!("{CASES_FILE}: case {}", at + 1),
            };
            return Err(error(format!("{position}: {problem}")));
        }
    }
    Ok(cases)
}

/// Removes the index of the case from the path of a key, such as `[0].error`: the position has the line.
fn without_index(message: &str) -> String {
    let Some((before, rest)) = message.split_once('[') else {
        return message.to_owned();
    };
    match rest.split_once(']') {
        Some((index, after)) if index.parse::<usize>().is_ok() => {
            let before = before.strip_suffix('.').unwrap_or(before);
            let after = after
                .strip_prefix('.')
                .or(after.strip_prefix(": "))
                .unwrap_or(after);
            format!("{before}{after}")
        }
        _ => message.to_owned(),
    }
}

/// Returns the lines, counted from 1, on which the items of a list begin: those with a dash in the column of the first one.
/// Everything in an item is farther to the right.
fn item_lines(text: &str) -> Vec<usize> {
    let is_item = |line: &str| line == "-" || line.starts_with("- ");
    let content = text.lines().map(str::trim_end).enumerate();
    let indent_of = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let first = content
        .clone()
        .find(|(_, line)| is_item(line.trim_start_matches(' ')));
    let Some((_, first)) = first else {
        return Vec::new();
    };
    let indent = indent_of(first);
    let items = content.filter(|(_, line)| indent_of(line) == indent && is_item(&line[indent..]));
    items.map(|(at, _)| at + 1).collect()
}

impl PluginCase {
    /// Returns what is wrong with the case.
    fn problem(&self) -> Option<String> {
        if self.name.trim().is_empty() {
            return Some("`name` is empty: expected a few words about the case".to_owned());
        }
        if self.error.is_some() && (self.text.is_some() || self.structured.is_some()) {
            return Some(
                "`error` cannot be combined with `text` or `structured`, because a failed call returns neither: use \
                 `contains` for a part of the message"
                    .to_owned(),
            );
        }
        let wrong_path = self.files.keys().find(|path| !is_workspace_path(path));
        wrong_path.map(|path| {
            format!(
                "`files`: `{}` is not a path in the workspace: expected a relative path with `/`, without `..`, outside \
                 of .mimir",
                visible(path)
            )
        })
    }
}

/// Returns true for a relative path that does not leave the workspace and is not one of mimir's own files.
fn is_workspace_path(path: &str) -> bool {
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.to_string_lossy().eq_ignore_ascii_case(".mimir"),
        _ => false,
    };
    let has_odd_sign = path.contains(['\\', ':']) || path.chars().any(char::is_control);
    !path.is_empty()
        && !path.ends_with('/')
        && !has_odd_sign
        && Path::new(path).components().all(is_plain)
}

#[cfg(test)]
mod tests;
