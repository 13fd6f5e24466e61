//! Parsing of the command line, including usage errors as JSON and `mimir help COMMAND`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::commands::HelpPage;
use crate::exit::CommandFailure;

use super::command_hints::{command_hint, unknown_command};
use super::{CliArgs, CliCommand};

/// Reason why no command is run.
#[derive(Debug)]
pub enum CliParseError {
    /// Output of clap: a usage error, or the text of `--help` or `--version`.
    Clap(clap::Error),
    /// Usage error that mimir prints itself.
    Usage {
        /// True if the error is printed as JSON.
        json: bool,
        /// The error.
        failure: Box<CommandFailure>,
    },
}

impl CliArgs {
    /// Parses a command line, whose first word is the name of the program.
    pub fn parse_line(words: impl IntoIterator<Item = OsString>) -> Result<Self, CliParseError> {
        let words: Vec<OsString> = words.into_iter().collect();
        let args = Self::try_parse_from(&words).map_err(|error| usage_error(error, &words))?;
        match args.command {
            Some(CliCommand::Help { words }) if matches!(HelpPage::find(&words), Ok(None)) => {
                Err(clap_output(words, "--help"))
            }
            Some(CliCommand::Version) => Err(clap_output(Vec::new(), "--version")),
            // With `--json` the caller expects JSON, which the help text is not.
            None if args.globals.json => Err(CliParseError::Usage {
                json: true,
                failure: Box::new(CommandFailure::usage(
                    "a command is missing; `mimir --help` lists the commands",
                )),
            }),
            _ => Ok(args),
        }
    }
}

/// Returns the text that clap prints for a command with `--help` or `--version`.
fn clap_output(command: Vec<String>, flag: &str) -> CliParseError {
    let words = std::iter::once("mimir".to_owned()).chain(command);
    match CliArgs::try_parse_from(words.chain([flag.to_owned()])) {
        Err(error) => CliParseError::Clap(error),
        Ok(_) => CliParseError::Usage {
            json: false,
            failure: Box::new(CommandFailure::usage("`mimir --help` lists the commands")),
        },
    }
}

/// Converts an error of clap. With `--json`, a usage error is printed as JSON; all other text is printed by clap.
fn usage_error(error: clap::Error, args: &[OsString]) -> CliParseError {
    // clap failed before it parsed `--json`, so search the raw words for it. After `--` it is not an option.
    let mut words = args.iter().take_while(|word| *word != "--");
    let json = words.any(|word| word == "--json");
    if error.use_stderr()
        && let Some(message) = hint_for(args)
    {
        let failure = Box::new(CommandFailure::usage(message));
        return CliParseError::Usage { json, failure };
    }
    if !error.use_stderr() || !json {
        return CliParseError::Clap(error);
    }
    let message = match error.kind() {
        // clap prints the help in this case, which does not say what is wrong.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => missing_subcommand(args),
        _ => one_line_message(&error.render().to_string()),
    };
    CliParseError::Usage {
        json: true,
        failure: Box::new(CommandFailure::usage(message)),
    }
}

/// The message that names the command which is meant, if the command line begins with a known slip.
fn hint_for(args: &[OsString]) -> Option<String> {
    let words = args.iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let root = <CliArgs as CommandFactory>::command();
    let (word, rest) = unknown_command(&root, &words)?;
    command_hint(word, rest)
}

/// Returns the message for a missing subcommand, which lists the subcommands.
fn missing_subcommand(args: &[OsString]) -> String {
    let root = <CliArgs as CommandFactory>::command();
    let words = args.iter().skip(1).filter_map(|word| word.to_str());
    let command = words.fold(&root, |at, word| at.find_subcommand(word).unwrap_or(at));
    let names: Vec<_> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let (name, names) = (command.get_name(), names.join("`, `"));
    format!("`mimir {name}` needs one of `{names}`; `mimir {name} --help` explains them")
}

