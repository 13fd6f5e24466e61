//! The second step of parsing: turns a raw command line into a command that can be carried out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::arguments::ArgumentInput;
use crate::commands::{ChatCommand, HelpPage, RunCommand};
use crate::exit::CommandFailure;

use super::{
    ApprovalsCommand, ApproveMode, AuditCommand, CliArgs, CommandArgs, ConfigCommand,
    DefinitionFormat, McpCommand, PolicyCommand, SecretsCommand, ServeCommand, ToolLanguage,
    ToolsAddCommand, ToolsCommand, ToolsTrustCommand,
};

/// Options that every command has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobalOptions {
    /// The workspace, if given.
    pub workspace: Option<PathBuf>,
    /// True if the result is printed as JSON.
    pub json: bool,
}

/// A validated command line.
#[derive(Debug, PartialEq)]
pub struct Invocation {
    /// The global options.
    pub globals: GlobalOptions,
    /// The command.
    pub command: CliCommand,
}

/// A command with its arguments.
#[derive(Debug, PartialEq)]
pub enum CliCommand {
    /// Prints the help.
    Help,
    /// Prints a page of the manual.
    Manual(HelpPage),
    /// Creates `.mimir`.
    Init,
    /// Calls a tool.
    Call {
        /// Name or alias.
        tool: String,
        /// The arguments as typed.
        words: ArgumentInput,
        /// Answer to approval questions.
        approve: ApproveMode,
        /// Wall-clock limit of the call.
        timeout: Option<Duration>,
    },
    /// Lists tools, or switches them.
    Tools(ToolsCommand),
    /// Checks a script for errors.
    ToolsCheck {
        /// The file.
        file: PathBuf,
    },
    /// Creates a plugin, or a tool in a YAML file.
    ToolsNew {
        /// The name as typed.
        name: String,
        /// Its language.
        lang: ToolLanguage,
        /// Target folder or file.
        dir: Option<PathBuf>,
    },
    /// Prints the schema of a tool in a YAML file.
    ToolsSchema,
    /// Prints the types available to its code.
    ToolsTypes,
    /// Compiles a plugin.
    ToolsBuild {
        /// Its path.
        dir: PathBuf,
    },
    /// Prints definitions.
    Schema {
        /// Their format.
        format: DefinitionFormat,
        /// Names of the tools; all if empty.
        tools: Vec<String>,
    },
    /// Installs a component into `.mimir/tools`.
    ToolsAdd(ToolsAddCommand),
    /// Grants a plugin the rights that it needs.
    ToolsTrust(ToolsTrustCommand),
    /// Removes a file from `.mimir/tools`.
    ToolsRemove {
        /// A tool or a file.
        name: String,
        /// True if no confirmation is asked for.
        yes: bool,
    },
    /// Revokes a grant.
    ToolsRevoke {
        /// A tool or a file.
        name: String,
    },
    /// Has an agent work on a task.
    Run(RunCommand),
    /// Chats with an agent.
    Chat(ChatCommand),
    /// Serves the tools over MCP.
    Serve(ServeCommand),
    /// Explains or checks the rules, or accepts settings.
    Policy(PolicyCommand),
    /// Manages secrets.
    Secrets(SecretsCommand),
    /// Manages approvals.
    Approvals(ApprovalsCommand),
    /// Undoes a change.
    Undo(UndoCommand),
    /// Masks stdin.
    Redact,
    /// Lists the masking rules.
    RedactRules,
    /// Verifies or prints the audit log.
    Audit(AuditCommand),
    /// Manages config files.
    Config(ConfigCommand),
    /// Manages MCP servers.
    Mcp(McpCommand),
    /// Checks the installation and the settings.
    Doctor,
    /// Prints the licences of the components in the binary.
    Licences,
    /// Prints a completion script.
    Completions(clap_complete::Shell),
}

/// Commands of `mimir undo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoCommand {
    /// Lists the changes that can be undone.
    List,
    /// Undoes one change.
    Restore {
        /// ID of the change; the newest if `None`.
        id: Option<String>,
        /// True to undo even if the file has changed since.
        force: bool,
        /// True to undo even if the newest change is older than an hour.
        yes: bool,
    },
}

/// Reason why a command line cannot be carried out.
#[derive(Debug)]
pub enum CliParseError {
    /// clap's own output for a person: a usage error, `--help` or `--version`.
    Clap(clap::Error),
    /// The arguments contradict each other.
    Usage {
        /// True if the error is printed as JSON.
        json: bool,
        /// The error.
        failure: Box<CommandFailure>,
    },
}

