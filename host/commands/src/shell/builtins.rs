//! Builtins of the shell that set something: variables that programs obey, or how the shell reads the following text.

use crate::{ParsedCommand, ShellWord};

use super::lexer::ShellDialect;
use crate::option_table::OptionTable;

/// Shell settings that make a script stricter, or trace it.
const STRICTER: &[&str] = &[
    "pipefail",
    "errexit",
    "nounset",
    "xtrace",
    "verbose",
    "noglob",
    "noclobber",
];

/// Returns true if a shell setting does not change how the shell reads commands.
pub(super) fn is_stricter(setting: &str) -> bool {
    STRICTER.contains(&setting)
}

/// Returns the reason why a `set` may do more than make a script stricter.
pub(super) fn risky_set_options(words: &[ShellWord]) -> Option<String> {
    let is_harmless = |word: &ShellWord| {
        word.known().is_some_and(|text| {
            matches!(text, "-o" | "+o")
                || is_stricter(text)
                || text
                    .strip_prefix(['-', '+'])
                    .is_some_and(|set| set.chars().all(|c| "euxvfCo".contains(c)))
        })
    };
    let odd = !words.iter().skip(1).all(is_harmless);
    odd.then(|| "`set` changes how the shell reads commands, or what `$1` is".to_owned())
}

/// Arrays that bash defines at the start.
const ARRAYS: &[&str] = &[
    "BASH_ALIASES",
    "BASH_ARGC",
    "BASH_ARGV",
    "BASH_CMDS",
    "BASH_LINENO",
    "BASH_REMATCH",
    "BASH_SOURCE",
    "BASH_VERSINFO",
    "COMPREPLY",
    "COMP_WORDS",
    "COPROC",
    "DIRSTACK",
    "FUNCNAME",
    "GROUPS",
    "MAPFILE",
    "PIPESTATUS",
];

/// Variables whose values are evaluated as arithmetic, which runs commands in array subscripts.
const NUMBERS: &[&str] = &[
    "BASHPID",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "HISTCMD",
    "LINENO",
    "OPTIND",
    "PPID",
    "RANDOM",
    "SECONDS",
    "SRANDOM",
    "UID",
];

/// Variables that change which files a wildcard matches, or which program a name refers to.
const LOOKS: &[&str] = &["EXECIGNORE", "GLOBIGNORE"];

/// The variable with the file descriptor to which `set -x` writes.
const TRACES: &str = "BASH_XTRACEFD";

/// Returns the reason why an assignment to this variable may have side effects.
pub(super) fn risky_variable(name: &str, value: &ShellWord) -> Option<String> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if NUMBERS.contains(&name) && !is_number(value.text()) {
        return Some(format!(
            "`{name}` evaluates its value as arithmetic, which may run a command that a variable holds"
        ));
    }
    if name == TRACES {
        return Some(format!(
            "`{name}` mixes the traced commands into their output"
        ));
    }
    let looks = LOOKS.contains(&name);
    looks.then(|| format!("`{name}` changes which files the shell finds"))
}

/// Handles `export NAME=value` and the like, which set variables. The shell parses the value of an array variable as
/// the text of an array, and runs the substitutions in it.
pub(super) fn note_declarations(simple: &mut ParsedCommand, shell: ShellDialect) {
    let mut odd = Vec::new();
    let mut set = Vec::new();
    for word in simple.words.iter().skip(1) {
        let text = word.text();
        let unclear = word.known().is_none();
        match text.split_once('=') {
            Some((name, value)) if is_name(name) => {
                let is_array = ARRAYS.contains(&name);
                let begins = value.trim_start_matches(['"', '\'', '\\']);
                if is_array && unclear || begins.starts_with('(') {
                    odd.push(format!(
                        "the value of the array `{name}` may run commands that it contains"
                    ));
                }
                if unclear && shell == ShellDialect::Any && !word.is_single() {
                    let why = format!(
                        "shells other than bash may split the value of `{name}` into several words"
                    );
                    odd.push(why);
                }
                set.push((name.to_owned(), ShellWord::Unknown(value.to_owned())))
            }
            None if is_name(text) => set.push((text.to_owned(), ShellWord::Unknown(String::new()))),
            // `-i` makes values arithmetic, `-n` makes references to other variables, `-f` declares functions.
            None if text.starts_with('-') && text[1..].chars().all(|c| "xrpgt".contains(c)) => {}
            _ => odd.push(format!(
                "the effect of `{text}` on variables is not analyzed"
            )),
        }
    }
    simple.assignments.extend(set);
    simple.unknown.extend(odd);
}

/// Returns true if the command declares an array.
pub(super) fn makes_array(program: &str, words: &[ShellWord]) -> bool {
    let is_list = |word: &ShellWord| {
        let letters = word.known().and_then(|text| text.strip_prefix('-'));
        letters.is_some_and(|letters| letters.contains('a'))
    };
    matches!(program, "mapfile" | "readarray") || program == "read" && words.iter().any(is_list)
}

/// A builtin that sets variables named in its arguments.
struct NamingBuiltin {
    program: &'static str,
    options: OptionTable,
    /// Option letters whose value is a variable name.
    names: &'static str,
    /// The range of operands that are variable names: from the first index up to, but not including, the second.
    operands: (usize, usize),
}

