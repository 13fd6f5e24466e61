//! Words of Python and bash code, which mimir does not parse. Comments count, too: a tool may request more than it
//! needs, but never gets more than it requested.

use std::sync::LazyLock;

use regex::Regex;

use crate::compile::{CodeMentions, WordSet};

/// Names with which Python accesses files.
const PYTHON_FILES: [&str; 7] = ["open", "os", "pathlib", "Path", "shutil", "glob", "sqlite3"];

/// Names with which Python writes files, in addition to those of scripts.
const PYTHON_WRITES: [&str; 11] = [
    "write_text",
    "write_bytes",
    "makedirs",
    "rename",
    "rmtree",
    "copy",
    "copy2",
    "copyfile",
    "copytree",
    "connect",
    "symlink",
];

/// A pattern, or `None` if it were not valid.
type WordPattern = LazyLock<Option<Regex>>;

/// A mode of `open` that writes: the second argument, or the first one of `Path.open`.
static PYTHON_MODES: WordPattern = LazyLock::new(|| {
    let mode = r#"["'](?:[wax][bt+]{0,2}|r[bt]?\+[bt]?)["']"#;
    Regex::new(&format!(r"(?:,|\.open\()\s*(?:mode\s*=\s*)?{mode}")).ok()
});

/// Python functions that write files, whose names alone are too common: `str.replace`.
static PYTHON_WRITE_CALLS: WordPattern = LazyLock::new(|| {
    let imported = r"\bfrom\s+(?:os|shutil)\s+import\b[^\n]*\b(?:move|replace)\b";
    Regex::new(&format!(
        r"\bos\.replace\b|\bshutil\.move\b|\.touch\(|{imported}"
    ))
    .ok()
});

/// A call of another tool in Python.
static PYTHON_TOOL_CALL: WordPattern =
    LazyLock::new(|| Regex::new(r#"\bcall\(\s*["'](\w+)["']"#).ok());

/// Python modules that send requests.
const PYTHON_NET: [&str; 3] = ["requests", "httpx", "urllib"];

/// bash commands that change files.
const BASH_WRITES: [&str; 12] = [
    "rm", "mv", "cp", "mkdir", "rmdir", "touch", "tee", "ln", "truncate", "install", "unzip",
    "patch",
];

/// `sed` with an option that changes the file in place: `-i`, `-Ei`, `--in-place`. Quoted text may contain anything.
static BASH_SED_IN_PLACE: WordPattern = LazyLock::new(|| {
    let before = r#"(?:'[^']*'|"[^"]*"|\\\n|[^\n|;&'"])*?"#;
    Regex::new(&format!(r"\bsed\b{before}\s(?:-[A-Za-z]*i|--in-place)")).ok()
});

/// A redirection to a target that is not in the workspace.
static BASH_DISCARDED: WordPattern =
    LazyLock::new(|| Regex::new(r"[0-9&]*>>?\s*(/dev/null|/tmp/\S*|&[0-9-])").ok());

/// A command with which bash uses the host.
static BASH_HOST_COMMAND: WordPattern =
    LazyLock::new(|| Regex::new(r"\bmimir-(exec|fetch|storage)\b").ok());

/// A call of another tool in bash.
static BASH_TOOL_CALL: WordPattern =
    LazyLock::new(|| Regex::new(r"\bmimir\s+([a-z][a-z0-9_]*)").ok());

/// Returns the identifiers in the code, those in strings and comments included.
fn find_words(code: &str) -> WordSet {
    // An identifier, or the same text in quotes: both are looked up by name.
    static WORD: WordPattern = LazyLock::new(|| Regex::new(r"[A-Za-z_][A-Za-z0-9_]*").ok());
    let words = WORD.iter().flat_map(|word| word.find_iter(code));
    words.map(|word| word.as_str().to_owned()).collect()
}

/// Returns true if the code contains a match of the pattern.
fn contains_match(code: &str, pattern: &WordPattern) -> bool {
    pattern.iter().any(|pattern| pattern.is_match(code))
}

/// Returns the texts of the first group of a pattern.
fn captured_names(code: &str, pattern: &WordPattern) -> WordSet {
    let captures = pattern
        .iter()
        .flat_map(|pattern| pattern.captures_iter(code));
    let names = captures.filter_map(|captures| captures.get(1));
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
    let writes = contains_match(code, &PYTHON_MODES) || contains_match(code, &PYTHON_WRITE_CALLS);
    if writes || contains_any(&words, &PYTHON_WRITES) || words.contains("write_file") {
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
        called: captured_names(code, &PYTHON_TOOL_CALL),
        words,
    }
}

/// Returns the mentions in a bash tool, in the vocabulary of scripts.
pub(crate) fn bash_mentions(code: &str) -> CodeMentions {
    let words_in_code = find_words(code);
    // A bash tool always needs files.
    let mut mentions = WordSet::from(["fs".to_owned()]);
    let redirects = match &*BASH_DISCARDED {
        Some(discarded) => discarded.replace_all(code, "").contains('>'),
        None => code.contains('>'),
    };
    if redirects
        || BASH_WRITES.iter().any(|word| words_in_code.contains(*word))
        || contains_match(code, &BASH_SED_IN_PLACE)
    {
        mentions.insert("writeFile".to_owned());
    }
    for command in captured_names(code, &BASH_HOST_COMMAND) {
        mentions.insert(if command == "exec" {
            "executor".to_owned()
        } else {
            command
        });
    }
    if words_in_code.contains("mimir") {
        mentions.insert("tools".to_owned());
    }
    CodeMentions {
        called: captured_names(code, &BASH_TOOL_CALL),
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
        assert!(words("return prefix+open(p).read()").contains("fs"));
        for writes in [
            "open('a', 'w')",
            "open('a', mode='r+b')",
            "open('a', \"w+b\")",
            "Path(x).open(\"w\")",
            "os.replace(a, b)",
            "from os import path, replace",
            "shutil.move(a, b)",
            "shutil.copy2(a, b)",
            "shutil.copyfile(a, b)",
            "shutil.copytree(a, b)",
            "Path('a').touch()",
        ] {
            assert!(words(writes).contains("writeFile"), "{writes}");
        }
        for reads in [
            "open('a', 'rb').read().replace(b'x', b'y')",
            "Path(x).open(\"r\").read()",
            "return args['move'].replace('a', 'b')",
        ] {
            assert!(!words(reads).contains("writeFile"), "{reads}");
        }
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
        for writes in [
            "echo x > out",
            "cat a >> b",
            "rm -rf x",
            "sed -i s/a/b/ f",
            "sed -Ei 's/a/b/' f",
            "sed -ni p f",
            "sed --in-place=.bak s/a/b/ f",
            "sed -e 's|a|b|;s/c/d/' -i.bak f",
            "sed \\\n  -i s/a/b/ f",
        ] {
            assert!(words(writes).contains("writeFile"), "{writes}");
        }
        for reads in ["sed -E s/a/b/ f | grep -i x", "sed -n p f; grep -i x f"] {
            assert!(!words(reads).contains("writeFile"), "{reads}");
        }
        assert!(words("mimir-exec git status").contains("executor"));
        assert!(!words("echo exec").contains("executor"));
        let mentions = bash_mentions("mimir read_file '{\"path\": \"a\"}'");
        assert_eq!(mentions.called, WordSet::from(["read_file".to_owned()]));
    }
}
