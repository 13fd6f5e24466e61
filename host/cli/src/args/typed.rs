//! The second step of parsing: turns a raw command line into a command that can be carried out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::arguments::Words;
use crate::commands::{ChatWish, HelpPage, RunWish};
use crate::exit::Failure;

use super::{
    AddWish, ApprovalsWish, Approve, AuditWish, ConfigWish, Format, Lang, McpWish, PolicyWish, Raw,
    RawCommand, SecretsWish, ServeWish, ToolsWish, TrustWish,
};

/// Options that every command has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globals {
    /// The workspace, if given.
    pub workspace: Option<PathBuf>,
    /// True if the result is printed as JSON.
    pub json: bool,
}

/// A validated command line.
#[derive(Debug, PartialEq)]
pub struct Invocation {
    /// The global options.
    pub globals: Globals,
    /// The command.
    pub command: Command,
}

/// A command with its arguments.
#[derive(Debug, PartialEq)]
pub enum Command {
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
        words: Words,
        /// Answer to approval questions.
        approve: Approve,
        /// Wall-clock limit of the call.
        timeout: Option<Duration>,
    },
    /// Lists tools, or switches them.
    Tools(ToolsWish),
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
        lang: Lang,
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
        format: Format,
        /// Names of the tools; all if empty.
        tools: Vec<String>,
    },
    /// Installs a component into `.mimir/tools`.
    ToolsAdd(AddWish),
    /// Grants a plugin the rights that it needs.
    ToolsTrust(TrustWish),
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
    Run(RunWish),
    /// Chats with an agent.
    Chat(ChatWish),
    /// Serves the tools over MCP.
    Serve(ServeWish),
    /// Explains or checks the rules, or accepts settings.
    Policy(PolicyWish),
    /// Manages secrets.
    Secrets(SecretsWish),
    /// Manages approvals.
    Approvals(ApprovalsWish),
    /// Undoes a change.
    Undo(UndoWish),
    /// Masks stdin.
    Redact,
    /// Lists the masking rules.
    RedactRules,
    /// Verifies or prints the audit log.
    Audit(AuditWish),
    /// Manages config files.
    Config(ConfigWish),
    /// Manages MCP servers.
    Mcp(McpWish),
    /// Checks the installation and the settings.
    Doctor,
    /// Prints the licences of the components in the binary.
    Licences,
    /// Prints a completion script.
    Completions(clap_complete::Shell),
}

/// Commands of `mimir undo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoWish {
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
pub enum Unread {
    /// clap's own output for a person: a usage error, `--help` or `--version`.
    Clap(clap::Error),
    /// The arguments contradict each other.
    Usage {
        /// True if the error is printed as JSON.
        json: bool,
        /// The error.
        failure: Box<Failure>,
    },
}

impl Invocation {
    /// Reads a command line; the first argument is the program's name.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, Unread> {
        let args: Vec<OsString> = args.into_iter().collect();
        let raw = Raw::try_parse_from(&args).map_err(|error| unread(error, &args))?;
        let globals = Globals {
            workspace: raw.global.workspace,
            json: raw.global.json,
        };
        let read = match raw.command {
            Some(RawCommand::Help { words }) => match HelpPage::find(&words) {
                Ok(Some(page)) => Ok(Command::Manual(page)),
                Ok(None) => return Err(printed(words, "--help")),
                Err(failure) => Err(failure),
            },
            Some(RawCommand::Version) => return Err(printed(Vec::new(), "--version")),
            // A caller that asks for JSON wants a result; the help text is not one.
            None if globals.json => Err(Failure::usage(
                "a command is missing; `mimir --help` lists the commands",
            )),
            raw => command(raw),
        };
        match read {
            Ok(command) => Ok(Self { globals, command }),
            Err(failure) => Err(Unread::Usage {
                json: globals.json,
                failure: Box::new(failure),
            }),
        }
    }
}

/// The text that clap prints for a command with `--help` or `--version`.
fn printed(command: Vec<String>, flag: &str) -> Unread {
    let words = std::iter::once("mimir".to_owned()).chain(command);
    match Raw::try_parse_from(words.chain([flag.to_owned()])) {
        Err(error) => Unread::Clap(error),
        Ok(_) => Unread::Usage {
            json: false,
            failure: Box::new(Failure::usage("`mimir --help` lists the commands")),
        },
    }
}

/// Returns a usage error as JSON if that was requested, and everything else as clap prints it.
fn unread(error: clap::Error, args: &[OsString]) -> Unread {
    // clap failed before it parsed `--json`, so look for it in the raw words; after `--` it would not be an option.
    let mut words = args.iter().take_while(|word| *word != "--");
    if !error.use_stderr() || !words.any(|word| word == "--json") {
        return Unread::Clap(error);
    }
    let message = match error.kind() {
        // clap prints the help here, whose first line does not say what is wrong.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => incomplete(args),
        _ => sentence(&error.render().to_string()),
    };
    Unread::Usage {
        json: true,
        failure: Box::new(Failure::usage(message)),
    }
}