const fn naming_builtin(
    program: &'static str,
    (flags, values): (&'static str, &'static str),
    names: &'static str,
    operands: (usize, usize),
) -> NamingBuiltin {
    NamingBuiltin {
        program,
        options: OptionTable {
            flags,
            values,
            ..OptionTable::NONE
        },
        names,
        operands,
    }
}

const NAMING: &[NamingBuiltin] = &[
    naming_builtin("read", ("ers", "adinNptu"), "a", (0, usize::MAX)),
    naming_builtin("getopts", ("", ""), "", (1, 2)),
    naming_builtin("unset", ("fvn", ""), "", (0, usize::MAX)),
    naming_builtin("mapfile", ("t", "dnOsuCc"), "", (0, usize::MAX)),
    naming_builtin("readarray", ("t", "dnOsuCc"), "", (0, usize::MAX)),
    naming_builtin("printf", ("", "v"), "v", (0, 0)),
    naming_builtin("wait", ("fn", "p"), "p", (0, 0)),
];

/// Handles `read NAME` and the like, which set variables. An unknown word in the position of a name, or of an option
/// with a name, may hold a command: in the subscript of an array.
pub(super) fn note_named_variables(program: &str, simple: &mut ParsedCommand) {
    let Some(naming) = NAMING.iter().find(|naming| naming.program == program) else {
        return;
    };
    let mut found: Vec<ShellWord> = Vec::new();
    let mut odd = false;
    let mut words = simple.words.iter().skip(1).peekable();
    while let Some(&word) = words.peek() {
        let Some(text) = word.known() else {
            // A lone `printf -v` has no name to set.
            let alone = program == "printf" && word.is_single() && words.len() == 1;
            odd |= word.may_be_option() && !alone;
            break;
        };
        if text == "--" {
            words.next();
            break;
        }
        if text.len() < 2 || !text.starts_with('-') {
            break;
        }
        words.next();
        let letters = &text[1..];
        let value = letters.find(|c| naming.options.values.contains(c));
        let flags = &letters[..value.unwrap_or(letters.len())];
        odd |= !flags.chars().all(|c| naming.options.flags.contains(c));
        if let Some(at) = value {
            let attached = &letters[at + 1..];
            let given = match attached.is_empty() {
                true => words.next().cloned(),
                false => Some(ShellWord::Known(attached.to_owned())),
            };
            odd |= given.as_ref().is_some_and(|word| !word.is_single());
            if naming.names.contains(&letters[at..at + 1]) {
                found.extend(given);
            }
        }
    }
    let operands: Vec<&ShellWord> = words.collect();
    let (first, last) = naming.operands;
    // A word that expands to several shifts the operands up to the last of the names.
    let moved = operands
        .iter()
        .take(last)
        .take_while(|word| word.is_single());
    odd |= first < last && moved.count() < operands.len().min(last);
    let named = operands.iter().skip(first).take(last.saturating_sub(first));
    found.extend(named.map(|word| (*word).clone()));
    if program == "printf" {
        odd |= counts(&operands);
    }
    let mut set = Vec::new();
    for word in &found {
        match word.known() {
            Some(text) if is_name(text) => {
                set.push((text.to_owned(), ShellWord::Unknown("…".to_owned())));
            }
            // Not a name, and no array subscript: the file descriptor of `read`, and the like.
            Some(text) if !text.contains('[') => {}
            _ => odd = true,
        }
    }
    simple.assignments.extend(set);
    if odd {
        simple
            .unknown
            .push("the variable that it sets is known only when the shell runs".to_owned());
    }
}

/// Returns true if the format of `printf`, as far as it is known, sets a variable by `%n`.
fn counts(operands: &[&ShellWord]) -> bool {
    let Some((format, rest)) = operands.split_first() else {
        return false;
    };
    let Some(format) = format.known() else {
        return !rest.is_empty();
    };
    let mut parts = format.split('%').skip(1);
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // `%%` is a literal percent sign.
            parts.next();
            continue;
        }
        let kind =
            part.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #'*.hlLjzt".contains(c));
        if kind.starts_with('n') {
            return true;
        }
    }
    false
}

/// Returns the reason why `test` may evaluate an array subscript: by `-v` and `-R`, and by a word that may expand to
/// one of them.
pub(super) fn risky_test(words: &[ShellWord]) -> Option<String> {
    let mut rest = words.get(1..).unwrap_or_default();
    if words
        .first()
        .and_then(ShellWord::known)
        .is_some_and(|name| name.ends_with('['))
        && rest.last().and_then(ShellWord::known) == Some("]")
    {
        rest = &rest[..rest.len() - 1];
    }
    let looks = |at: usize| {
        let next = rest.get(at + 1);
        let word = &rest[at];
        match word {
            ShellWord::Known(text) => matches!(text.as_str(), "-v" | "-R"),
            // An operand that does not name a variable is not evaluated.
            _ if word.is_single() => {
                let holds = |next: &ShellWord| next.known().is_none_or(|text| text.contains('['));
                word.may_be_option() && next.is_some_and(holds)
            }
            // It may match a file of that name, unless all its matches end in another letter.
            ShellWord::Glob(text) => {
                word.may_be_option() && text.ends_with(['*', '?', ']', 'v', 'R'])
            }
            _ => true,
        }
    };
    let looks = (0..rest.len()).any(looks);
    looks.then(|| {
        "the name of a variable may contain a command, and an unquoted word may be `-v`".to_owned()
    })
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && text.chars().all(is_letter)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
