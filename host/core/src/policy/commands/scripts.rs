//! Programs that take a pattern or a script, and files: which of their words is which.
//!
//! An option may take the next word, which is no file and no pattern then. Here is what takes one; and where that is not
//! certain, no word is passed over.

use crate::command::Word;

use super::globs::unbraced;
use super::operands::Operand;
use super::values;

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Neither a file nor a pattern.
    Text,
    /// Text that stands in the same word, or none.
    Attached,
    /// A file that is read.
    Path,
    /// Which files are looked at.
    Glob,
    /// The pattern or the script: no operand is one then.
    Script,
    /// A file that has it.
    ScriptFile,
}

use Value::{Attached, Glob, Path, Script, ScriptFile, Text};

/// How a program takes its words.
struct Program {
    names: &'static [&'static str],
    letters: &'static [(&'static str, &'static [Value])],
    long: &'static [(&'static str, &'static [Value])],
    /// Whether long options may be shortened.
    shortens: bool,
}

const PROGRAMS: &[Program] = &[
    Program {
        names: &["grep", "egrep", "fgrep"],
        letters: &[("ABCDdm", &[Text]), ("e", &[Script]), ("f", &[ScriptFile])],
        long: &[
            ("--after-context", &[Text]),
            ("--before-context", &[Text]),
            // No beginning of the next one: it stands for itself.
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
    Program {
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
    Program {
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
    Program {
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
    Program {
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

/// The files that a program is given, of all its words; `writes` says that it changes them.
pub(super) fn operands(
    name: &str,
    words: &[Word],
    writes: bool,
    is_shielded: impl Fn(&str) -> bool,
) -> Vec<Operand> {
    let mut taken = Taken::default();
    let program = PROGRAMS.iter().find(|one| one.names.contains(&name));
    // Where nothing is known of its options, nothing is passed over. With `--files`, every operand is one.
    taken.given = program.is_none() || words.iter().any(|word| word.known() == Some("--files"));
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word {
            Word::Known(text) if text == "--" => {
                taken.operands.extend(rest.by_ref());
            }
            Word::Known(text) if text.len() > 1 && text.starts_with('-') => {
                let (values, attached) = program.map_or((&[][..], None), |one| one.takes(text));
                if values.is_empty() {
                    taken.files.extend(values::of(text, &is_shielded));
                }
                taken.take(values, attached, &mut rest);
            }
            // What finds nothing is the option that it looks like.
            Word::Glob(text) | Word::Found(text) if text.starts_with('-') => {
                let (values, attached) = program.map_or((&[][..], None), |one| one.takes(text));
                taken.given = true;
                taken.files.extend(
                    values::of(text, &is_shielded)
                        .into_iter()
                        .map(Operand::found),
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
        // It may be more than a pattern.
        all.push(Operand::sure(pattern, false));
    }
    all.extend(operands.map(|word| Operand::sure(word, writes)));
    all
}

/// What was found among the words so far.
#[derive(Default)]
struct Taken<'a> {
    files: Vec<Operand>,
    operands: Vec<&'a Word>,
    /// Whether no operand is a pattern.
    given: bool,
}

impl<'a> Taken<'a> {
    fn take(
        &mut self,
        values: &[Value],
        attached: Option<&str>,
        rest: &mut impl Iterator<Item = &'a Word>,
    ) {
        let mut attached = attached.map(|text| Word::Known(text.to_owned()));
        for value in values {
            if *value == Attached {
                continue;
            }
            let word = match attached.take() {
                Some(word) => word,
                None => match rest.next() {
                    // It may be none, or more than one: then the others are what is not known here.
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
                Path => self.files.push(Operand::sure(&word, false)),
                Glob => self.files.extend(patterns(&word)),
                Script => self.given = true,
                ScriptFile => {
                    self.given = true;
                    self.files.push(Operand::sure(&word, false));
                }
            }
        }
    }
}

impl Program {
    /// What an option takes, and what of it stands in the same word.
    fn takes<'a>(&self, option: &'a str) -> (&'static [Value], Option<&'a str>) {
        if option.starts_with("--") {
            let (name, attached) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let exact = self.long.iter().find(|(long, _)| *long == name);
            // Of a beginning that more than one has, the program says that it does not know which.
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

/// The files that a search looks at, as its own wildcards say.
fn patterns(word: &Word) -> Vec<Operand> {
    let Some(text) = word.known() else {
        return vec![Operand::sure(word, false)];
    };
    if text.starts_with('!') {
        return Vec::new();
    }
    match unbraced(text) {
        Some(all) => all.into_iter().map(Operand::pattern).collect(),
        None => vec![Operand::sure(&Word::Unknown(text.to_owned()), false)],
    }
}
