//! Path arguments of a command: from tables for known programs, by appearance for others.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::ShellWord;
use crate::path_text::program_name;

use super::git::pathspecs;
use super::glob_text::is_wild;
use super::{find, option_paths, script_operands};

/// Kind of a program's operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandKind {
    /// Text, not paths.
    Text,
    /// Files to read.
    Read,
    /// Files to write.
    Write,
    /// Files to read, then one to write.
    Copy,
    /// A pattern or a script, then files to read.
    Script,
    /// Folders, up to the first condition of `find`.
    Find,
    /// Unknown: any word that looks like a path.
    Other,
}

const TEXT_PROGRAMS: &str = "\
    : [ [[ arch basename break continue date declare dirname echo exit export expr false getopts \
    groups hostname id jobs kill let local locale nproc printenv printf ps pwd read readonly return seq set shift \
    sleep test times true tty type typeset ulimit umask uname unset uptime wait which whoami";

const READING_PROGRAMS: &str = "\
    b2sum base64 cat cd cksum cmp column comm cut df diff du expand file fmt fold head hexdump join \
    less ls md5sum more nl od paste popd pushd readlink realpath rev sha1sum sha224sum sha256sum sha384sum sha512sum \
    sort stat strings tac tail tree unexpand uniq wc xxd";

const WRITING_PROGRAMS: &str =
    "chmod chown chgrp dd mkdir mv rm rmdir shred tee touch truncate unlink";

const COPYING_PROGRAMS: &str = "cp install ln rsync scp";

const SCRIPT_PROGRAMS: &str = "awk egrep fgrep gawk grep jq mawk rg sed yq";

/// Returns the kind of the operands of a program.
fn operand_kind(program: &str) -> OperandKind {
    static KNOWN: LazyLock<HashMap<&str, OperandKind>> = LazyLock::new(|| {
        let kinds = [
            ("find", OperandKind::Find),
            (TEXT_PROGRAMS, OperandKind::Text),
            (READING_PROGRAMS, OperandKind::Read),
            (WRITING_PROGRAMS, OperandKind::Write),
            (COPYING_PROGRAMS, OperandKind::Copy),
            (SCRIPT_PROGRAMS, OperandKind::Script),
        ];
        kinds
            .into_iter()
            .flat_map(|(names, kind)| names.split_whitespace().map(move |name| (name, kind)))
            .collect()
    });
    KNOWN
        .get(program_name(program))
        .copied()
        .unwrap_or(OperandKind::Other)
}

/// A word of a command that is, or may be, a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathOperand {
    /// The path.
    pub word: ShellWord,
    /// True if the file is written; otherwise it is read.
    pub writes: bool,
    /// True if the program treats the word as a path regardless of its form. Otherwise, the word may be something else.
    pub certain: bool,
    /// True if the program itself expands wildcards, which then match a leading dot.
    pub own_wildcards: bool,
}

impl PathOperand {
    /// Returns a word that may be a file to read.
    pub(super) fn possible(path: String) -> Self {
        Self {
            word: ShellWord::Known(path),
            writes: false,
            certain: false,
            own_wildcards: false,
        }
    }

    /// Returns a pattern that the program itself expands.
    pub(super) fn pattern(text: String) -> Self {
        Self {
            word: ShellWord::Glob(text),
            own_wildcards: true,
            ..Self::possible(String::new())
        }
    }

    /// Converts the operand to a glob.
    pub(super) fn into_glob(self) -> Self {
        match self.word {
            ShellWord::Known(text) => Self::pattern(text),
            word => Self { word, ..self },
        }
    }

    /// Returns a word that the program treats as a path regardless of its form.
    pub fn certain(word: &ShellWord, writes: bool) -> Self {
        Self {
            word: word.clone(),
            writes,
            certain: true,
            own_wildcards: false,
        }
    }
}

