//! Classifies the words of programs that take a pattern or a script, and files.
//!
//! An option may take the next word, which then is neither a file nor a pattern. The tables list such options; in case
//! of doubt no word is skipped.

use crate::ShellWord;

use super::glob_text::unbraced;
use super::operands::PathOperand;
use super::option_paths;

/// The kind of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    /// Neither a file nor a pattern.
    Text,
    /// Optional text in the same word.
    Attached,
    /// A file to read.
    Path,
    /// A glob that selects files.
    Glob,
    /// The pattern or the script: no operand is one then.
    Script,
    /// A file that contains it.
    ScriptFile,
}

use OptionValue::{Attached, Glob, Path, Script, ScriptFile, Text};

/// The option syntax of a program.
struct OptionSyntax {
    names: &'static [&'static str],
    letters: &'static [(&'static str, &'static [OptionValue])],
    long: &'static [(&'static str, &'static [OptionValue])],
    /// True if long options may be abbreviated.
    shortens: bool,
}

const PROGRAMS: &[OptionSyntax] = &[
    OptionSyntax {
        names: &["grep", "egrep", "fgrep"],
        letters: &[("ABCDdm", &[Text]), ("e", &[Script]), ("f", &[ScriptFile])],
        long: &[
            ("--after-context", &[Text]),
            ("--before-context", &[Text]),
            // Listed so that it is not taken as an abbreviation of the next one.
            ("--binary", &[]),
            ("--binary-files", &[Text]),
            ("--context", &[Text]),
            ("--devices", &[Text]),
            ("--directories", &[Text]),
            ("--exclude", &[Text]),
            ("--exclude-dir", &[Text]),
            ("--exclude-from", &[Path]),
            ("--file", &[ScriptFile]),
            ("--group-separator", &[Text]),
            ("--include", &[Glob]),
            ("--label", &[Text]),
            ("--max-count", &[Text]),
            ("--regexp", &[Script]),
        ],
        shortens: true,
    },
    OptionSyntax {
        names: &["rg"],
        letters: &[
            ("ABCEMTdjmrt", &[Text]),
            ("e", &[Script]),
            ("f", &[ScriptFile]),
            ("g", &[Glob]),
        ],
        long: &[
            ("--after-context", &[Text]),
            ("--before-context", &[Text]),
            ("--color", &[Text]),
            ("--colors", &[Text]),
            ("--context", &[Text]),
            ("--context-separator", &[Text]),
            ("--encoding", &[Text]),
            ("--engine", &[Text]),
            ("--field-context-separator", &[Text]),
            ("--field-match-separator", &[Text]),
            ("--file", &[ScriptFile]),
            ("--glob", &[Glob]),
            ("--iglob", &[Glob]),
            ("--ignore-file", &[Path]),
            ("--max-columns", &[Text]),
            ("--max-count", &[Text]),
            ("--max-depth", &[Text]),
            ("--max-filesize", &[Text]),
            ("--path-separator", &[Text]),
            ("--regexp", &[Script]),
            ("--replace", &[Text]),
            ("--sort", &[Text]),
            ("--sortr", &[Text]),
            ("--threads", &[Text]),
            ("--type", &[Text]),
            ("--type-not", &[Text]),
        ],
        shortens: false,
    },
    OptionSyntax {
        names: &["jq"],
        letters: &[("L", &[Path]), ("f", &[ScriptFile])],
        long: &[
            ("--arg", &[Text, Text]),
            ("--argjson", &[Text, Text]),
            ("--from-file", &[ScriptFile]),
            ("--indent", &[Text]),
            ("--library-path", &[Path]),
            ("--rawfile", &[Text, Path]),
            ("--slurpfile", &[Text, Path]),
        ],
        shortens: false,
    },
    OptionSyntax {
        names: &["sed"],
        letters: &[
            ("l", &[Text]),
            ("i", &[Attached]),
            ("e", &[Script]),
            ("f", &[ScriptFile]),
        ],
        long: &[
            ("--expression", &[Script]),
            ("--file", &[ScriptFile]),
            ("--in-place", &[Attached]),
            ("--line-length", &[Text]),
        ],
        shortens: true,
    },
    OptionSyntax {
        names: &["awk", "gawk", "mawk"],
        letters: &[("Fv", &[Text]), ("e", &[Script]), ("f", &[ScriptFile])],
        long: &[
            ("--assign", &[Text]),
            ("--field-separator", &[Text]),
            ("--file", &[ScriptFile]),
            ("--source", &[Script]),
        ],
        shortens: true,
    },
];

