//! Which words of a command are paths: known of the programs in the tables, and of others told by how a word looks.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::command::Word;

/// What the operands of a program are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// No paths: text.
    Text,
    /// Files that are read.
    Read,
    /// Files that are changed.
    Write,
    /// Files that are read, and at the end one that is written.
    Copy,
    /// A pattern or a program, and files that are read.
    Script,
    /// Folders, up to the first condition.
    Find,
    /// Whatever looks like a path.
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

/// The path in what git calls a path of a revision, `HEAD~2:src/a`; no address, which has slashes or an `@` before.
fn of_revision(word: &Word) -> Option<&str> {
    // A message of a commit is no path.
    let word = word
        .known()
        .filter(|word| !word.contains(char::is_whitespace))?;
    let (revision, path) = word.split_once(':')?;
    let path = match revision {
        "" => of_index(path)?,
        _ => path,
    };
    let is_address = path.starts_with("//") || revision.contains('@') && !revision.contains("@{");
    (!is_address && !path.is_empty()).then_some(path)
}

/// The same of what follows a `:` without a revision: a file of the index, `:0:a`, or a pathspec with words of its own,
/// `:(top)a`. One that leaves paths out reads none.
fn of_index(path: &str) -> Option<&str> {
    if let Some(rest) = path.strip_prefix('(') {
        let (magic, path) = rest.split_once(')')?;
        return (!magic.split(',').any(|word| word == "exclude")).then_some(path);
    }
    if path.starts_with(['!', '^']) {
        return None;
    }
    let staged = path.split_once(':');
    let staged = staged.filter(|(stage, _)| matches!(*stage, "0" | "1" | "2" | "3"));
    Some(staged.map_or(path, |(_, path)| path))
}

/// The words of a command that are paths: whether it writes to them, and whether they are sure to be paths.
pub(super) fn paths(words: &[Word], program: &str) -> Vec<(Word, bool, bool)> {
    let kind = operands(program);
    let mut all = Vec::new();
    let mut operands = Vec::new();
    let mut only_operands = false;
    for word in words.iter().skip(1) {
        match word {
            Word::Known(text) if !only_operands && text == "--" => only_operands = true,
            Word::Known(text) if !only_operands && text.len() > 1 && text.starts_with('-') => {
                // The value of an option that is written into it.
                let value = match text.split_once('=') {
                    Some((_, value)) => value,
                    None if text.starts_with("--") => "",
                    None => text.get(2..).unwrap_or_default(),
                };
                if kind != Operands::Text && leads_away(value) {
                    all.push((Word::Known(value.to_owned()), false, false));
                }
            }
            word => operands.push(word),
        }
    }
    let in_place = |word: &Word| {
        word.known()
            .is_some_and(|text| text.starts_with("-i") || text.starts_with("--in-place"))
    };
    let takes_script = |word: &&Word| {
        let given = ["-e", "-f", "--expression", "--file", "--regexp"];
        word.known()
            .is_some_and(|text| given.iter().any(|option| text.starts_with(option)))
    };
    match kind {
        Operands::Text => {}
        Operands::Other => {
            if program.rsplit('/').next() == Some("git") {
                let kept = operands.iter().filter_map(|word| of_revision(word));
                // What was committed is as secret as the file is now.
                all.extend(kept.map(|path| (Word::Known(path.to_owned()), false, true)));
            }
            let looks = |word: &&&Word| match word {
                Word::Known(text) => looks_like_path(text),
                Word::Glob(_) | Word::Found(_) | Word::Unknown(_) => false,
            };
            all.extend(
                operands
                    .iter()
                    .filter(looks)
                    .map(|word| ((*word).clone(), false, false)),
            );
        }
        Operands::Read => all.extend(operands.into_iter().map(|word| (word.clone(), false, true))),
        Operands::Write => {
            let value = |word: &Word| match word {
                // `dd of=file`
                Word::Known(text) => Word::Known(
                    text.strip_prefix("of=")
                        .or(text.strip_prefix("if="))
                        .unwrap_or(text)
                        .to_owned(),
                ),
                other => other.clone(),
            };
            all.extend(operands.into_iter().map(|word| (value(word), true, true)));
        }
        Operands::Copy => {
            let last = operands.len().saturating_sub(1);
            let each = operands.into_iter().enumerate();
            all.extend(each.map(|(at, word)| (word.clone(), at == last, true)));
        }
        Operands::Script => {
            // Letters may stand together: `-ne PATTERN`, and `-nePATTERN`.
            let in_letters = |word: &Word| {
                let letters = word.known().and_then(|text| text.strip_prefix('-'));
                letters.is_some_and(|text| !text.starts_with('-') && text.contains(['e', 'f']))
            };
            let given = words
                .iter()
                .skip(1)
                .any(|word| takes_script(&word) || in_letters(word));
            let skip = usize::from(!given);
            let writes =
                words.first().and_then(Word::known) == Some("sed") && words.iter().any(in_place);
            all.extend(
                operands
                    .into_iter()
                    .skip(skip)
                    .map(|word| (word.clone(), writes, true)),
            );
        }
        Operands::Find => {
            let is_condition = |word: &&Word| word.text().starts_with(['-', '(', '!', ')']);
            let links = |word: &&Word| matches!(word.known(), Some("-H" | "-L" | "-P"));
            let folders = words.iter().skip(1).skip_while(links);
            let folders = folders.take_while(|word| !is_condition(word));
            let away = words
                .iter()
                .skip(1)
                .filter_map(Word::known)
                .filter(|text| leads_away(text));
            all.extend(away.map(|text| (Word::Known(text.to_owned()), false, false)));
            all.extend(folders.map(|word| (word.clone(), false, true)));
            let named = words.windows(2).filter(|pair| {
                let names = ["-name", "-iname", "-path", "-ipath", "-wholename"];
                pair[0]
                    .known()
                    .is_some_and(|option| names.contains(&option))
            });
            all.extend(named.map(|pair| (Word::Glob(pair[1].text().to_owned()), false, true)));
            all.retain(|(word, _, sure)| *sure || leads_away(word.text()));
        }
    }
    all
}

/// Whether a value leads out of where the command runs.
fn leads_away(value: &str) -> bool {
    let url = value.contains("://");
    !url && (value.starts_with(['/', '~']) || value.split('/').any(|part| part == ".."))
}

/// Whether a word of a program that is not known looks like a path, and not like a line of text or an address.
fn looks_like_path(word: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if word.contains(odd) || word.contains("://") {
        return false;
    }
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    leads_away(value) || value.starts_with('.') || value.contains('/')
}
