//! Shell builtins that set variables, or change how the shell reads the following text.

use crate::{ParsedCommand, ShellWord};

use super::lexer::ShellDialect;
use crate::option_table::OptionTable;

/// Shell settings that make a script stricter, or trace it.
const HARMLESS_SETTINGS: &[&str] = &[
    "pipefail",
    "errexit",
    "nounset",
    "xtrace",
    "verbose",
    "noglob",
    "noclobber",
];

/// Returns true if a shell setting does not change how the shell reads commands.
pub(super) fn is_harmless_setting(setting: &str) -> bool {
    HARMLESS_SETTINGS.contains(&setting)
}

/// Returns the reason why `set` may do more than make a script stricter or trace it.
pub(super) fn risky_set_options(words: &[ShellWord]) -> Option<String> {
    let is_harmless = |word: &ShellWord| {
        word.known().is_some_and(|text| {
            matches!(text, "-o" | "+o")
                || is_harmless_setting(text)
                || text
                    .strip_prefix(['-', '+'])
                    .is_some_and(|set| set.chars().all(|c| "euxvfCo".contains(c)))
        })
    };
    let is_risky = !words.iter().skip(1).all(is_harmless);
    is_risky.then(|| "`set` changes how the shell reads commands, or the value of `$1`".to_owned())
}

