//! Parsing of a call's arguments for git.
//!
//! Options of git can write files and run programs, so each operation accepts only the options in its table.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::tool::Operation;

/// The arguments of an operation, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Allowed options, each with its value.
    pub options: Vec<String>,
    /// Arguments before `--` that are not options: revisions and branches.
    pub names: Vec<String>,
    /// Arguments after `--`.
    pub paths: Vec<String>,
}

/// The way in which an option takes its value.
#[derive(Clone, Copy, PartialEq)]
enum Value {
    /// No value.
    None,
    /// Required: the next word, after `=`, or directly after a single letter.
    Needed,
    /// Optional, only after `=`.
    Optional,
}

use Value::{Needed, None as Bare, Optional};

const DIFF: &[(&str, Value)] = &[
    ("--staged", Bare),
    ("--cached", Bare),
    ("--stat", Bare),
    ("--numstat", Bare),
    ("--shortstat", Bare),
    ("--name-only", Bare),
    ("--name-status", Bare),
    ("--merge-base", Bare),
    ("-U", Needed),
    ("--unified", Needed),
    ("-w", Bare),
    ("-b", Bare),
    ("--ignore-all-space", Bare),
    ("--ignore-space-change", Bare),
    ("--ignore-blank-lines", Bare),
    ("--function-context", Bare),
    ("-W", Bare),
    ("--diff-filter", Needed),
    ("-M", Bare),
    ("--find-renames", Optional),
    ("-S", Needed),
    ("-G", Needed),
    ("-R", Bare),
    ("--word-diff", Bare),
    ("--minimal", Bare),
    ("--patience", Bare),
    ("--histogram", Bare),
];

const LOG: &[(&str, Value)] = &[
    ("-n", Needed),
    ("--max-count", Needed),
    ("--skip", Needed),
    ("--since", Needed),
    ("--after", Needed),
    ("--until", Needed),
    ("--before", Needed),
    ("--author", Needed),
    ("--committer", Needed),
    ("--grep", Needed),
    ("-i", Bare),
    ("--all", Bare),
    ("--branches", Optional),
    ("--tags", Optional),
    ("--merges", Bare),
    ("--no-merges", Bare),
    ("--first-parent", Bare),
    ("--reverse", Bare),
    ("--follow", Bare),
    ("-S", Needed),
    ("-G", Needed),
    ("--oneline", Bare),
];

const SHOW: &[(&str, Value)] = &[
    ("--stat", Bare),
    ("--name-only", Bare),
    ("--name-status", Bare),
    ("-U", Needed),
];

const ADD: &[(&str, Value)] = &[
    ("-A", Bare),
    ("--all", Bare),
    ("-u", Bare),
    ("--update", Bare),
    ("-N", Bare),
];

const COMMIT: &[(&str, Value)] = &[
    ("-m", Needed),
    ("--message", Needed),
    ("-a", Bare),
    ("--all", Bare),
    ("--amend", Bare),
    ("--no-edit", Bare),
    ("--allow-empty", Bare),
    ("--author", Needed),
    ("--date", Needed),
    ("--signoff", Bare),
    ("-s", Bare),
];

const BRANCH: &[(&str, Value)] = &[
    ("-a", Bare),
    ("--all", Bare),
    ("-r", Bare),
    ("--remotes", Bare),
    ("--list", Bare),
    ("--show-current", Bare),
    ("-d", Bare),
    ("--delete", Bare),
    ("-D", Bare),
    ("-m", Bare),
    ("--move", Bare),
    ("--merged", Optional),
    ("--no-merged", Optional),
    ("--contains", Optional),
];

const CHECKOUT: &[(&str, Value)] = &[
    ("-b", Needed),
    ("--detach", Bare),
    ("-f", Bare),
    ("--force", Bare),
    ("--ours", Bare),
    ("--theirs", Bare),
];

fn table(operation: Operation) -> &'static [(&'static str, Value)] {
    match operation {
        Operation::Status => &[],
        Operation::Diff => DIFF,
        Operation::Log => LOG,
        Operation::Show => SHOW,
        Operation::Add => ADD,
        Operation::Commit => COMMIT,
        Operation::Branch => BRANCH,
        Operation::Checkout => CHECKOUT,
    }
}

