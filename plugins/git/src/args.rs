//! Parsing of a call's arguments for git.
//!
//! Some git options write files or run programs, so each operation accepts only the options in its table.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::tool::Operation;

/// The arguments of an operation, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// Allowed options, each with its value.
    pub options: Vec<String>,
    /// Arguments before `--` that are not options: revisions and branches.
    pub names: Vec<String>,
    /// Arguments after `--`.
    pub paths: Vec<String>,
}

/// Form in which an option takes a value.
#[derive(Clone, Copy, PartialEq)]
enum OptionValue {
    /// No value.
    Bare,
    /// Required: the next word, after `=`, or directly after a single letter.
    Required,
    /// Optional, only after `=`.
    Optional,
}

use OptionValue::{Bare, Optional, Required};

const DIFF: &[(&str, OptionValue)] = &[
    ("--staged", Bare),
    ("--cached", Bare),
    ("--stat", Bare),
    ("--numstat", Bare),
    ("--shortstat", Bare),
    ("--name-only", Bare),
    ("--name-status", Bare),
    ("--merge-base", Bare),
    ("-U", Required),
    ("--unified", Required),
    ("-w", Bare),
    ("-b", Bare),
    ("--ignore-all-space", Bare),
    ("--ignore-space-change", Bare),
    ("--ignore-blank-lines", Bare),
    ("--function-context", Bare),
    ("-W", Bare),
    ("--diff-filter", Required),
    ("-M", Bare),
    ("--find-renames", Optional),
    ("-S", Required),
    ("-G", Required),
    ("-R", Bare),
    ("--word-diff", Bare),
    ("--minimal", Bare),
    ("--patience", Bare),
    ("--histogram", Bare),
];

const LOG: &[(&str, OptionValue)] = &[
    ("-n", Required),
    ("--max-count", Required),
    ("--skip", Required),
    ("--since", Required),
    ("--after", Required),
    ("--until", Required),
    ("--before", Required),
    ("--author", Required),
    ("--committer", Required),
    ("--grep", Required),
    ("-i", Bare),
    ("--all", Bare),
    ("--branches", Optional),
    ("--tags", Optional),
    ("--merges", Bare),
    ("--no-merges", Bare),
    ("--first-parent", Bare),
    ("--reverse", Bare),
    ("--follow", Bare),
    ("-S", Required),
    ("-G", Required),
    ("--oneline", Bare),
];

const SHOW: &[(&str, OptionValue)] = &[
    ("--stat", Bare),
    ("--name-only", Bare),
    ("--name-status", Bare),
    ("-U", Required),
];

const ADD: &[(&str, OptionValue)] = &[
    ("-A", Bare),
    ("--all", Bare),
    ("-u", Bare),
    ("--update", Bare),
    ("-N", Bare),
];

const COMMIT: &[(&str, OptionValue)] = &[
    ("-m", Required),
    ("--message", Required),
    ("-a", Bare),
    ("--all", Bare),
    ("--amend", Bare),
    ("--no-edit", Bare),
    ("--allow-empty", Bare),
    ("--author", Required),
    ("--date", Required),
    ("--signoff", Bare),
    ("-s", Bare),
];

const BRANCH: &[(&str, OptionValue)] = &[
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

const CHECKOUT: &[(&str, OptionValue)] = &[
    ("-b", Required),
    ("--detach", Bare),
    ("-f", Bare),
    ("--force", Bare),
    ("--ours", Bare),
    ("--theirs", Bare),
];

fn allowed_options(operation: Operation) -> &'static [(&'static str, OptionValue)] {
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

impl Args {
    /// Parses the arguments of an operation.
    pub fn parse(operation: Operation, args: &[String]) -> Result<Self> {
        let allowed = allowed_options(operation);
        let mut parsed = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                parsed.paths.extend(args.cloned());
                break;
            }
            if !arg.starts_with('-') || arg == "-" && operation == Operation::Checkout {
                parsed.names.push(arg.clone());
                continue;
            }
            // `-5` means `-n 5`.
            if operation == Operation::Log
                && arg.len() > 1
                && arg[1..].bytes().all(|byte| byte.is_ascii_digit())
            {
                parsed.options.push(format!("-n{}", &arg[1..]));
                continue;
            }
            let ((option, kind), value) = split_option(allowed, arg)
                .ok_or_else(|| unsupported_option(operation, allowed, arg))?;
            let joined = |value: &str| {
                if option.starts_with("--") {
                    format!("{option}={value}")
                } else {
                    format!("{option}{value}")
                }
            };
            parsed.options.push(match (kind, value) {
                (Bare | Optional, None) => option.to_owned(),
                (Required | Optional, Some(value)) => joined(value),
                (Required, None) => match args.next() {
                    Some(value) => joined(value),
                    None => {
                        return Err(Error::invalid_input(format_args!(
                            "`{option}` needs a value"
                        )));
                    }
                },
                (Bare, Some(_)) => return Err(unsupported_option(operation, allowed, arg)),
            });
        }
        Ok(parsed)
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

    /// Returns the options and names as arguments for git.
    pub fn options_and_names(&self) -> Vec<&str> {
        self.options
            .iter()
            .chain(&self.names)
            .map(String::as_str)
            .collect()
    }
}

/// Finds the allowed option in an argument, and splits off a value in the same word. `None` for other options.
fn split_option<'a>(
    allowed: &'static [(&'static str, OptionValue)],
    arg: &'a str,
) -> Option<((&'static str, OptionValue), Option<&'a str>)> {
    let (name, value) = if arg.starts_with("--") {
        match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        }
    } else {
        // A single letter and the value directly after it.
        let end = arg.char_indices().nth(2).map_or(arg.len(), |(at, _)| at);
        let value = &arg[end..];
        (&arg[..end], (!value.is_empty()).then_some(value))
    };
    let option = allowed.iter().find(|(option, _)| *option == name)?;
    Some((*option, value))
}

fn unsupported_option(operation: Operation, allowed: &[(&str, OptionValue)], arg: &str) -> Error {
    let known: Vec<&str> = allowed.iter().map(|(option, _)| *option).collect();
    let name = operation.as_str();
    let accepted = if known.is_empty() {
        "takes no options, only paths after `--`".to_owned()
    } else {
        format!("takes {}", known.join(", "))
    };
    Error::invalid_input(format_args!(
        "`{}` is not supported: `{name}` {accepted}; write each short option as its own word, or run git through `exec`",
        text::brief(arg)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_sdk::Code;

    fn parse(operation: Operation, args: &[&str]) -> Result<Args> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        Args::parse(operation, &args)
    }

    #[test]
    fn git_options_names_and_paths_are_separated() {
        let args = parse(
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
        assert_eq!(args.options, ["--staged", "-U5", "--unified=1", "-S-x"]);
        assert_eq!(args.names, ["main..topic"]);
        assert_eq!(args.paths, ["--output=x", "a b"]);
        assert!(args.has(&["--cached", "--staged"]) && args.has(&["-U"]) && !args.has(&["--stat"]));
        assert_eq!(parse(Operation::Log, &["-5"]).unwrap().options, ["-n5"]);
        assert_eq!(
            parse(Operation::Commit, &["-m", "--amend"])
                .unwrap()
                .options,
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
            let error = parse(operation, &[arg]).unwrap_err();
            assert_eq!(*error.code(), Code::InvalidInput, "{arg}: {error}");
        }
    }
}
