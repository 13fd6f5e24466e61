//! Messages of compilers, printed as they arrive: without control characters, with secrets masked, and with paths as the
//! user would write them.

use std::collections::VecDeque;
use std::path::{Component, Path};

use mimir_core::redact::Redactor;
use mimir_core::text::visible;

use super::{BUILD_FOLDER, PluginFolder};
use crate::output::note;

/// Number of lines in the details of a failure: an error message with some context.
const LAST_LINES: usize = 100;

/// Maximum number of bytes to print. A build that prints without end is not worth reading.
const MAX_PRINTED_BYTES: usize = 1 << 20;

/// Printer of a compiler's messages, which keeps the last ones.
pub struct CompilerMessages<'a> {
    redactor: &'a Redactor,
    folder: &'a PluginFolder,
    last: VecDeque<String>,
    printed: usize,
}

impl<'a> CompilerMessages<'a> {
    /// Creates a printer of messages about a plugin.
    pub fn new(redactor: &'a Redactor, folder: &'a PluginFolder) -> Self {
        Self {
            redactor,
            folder,
            last: VecDeque::new(),
            printed: 0,
        }
    }

    /// Prints a line.
    pub fn add(&mut self, line: &str) {
        let line = self.clean(line);
        let before = self.printed;
        self.printed = before.saturating_add(line.len() + 1);
        if self.printed <= MAX_PRINTED_BYTES {
            note(&line);
        } else if before <= MAX_PRINTED_BYTES {
            note("[more messages are not shown]");
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Returns the last lines.
    pub fn into_last_lines(self) -> Vec<String> {
        self.last.into()
    }

    fn clean(&self, line: &str) -> String {
        let mut line = self.with_shown_paths(line);
        // Characters that are not shown must not split a secret.
        line = visible(&line);
        self.redactor.mask_text(&mut line);
        line
    }

    /// Replaces the paths of files in the folder of the plugin by those that the user would write. Compilers run in that
    /// folder, so their paths are absolute or relative to it.
    fn with_shown_paths(&self, line: &str) -> String {
        const BETWEEN_WORDS: [char; 8] = [' ', '\t', '(', ')', '[', ']', '"', '\''];
        let mut shown = String::with_capacity(line.len());
        for word in line.split_inclusive(BETWEEN_WORDS) {
            match self.relative_position(word) {
                Some((path, position)) => {
                    let path = self.folder.shown_path(path);
                    shown.push_str(&path.to_string_lossy());
                    shown.push_str(position);
                }
                None => shown.push_str(word),
            }
        }
        let (root, separator) = (self.folder.root.display(), std::path::MAIN_SEPARATOR);
        let written = format!("{root}{separator}{BUILD_FOLDER}{separator}");
        let own = format!("{root}{separator}");
        let prefix = self.folder.shown_path("").display().to_string();
        shown.replace(&written, "").replace(&own, &prefix)
    }

    /// Splits a word such as `./tool.c:3:5:` into the path and the position, if it names a file in the folder of the
    /// plugin.
    fn relative_position<'w>(&self, word: &'w str) -> Option<(&'w str, &'w str)> {
        let (path, position) = word.split_at(word.find(':')?);
        if !position[1..].starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let current = format!(".{}", std::path::MAIN_SEPARATOR);
        let path = path.strip_prefix(&current).unwrap_or(path);
        let mut parts = Path::new(path).components();
        let is_below = !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)));
        (is_below && self.folder.root.join(path).is_file()).then_some((path, position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a plugin whose entry file the user would write as `shown`.
    fn plugin(shown: &str) -> (tempfile::TempDir, PluginFolder) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        for file in ["tool.c", "src/lib.rs"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let mut folder = PluginFolder::find(dir.path(), None).unwrap();
        folder.shown = shown.into();
        (dir, folder)
    }

    #[test]
    fn compiler_messages_have_the_paths_that_the_user_wrote() {
        let redactor = Redactor::new();
        let (_dir, folder) = plugin("words/tool.c");
        let messages = CompilerMessages::new(&redactor, &folder);
        let root = folder.root.display();
        for (line, expected) in [
            ("./tool.c:3:5: error".to_owned(), "words/tool.c:3:5: error"),
            (
                "  --> src/lib.rs:14:11".to_owned(),
                "  --> words/src/lib.rs:14:11",
            ),
            (
                format!("  File \"{root}/src/lib.rs\", line 2"),
                "  File \"words/src/lib.rs\", line 2",
            ),
            (format!("{root}/.mimir-build/a.o: x"), "a.o: x"),
            ("at 12:30 other.c:3: x".to_owned(), "at 12:30 other.c:3: x"),
            ("../tool.c:3: x".to_owned(), "../tool.c:3: x"),
        ] {
            assert_eq!(messages.clean(&line), expected);
        }
        let (_dir, folder) = plugin("./tool.c");
        let messages = CompilerMessages::new(&redactor, &folder);
        let line = format!("{}/tool.c:3: x", folder.root.display());
        assert_eq!(messages.clean(&line), "tool.c:3: x");
        assert_eq!(messages.clean("tool.c:3: x"), "tool.c:3: x");
    }

    #[test]
    fn compiler_messages_have_no_secrets_escapes_or_folders() {
        let redactor = Redactor::new();
        let (dir, folder) = plugin("hello/tool.c");
        let mut messages = CompilerMessages::new(&redactor, &folder);
        let root = dir.path().canonicalize().unwrap();
        messages.add(&format!(
            "{}/tool.c:3: \x1b]0;x\x07 unknown name",
            root.display()
        ));
        messages.add("token ghp_0123456789abcdefghijABCDEFGHIJ012345");
        let lines = messages.into_last_lines();
        assert!(lines[0].starts_with("hello/tool.c:3: "), "{lines:?}");
        assert!(!lines[0].contains('\x1b'), "{lines:?}");
        assert!(!lines[1].contains("0123456789abcdef"), "{lines:?}");
    }

    #[test]
    fn compiler_messages_without_end_are_not_all_printed() {
        let redactor = Redactor::new();
        let (_dir, folder) = plugin("tool.c");
        let mut messages = CompilerMessages::new(&redactor, &folder);
        messages.printed = MAX_PRINTED_BYTES;
        for number in 0..LAST_LINES * 2 {
            messages.add(&number.to_string());
        }
        let lines = messages.into_last_lines();
        assert_eq!(lines.len(), LAST_LINES);
        assert_eq!(lines.last().unwrap(), &(LAST_LINES * 2 - 1).to_string());
    }
}