/// The files among the words of a program; `writes` means that it changes them.
pub(super) fn operands(
    name: &str,
    words: &[ShellWord],
    writes: bool,
    is_shielded: impl Fn(&str) -> bool,
) -> Vec<PathOperand> {
    let mut taken = CollectedOperands::default();
    let program = PROGRAMS.iter().find(|one| one.names.contains(&name));
    // Without a table for the program, no word is skipped. With `--files`, every operand is a path.
    taken.given = program.is_none() || words.iter().any(|word| word.known() == Some("--files"));
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word {
            ShellWord::Known(text) if text == "--" => {
                taken.operands.extend(rest.by_ref());
            }
            ShellWord::Known(text) if text.len() > 1 && text.starts_with('-') => {
                let (values, attached) = program.map_or((&[][..], None), |one| one.takes(text));
                if values.is_empty() {
                    taken
                        .files
                        .extend(option_paths::option_paths(text, &is_shielded));
                }
                taken.take(values, attached, &mut rest);
            }
            // A glob without matches stays the option that it looks like.
            ShellWord::Glob(text) | ShellWord::GlobMatch(text) if text.starts_with('-') => {
                let (values, attached) = program.map_or((&[][..], None), |one| one.takes(text));
                taken.given = true;
                taken.files.extend(
                    option_paths::option_paths(text, &is_shielded)
                        .into_iter()
                        .map(PathOperand::into_glob),
                );
                taken.take(values, attached, &mut rest);
            }
            word => taken.operands.push(word),
        }
    }
    let mut all = taken.files;
    let mut operands = taken.operands.into_iter();
    if !taken.given
        && let Some(pattern) = operands.next()
        && pattern.known().is_none()
        && (!pattern.is_single() || pattern.may_be_option())
    {
        // It may expand to more than a pattern.
        all.push(PathOperand::sure(pattern, false));
    }
    all.extend(operands.map(|word| PathOperand::sure(word, writes)));
    all
}

/// The words collected so far.
#[derive(Default)]
struct CollectedOperands<'a> {
    files: Vec<PathOperand>,
    operands: Vec<&'a ShellWord>,
    /// True if no operand is a pattern.
    given: bool,
}

impl<'a> CollectedOperands<'a> {
    fn take(
        &mut self,
        values: &[OptionValue],
        attached: Option<&str>,
        rest: &mut impl Iterator<Item = &'a ShellWord>,
    ) {
        let mut attached = attached.map(|text| ShellWord::Known(text.to_owned()));
        for value in values {
            if *value == Attached {
                continue;
            }
            let word = match attached.take() {
                Some(word) => word,
                None => match rest.next() {
                    // It may expand to no word or to several: then the roles of the others are unknown.
                    Some(word) if !word.is_single() => {
                        self.given = true;
                        self.operands.push(word);
                        return;
                    }
                    Some(word) => word.clone(),
                    None => return,
                },
            };
            match value {
                Text | Attached => {}
                Path => self.files.push(PathOperand::sure(&word, false)),
                Glob => self.files.extend(patterns(&word)),
                Script => self.given = true,
                ScriptFile => {
                    self.given = true;
                    self.files.push(PathOperand::sure(&word, false));
                }
            }
        }
    }
}

impl OptionSyntax {
    /// The values of an option, and the part in the same word.
    fn takes<'a>(&self, option: &'a str) -> (&'static [OptionValue], Option<&'a str>) {
        if option.starts_with("--") {
            let (name, attached) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let exact = self.long.iter().find(|(long, _)| *long == name);
            // For an ambiguous abbreviation the program itself fails.
            let begins = |(long, _): &&(&str, _)| self.shortens && long.starts_with(name);
            let found = exact.or_else(|| self.long.iter().find(begins));
            return (found.map_or(&[], |(_, values)| values), attached);
        }
        for (at, letter) in option.char_indices().skip(1) {
            let mut known = self.letters.iter();
            if let Some((_, values)) = known.find(|(letters, _)| letters.contains(letter)) {
                let behind = &option[at + letter.len_utf8()..];
                return (values, Some(behind).filter(|text| !text.is_empty()));
            }
        }
        (&[], None)
    }
}

/// The files that a search reads, by its own wildcards.
fn patterns(word: &ShellWord) -> Vec<PathOperand> {
    let Some(text) = word.known() else {
        return vec![PathOperand::sure(word, false)];
    };
    if text.starts_with('!') {
        return Vec::new();
    }
    match unbraced(text) {
        Some(all) => all.into_iter().map(PathOperand::pattern).collect(),
        None => vec![PathOperand::sure(
            &ShellWord::Unknown(text.to_owned()),
            false,
        )],
    }
}
