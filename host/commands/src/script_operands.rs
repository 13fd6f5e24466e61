//! Classification of the words of programs that take a pattern or a script, and files.
//!
//! An option may take the next word, which is then neither a file nor a pattern. The tables list such options; in case
//! of doubt, no word is skipped.

use crate::ShellWord;

use super::glob_text::expand_braces;
use super::operands::PathOperand;
use super::option_paths;

/// Kind of an option's value.
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
    /// The pattern or script; the first operand is then a file.
    Script,
    /// A file with the pattern or script.
    ScriptFile,
}

use OptionValue::{Attached, Glob, Path, Script, ScriptFile, Text};

/// Option syntax of a program.
struct OptionSyntax {
    /// The names of the program.
    names: &'static [&'static str],
    /// Sets of option letters, with the values of each letter.
    letters: &'static [(&'static str, &'static [OptionValue])],
    /// Long options with their values.
    long: &'static [(&'static str, &'static [OptionValue])],
    /// True if long options may be abbreviated.
    allows_abbreviations: bool,
}

const PROGRAMS: &[OptionSyntax] = &[
    OptionSyntax {
        names: &["grep", "egrep", "fgrep"],
        letters: &[("ABCDdm", &[Text]), ("e", &[Script]), ("f", &[ScriptFile])],
        long: &[
            ("--after-context", &[Text]),
            ("--before-context", &[Text]),
            // Listed so that it is not treated as an abbreviation of the next option.
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
        allows_abbreviations: true,
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
        allows_abbreviations: false,
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
        allows_abbreviations: false,
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
        allows_abbreviations: true,
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
        allows_abbreviations: true,
    },
];

/// Returns the files among the words of a program. `writes` is true if the program changes them.
pub(super) fn operands(
    name: &str,
    words: &[ShellWord],
    writes: bool,
    is_protected: impl Fn(&str) -> bool,
) -> Vec<PathOperand> {
    let mut collected = CollectedOperands::default();
    let program = PROGRAMS.iter().find(|one| one.names.contains(&name));
    // Without a table for the program, no word is skipped. With `--files`, every operand is a path.
    collected.has_script =
        program.is_none() || words.iter().any(|word| word.known() == Some("--files"));
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word {
            ShellWord::Known(text) if text == "--" => {
                collected.operands.extend(rest.by_ref());
            }
            ShellWord::Known(text) if text.len() > 1 && text.starts_with('-') => {
                let (values, attached) = program.map_or((&[][..], None), |one| one.values_of(text));
                if values.is_empty() {
                    collected
                        .files
                        .extend(option_paths::option_paths(text, &is_protected));
                }
                collected.take_values(values, attached, &mut rest);
            }
            // Without matches, the glob remains the option that it looks like.
            ShellWord::Glob(text) | ShellWord::GlobMatch(text) if text.starts_with('-') => {
                let (values, attached) = program.map_or((&[][..], None), |one| one.values_of(text));
                collected.has_script = true;
                collected.files.extend(
                    option_paths::option_paths(text, &is_protected)
                        .into_iter()
                        .map(PathOperand::into_glob),
                );
                collected.take_values(values, attached, &mut rest);
            }
            word => collected.operands.push(word),
        }
    }
    let mut paths = collected.files;
    let mut operands = collected.operands.into_iter();
    if !collected.has_script
        && let Some(pattern) = operands.next()
        && pattern.known().is_none()
        && (!pattern.is_single() || pattern.may_be_option())
    {
        // The word may expand to more than a pattern.
        paths.push(PathOperand::certain(pattern, false));
    }
    paths.extend(operands.map(|word| PathOperand::certain(word, writes)));
    paths
}

/// Words collected so far.
#[derive(Default)]
struct CollectedOperands<'a> {
    files: Vec<PathOperand>,
    operands: Vec<&'a ShellWord>,
    /// True if the pattern or script is not among the operands.
    has_script: bool,
}

impl<'a> CollectedOperands<'a> {
    /// Consumes the values of an option: the attached text first, then the next words.
    fn take_values(
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
                    // The word may expand to any number of words; then the roles of the following words are unknown.
                    Some(word) if !word.is_single() => {
                        self.has_script = true;
                        self.operands.push(word);
                        return;
                    }
                    Some(word) => word.clone(),
                    None => return,
                },
            };
            match value {
                Text | Attached => {}
                Path => self.files.push(PathOperand::certain(&word, false)),
                Glob => self.files.extend(searched_files(&word)),
                Script => self.has_script = true,
                ScriptFile => {
                    self.has_script = true;
                    self.files.push(PathOperand::certain(&word, false));
                }
            }
        }
    }
}

impl OptionSyntax {
    /// Returns the kinds of values of an option, and the value attached in the same word.
    fn values_of<'a>(&self, option: &'a str) -> (&'static [OptionValue], Option<&'a str>) {
        if option.starts_with("--") {
            let (name, attached) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let exact = self.long.iter().find(|(long, _)| *long == name);
            // The program itself rejects an ambiguous abbreviation.
            let is_abbreviated =
                |(long, _): &&(&str, _)| self.allows_abbreviations && long.starts_with(name);
            let entry = exact.or_else(|| self.long.iter().find(is_abbreviated));
            return (entry.map_or(&[], |(_, values)| values), attached);
        }
        for (at, letter) in option.char_indices().skip(1) {
            let mut known = self.letters.iter();
            if let Some((_, values)) = known.find(|(letters, _)| letters.contains(letter)) {
                let rest = &option[at + letter.len_utf8()..];
                return (values, Some(rest).filter(|text| !text.is_empty()));
            }
        }
        (&[], None)
    }
}

/// Returns the files selected by a glob of the program, such as `--include`.
fn searched_files(word: &ShellWord) -> Vec<PathOperand> {
    let Some(text) = word.known() else {
        return vec![PathOperand::certain(word, false)];
    };
    if text.starts_with('!') {
        return Vec::new();
    }
    match expand_braces(text) {
        Some(globs) => globs.into_iter().map(PathOperand::pattern).collect(),
        None => vec![PathOperand::certain(
            &ShellWord::Unknown(text.to_owned()),
            false,
        )],
    }
}