impl Words {
    /// Parses the arguments of an operation.
    pub fn read(operation: Operation, args: &[String]) -> Result<Self> {
        let table = table(operation);
        let mut read = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                read.paths.extend(args.cloned());
                break;
            }
            if !arg.starts_with('-') || arg == "-" && operation == Operation::Checkout {
                read.names.push(arg.clone());
                continue;
            }
            // `-5` means `-n 5`.
            if operation == Operation::Log
                && arg.len() > 1
                && arg[1..].bytes().all(|byte| byte.is_ascii_digit())
            {
                read.options.push(format!("-n{}", &arg[1..]));
                continue;
            }
            let (option, value) =
                split(table, arg).ok_or_else(|| refused(operation, table, arg))?;
            let (option, takes) = option;
            let joined = |value: &str| match option.starts_with("--") {
                true => format!("{option}={value}"),
                false => format!("{option}{value}"),
            };
            read.options.push(match (takes, value) {
                (Bare | Optional, None) => option.to_owned(),
                (Needed | Optional, Some(value)) => joined(value),
                (Needed, None) => match args.next() {
                    Some(value) => joined(value),
                    None => {
                        return Err(Error::invalid_input(format_args!(
                            "`{option}` needs a value"
                        )));
                    }
                },
                (Bare, Some(_)) => return Err(refused(operation, table, arg)),
            });
        }
        Ok(read)
    }

    /// Returns true if one of these options was given.
    pub fn has(&self, options: &[&str]) -> bool {
        let is = |given: &String, option: &str| {
            given
                .strip_prefix(option)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('=') || option.len() == 2)
        };
        self.options
            .iter()
            .any(|given| options.iter().any(|option| is(given, option)))
    }

    /// Options and names, as arguments for git.
    pub fn before_paths(&self) -> Vec<&str> {
        self.options
            .iter()
            .chain(&self.names)
            .map(String::as_str)
            .collect()
    }
}

/// Splits an option from the value in the same word.
fn split<'a>(
    table: &'static [(&'static str, Value)],
    arg: &'a str,
) -> Option<((&'static str, Value), Option<&'a str>)> {
    let (name, value) = match arg.starts_with("--") {
        true => match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        },
        // A single letter and the value directly after it.
        false => {
            let end = arg.char_indices().nth(2).map_or(arg.len(), |(at, _)| at);
            let value = &arg[end..];
            (&arg[..end], (!value.is_empty()).then_some(value))
        }
    };
    let found = table.iter().find(|(option, _)| *option == name)?;
    Some((*found, value))
}

fn refused(operation: Operation, table: &[(&str, Value)], arg: &str) -> Error {
    let known: Vec<&str> = table.iter().map(|(option, _)| *option).collect();
    let name = operation.as_str();
    let has = match known.is_empty() {
        true => "takes no options, only paths after `--`".to_owned(),
        false => format!("takes {}", known.join(", ")),
    };
    Error::invalid_input(format_args!(
        "`{}` is not supported: `{name}` {has}; write each short option as its own word, or run git through `exec`",
        text::brief(arg)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_sdk::Code;

    fn read(operation: Operation, args: &[&str]) -> Result<Words> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        Words::read(operation, &args)
    }

    #[test]
    fn git_options_names_and_paths_are_separated() {
        let words = read(
            Operation::Diff,
            &[
                "--staged",
                "-U",
                "5",
                "main..topic",
                "--unified=1",
                "-S-x",
                "--",
                "--output=x",
                "a b",
            ],
        )
        .unwrap();
        assert_eq!(words.options, ["--staged", "-U5", "--unified=1", "-S-x"]);
        assert_eq!(words.names, ["main..topic"]);
        assert_eq!(words.paths, ["--output=x", "a b"]);
        assert!(
            words.has(&["--cached", "--staged"]) && words.has(&["-U"]) && !words.has(&["--stat"])
        );
        assert_eq!(read(Operation::Log, &["-5"]).unwrap().options, ["-n5"]);
        assert_eq!(
            read(Operation::Commit, &["-m", "--amend"]).unwrap().options,
            ["-m--amend"]
        );
    }

    #[test]
    fn git_unknown_options_are_refused() {
        for (operation, arg) in [
            (Operation::Diff, "--ext-diff"),
            (Operation::Diff, "--output=x"),
            (Operation::Diff, "--no-index"),
            (Operation::Diff, "-O/etc/passwd"),
            (Operation::Log, "--textconv"),
            (Operation::Log, "--show-signature"),
            (Operation::Show, "--format=%(trailers)"),
            (Operation::Commit, "--no-verify"),
            (Operation::Commit, "-F/etc/passwd"),
            (Operation::Commit, "-am"),
            (Operation::Commit, "-Sx"),
            (Operation::Branch, "--edit-description"),
            (Operation::Checkout, "--recurse-submodules"),
            (Operation::Status, "--porcelain"),
            (Operation::Diff, "--staged=x"),
            (Operation::Diff, "-"),
            (Operation::Log, "-n"),
        ] {
            let error = read(operation, &[arg]).unwrap_err();
            assert_eq!(*error.code(), Code::InvalidInput, "{arg}: {error}");
        }
    }
}
