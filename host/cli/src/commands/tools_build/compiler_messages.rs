//! Messages of compilers, printed as they arrive: without control characters, with secrets masked, and with paths
//! relative to the folder of the plugin.

use std::collections::VecDeque;
use std::path::Path;

use mimir_core::redact::Redactor;
use mimir_core::text::visible;

use super::BUILD_FOLDER;
use crate::output::note;

/// Number of lines in the details of a failure: an error message with some context.
const LAST_LINES: usize = 100;

/// Maximum number of bytes to print. A build that prints without end is not worth reading.
const MAX_PRINTED_BYTES: usize = 1 << 20;

/// Printer of a compiler's messages, which keeps the last ones.
pub struct CompilerMessages<'a> {
    redactor: &'a Redactor,
    /// Beginnings of paths that are left out.
    prefixes: Vec<String>,
    last: VecDeque<String>,
    printed: usize,
}

impl<'a> CompilerMessages<'a> {
    /// Creates a printer of messages about the plugin in the folder `root`.
    pub fn new(redactor: &'a Redactor, root: &Path) -> Self {
        let root = root.display();
        let separator = std::path::MAIN_SEPARATOR;
        Self {
            redactor,
            prefixes: vec![
                format!("{root}{separator}{BUILD_FOLDER}{separator}"),
                format!("{root}{separator}"),
            ],
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
        let mut line = line.to_owned();
        for prefix in &self.prefixes {
            line = line.replace(prefix, "");
        }
        // Characters that are not shown must not split a secret.
        line = visible(&line);
        self.redactor.mask_text(&mut line);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_messages_have_no_secrets_escapes_or_folders() {
        let redactor = Redactor::new();
        let mut messages = CompilerMessages::new(&redactor, Path::new("/w/hello"));
        messages.add("/w/hello/tool.c:3: \x1b]0;x\x07 unknown name");
        messages.add("token ghp_0123456789abcdefghijABCDEFGHIJ012345");
        let lines = messages.into_last_lines();
        assert!(lines[0].starts_with("tool.c:3: "), "{lines:?}");
        assert!(!lines[0].contains('\x1b'), "{lines:?}");
        assert!(!lines[1].contains("0123456789abcdef"), "{lines:?}");
    }

    #[test]
    fn compiler_messages_without_end_are_not_all_printed() {
        let redactor = Redactor::new();
        let mut messages = CompilerMessages::new(&redactor, Path::new("/w"));
        messages.printed = MAX_PRINTED_BYTES;
        for number in 0..LAST_LINES * 2 {
            messages.add(&number.to_string());
        }
        let lines = messages.into_last_lines();
        assert_eq!(lines.len(), LAST_LINES);
        assert_eq!(lines.last().unwrap(), &(LAST_LINES * 2 - 1).to_string());
    }
}
