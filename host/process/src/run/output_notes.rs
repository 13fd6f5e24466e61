//! Notes after the output of a command: why a file could not be read or moved, the setting that reveals it, and changed
//! instruction files of other programs.
//!
//! A program reports an unreadable file in its own words, with or without the file name. Its output is scanned as it
//! arrives, and only the matching names are stored.

use std::collections::BTreeSet;
use std::path::Path;

use mimir_core::command::CommandStream;
use mimir_core::paths::{PathRuleLayer, obeyed_note};
use mimir_core::text::visible;

use super::workspace_guard::{ForbiddenPath, HiddenKind, HiddenPath};
use crate::command_proxy::Refusals;
use crate::sandbox::CommandSpec;

/// Maximum length of a scanned line, in bytes.
const MAX_LINE_BYTES: usize = 4096;

/// Maximum number of paths in a note.
const MAX_NAMED: usize = 8;

/// Messages about an unreadable file, in lower case.
const DENIED: [&str; 5] = [
    "permission denied",
    "eacces",
    "permissiondenied",
    "errno 13",
    "os error 13",
];

/// Messages without a file name: at the end of a line, or anywhere in it.
const DENIED_ENDS: [&str; 2] = [
    "[errno 13] permission denied",
    "permission denied (os error 13)",
];
const DENIED_NAMELESS: [&str; 1] = ["kind: permissiondenied"];

/// Messages about a mount that prevents a change.
const BUSY: [&str; 4] = ["resource busy", "ebusy", "errno 16", "os error 16"];

/// Message of git about a commit that it cannot sign.
const UNSIGNED: &str = "gpg failed to sign the data";

/// Scans the output of a command for messages that need a note.
pub(super) struct OutputNotes {
    hidden: Vec<HiddenPath>,
    /// Path of the workspace, as programs print it.
    workspace: String,
    tool: String,
    lines: [Vec<u8>; 2],
    /// Indices of the hidden paths that could not be read.
    denied: BTreeSet<usize>,
    /// True if an unreadable file was reported without its name.
    nameless: bool,
    /// Hidden paths, and their parent folders, that could not be moved or removed.
    busy: BTreeSet<String>,
    unsigned: bool,
    refusals: Refusals,
}

impl OutputNotes {
    pub(super) fn new(spec: &CommandSpec, hidden: &[HiddenPath]) -> Self {
        Self {
            hidden: hidden.to_vec(),
            workspace: spec.workspace.display().to_string(),
            tool: spec.tool.clone(),
            lines: [Vec::new(), Vec::new()],
            denied: BTreeSet::new(),
            nameless: false,
            busy: BTreeSet::new(),
            unsigned: false,
            refusals: spec.refusals.clone(),
        }
    }