/// Says which subcommand is missing.
fn incomplete(args: &[OsString]) -> String {
    let root = <Raw as CommandFactory>::command();
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

fn command(raw: Option<RawCommand>) -> Result<Command, Failure> {
    Ok(match raw {
        None => Command::Help,
        Some(RawCommand::Init) => Command::Init,
        Some(RawCommand::Call(call)) => Command::Call {
            tool: call.tool,
            words: Words::read(call.arguments)?,
            approve: call.approve,
            timeout: call.timeout,
        },
        Some(RawCommand::Tools { command }) => match command {
            None => Command::Tools(ToolsWish::Pick),
            Some(tools) => tools.typed(),
        },
        Some(RawCommand::Schema { format, tools }) => Command::Schema { format, tools },
        Some(RawCommand::Run(run)) => Command::Run(RunWish {
            task: run.task,
            model: run.model,
            worker: run.worker,
            approve: run.approve,
        }),
        Some(RawCommand::Chat(chat)) => Command::Chat(ChatWish {
            resume: chat.resume,
            model: chat.model,
        }),
        Some(RawCommand::Serve(serve)) => Command::Serve(serve.typed()),
        Some(RawCommand::Policy { command }) => Command::Policy(command.typed()?),
        Some(RawCommand::Secrets { command }) => {
            Command::Secrets(command.map_or(SecretsWish::List, super::gates::RawSecrets::typed))
        }
        Some(RawCommand::Approvals { command }) => Command::Approvals(
            command.map_or(ApprovalsWish::List, super::gates::RawApprovals::typed),
        ),
        Some(RawCommand::Undo { list: true, .. }) => Command::Undo(UndoWish::List),
        Some(RawCommand::Redact { rules: true }) => Command::RedactRules,
        Some(RawCommand::Redact { rules: false }) => Command::Redact,
        Some(RawCommand::Undo { id, force, yes, .. }) => {
            Command::Undo(UndoWish::Restore { id, force, yes })
        }
        Some(RawCommand::Audit { command }) => Command::Audit(command.into()),
        Some(RawCommand::Mcp { command }) => {
            Command::Mcp(command.map_or(McpWish::List, super::mcp::RawMcp::typed))
        }
        Some(RawCommand::Config { command }) => Command::Config(command.into()),
        Some(RawCommand::Doctor) => Command::Doctor,
        // Handled where the line is parsed.
        Some(RawCommand::Help { .. } | RawCommand::Version) => Command::Help,
        Some(RawCommand::Licences) => Command::Licences,
        Some(RawCommand::Completions { shell }) => Command::Completions(shell),
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
    use crate::arguments::{Pair, Words};

    fn read(line: &[&str]) -> Result<Invocation, Unread> {
        let words = std::iter::once("mimir").chain(line.iter().copied());
        Invocation::read(words.map(OsString::from))
    }

    #[test]
    fn clap_agrees_with_itself() {
        <Raw as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn help_and_version_are_commands_too() {
        let text = |line: &[&str]| match read(line) {
            Err(Unread::Clap(error)) => (error.exit_code(), error.render().to_string()),
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
            assert!(matches!(command, Command::Manual(_)), "{command:?}");
        }
        let (code, message) = text(&["help", "tools", "bogus"]);
        assert!(code == 2 && message.contains("bogus"), "{message}");
        let Err(Unread::Usage { failure, .. }) = read(&["help", "script"]) else {
            panic!("not a usage error");
        };
        assert!(failure.to_string().contains("`scripts`"), "{failure}");
    }

    #[test]
    fn a_call_is_typed() {
        let line = "call git operation=log --approve never --timeout 1500ms -C x --json";
        let words: Vec<&str> = line.split(' ').collect();
        let invocation = read(&words).unwrap();
        assert_eq!(invocation.globals.workspace, Some("x".into()));
        assert!(invocation.globals.json);
        let Command::Call {
            tool,
            words,
            approve,
            timeout,
        } = invocation.command
        else {
            panic!("not a call");
        };
        assert_eq!((tool.as_str(), approve), ("git", Approve::Never));
        assert_eq!(timeout, Some(Duration::from_millis(1500)));
        assert_eq!(words, Words::Pairs(vec![Pair::text("operation", "log")]));
    }

    #[test]
    fn globals_may_stand_anywhere() {
        for line in [&["--json", "doctor"][..], &["doctor", "--json"]] {
            assert!(read(line).unwrap().globals.json);
        }
    }

    #[test]
    fn no_command_is_help_and_tools_alone_is_a_screen() {
        assert_eq!(read(&[]).unwrap().command, Command::Help);
        assert_eq!(
            read(&["tools"]).unwrap().command,
            Command::Tools(ToolsWish::Pick)
        );
        assert_eq!(
            read(&["undo"]).unwrap().command,
            Command::Undo(UndoWish::Restore {
                id: None,
                force: false,
                yes: false
            })
        );
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        assert!(matches!(
            read(&["call", "t", "word"]),
            Err(Unread::Usage { .. })
        ));
        assert!(matches!(
            read(&["undo", "--list", "x"]),
            Err(Unread::Clap(_))
        ));
        assert!(matches!(
            read(&["call", "t", "--timeout", "0s"]),
            Err(Unread::Clap(_))
        ));
    }

    #[test]
    fn who_reads_json_is_told_in_json() {
        let told = |line: &[&str]| match read(line) {
            Err(Unread::Usage {
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
            assert!(matches!(read(plain), Err(Unread::Clap(_))), "{plain:?}");
        }
    }

    #[test]
    fn what_is_for_http_goes_with_it() {
        let command = read(&["serve"]).unwrap().command;
        assert_eq!(command, Command::Serve(ServeWish::Stdio));
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
            assert!(matches!(read(alone), Err(Unread::Clap(_))), "{alone:?}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "s", "5x", "0", "0.5ms", "99h", "1e9", "1.2.3s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