impl Invocation {
    /// Reads a command line; the first argument is the program's name.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, CliParseError> {
        let args: Vec<OsString> = args.into_iter().collect();
        let raw = CliArgs::try_parse_from(&args).map_err(|error| usage_error(error, &args))?;
        let globals = GlobalOptions {
            workspace: raw.global.workspace,
            json: raw.global.json,
        };
        let read = match raw.command {
            Some(CommandArgs::Help { words }) => match HelpPage::find(&words) {
                Ok(Some(page)) => Ok(CliCommand::Manual(page)),
                Ok(None) => return Err(printed(words, "--help")),
                Err(failure) => Err(failure),
            },
            Some(CommandArgs::Version) => return Err(printed(Vec::new(), "--version")),
            // A caller that asks for JSON wants a result; the help text is not one.
            None if globals.json => Err(CommandFailure::usage(
                "a command is missing; `mimir --help` lists the commands",
            )),
            raw => command(raw),
        };
        match read {
            Ok(command) => Ok(Self { globals, command }),
            Err(failure) => Err(CliParseError::Usage {
                json: globals.json,
                failure: Box::new(failure),
            }),
        }
    }
}

/// The text that clap prints for a command with `--help` or `--version`.
fn printed(command: Vec<String>, flag: &str) -> CliParseError {
    let words = std::iter::once("mimir".to_owned()).chain(command);
    match CliArgs::try_parse_from(words.chain([flag.to_owned()])) {
        Err(error) => CliParseError::Clap(error),
        Ok(_) => CliParseError::Usage {
            json: false,
            failure: Box::new(CommandFailure::usage("`mimir --help` lists the commands")),
        },
    }
}

/// Returns a usage error as JSON if that was requested, and everything else as clap prints it.
fn usage_error(error: clap::Error, args: &[OsString]) -> CliParseError {
    // clap failed before it parsed `--json`, so look for it in the raw words; after `--` it would not be an option.
    let mut words = args.iter().take_while(|word| *word != "--");
    if !error.use_stderr() || !words.any(|word| word == "--json") {
        return CliParseError::Clap(error);
    }
    let message = match error.kind() {
        // clap prints the help here, whose first line does not say what is wrong.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => incomplete(args),
        _ => sentence(&error.render().to_string()),
    };
    CliParseError::Usage {
        json: true,
        failure: Box::new(CommandFailure::usage(message)),
    }
}

