//! The words of code that nothing here parses: Python, bash, and JavaScript for `node`. Read as text, so that what stands
//! in a comment counts, too: it makes a tool ask for more than it needs, never get more than it asked for.

use regex::Regex;

use crate::compile::{Mentions, Words};

/// What Python reaches files by.
const PYTHON_FILES: [&str; 7] = ["open", "os", "pathlib", "Path", "shutil", "glob", "sqlite3"];

/// What changes them, beside what scripts say.
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

/// What Python sends requests by.
const PYTHON_NET: [&str; 3] = ["requests", "httpx", "urllib"];

/// Commands of bash that change files.
const BASH_WRITES: [&str; 12] = [
    "rm", "mv", "cp", "mkdir", "rmdir", "touch", "tee", "ln", "truncate", "install", "unzip",
    "patch",
];

fn words(code: &str) -> Words {
    // A word of a language, or what stands between quotes: both are looked for by their names.
    match Regex::new(r"[A-Za-z_][A-Za-z0-9_+]*") {
        Ok(word) => word
            .find_iter(code)
            .map(|found| found.as_str().to_owned())
            .collect(),
        Err(_) => Words::new(),
    }
}

fn called(code: &str, pattern: &str) -> Words {
    let Ok(call) = Regex::new(pattern) else {
        return Words::new();
    };
    let found = call.captures_iter(code).filter_map(|found| found.get(1));
    found.map(|name| name.as_str().to_owned()).collect()
}

/// What a tool in Python mentions, in the words of scripts.
pub(crate) fn of_python(code: &str) -> Mentions {
    let mut words = words(code);
    let has = |words: &Words, some: &[&str]| some.iter().any(|word| words.contains(*word));
    if has(&words, &PYTHON_FILES) {
        words.insert("fs".to_owned());
    }
    let opens = !called(code, PYTHON_MODES).is_empty();
    if opens || has(&words, &PYTHON_WRITES) || words.contains("write_file") {
        words.insert("writeFile".to_owned());
    }
    if has(&words, &PYTHON_NET) {
        words.insert("fetch".to_owned());
    }
    if words.contains("call") {
        words.insert("tools".to_owned());
    }
    // `from mimir import execute` has no other name for it.
    if words.contains("mimir") && words.contains("execute") {
        words.insert("executor".to_owned());
    }
    Mentions {
        called: called(code, r#"\bcall\(\s*["'](\w+)["']"#),
        words,
    }
}

/// What a tool in bash mentions, in the words of scripts.
pub(crate) fn of_bash(code: &str) -> Mentions {
    let mut found = words(code);
    // A shell without files is none.
    let mut said = Words::from(["fs".to_owned()]);
    let quiet = Regex::new(r"[0-9&]*>>?\s*(/dev/null|/tmp/\S*|&[0-9-])")
        .map(|quiet| quiet.replace_all(code, "").into_owned());
    let redirects = quiet.as_deref().unwrap_or(code).contains('>');
    if redirects || BASH_WRITES.iter().any(|word| found.contains(*word)) || code.contains("sed -i")
    {
        said.insert("writeFile".to_owned());
    }
    for (command, word) in [
        (r"\bmimir-(exec)\b", "executor"),
        (r"\bmimir-(fetch)\b", "fetch"),
        (r"\bmimir-(storage)\b", "storage"),
    ] {
        if !called(code, command).is_empty() {
            said.insert(word.to_owned());
        }
    }
    if found.remove("mimir") {
        said.insert("tools".to_owned());
    }
    Mentions {
        called: called(code, r"\bmimir\s+([a-z][a-z0-9_]*)"),
        words: said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_read_as_text() {
        let words = |code| of_python(code).words;
        assert!(!words("def execute(args, context): return 'x'").contains("fs"));
        let read = words("def execute(args, context): return open('a').read()");
        assert!(read.contains("fs") && !read.contains("writeFile"));
        assert!(words("open('a', 'w')").contains("writeFile"));
        assert!(words("import requests").contains("fetch"));
        let mentions = of_python("context.tools.call('read_file', {})");
        assert_eq!(mentions.called, Words::from(["read_file".to_owned()]));
        assert!(mentions.words.contains("tools"));
    }

    #[test]
    fn bash_is_read_as_text() {
        let words = |code| of_bash(code).words;
        let quiet = words("grep -r x . 2>/dev/null; echo error >&2; sort > /tmp/x");
        assert!(quiet.contains("fs") && !quiet.contains("writeFile"));
        for writes in ["echo x > out", "cat a >> b", "rm -rf x", "sed -i s/a/b/ f"] {
            assert!(words(writes).contains("writeFile"), "{writes}");
        }
        assert!(words("mimir-exec git status").contains("executor"));
        assert!(!words("echo exec").contains("executor"));
        let mentions = of_bash("mimir read_file '{\"path\": \"a\"}'");
        assert_eq!(mentions.called, Words::from(["read_file".to_owned()]));
    }
}
