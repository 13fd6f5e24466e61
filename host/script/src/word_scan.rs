//! Words of Python and bash code, which mimir does not parse. Comments count, too: a tool may request more than it
//! needs, but never gets more than it requested.

use regex::Regex;

use crate::compile::{CodeMentions, WordSet};

/// Names with which Python accesses files.
const PYTHON_FILES: [&str; 7] = ["open", "os", "pathlib", "Path", "shutil", "glob", "sqlite3"];

/// Names with which Python writes files, in addition to those of scripts.
const PYTHON_WRITES: [&str; 8] = [
    "write_text",
    "write_bytes",
    "makedirs",
    "rename",
    "rmtree",
    "copy",
    "connect",
    "symlink",
];

/// A mode of `open` that writes.
const PYTHON_MODES: &str = r#",\s*(?:mode\s*=\s*)?["']([wax][bt]?\+?|r[bt]?\+)["']"#;

/// Python modules that send requests.
const PYTHON_NET: [&str; 3] = ["requests", "httpx", "urllib"];

/// bash commands that change files.
const BASH_WRITES: [&str; 12] = [
    "rm", "mv", "cp", "mkdir", "rmdir", "touch", "tee", "ln", "truncate", "install", "unzip",
    "patch",
];

/// Returns the identifiers in the code, those in strings and comments included.
fn find_words(code: &str) -> WordSet {
    // An identifier, or the same text in quotes: both are looked up by name.
    match Regex::new(r"[A-Za-z_][A-Za-z0-9_+]*") {
        Ok(word) => word
            .find_iter(code)
            .map(|word| word.as_str().to_owned())
            .collect(),
        Err(_) => WordSet::new(),
    }
}

/// Returns the texts of the first group of a pattern.
fn captured_names(code: &str, pattern: &str) -> WordSet {
    let Ok(call) = Regex::new(pattern) else {
        return WordSet::new();
    };
    let names = call
        .captures_iter(code)
        .filter_map(|captures| captures.get(1));
    names.map(|name| name.as_str().to_owned()).collect()
}

/// Returns the mentions in a Python tool, in the vocabulary of scripts.
pub(crate) fn python_mentions(code: &str) -> CodeMentions {
    let mut words = find_words(code);
    let contains_any =
        |words: &WordSet, names: &[&str]| names.iter().any(|word| words.contains(*word));
    if contains_any(&words, &PYTHON_FILES) {
        words.insert("fs".to_owned());
    }
    let opens_for_writing = !captured_names(code, PYTHON_MODES).is_empty();
    if opens_for_writing || contains_any(&words, &PYTHON_WRITES) || words.contains("write_file") {
        words.insert("writeFile".to_owned());
    }
    if contains_any(&words, &PYTHON_NET) {
        words.insert("fetch".to_owned());
    }
    if words.contains("call") {
        words.insert("tools".to_owned());
    }
    // `from mimir import execute` is not found otherwise.
    if words.contains("mimir") && words.contains("execute") {
        words.insert("executor".to_owned());
    }
    CodeMentions {
        called: captured_names(code, r#"\bcall\(\s*["'](\w+)["']"#),
        words,
    }
}

/// Returns the mentions in a bash tool, in the vocabulary of scripts.
pub(crate) fn bash_mentions(code: &str) -> CodeMentions {
    let mut words_in_code = find_words(code);
    // A bash tool always needs files.
    let mut mentions = WordSet::from(["fs".to_owned()]);
    let without_discarded = Regex::new(r"[0-9&]*>>?\s*(/dev/null|/tmp/\S*|&[0-9-])")
        .map(|redirect| redirect.replace_all(code, "").into_owned());
    let redirects = without_discarded.as_deref().unwrap_or(code).contains('>');
    if redirects
        || BASH_WRITES.iter().any(|word| words_in_code.contains(*word))
        || code.contains("sed -i")
    {
        mentions.insert("writeFile".to_owned());
    }
    for (command, word) in [
        (r"\bmimir-(exec)\b", "executor"),
        (r"\bmimir-(fetch)\b", "fetch"),
        (r"\bmimir-(storage)\b", "storage"),
    ] {
        if !captured_names(code, command).is_empty() {
            mentions.insert(word.to_owned());
        }
    }
    if words_in_code.remove("mimir") {
        mentions.insert("tools".to_owned());
    }
    CodeMentions {
        called: captured_names(code, r"\bmimir\s+([a-z][a-z0-9_]*)"),
        words: mentions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_python_mentions() {
        let words = |code| python_mentions(code).words;
        assert!(!words("def execute(args, context): return 'x'").contains("fs"));
        let read = words("def execute(args, context): return open('a').read()");
        assert!(read.contains("fs") && !read.contains("writeFile"));
        assert!(words("open('a', 'w')").contains("writeFile"));
        assert!(words("import requests").contains("fetch"));
        let mentions = python_mentions("context.tools.call('read_file', {})");
        assert_eq!(mentions.called, WordSet::from(["read_file".to_owned()]));
        assert!(mentions.words.contains("tools"));
    }

    #[test]
    fn words_bash_mentions() {
        let words = |code| bash_mentions(code).words;
        let quiet = words("grep -r x . 2>/dev/null; echo error >&2; sort > /tmp/x");
        assert!(quiet.contains("fs") && !quiet.contains("writeFile"));
        for writes in ["echo x > out", "cat a >> b", "rm -rf x", "sed -i s/a/b/ f"] {
            assert!(words(writes).contains("writeFile"), "{writes}");
        }
        assert!(words("mimir-exec git status").contains("executor"));
        assert!(!words("echo exec").contains("executor"));
        let mentions = bash_mentions("mimir read_file '{\"path\": \"a\"}'");
        assert_eq!(mentions.called, WordSet::from(["read_file".to_owned()]));
    }
}
