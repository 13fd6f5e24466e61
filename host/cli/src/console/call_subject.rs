//! The subject of a recorded call for people: the page, the file or the command. Only what the record has, which is masked.

use mimir::undo::UndoRecord;
use serde_json::{Map, Value};

use mimir_core::text::{prefix, visible};

/// Maximum length of a subject in characters.
const SUBJECT_MAX: usize = 200;

/// Maximum number of changed files that are counted.
const PATHS_MAX: usize = 100;

/// Arguments that name the subject of a call, the most telling first.
const URLS: [&str; 3] = ["url", "uri", "href"];
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const PATHS: [&str; 8] = [
    "path",
    "file",
    "file_path",
    "filename",
    "source",
    "paths",
    "files",
    "directory",
];

/// Returns the subject that recorded arguments name. A URL is shown without user, query and fragment, because these
/// may be secret.
pub fn subject_of_arguments(arguments: &Value) -> Option<String> {
    let arguments = arguments.as_object()?;
    let url = first_text(arguments, &URLS).map(|url| shown_url(&url));
    let subject = url
        .or_else(|| first_text(arguments, &COMMANDS))
        .or_else(|| first_text(arguments, &PATHS))?;
    Some(shortened(&subject))
}

/// Shortens a subject to one line.
pub fn shortened(subject: &str) -> String {
    let line = visible(subject);
    let start = prefix(&line, SUBJECT_MAX);
    if start.len() == line.len() {
        return line;
    }
    format!("{start}…")
}

/// Returns the files that a call has changed.
pub fn changed_files(record: &UndoRecord) -> Option<String> {
    joined(record.paths().take(PATHS_MAX).map(str::to_owned).collect())
}

/// Returns the subject of a call whose arguments do not name it: the files that it has changed, which say more than its
/// commands, else its effects, else `own`, the host of a request that was asked about or refused.
pub fn subject_of_effects(
    changed: Option<&UndoRecord>,
    effects: Vec<String>,
    own: String,
) -> Option<String> {
    let changed = changed.and_then(changed_files);
    changed
        .or_else(|| joined(effects))
        .or_else(|| joined(vec![own]))
}

/// Joins several subjects.
fn joined(mut subjects: Vec<String>) -> Option<String> {
    subjects.dedup();
    let more = subjects.len().saturating_sub(1);
    let first = shortened(subjects.first().filter(|subject| !subject.is_empty())?);
    Some(match more {
        0 => first,
        more => format!("{first} and {more} more"),
    })
}

fn first_text(arguments: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let texts = names.iter().filter_map(|name| text(arguments.get(*name)?));
    texts.into_iter().find(|text| !text.trim().is_empty())
}

/// Returns a text, or a list of texts as one.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            texts.map(|texts| texts.join(" "))
        }
        _ => None,
    }
}

/// Returns host and path of a URL.
fn shown_url(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let host_end = rest.find(['/', '\\']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    let host = host.rsplit('@').next().unwrap_or_default();
    match scheme {
        "http" | "https" => format!("{host}{path}"),
        _ => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn call_subject_is_the_page_the_command_or_the_file() {
        for (arguments, expected) in [
            (
                json!({"url": "https://ada:pw@docs.rs/axum/latest?key=s3cret#top", "path": "x"}),
                Some("docs.rs/axum/latest"),
            ),
            (json!({"url": "https://docs.rs?a=b"}), Some("docs.rs")),
            (
                json!({"url": "ftp://u:p@files.example/@a"}),
                Some("ftp://files.example/@a"),
            ),
            (
                json!({"url": "https://a@b:c@evil.example\\@docs.rs/"}),
                Some("evil.example\\@docs.rs/"),
            ),
            (
                json!({"command": ["git", "status"], "path": "x"}),
                Some("git status"),
            ),
            (
                json!({"path": "src/main.rs", "content": "…"}),
                Some("src/main.rs"),
            ),
            (json!({"paths": ["a", "b"]}), Some("a b")),
            (json!({"path": "a\u{202e}b\nc"}), Some(r"a\u{202e}b c")),
            (json!({"path": " ", "n": 1}), None),
            (json!({"path": {"x": 1}}), None),
            (json!([1]), None),
        ] {
            let subject = subject_of_arguments(&arguments);
            assert_eq!(subject.as_deref(), expected, "{arguments}");
        }
        let long = subject_of_arguments(&json!({"path": "ä".repeat(10_000)}));
        assert_eq!(long.map(|text| text.chars().count()), Some(SUBJECT_MAX + 1));
    }

    #[test]
    fn call_subject_of_several_effects_is_the_first() {
        let of = |subjects: &[&str]| joined(subjects.iter().map(ToString::to_string).collect());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["run git", "run git"]), Some("run git".to_owned()));
        let several = of(&["GET https://a", "GET https://b", "run c"]);
        assert_eq!(several, Some("GET https://a and 2 more".to_owned()));
    }
}
