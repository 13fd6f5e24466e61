//! The path arguments of a command: from tables for known programs, by their look for others.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::command::Word;

use super::{finders, globs, pathspecs, scripts, values};

/// The kind of a program's operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Text, not paths.
    Text,
    /// Files to read.
    Read,
    /// Files to change.
    Write,
    /// Files to read, followed by one to write.
    Copy,
    /// A pattern or a program, followed by files to read.
    Script,
    /// Folders, up to the first condition.
    Find,
    /// Any word that looks like a path.
    Other,
}

const TEXT: &str = ": [ [[ arch basename break continue date declare dirname echo exit export expr false getopts \
    groups hostname id jobs kill let local locale nproc printenv printf ps pwd read readonly return seq set shift \
    sleep test times true tty type typeset ulimit umask uname unset uptime wait which whoami";

const READ: &str = "b2sum base64 cat cd cksum cmp column comm cut df diff du expand file fmt fold head hexdump join \
    less ls md5sum more nl od paste popd pushd readlink realpath rev sha1sum sha224sum sha256sum sha384sum sha512sum \
    sort stat strings tac tail tree unexpand uniq wc xxd";

const WRITE: &str = "chmod chown chgrp dd mkdir mv rm rmdir shred tee touch truncate unlink";

const COPY: &str = "cp install ln rsync scp";

const SCRIPT: &str = "awk egrep fgrep gawk grep jq mawk rg sed yq";

fn operands(program: &str) -> Operands {
    let program = program
        .strip_prefix("/usr/bin/")
        .or(program.strip_prefix("/bin/"))
        .unwrap_or(program);
    static KNOWN: LazyLock<HashMap<&str, Operands>> = LazyLock::new(|| {
        let kinds = [
            ("find", Operands::Find),
            (TEXT, Operands::Text),
            (READ, Operands::Read),
            (WRITE, Operands::Write),
            (COPY, Operands::Copy),
            (SCRIPT, Operands::Script),
        ];
        let each = kinds.into_iter();
        each.flat_map(|(names, kind)| names.split_whitespace().map(move |name| (name, kind)))
            .collect()
    });
    KNOWN.get(program).copied().unwrap_or(Operands::Other)
}

/// A word of a command that is a path, or may be one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Operand {
    pub(super) word: Word,
    pub(super) writes: bool,
    /// True if it is a path whatever it looks like.
    pub(super) sure: bool,
    /// True if its wildcards are the program's own, which match a leading dot.
    pub(super) own: bool,
}

impl Operand {
    /// A word that may name a file to read.
    pub(super) fn maybe(path: String) -> Self {
        Self {
            word: Word::Known(path),
            writes: false,
            sure: false,
            own: false,
        }
    }

    /// A pattern for names, expanded by the program itself.
    pub(super) fn pattern(text: String) -> Self {
        Self {
            word: Word::Glob(text),
            own: true,
            ..Self::maybe(String::new())
        }
    }

    /// The operand as a glob that the shell may expand first.
    pub(super) fn found(self) -> Self {
        match self.word {
            Word::Known(text) => Self::pattern(text),
            word => Self { word, ..self },
        }
    }

    /// A word that is a path whatever it looks like.
    pub(super) fn sure(word: &Word, writes: bool) -> Self {
        Self {
            word: word.clone(),
            writes,
            sure: true,
            own: false,
        }
    }
}

/// The words of a command that are paths. `is_shielded` returns true if a path rule matches.
pub(super) fn paths(
    words: &[Word],
    program: &str,
    is_shielded: impl Fn(&str) -> bool,
) -> Vec<Operand> {
    let kind = operands(program);
    let program = program.rsplit('/').next().unwrap_or(program);
    let (mut all, operands) = match kind {
        Operands::Text => return of_text(words),
        Operands::Find => return of_find(words),
        Operands::Script => {
            let writes = program == "sed" && words.iter().filter_map(Word::known).any(in_place);
            return scripts::operands(program, words, writes, is_shielded);
        }
        Operands::Read | Operands::Write | Operands::Copy | Operands::Other => {
            split(words, is_shielded)
        }
    };
    let last = operands.len().saturating_sub(1);
    for (at, word) in operands.into_iter().enumerate() {
        match (kind, word) {
            // `dd of=file`
            (Operands::Write, Word::Known(text)) => {
                let value = text.strip_prefix("of=").or(text.strip_prefix("if="));
                let path = Word::Known(value.unwrap_or(text).to_owned());
                all.push(Operand::sure(&path, true));
            }
            (Operands::Write, word) => all.push(Operand::sure(word, true)),
            (Operands::Copy, word) => all.push(Operand::sure(word, at == last)),
            (Operands::Read, word) => all.push(Operand::sure(word, false)),
            (_, word) if looks(word) => all.push(maybe(word)),
            _ => {}
        }
    }
    if kind == Operands::Other && program == "git" {
        all.extend(pathspecs::operands(words));
    }
    all
}