/// Returns the words of a command that are or may be paths. `is_protected` returns true if a path rule matches.
pub fn path_operands(
    words: &[ShellWord],
    program: &str,
    is_protected: impl Fn(&str) -> bool,
) -> Vec<PathOperand> {
    let kind = operand_kind(program);
    let program = program.rsplit('/').next().unwrap_or(program);
    let (mut paths, operands) = match kind {
        OperandKind::Text => return text_globs(words),
        OperandKind::Find => return find::path_operands(words),
        OperandKind::Script => {
            let writes = program == "sed"
                && words
                    .iter()
                    .filter_map(ShellWord::known)
                    .any(is_in_place_option);
            return script_operands::operands(program, words, writes, is_protected);
        }
        OperandKind::Read | OperandKind::Write | OperandKind::Copy | OperandKind::Other => {
            split_operands(words, is_protected)
        }
    };
    let last = operands.len().saturating_sub(1);
    for (index, word) in operands.into_iter().enumerate() {
        match (kind, word) {
            // `dd if=file of=file`: both count as written.
            (OperandKind::Write, ShellWord::Known(text)) => {
                let value = text.strip_prefix("of=").or(text.strip_prefix("if="));
                let path = ShellWord::Known(value.unwrap_or(text).to_owned());
                paths.push(PathOperand::certain(&path, true));
            }
            (OperandKind::Write, word) => paths.push(PathOperand::certain(word, true)),
            (OperandKind::Copy, word) => paths.push(PathOperand::certain(word, index == last)),
            (OperandKind::Read, word) => paths.push(PathOperand::certain(word, false)),
            (_, word) if word_looks_like_path(word) => paths.push(possible_operand(word)),
            _ => {}
        }
    }
    if kind == OperandKind::Other && program == "git" {
        paths.extend(pathspecs::operands(words));
    }
    paths
}

/// Separates the options and operands of a command. Returns the files that options may open, and the operands.
fn split_operands(
    words: &[ShellWord],
    is_protected: impl Fn(&str) -> bool,
) -> (Vec<PathOperand>, Vec<&ShellWord>) {
    let mut paths = Vec::new();
    let mut operands = Vec::new();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word {
            ShellWord::Known(text) if text == "--" => operands.extend(rest.by_ref()),
            ShellWord::Known(text) if text.len() > 1 && text.starts_with('-') => {
                paths.extend(option_paths::option_paths(text, &is_protected));
            }
            // Without matches, the glob remains the option that it looks like.
            ShellWord::Glob(text) | ShellWord::GlobMatch(text) if text.starts_with('-') => {
                let values = option_paths::option_paths(text, &is_protected).into_iter();
                paths.extend(values.map(PathOperand::into_glob));
            }
            word => operands.push(word),
        }
    }
    (paths, operands)
}

/// Returns the globs among text operands that lead out of the working directory. The shell expands them, which reveals
/// the names of existing files.
fn text_globs(words: &[ShellWord]) -> Vec<PathOperand> {
    let leads_outside = |word: &&ShellWord| match word {
        ShellWord::Glob(text) | ShellWord::GlobMatch(text) => leaves_directory(text),
        ShellWord::Unknown(text) => text.starts_with('~') && is_wild(text),
        ShellWord::Known(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => false,
    };
    words
        .iter()
        .skip(1)
        .filter(leads_outside)
        .map(possible_operand)
        .collect()
}

fn possible_operand(word: &ShellWord) -> PathOperand {
    PathOperand {
        certain: false,
        ..PathOperand::certain(word, false)
    }
}

fn is_in_place_option(word: &str) -> bool {
    word.starts_with("-i") || word.starts_with("--in-place")
}

/// Returns true if an argument of an unknown program looks like a path.
fn word_looks_like_path(word: &ShellWord) -> bool {
    match word {
        ShellWord::Known(text) => looks_like_path(text),
        ShellWord::Glob(_) | ShellWord::GlobMatch(_) => true,
        ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => false,
    }
}

/// Returns true if a value leads out of the working directory.
pub(super) fn leaves_directory(value: &str) -> bool {
    let is_url = value.contains("://");
    !is_url && (value.starts_with(['/', '~']) || value.split('/').any(|part| part == ".."))
}

/// Returns true if a text looks like a path, and not like prose or a URL.
fn looks_like_path(word: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || c.is_control();
    if word.contains(is_separator) || word.contains("://") {
        return false;
    }
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    leaves_directory(value) || value.starts_with('.') || value.contains('/')
}
