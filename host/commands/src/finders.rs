//! Commands that only print the names of accessible files: safe input for `xargs`.
//!
//! The tables list the options that preserve this property. A command with any other option may print arbitrary text.

use crate::{ParsedCommand, ShellWord};

/// A program that finds files.
struct FinderProgram {
    /// The leading words of the command.
    prefix: &'static [&'static str],
    /// Words that do not change the output.
    flags: &'static [&'static str],
    /// Letter options that do not change the output.
    letters: &'static str,
    /// Options with a value, in the next word or after `=`.
    options_with_value: &'static [&'static str],
    /// Options and letters of which one is required to print names instead of lines; empty if names are the default.
    naming_options: &'static [&'static str],
}

const FINDERS: &[FinderProgram] = &[
    FinderProgram {
        prefix: &["find"],
        flags: &[
            "!",
            "(",
            ")",
            "-a",
            "-and",
            "-depth",
            "-empty",
            "-executable",
            "-mount",
            "-not",
            "-o",
            "-or",
            "-print",
            "-print0",
            "-prune",
            "-readable",
            "-writable",
            "-xdev",
            "-P",
        ],
        letters: "",
        options_with_value: &[
            "-amin",
            "-atime",
            "-cmin",
            "-ctime",
            "-group",
            "-iname",
            "-ipath",
            "-maxdepth",
            "-mindepth",
            "-mmin",
            "-mtime",
            "-name",
            "-newer",
            "-path",
            "-perm",
            "-size",
            "-type",
            "-user",
            "-wholename",
        ],
        naming_options: &[],
    },
    FinderProgram {
        prefix: &["git", "ls-files"],
        flags: &[
            "--cached",
            "--deleted",
            "--exclude-standard",
            "--modified",
            "--others",
        ],
        letters: "cdmoz",
        options_with_value: &[],
        naming_options: &[],
    },
    FinderProgram {
        prefix: &["grep"],
        flags: &[
            "--extended-regexp",
            "--files-with-matches",
            "--files-without-match",
            "--fixed-strings",
            "--ignore-case",
            "--null",
            "--recursive",
            "--word-regexp",
        ],
        letters: "EFGHILPZchilnoqrsvwx",
        options_with_value: &["-e", "--exclude", "--exclude-dir", "--include", "--regexp"],
        naming_options: &["l", "L", "--files-with-matches", "--files-without-match"],
    },
    FinderProgram {
        prefix: &["rg"],
        flags: &[
            "--files",
            "--files-with-matches",
            "--fixed-strings",
            "--ignore-case",
            "--null",
            "--word-regexp",
        ],
        letters: "0FSilnsvwx",
        options_with_value: &["-e", "-g", "-t", "--glob", "--regexp", "--type"],
        naming_options: &["l", "--files", "--files-with-matches"],
    },
    FinderProgram {
        prefix: &["fd"],
        flags: &["--print0"],
        letters: "0s",
        options_with_value: &["-d", "-e", "-t", "--extension", "--max-depth", "--type"],
        naming_options: &[],
    },
];

/// Returns true if the command only prints file names.
pub fn finds_files(simple: &ParsedCommand) -> bool {
    let texts: Option<Vec<&str>> = simple.words.iter().map(plain_word).collect();
    let is_alone = simple.wrappers.is_empty()
        && simple.piped_from.is_none()
        && simple.redirections.is_empty()
        && simple.unknown.is_empty();
    let Some(texts) = texts.filter(|_| is_alone) else {
        return false;
    };
    let mut known = FINDERS.iter();
    let finder = known.find(|finder| texts.starts_with(finder.prefix));
    finder.is_some_and(|finder| finder.only_prints_names(&texts[finder.prefix.len()..]))
}

/// Returns the text of a word that the program reads as written, or of a glob that cannot expand to an option.
fn plain_word(word: &ShellWord) -> Option<&str> {
    match word {
        ShellWord::Known(text) => Some(text),
        ShellWord::Glob(text) | ShellWord::GlobMatch(text) if !word.may_be_option() => Some(text),
        _ => None,
    }
}

impl FinderProgram {
    fn only_prints_names(&self, words: &[&str]) -> bool {
        let mut prints_names = self.naming_options.is_empty();
        let mut expects_pattern = matches!(self.prefix, ["grep" | "rg" | "fd"]);
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            if self.flags.contains(&word) {
                prints_names |= self.naming_options.contains(&word);
                expects_pattern &= word != "--files";
                continue;
            }
            let (name, value) = word.split_once('=').unzip();
            let name = name.unwrap_or(word);
            if self.options_with_value.contains(&name) {
                let is_long = name.starts_with("--");
                let value = value.filter(|_| is_long).or_else(|| words.next().copied());
                // `-e` of `fd` is a file extension, not the pattern.
                expects_pattern &= !matches!(name, "-e" | "--regexp") || self.prefix == ["fd"];
                if value.is_none() {
                    return false;
                }
                continue;
            }
            let letters = word.strip_prefix('-').filter(|set| !set.is_empty());
            match letters {
                Some(set) if set.chars().all(|c| self.letters.contains(c)) => {
                    prints_names |= set
                        .chars()
                        .any(|c| self.naming_options.iter().any(|name| is_letter(name, c)));
                }
                Some(_) => return false,
                // The search pattern does not appear in the output.
                None if std::mem::take(&mut expects_pattern) => {}
                None if word.starts_with(':') || word.contains(is_special) => return false,
                None => {}
            }
        }
        prints_names
    }
}

fn is_letter(name: &str, letter: char) -> bool {
    name.len() == 1 && name.starts_with(letter)
}

/// Returns true for a character that `xargs` does not read as part of a name: it splits at spaces and interprets
/// quotes.
fn is_special(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '\'' | '"' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EnclosingCommand;

    fn finds(text: &str) -> bool {
        let words = text
            .split(' ')
            .map(|word| ShellWord::Known(word.to_owned()));
        finds_files(&ParsedCommand {
            words: words.collect(),
            ..ParsedCommand::default()
        })
    }

    #[test]
    fn file_finders_are_commands_that_only_print_names() {
        for text in [
            "find . -name *.rs -type f",
            "find src ( -name a -o -name b ) -print0",
            "git ls-files",
            "git ls-files -z --others src",
            "grep -rl foo src",
            "grep -rln -e foo .",
            "grep -r --include=*.rs -l foo .",
            "rg -l foo",
            "rg --files -g *.rs",
            "fd -e rs",
        ] {
            assert!(finds(text), "{text}");
        }
        for text in [
            "find . -printf x",
            "find . -fls x",
            "find . -exec a ;",
            "find . -regex x",
            "find . -name",
            "git ls-files --format=x",
            "git ls-files -s",
            "git log",
            "git ls-files :(top)a",
            "grep foo a",
            "grep -e -l",
            "grep -l --label=x foo",
            "grep -c -l foo\na a\tb",
            "rg foo",
            "rg -l -r x foo",
            "fd -x cat",
            "fd --format x",
            "cat a",
            "sudo find .",
            "",
        ] {
            assert!(!finds(text), "{text}");
        }
        let mut command = ParsedCommand {
            words: ["git", "ls-files"]
                .map(|word| ShellWord::Known(word.into()))
                .into(),
            ..ParsedCommand::default()
        };
        assert!(finds_files(&command));
        command.wrappers.push(EnclosingCommand::Wrapper("sudo"));
        assert!(!finds_files(&command));
    }
}