/// The files that the options of a command may open, and its operands.
fn split(words: &[Word], is_shielded: impl Fn(&str) -> bool) -> (Vec<Operand>, Vec<&Word>) {
    let mut all = Vec::new();
    let mut operands = Vec::new();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word {
            Word::Known(text) if text == "--" => operands.extend(rest.by_ref()),
            Word::Known(text) if text.len() > 1 && text.starts_with('-') => {
                all.extend(values::of(text, &is_shielded));
            }
            // A glob without matches stays the option that it looks like.
            Word::Glob(text) | Word::Found(text) if text.starts_with('-') => {
                let values = values::of(text, &is_shielded).into_iter();
                all.extend(values.map(Operand::found));
            }
            word => operands.push(word),
        }
    }
    (all, operands)
}

/// For text operands, the globs that the shell expands: the names of existing files are shown.
fn of_text(words: &[Word]) -> Vec<Operand> {
    let is_away = |word: &&Word| match word {
        Word::Glob(text) | Word::Found(text) => leads_away(text),
        Word::Unknown(text) => text.starts_with('~') && globs::is_wild(text),
        Word::Known(_) => false,
    };
    words.iter().skip(1).filter(is_away).map(maybe).collect()
}

fn maybe(word: &Word) -> Operand {
    Operand {
        sure: false,
        ..Operand::sure(word, false)
    }
}

fn in_place(word: &str) -> bool {
    word.starts_with("-i") || word.starts_with("--in-place")
}

/// The folders that `find` searches, and the names that it looks for.
fn of_find(words: &[Word]) -> Vec<Operand> {
    let is_condition = |word: &&Word| word.text().starts_with(['-', '(', '!', ')']);
    let links = |word: &&Word| matches!(word.known(), Some("-H" | "-L" | "-P"));
    let folders = words.iter().skip(1).skip_while(links);
    let folders = folders.take_while(|word| !is_condition(word));
    let away = words.iter().skip(1).filter_map(Word::known);
    let away = away.filter(|text| leads_away(text));
    let mut all: Vec<Operand> = away.map(|text| Operand::maybe(text.to_owned())).collect();
    all.extend(folders.map(|word| Operand::sure(word, false)));
    // Names that are only printed are not read.
    if finders::runs(words) {
        all.extend(named(words));
    }
    all
}

/// Conditions of `find` about names.
const NAMED: &[&str] = &[
    "-ilname",
    "-iname",
    "-ipath",
    "-iwholename",
    "-lname",
    "-name",
    "-path",
    "-wholename",
];

/// The names that a `find` or `fd` looks for.
pub(super) fn named(words: &[Word]) -> Vec<Operand> {
    let text = |at: usize| words.get(at).map_or("", Word::text);
    let is_not = |word: &str| matches!(word, "!" | "-not");
    let groups = || {
        words
            .windows(2)
            .any(|pair| is_not(pair[0].text()) && pair[1].text() == "(")
    };
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate().skip(1) {
        let before = |count: usize| at.checked_sub(count).map_or("", text);
        match text(0) {
            "fd" if matches!(before(1), "-e" | "--extension") => {
                all.push(Operand::pattern(format!("*.{}", word.text())));
            }
            // The search pattern is a regular expression.
            "fd" if !word.text().starts_with('-') => {
                all.push(Operand::pattern(format!("*{}*", word.text())));
            }
            "fd" => {}
            _ if NAMED.contains(&before(1)) => {
                // An excluded name is not searched for.
                let left_out = is_not(before(2)) && !is_not(before(3)) && !groups();
                if !left_out {
                    all.push(Operand::pattern(word.text().to_owned()));
                }
            }
            _ => {}
        }
    }
    all
}

/// Returns true if a word of an unknown program looks like a path.
fn looks(word: &Word) -> bool {
    match word {
        Word::Known(text) => looks_like_path(text),
        Word::Glob(_) | Word::Found(_) => true,
        Word::Unknown(_) => false,
    }
}

/// Returns true if a value leads out of the working directory.
pub(super) fn leads_away(value: &str) -> bool {
    let url = value.contains("://");
    !url && (value.starts_with(['/', '~']) || value.split('/').any(|part| part == ".."))
}

/// Returns true if a word of an unknown program looks like a path, and not like a line of text or an address.
fn looks_like_path(word: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if word.contains(odd) || word.contains("://") {
        return false;
    }
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    leads_away(value) || value.starts_with('.') || value.contains('/')
}