/// Arrays predefined by bash.
const BASH_ARRAYS: &[&str] = &[
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

/// Variables evaluated as arithmetic, which runs commands in array subscripts.
const ARITHMETIC_VARIABLES: &[&str] = &[
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
const LOOKUP_VARIABLES: &[&str] = &["EXECIGNORE", "GLOBIGNORE"];

/// Variable with the file descriptor to which `set -x` writes.
const TRACE_VARIABLE: &str = "BASH_XTRACEFD";

/// Returns the reason why an assignment to this variable may have side effects.
pub(super) fn risky_variable(name: &str, value: &ShellWord) -> Option<String> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if ARITHMETIC_VARIABLES.contains(&name) && !is_number(value.text()) {
        return Some(format!(
            "`{name}` evaluates its value as arithmetic, which may run a command stored in a variable"
        ));
    }
    if name == TRACE_VARIABLE {
        return Some(format!(
            "`{name}` mixes the traced commands into their output"
        ));
    }
    let changes_lookup = LOOKUP_VARIABLES.contains(&name);
    changes_lookup.then(|| format!("`{name}` changes which files the shell finds"))
}

/// Handles `export NAME=value` and similar builtins, which set variables. The shell parses the value of an array
/// variable as array text, and runs substitutions in it.
pub(super) fn note_declarations(simple: &mut ParsedCommand, shell: ShellDialect) {
    let mut risks = Vec::new();
    let mut assigned = Vec::new();
    for word in simple.words.iter().skip(1) {
        let text = word.text();
        let is_unknown = word.known().is_none();
        match text.split_once('=') {
            Some((name, value)) if is_name(name) => {
                let is_array = BASH_ARRAYS.contains(&name);
                let start = value.trim_start_matches(['"', '\'', '\\']);
                if is_array && is_unknown || start.starts_with('(') {
                    risks.push(format!(
                        "the value of the array `{name}` may run commands that it contains"
                    ));
                }
                if is_unknown && shell == ShellDialect::Any && !word.is_single() {
                    let risk = format!(
                        "shells other than bash may split the value of `{name}` into several words"
                    );
                    risks.push(risk);
                }
                assigned.push((name.to_owned(), ShellWord::Unknown(value.to_owned())))
            }
            None if is_name(text) => {
                assigned.push((text.to_owned(), ShellWord::Unknown(String::new())))
            }
            // `-i` makes values arithmetic, `-n` makes references to other variables, `-f` declares functions.
            None if text.starts_with('-') && text[1..].chars().all(|c| "xrpgt".contains(c)) => {}
            _ => risks.push(format!(
                "the effect of `{text}` on variables is not analyzed"
            )),
        }
    }
    simple.assignments.extend(assigned);
    simple.unknown.extend(risks);
}

/// Returns true if the command declares an array.
pub(super) fn makes_array(program: &str, words: &[ShellWord]) -> bool {
    let has_array_option = |word: &ShellWord| {
        let letters = word.known().and_then(|text| text.strip_prefix('-'));
        letters.is_some_and(|letters| letters.contains('a'))
    };
    matches!(program, "mapfile" | "readarray")
        || program == "read" && words.iter().any(has_array_option)
}

/// A builtin that sets variables named in its arguments.
struct NamingBuiltin {
    program: &'static str,
    options: OptionTable,
    /// Option letters whose value is a variable name.
    name_options: &'static str,
    /// Range of operands that are variable names, with an exclusive end.
    name_operands: (usize, usize),
}

const fn naming_builtin(
    program: &'static str,
    (flags, values): (&'static str, &'static str),
    name_options: &'static str,
    name_operands: (usize, usize),
) -> NamingBuiltin {
    NamingBuiltin {
        program,
        options: OptionTable {
            flags,
            values,
            ..OptionTable::NONE
        },
        name_options,
        name_operands,
    }
}

const NAMING_BUILTINS: &[NamingBuiltin] = &[
    naming_builtin("read", ("ers", "adinNptu"), "a", (0, usize::MAX)),
    naming_builtin("getopts", ("", ""), "", (1, 2)),
    naming_builtin("unset", ("fvn", ""), "", (0, usize::MAX)),
    naming_builtin("mapfile", ("t", "dnOsuCc"), "", (0, usize::MAX)),
    naming_builtin("readarray", ("t", "dnOsuCc"), "", (0, usize::MAX)),
    naming_builtin("printf", ("", "v"), "v", (0, 0)),
    naming_builtin("wait", ("fn", "p"), "p", (0, 0)),
];

/// Handles `read NAME` and similar builtins, which set variables. An unknown word in place of a name, or of an option
/// with a name, may contain a command in an array subscript.
pub(super) fn note_named_variables(program: &str, simple: &mut ParsedCommand) {
    let Some(builtin) = NAMING_BUILTINS
        .iter()
        .find(|builtin| builtin.program == program)
    else {
        return;
    };
    let mut names: Vec<ShellWord> = Vec::new();
    let mut is_unclear = false;
    let mut words = simple.words.iter().skip(1).peekable();
    while let Some(&word) = words.peek() {
        let Some(text) = word.known() else {
            // A lone word after `printf` is the format, since `-v` needs more words.
            let is_format = program == "printf" && word.is_single() && words.len() == 1;
            is_unclear |= word.may_be_option() && !is_format;
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
        let value_at = letters.find(|c| builtin.options.values.contains(c));
        let flags = &letters[..value_at.unwrap_or(letters.len())];
        is_unclear |= !flags.chars().all(|c| builtin.options.flags.contains(c));
        if let Some(at) = value_at {
            let attached = &letters[at + 1..];
            let given = if attached.is_empty() {
                words.next().cloned()
            } else {
                Some(ShellWord::Known(attached.to_owned()))
            };
            is_unclear |= given.as_ref().is_some_and(|word| !word.is_single());
            if builtin.name_options.contains(&letters[at..at + 1]) {
                names.extend(given);
            }
        }
    }
    let operands: Vec<&ShellWord> = words.collect();
    let (start, end) = builtin.name_operands;
    // A word that may expand to several would shift the following operands.
    let single = operands
        .iter()
        .take(end)
        .take_while(|word| word.is_single());
    is_unclear |= start < end && single.count() < operands.len().min(end);
    let name_words = operands.iter().skip(start).take(end.saturating_sub(start));
    names.extend(name_words.map(|word| (*word).clone()));
    if program == "printf" {
        is_unclear |= sets_count_variable(&operands);
    }
    let mut assigned = Vec::new();
    for word in &names {
        match word.known() {
            Some(text) if is_name(text) => {
                assigned.push((text.to_owned(), ShellWord::Unknown("…".to_owned())));
            }
            // Neither a name nor an array subscript, such as the file descriptor of `read`.
            Some(text) if !text.contains('[') => {}
            _ => is_unclear = true,
        }
    }
    simple.assignments.extend(assigned);
    if is_unclear {
        simple
            .unknown
            .push("the name of the variable to set is known only when the shell runs".to_owned());
    }
}

/// Returns true if the format of `printf`, as far as it is known, sets a variable with `%n`.
fn sets_count_variable(operands: &[&ShellWord]) -> bool {
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

/// Returns the reason why `test` may evaluate an array subscript: by `-v` or `-R`, or by a word that may expand to one
/// of them.
pub(super) fn risky_test(words: &[ShellWord]) -> Option<String> {
    let mut operands = words.get(1..).unwrap_or_default();
    if words
        .first()
        .and_then(ShellWord::known)
        .is_some_and(|name| name.ends_with('['))
        && operands.last().and_then(ShellWord::known) == Some("]")
    {
        operands = &operands[..operands.len() - 1];
    }
    let may_name_variable = |at: usize| {
        let next = operands.get(at + 1);
        let word = &operands[at];
        match word {
            ShellWord::Known(text) => matches!(text.as_str(), "-v" | "-R"),
            // An operand is evaluated only as the name of a variable.
            _ if word.is_single() => {
                let may_have_subscript =
                    |next: &ShellWord| next.known().is_none_or(|text| text.contains('['));
                word.may_be_option() && next.is_some_and(may_have_subscript)
            }
            // The glob may match a file of that name, unless all its matches end in another letter.
            ShellWord::Glob(text) => {
                word.may_be_option() && text.ends_with(['*', '?', ']', 'v', 'R'])
            }
            _ => true,
        }
    };
    let is_risky = (0..operands.len()).any(may_name_variable);
    is_risky.then(|| {
        "`test` may read a word as the name of a variable, whose subscript may run a command"
            .to_owned()
    })
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && text.chars().all(is_letter)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