/// Returns the error message of clap on one line, without the usage text that follows it.
pub(super) fn one_line_message(rendered: &str) -> String {
    let message = rendered.split("\n\nUsage:").next().unwrap_or(rendered);
    let message = message
        .split("\n\nFor more information")
        .next()
        .unwrap_or(message);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::{ApproveMode, ReplicaArgs, ServeArgs, UndoArgs};
    use crate::arguments::{ArgumentInput, ArgumentPair};
    use crate::exit::ExitReason;

    fn read(line: &[&str]) -> Result<CliArgs, CliParseError> {
        let words = std::iter::once("mimir").chain(line.iter().copied());
        CliArgs::parse_line(words.map(OsString::from))
    }

    #[test]
    fn clap_definition_passes_debug_assert() {
        <CliArgs as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn help_and_version_are_commands_too() {
        let text = |line: &[&str]| match read(line) {
            Err(CliParseError::Clap(error)) => (error.exit_code(), error.render().to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            text(&["help", "tools", "build"]),
            text(&["tools", "build", "--help"])
        );
        assert_eq!(text(&["help", "call"]), text(&["call", "--help"]));
        assert_eq!(text(&["version"]), text(&["--version"]));
        assert_eq!(text(&["--help"]).0, 0);
        for line in [&["help"][..], &["help", "scripts"], &["help", "tools"]] {
            let Some(CliCommand::Help { words }) = read(line).unwrap().command else {
                panic!("{line:?} is not a page");
            };
            assert!(matches!(HelpPage::find(&words), Ok(Some(_))), "{words:?}");
        }
        let (code, message) = text(&["help", "tools", "bogus"]);
        assert!(code == 2 && message.contains("bogus"), "{message}");
        let Some(CliCommand::Help { words }) = read(&["help", "script"]).unwrap().command else {
            panic!("not a page");
        };
        let failure = HelpPage::find(&words).unwrap_err().to_string();
        assert!(failure.contains("`scripts`"), "{failure}");
    }

    #[test]
    fn call_arguments_parse_to_a_command() {
        let line = "call git operation=log --approve never --timeout 1500ms -C x --json";
        let words: Vec<&str> = line.split(' ').collect();
        let args = read(&words).unwrap();
        assert_eq!(args.globals.workspace, Some("x".into()));
        assert!(args.globals.json);
        let Some(CliCommand::Call(call)) = args.command else {
            panic!("not a call");
        };
        assert_eq!(
            (call.tool.as_str(), call.approve),
            ("git", ApproveMode::Never)
        );
        assert_eq!(call.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(
            ArgumentInput::parse(call.arguments).unwrap(),
            ArgumentInput::Pairs(vec![ArgumentPair::text("operation", "log")])
        );
    }

    #[test]
    fn global_options_are_accepted_before_and_after_the_command() {
        for line in [&["--json", "doctor"][..], &["doctor", "--json"]] {
            assert!(read(line).unwrap().globals.json);
        }
    }

    #[test]
    fn command_defaults_are_help_tool_browser_and_undo() {
        assert_eq!(read(&[]).unwrap().command, None);
        assert_eq!(
            read(&["tools"]).unwrap().command,
            Some(CliCommand::Tools { command: None })
        );
        assert_eq!(
            read(&["undo"]).unwrap().command,
            Some(CliCommand::Undo(UndoArgs {
                id: None,
                list: false,
                force: false,
                yes: false
            }))
        );
    }

    #[test]
    fn invalid_arguments_are_a_usage_error() {
        let Some(CliCommand::Call(call)) = read(&["call", "t", "word"]).unwrap().command else {
            panic!("not a call");
        };
        assert!(matches!(
            ArgumentInput::parse(call.arguments),
            Err(CommandFailure::Reported {
                exit: ExitReason::Usage,
                ..
            })
        ));
        assert!(matches!(
            read(&["undo", "--list", "x"]),
            Err(CliParseError::Clap(_))
        ));
        assert!(matches!(
            read(&["call", "t", "--timeout", "0s"]),
            Err(CliParseError::Clap(_))
        ));
    }

    #[test]
    fn json_option_turns_usage_errors_into_json() {
        let told = |line: &[&str]| match read(line) {
            Err(CliParseError::Usage {
                json: true,
                failure,
            }) => failure.to_string(),
            other => panic!("{line:?}: {other:?}"),
        };
        let said = told(&["tols", "--json"]);
        assert!(
            said.contains("unrecognized subcommand 'tols'") && said.contains("'tools'"),
            "{said}"
        );
        assert!(!said.contains("Usage") && !said.contains('\n'), "{said}");
        let said = told(&["--json", "call"]);
        assert!(said.contains("<TOOL>"), "{said}");
        assert!(told(&["--json"]).contains("--help"));
        let said = told(&["--json", "config"]);
        assert!(said.contains("`mimir config` needs one of `"), "{said}");
        assert!(said.contains("`check`"), "{said}");
        for plain in [
            &["tols"][..],
            &["tols", "--", "--json"],
            &["--json", "--help"],
            &["--json", "--version"],
        ] {
            assert!(
                matches!(read(plain), Err(CliParseError::Clap(_))),
                "{plain:?}"
            );
        }
    }

    #[test]
    fn common_slips_are_answered_with_the_command_to_type() {
        for (line, json, wanted) in [
            (
                &["install", "x.wasm"][..],
                false,
                "`mimir tools add x.wasm`",
            ),
            (
                &["tool", "list", "--json"],
                true,
                "`mimir tools list --json`",
            ),
            (&["-C", "tools", "server"], false, "`mimir serve`"),
        ] {
            let Err(CliParseError::Usage {
                json: is_json,
                failure,
            }) = read(line)
            else {
                panic!("{line:?} has no hint");
            };
            let message = failure.to_string();
            assert!(message.contains(wanted) && is_json == json, "{message}");
        }
    }

    #[test]
    fn serve_http_options_require_http() {
        let command = read(&["serve"]).unwrap().command;
        let defaults = ServeArgs {
            groups_claim: "groups".to_owned(),
            replica: ReplicaArgs {
                drain_timeout: Duration::from_secs(10),
                ..ReplicaArgs::default()
            },
            ..ServeArgs::default()
        };
        assert_eq!(command, Some(CliCommand::Serve(defaults)));
        for alone in [
            &["serve", "--token"][..],
            &["serve", "--issuer", "https://a"],
            &["serve", "--http", "80", "--scope", "a"],
            &["serve", "--http", "80", "--client-id", "a"],
            &[
                "serve",
                "--http",
                "80",
                "--issuer",
                "https://a",
                "--client-id",
                "a",
                "--client-secret",
                "the-secret-itself",
            ],
            &["serve", "--http", "80", "--token", "--issuer", "https://a"],
            &[
                "serve",
                "--http",
                "80",
                "--issuer",
                "https://a",
                "--scope",
                "a b",
            ],
        ] {
            assert!(
                matches!(read(alone), Err(CliParseError::Clap(_))),
                "{alone:?}"
            );
        }
    }
}