    pub(super) fn scan(&mut self, stream: CommandStream, bytes: &[u8]) {
        let index = match stream {
            CommandStream::Stdout => 0,
            CommandStream::Stderr => 1,
        };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = self.lines.get_mut(index) else {
                return;
            };
            let capacity = MAX_LINE_BYTES.saturating_sub(line.len());
            line.extend(part.iter().take(capacity));
            if part.ends_with(b"\n") {
                let line = std::mem::take(line);
                self.scan_line(&line);
            }
        }
    }

    fn scan_line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let lower = text.to_ascii_lowercase();
        let has = |messages: &[&str]| messages.iter().any(|message| lower.contains(message));
        self.unsigned |= lower.contains(UNSIGNED);
        if self.hidden.is_empty() {
            return;
        }
        if has(&DENIED) {
            let named = self.hidden_paths_in(&text);
            let ends = |message: &&str| lower.trim_end().ends_with(*message);
            self.nameless |=
                named.is_empty() && (DENIED_ENDS.iter().any(ends) || has(&DENIED_NAMELESS));
            self.denied.extend(named);
        }
        if has(&BUSY) {
            self.record_busy_paths(&text);
        }
    }

    /// Returns the indices of the hidden paths in a line, named in full or by their last components.
    fn hidden_paths_in(&self, line: &str) -> Vec<usize> {
        let candidates: Vec<&str> = path_candidates(line, &self.workspace).collect();
        let is_match = |(_, one): &(usize, &HiddenPath)| {
            let folder = one.kind == HiddenKind::Folder;
            // A path with separators cannot be found among the words.
            one.path.contains(is_separator) && line.contains(&one.path)
                || candidates
                    .iter()
                    .any(|word| names_path(word, &one.path, folder))
        };
        let matches = self.hidden.iter().enumerate().filter(is_match);
        matches.map(|(index, _)| index).collect()
    }

    fn record_busy_paths(&mut self, line: &str) {
        for word in path_candidates(line, &self.workspace) {
            let word = word.trim_end_matches('/');
            let contains_word = |one: &&HiddenPath| {
                let path = Path::new(&one.path);
                path.ancestors().any(|above| above == Path::new(word))
            };
            if !word.is_empty() && self.hidden.iter().any(|one| contains_word(&one)) {
                self.busy.insert(word.to_owned());
            }
        }
    }

    /// Returns the notes, each one sentence.
    pub(super) fn finish(
        &mut self,
        obeyed: &[String],
        unattributed: &[ForbiddenPath],
    ) -> Vec<String> {
        for line in std::mem::take(&mut self.lines) {
            self.scan_line(&line);
        }
        let mut notes = Vec::new();
        if self.denied.is_empty() && self.nameless {
            let is_secret = |(_, one): &(usize, &HiddenPath)| one.layer == PathRuleLayer::Secrets;
            let secrets = self.hidden.iter().enumerate().filter(is_secret);
            notes.extend(self.reveal_note(
                "if the file is one of these",
                &secrets.map(|(index, _)| index).collect::<Vec<_>>(),
            ));
        }
        let denied_by = |layer: PathRuleLayer| -> Vec<usize> {
            let denied = self.denied.iter().copied();
            denied
                .filter(|index| {
                    self.hidden
                        .get(*index)
                        .is_some_and(|one| one.layer == layer)
                })
                .collect()
        };
        notes.extend(self.reveal_note(
            "if the command needs it",
            &denied_by(PathRuleLayer::Secrets),
        ));
        for (layer, why) in [
            (
                PathRuleLayer::Denied,
                "`files.deny`, or `deny` of the tool, hides it",
            ),
            (PathRuleLayer::Protected, "no setting reveals it"),
        ] {
            let paths = denied_by(layer);
            if !paths.is_empty() {
                notes.push(format!(
                    "{} cannot be read: {why}",
                    self.list_hidden(&paths)
                ));
            }
        }
        if !self.busy.is_empty() {
            let paths: Vec<_> = self
                .busy
                .iter()
                .take(MAX_NAMED)
                .map(|path| code_span(path))
                .collect();
            notes.push(format!(
                "{} cannot be renamed, replaced or removed by a command, since the path rules hide it or something in it",
                paths.join(", ")
            ));
        }
        if self.unsigned {
            notes.push(
                "commands cannot sign: the sandbox has no keys, and git runs no `gpg.program` in it; commit by hand, or \
                 without a signature: `git commit --no-gpg-sign`"
                    .to_owned(),
            );
        }
        let refused = self.refusals.take();
        notes.extend(refused.iter().map(|note| visible(note)));
        if !obeyed.is_empty() {
            notes.push(obeyed_note(obeyed));
        }
        if let Some(note) = unattributed_note(unattributed) {
            notes.push(note);
        }
        notes
    }

    /// Returns the note about files that may hold secrets, with the setting that reveals them.
    fn reveal_note(&self, when: &str, indices: &[usize]) -> Option<String> {
        if indices.is_empty() {
            return None;
        }
        let paths = indices.iter().filter_map(|index| self.hidden.get(*index));
        let setting: Vec<_> = paths
            .filter(|one| one.kind != HiddenKind::Folder)
            .take(MAX_NAMED)
            .map(|one| format!("\"{}\"", visible(&one.path)))
            .collect();
        let shown = self.list_hidden(indices);
        let tool = &self.tool;
        Some(if setting.is_empty() {
            format!("hidden from commands, since it may hold secrets: {shown}")
        } else {
            format!(
                "hidden from commands, since it may hold secrets: {shown}; {when}, `tools.{tool}.reveal: [{}]` in \
                 .mimir/config.yml shows it",
                setting.join(", ")
            )
        })
    }

    fn list_hidden(&self, indices: &[usize]) -> String {
        let paths = indices.iter().filter_map(|index| self.hidden.get(*index));
        list(paths.map(|one| one.path.as_str()))
    }
}