/// Says which subcommand is missing.
fn incomplete(args: &[OsString]) -> String {
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

/// clap's error message on one line, without the usage text that follows.
pub(super) fn sentence(rendered: &str) -> String {
    let wrong = rendered.split("\n\nUsage:").next().unwrap_or(rendered);
    let wrong = wrong
        .split("\n\nFor more information")
        .next()
        .unwrap_or(wrong);
    let wrong = wrong.strip_prefix("error: ").unwrap_or(wrong);
    let words: Vec<&str> = wrong.split_whitespace().collect();
    words.join(" ")
}

fn command(raw: Option<CommandArgs>) -> Result<CliCommand, CommandFailure> {
    Ok(match raw {
        None => CliCommand::Help,
        Some(CommandArgs::Init) => CliCommand::Init,
        Some(CommandArgs::Call(call)) => CliCommand::Call {
            tool: call.tool,
            words: ArgumentInput::parse(call.arguments)?,
            approve: call.approve,
            timeout: call.timeout,
        },
        Some(CommandArgs::Tools { command }) => match command {
            None => CliCommand::Tools(ToolsCommand::Pick),
            Some(tools) => tools.into_command(),
        },
        Some(CommandArgs::Schema { format, tools }) => CliCommand::Schema { format, tools },
        Some(CommandArgs::Run(run)) => CliCommand::Run(RunCommand {
            task: run.task,
            model: run.model,
            worker: run.worker,
            approve: run.approve,
        }),
        Some(CommandArgs::Chat(chat)) => CliCommand::Chat(ChatCommand {
            resume: chat.resume,
            model: chat.model,
        }),
        Some(CommandArgs::Serve(serve)) => CliCommand::Serve(serve.into_command()),
        Some(CommandArgs::Policy { command }) => CliCommand::Policy(command.into_command()?),
        Some(CommandArgs::Secrets { command }) => CliCommand::Secrets(command.map_or(
            SecretsCommand::List,
            super::access::SecretsArgs::into_command,
        )),
        Some(CommandArgs::Approvals { command }) => CliCommand::Approvals(command.map_or(
            ApprovalsCommand::List,
            super::access::ApprovalsArgs::into_command,
        )),
        Some(CommandArgs::Undo { list: true, .. }) => CliCommand::Undo(UndoCommand::List),
        Some(CommandArgs::Redact { rules: true }) => CliCommand::RedactRules,
        Some(CommandArgs::Redact { rules: false }) => CliCommand::Redact,
        Some(CommandArgs::Undo { id, force, yes, .. }) => {
            CliCommand::Undo(UndoCommand::Restore { id, force, yes })
        }
        Some(CommandArgs::Audit { command }) => CliCommand::Audit(command.into()),
        Some(CommandArgs::Mcp { command }) => {
            CliCommand::Mcp(command.map_or(McpCommand::List, super::mcp::McpArgs::into_command))
        }
        Some(CommandArgs::Config { command }) => CliCommand::Config(command.into()),
        Some(CommandArgs::Doctor) => CliCommand::Doctor,
        // Handled where the line is parsed.
        Some(CommandArgs::Help { .. } | CommandArgs::Version) => CliCommand::Help,
        Some(CommandArgs::Licences) => CliCommand::Licences,
        Some(CommandArgs::Completions { shell }) => CliCommand::Completions(shell),
    })
}

/// Shortest and longest `--timeout`: the range of a wall-clock limit in a config.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses `500ms`, `5s` or `2m`; a number without a unit is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`: use ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "expected a number and a unit, such as 500ms, 5s or 2m".to_owned())?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())?;
    if time < SHORTEST || time > LONGEST {
        return Err("out of range: expected 1ms to 24h".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{ArgumentInput, ArgumentPair};

    fn read(line: &[&str]) -> Result<Invocation, CliParseError> {
        let words = std::iter::once("mimir").chain(line.iter().copied());
        Invocation::parse(words.map(OsString::from))
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
            let command = read(line).unwrap().command;
            assert!(matches!(command, CliCommand::Manual(_)), "{command:?}");
        }
        let (code, message) = text(&["help", "tools", "bogus"]);
        assert!(code == 2 && message.contains("bogus"), "{message}");
        let Err(CliParseError::Usage { failure, .. }) = read(&["help", "script"]) else {
            panic!("not a usage error");
        };
        assert!(failure.to_string().contains("`scripts`"), "{failure}");
    }

    #[test]
    fn call_arguments_parse_to_a_command() {
        let line = "call git operation=log --approve never --timeout 1500ms -C x --json";
        let words: Vec<&str> = line.split(' ').collect();
        let invocation = read(&words).unwrap();
        assert_eq!(invocation.globals.workspace, Some("x".into()));
        assert!(invocation.globals.json);
        let CliCommand::Call {
            tool,
            words,
            approve,
            timeout,
        } = invocation.command
        else {
            panic!("not a call");
        };
        assert_eq!((tool.as_str(), approve), ("git", ApproveMode::Never));
        assert_eq!(timeout, Some(Duration::from_millis(1500)));
        assert_eq!(
            words,
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
        assert_eq!(read(&[]).unwrap().command, CliCommand::Help);
        assert_eq!(
            read(&["tools"]).unwrap().command,
            CliCommand::Tools(ToolsCommand::Pick)
        );
        assert_eq!(
            read(&["undo"]).unwrap().command,
            CliCommand::Undo(UndoCommand::Restore {
                id: None,
                force: false,
                yes: false
            })
        );
    }

    #[test]
    fn invalid_arguments_are_a_usage_error() {
        assert!(matches!(
            read(&["call", "t", "word"]),
            Err(CliParseError::Usage { .. })
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
    fn serve_http_options_require_http() {
        let command = read(&["serve"]).unwrap().command;
        assert_eq!(command, CliCommand::Serve(ServeCommand::Stdio));
        for alone in [
            &["serve", "--token"][..],
            &["serve", "--issuer", "https://a"],
            &["serve", "--http", "80", "--scope", "a"],
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

    #[test]
    fn duration_argument_accepts_units() {
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "s", "5x", "0", "0.5ms", "99h", "1e9", "1.2.3s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