/// Returns the note about forbidden paths created by this command or a concurrent one.
fn unattributed_note(paths: &[ForbiddenPath]) -> Option<String> {
    let (first, others) = paths.split_first()?;
    let first = ForbiddenPath {
        more: others.len(),
        ..first.clone()
    };
    Some(format!(
        "this command, or another one that ran at the same time, created {}",
        visible(&first.describe())
    ))
}

/// Lists at most `MAX_NAMED` paths, and the number of the remaining ones.
fn list<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let paths: Vec<&str> = paths.collect();
    let listed: Vec<_> = paths
        .iter()
        .take(MAX_NAMED)
        .map(|path| code_span(path))
        .collect();
    let listed = listed.join(", ");
    match paths.len().saturating_sub(MAX_NAMED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

fn code_span(path: &str) -> String {
    format!("`{}`", visible(path))
}

/// Returns true if a character separates words, as in `cat: .env:`, `--file=.env` and `open(".env")`.
fn is_separator(c: char) -> bool {
    let marks = "\"'`()[],;<>‘’:=";
    c.is_whitespace() || c.is_control() || marks.contains(c)
}

/// Returns the words of a line that may be paths, without the workspace and `./` at the beginning.
fn path_candidates<'a>(line: &'a str, workspace: &'a str) -> impl Iterator<Item = &'a str> {
    let words = line.split(is_separator);
    words.filter(|word| !word.is_empty()).map(move |word| {
        let word = word
            .strip_prefix(workspace)
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or(word);
        let mut word = word;
        while let Some(rest) = word.strip_prefix("./") {
            word = rest;
        }
        word.trim_end_matches('.')
    })
}

/// Returns true if a word refers to this hidden path, or to a path in it if it is a folder. The word may be relative to
/// any parent folder.
fn names_path(word: &str, path: &str, folder: bool) -> bool {
    let ends = |whole: &str, end: &str| {
        whole == end
            || whole
                .strip_suffix(end)
                .is_some_and(|rest| rest.ends_with('/'))
    };
    let word = word.trim_start_matches("../");
    if word.is_empty() || word.starts_with('/') {
        return false;
    }
    if ends(path, word) {
        return true;
    }
    // `.ssh/id`, below a folder.
    folder && (word.starts_with(&format!("{path}/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::command::CommandProgram;

    fn notes_for(lines: &str) -> Vec<String> {
        let spec = CommandSpec::new(CommandProgram::Vector(vec!["x".into()]), "/work");
        let hidden = [
            (".env", HiddenKind::File, PathRuleLayer::Secrets),
            ("tests/cert.pem", HiddenKind::File, PathRuleLayer::Secrets),
            ("my keys/a b.key", HiddenKind::File, PathRuleLayer::Secrets),
            ("keys/id", HiddenKind::File, PathRuleLayer::Denied),
            (".mimir/state", HiddenKind::Folder, PathRuleLayer::Protected),
        ];
        let hidden = hidden.map(|(path, kind, layer)| HiddenPath {
            path: path.into(),
            kind,
            layer,
        });
        let mut notes = OutputNotes::new(&spec, &hidden);
        for byte in lines.as_bytes().chunks(3) {
            notes.scan(CommandStream::Stderr, byte);
        }
        notes.finish(&[], &[])
    }

    #[test]
    fn permission_denied_messages_of_many_programs_get_a_note() {
        for line in [
            "cat: tests/cert.pem: Permission denied",
            "grep: ./tests/cert.pem: Permission denied",
            "cat: cert.pem: Permission denied",
            "PermissionError: [Errno 13] Permission denied: 'tests/cert.pem'",
            "Error: EACCES: permission denied, open '/work/tests/cert.pem'",
            "open tests/cert.pem: permission denied",
            "error: open(\"tests/cert.pem\"): Permission denied",
            "cp: cannot open './tests/cert.pem' for reading: Permission denied",
            "tar: ./tests/cert.pem: Cannot open: Permission denied",
            "curl: could not open ../tests/cert.pem: Permission denied\n",
        ] {
            let notes = notes_for(line);
            assert_eq!(notes.len(), 1, "{line}: {notes:?}");
            let setting = "`tools.exec.reveal: [\"tests/cert.pem\"]` in .mimir/config.yml";
            assert!(notes[0].contains(setting), "{line}: {notes:?}");
        }
        let notes = notes_for("cat: 'my keys/a b.key': Permission denied");
        assert!(notes[0].contains("[\"my keys/a b.key\"]"), "{notes:?}");
    }

    #[test]
    fn permission_denied_of_unmasked_files_gets_no_note() {
        for line in [
            "bash: ./x.sh: Permission denied",
            "mkdir: cannot create directory '/opt/x': Permission denied",
            "cat: other.env: Permission denied",
            "reading .env",
            "cat: /etc/.env: Permission denied",
        ] {
            assert_eq!(notes_for(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn permission_denied_without_a_path_lists_all_candidates() {
        for line in [
            "PermissionError: [Errno 13] Permission denied",
            "Error: Os { code: 13, kind: PermissionDenied, message: \"Permission denied\" }",
        ] {
            let notes = notes_for(line);
            assert!(
                notes[0].contains("reveal: [\".env\", \"tests/cert.pem\""),
                "{notes:?}"
            );
            assert!(!notes[0].contains("keys/id"), "{notes:?}");
        }
        // A path in a message takes precedence over the candidates.
        let notes = notes_for(
            "cat: .env: Permission denied\nPermissionError: [Errno 13] Permission denied\n",
        );
        assert!(notes[0].contains("reveal: [\".env\"]`"), "{notes:?}");
    }

    #[test]
    fn refused_hosts_are_noted_once_with_the_setting() {
        let spec = CommandSpec::new(CommandProgram::Vector(vec!["x".into()]), "/work");
        for _ in 0..3 {
            let remedy = "`- \"a.example\"` below `network.allowedHosts:`";
            spec.refusals
                .add("a.example".into(), "it is on no list", remedy);
        }
        let notes = OutputNotes::new(&spec, &[]).finish(&[], &[]);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("`a.example` was not reached: it is on no list"),
            "{notes:?}"
        );
        assert!(notes[0].contains("network.allowedHosts"), "{notes:?}");
    }

    #[test]
    fn notes_of_files_that_reveal_cannot_show_differ() {
        let notes = notes_for("cat: keys/id: Permission denied");
        assert!(
            notes[0].contains("files.deny") && !notes[0].contains("reveal"),
            "{notes:?}"
        );
        let notes = notes_for("cat: .mimir/state/x: Permission denied");
        assert!(notes[0].contains("no setting"), "{notes:?}");
        let notes = notes_for("mv: cannot move 'keys' to 'kk': Device or resource busy");
        assert!(
            notes[0].starts_with("`keys` cannot be renamed"),
            "{notes:?}"
        );
        let notes = notes_for("error: gpg failed to sign the data:\n(no gpg output)");
        assert!(notes[0].contains("--no-gpg-sign"), "{notes:?}");
    }
}
