//! The command line as types that clap parses. The commands take these types directly.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::log_output::LogFormat;
use crate::output::ResultPrinter;

mod approvals;
mod audit;
mod call;
mod call_switch;
mod cluster;
mod cluster_admin;
mod command_hints;
mod config;
mod console;
mod keys;
mod mcp;
mod parse;
mod plugin_language;
mod policy;
mod secrets;
mod serve;
mod setup;
mod skills;
mod team;
mod team_authoring;
mod telemetry;
mod tools;
mod worker;

pub use approvals::{ApprovalAnswerArgs, ApprovalsCommand};
pub use audit::{AuditCommand, AuditFilter, AuditSource, SinceTime};
pub use call::CallArgs;
pub use call_switch::{StartArgs, StopArgs};
pub use cluster::{ClusterOptions, ClusterScope, NATS_VARIABLE};
pub use cluster_admin::{
    ClusterCommand, ClusterInitArgs, ClusterPublishArgs, ClusterSetupArgs, ClusterStatusArgs,
};
pub use config::ConfigCommand;
pub use console::ConsoleCommandArgs;
pub use keys::{KeysCommand, KeysNewArgs};
pub use mcp::{AllowedTools, CodingAgent, McpAddArgs, McpCommand, ServerTrust};
pub use parse::CliParseError;
pub use plugin_language::PluginLanguage;
pub use policy::PolicyCommand;
pub use secrets::{CanaryArgs, CanaryCommand, SecretsCommand};
pub use serve::ServeArgs;
pub use setup::SetupArgs;
pub use skills::{SkillsAddArgs, SkillsCommand, SkillsPushArgs, SkillsTrustArgs};
pub use team::{TeamCommand, TeamJoinArgs};
pub use team_authoring::{
    TeamAddArgs, TeamApproveArgs, TeamAuthoringCommand, TeamInitArgs, TeamProposeArgs,
    TeamPublishArgs, TeamRejectArgs,
};
pub use telemetry::TelemetryCommand;
pub use tools::{
    OpenApiImportArgs, PluginSourceArgs, PushTargetArgs, ToolListCommand, ToolsAddArgs,
    ToolsBuildArgs, ToolsCommand, ToolsDevArgs, ToolsExportArgs, ToolsImportCommand, ToolsPushArgs,
    ToolsTestArgs, ToolsTrustArgs, ToolsUpdateArgs, secret_need,
};
use worker::workspace_name;
pub use worker::{ReplicaArgs, WorkerArgs};

/// Runs tools for AI agents, each call in a fresh, bounded sandbox.
#[derive(Debug, PartialEq, Parser)]
#[command(
    name = "mimir",
    version,
    long_version = crate::version::long_version(),
    propagate_version = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "\
Examples:
  mimir setup                          add mimir to your agents
  mimir tools list                     list the tools
  mimir call read_file path=README.md  call a tool
  mimir call file_search '{\"mode\":\"grep\",\"query\":\"fuel\"}'
  mimir tools new hello --lang ts      write a tool in one of eight languages
  mimir help                           list the topics of the manual

Exit codes: 0 ok, 1 the tool failed, 2 usage or invalid input, 3 refused, 4 limit or timeout, \
130 interrupted, 143 terminated.
Environment: MIMIR_LOG=debug (log to stderr), MIMIR_LOG_FORMAT=json, MIMIR_CACHE_DIR, MIMIR_CONFIG_DIR, \
MIMIR_TEAM_POLICY (a team's policy file, in addition to the machine's), NO_COLOR, and settings such as \
MIMIR_LIMITS__TIME_MS=5000 (limits.timeMs)."
)]
pub struct CliArgs {
    #[command(flatten)]
    pub globals: GlobalOptions,
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

impl CliArgs {
    /// Returns the format of messages on stderr, if the command has it as an option.
    pub fn log_format(&self) -> Option<LogFormat> {
        match self.command.as_ref()? {
            CliCommand::Serve(args) => args.log_format,
            CliCommand::Worker(args) => args.log_format,
            _ => None,
        }
    }
}

/// Options of every command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct GlobalOptions {
    /// The workspace [default: the nearest folder above with .mimir, else the current folder; `setup` prefers the root
    /// of a git repository]
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

impl GlobalOptions {
    /// Returns the printer of results.
    pub fn printer(&self) -> ResultPrinter {
        ResultPrinter::new(self.json)
    }
}

/// Commands of `mimir`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum CliCommand {
    /// Add mimir to the agents of this machine, make a first tool and call it
    #[command(after_help = "\
Finds Claude Code, Codex, Cursor, VS Code, opencode, Zed, Gemini CLI, Qwen Code and Goose, shows the \
changes of their config files as a diff, and makes them after a yes. A project's own file is preferred; \
those of Codex and Goose are yours. Without a terminal it only prints the plan, unless --yes is given.

The workspace is the nearest folder with .mimir, else the root of the git repository, else this folder.

Exit codes: 0 done, 1 a file could not be changed or no agent was found, 2 usage, 3 nothing was changed, \
because no yes was given.

Examples:
  mimir setup
  mimir setup -C .               this folder alone, not the whole repository
  mimir setup --agent codex --yes
  mimir setup --undo             take it back")]
    Setup(SetupArgs),
    /// Create .mimir with a short config in the workspace
    Init,
    /// Call a tool
    #[command(after_help = "\
Arguments are one JSON object, `-` to read it from stdin, or words:
  key=text     typed by the tool's schema; repeat a key for an array
  key:=JSON    as it is
  key=@FILE    the file's text (key:='\"@x\"' for a text that begins with @)

Examples:
  mimir call read_file path=src/main.rs startLine=1 endLine=20
  mimir call write_file path=notes.md content=@draft.md --approve always
  echo '{\"path\":\".\"}' | mimir call list_directory - --json")]
    Call(CallArgs),
    /// List, switch, show, write and build tools
    #[command(after_help = "\
Without a command, opens a screen to browse the tools and switch them on and off; without a \
terminal, prints the list.

Examples:
  mimir tools list                 the tools, and what each costs in a prompt
  mimir tools disable git          hide a tool from models
  mimir tools tokens --advise      how to save tokens
  mimir tools search rename file")]
    Tools {
        #[command(subcommand)]
        command: Option<ToolsCommand>,
    },
    /// Install, trust and check skills: folders with instructions for agents
    #[command(after_help = "\
Examples:
  mimir skills add registry.example.com/acme/pdf-forms:1.2
  mimir skills trust pdf-forms   show its instructions, and grant what it requests
  mimir skills                   list the skills and their state
  mimir help skills              what skills are, and what they may do")]
    Skills {
        #[command(subcommand)]
        command: Option<SkillsCommand>,
    },
    /// Print the tools' definitions for a model
    Schema {
        /// Format of the definitions
        #[arg(long, value_enum, default_value_t = DefinitionFormat::Mcp)]
        format: DefinitionFormat,
        /// Only these tools
        #[arg(value_name = "TOOL")]
        tools: Vec<String>,
    },
    /// Have an agent work on a task with the tools
    #[command(after_help = "\
The model comes from the settings: `model: PROVIDER/MODEL`, such as anthropic/NAME. Its reply is \
shown as it streams in; if stdout is not a terminal, only the final answer is printed. Activity of the \
agent and approval questions go to stderr. With --json, each event is a line of JSON on stdout, the \
last one `{\"event\": \"end\", ...}`.

Exit codes: 0 done, 1 the model failed, 2 bad settings, 3 refused, 4 a limit of `agent` was reached.

Examples:
  mimir run \"what does this project do?\"
  mimir run - < task.txt > answer.txt
  mimir run --image screenshot.png \"what is wrong here?\"
  mimir run --model local/qwen --approve never --json \"list the TODOs\"")]
    Run(RunArgs),
    /// Chat with an agent that has the tools
    #[command(after_help = "\
End a line with `\\` to continue it; Tab completes commands and tool names. Ctrl-C cancels the \
running tool call, a second one the reply; Ctrl-D ends the chat. `/help` lists the commands, \
`/image FILE` attaches an image. \
Conversations are stored next to your user settings, readable only by you and with secrets masked.

Examples:
  mimir chat
  mimir chat --resume            continue the newest conversation
  mimir chat --search \"slow tests\"
  mimir chat --model local/qwen")]
    Chat(ChatArgs),
    /// Serve the tools to an agent, over MCP
    #[command(after_help = "\
An agent starts this command and speaks the Model Context Protocol over stdin and stdout; messages \
for you go to stderr. When the rules require approval, the agent asks you if it can show a form; \
otherwise the call is refused, and stderr shows the command that would allow it. Changes to tools, \
settings and grants take effect at once.

Examples:
  claude mcp add mimir -- mimir serve -C ~/project      Claude Code
  codex mcp add mimir -- mimir serve -C ~/project       Codex
  mimir serve --http 8808                               http://127.0.0.1:8808/mcp, /healthz, /readyz, /metrics
  mimir serve --http 8808 --nats tls://nats.example:4222 --pool
                                                        one of several servers, whose calls run on workers")]
    Serve(ServeArgs),
    /// Run the calls of `mimir serve --pool` in this workspace
    #[command(after_help = "\
Connects to a cluster and runs the calls that its servers send, with the tools, the settings and the \
grants of this workspace. Servers choose workers by the name of the workspace, by labels and by load. \
After SIGTERM or Ctrl-C, a worker takes no further calls and finishes those that it runs; a second \
signal ends it at once.

Examples:
  mimir worker --nats nats://127.0.0.1:4222
  mimir worker --nats tls://nats.example:4222 --nats-key worker.nk --workspace-name web --label gpu=true
  mimir help cluster       from one machine to a cluster")]
    Worker(WorkerArgs),
    /// Set up a cluster of many servers and workers, publish to it, and show its state
    #[command(after_help = "\
Examples:
  mimir cluster init cluster --host localhost
  mimir cluster setup --nats tls://localhost:4222 --nats-key cluster/keys/admin.nk --nats-ca cluster/tls/ca.pem
  mimir cluster publish
  mimir cluster status")]
    Cluster {
        #[command(subcommand)]
        command: ClusterCommand,
    },
    /// Use MCP servers, and have agents use this one
    #[command(after_help = "\
Examples:
  mimir mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  mimir mcp add search --url https://example.com/mcp --header 'Authorization=Bearer ${SEARCH_KEY}'
  mimir mcp test files           start it, and show its tools and their descriptions
  mimir mcp login search         log in to a server that requires it
  mimir mcp import               import the servers of Claude, Codex, Cursor and VS Code
  mimir mcp config claude        settings that make an agent use mimir")]
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Explain what the rules decide about a call, check them, or accept the project's settings
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Join a team, show and refresh its bundle; make and publish the bundles of a team
    #[command(after_help = "\
Examples:
  mimir team join registry.example.com/acme/team:prod --key acme.pub
  mimir team status
  mimir help teams         what a team can set, for members
  mimir help team-admin    how bundles are made")]
    Team {
        #[command(subcommand)]
        command: TeamCommand,
    },
    /// Store, list and remove secrets for tools; values are never shown
    Secrets {
        #[command(subcommand)]
        command: Option<SecretsCommand>,
    },
    /// Generate, list and import keys for signatures
    #[command(after_help = "\
Examples:
  mimir keys new release                 generate a key that signs
  mimir keys show release                print the public key for others
  mimir keys import partner.pub partner  store a public key to trust")]
    Keys {
        #[command(subcommand)]
        command: Option<KeysCommand>,
    },
    /// List and revoke stored approvals, and answer questions that wait
    Approvals {
        #[command(subcommand)]
        command: Option<ApprovalsCommand>,
    },
    /// Open a page that shows what agents do, answers their questions and stops them
    #[command(after_help = "\
Serves the page on 127.0.0.1 until Ctrl-C, and prints a link that works once. Shows the calls of all \
mimir processes of yours on this machine. `mimir help console` has more.

Examples:
  mimir console
  mimir console --lan      answer questions on a phone in the same network
  mimir console --no-open  only print the link")]
    Console(ConsoleCommandArgs),
    /// Show running calls and open questions in the terminal, and answer them with a key
    #[command(after_help = "\
Shows the calls of all mimir processes of yours on this machine, and the questions of this workspace. \
Enter shows a call with its arguments, effects and output, or a question; c cancels a call; on a question, \
o answers once, s for the session, a always, n no; t stops the agent of a call, or lets it work again; u undoes \
the changes of a call; x stops all calls, and S allows them again. These four ask first, and so does always. q quits.

In a cluster, a server's own calls appear with what their workers report; those of other servers do not.

Examples:
  mimir top
  mimir top -C ~/project")]
    Top,
    /// Refuse all calls, and stop those that run
    #[command(after_help = "\
Counts for all workspaces of yours on this machine, or with --nats for all processes of a cluster, until \
`mimir start`. Running calls end, too; what they have done so far is not undone.

Examples:
  mimir stop --all --reason 'leaked key, see incident 12'
  mimir stop --all --nats tls://nats.example.com:4222")]
    Stop(StopArgs),
    /// Allow calls again after `mimir stop`
    #[command(after_help = "\
Shows who has stopped the calls and why, and asks for confirmation.")]
    Start(StartArgs),
    /// Undo what a tool changed in the workspace
    #[command(after_help = "\
Undoes the newest recorded change that was not undone yet, from any session, and prints which one it \
was. A change older than an hour is only named: undo it by its ID or with --yes. A change that \
cannot be undone, or that belongs to no call in the audit log, is only named, too; no older change is \
undone in its place. If a file has changed since, nothing is undone unless --force is given; --force \
also undoes the saved part of a change that was not saved in full. Content that an undo removes or \
replaces is saved next to the backups.

Examples:
  mimir undo           undo the newest change
  mimir undo --list    list the changes that can be undone
  mimir undo ID        undo one change")]
    Undo(UndoArgs),
    /// Mask secrets: reads stdin, writes stdout
    #[command(after_help = "\
Examples:
  git log -p | mimir redact            mask everything that looks like a secret
  mimir redact --json < .env           only report byte offsets: {findings: [{rule, start, end}]}
  mimir redact --rules                 rule names, for exceptions")]
    Redact {
        /// List the rules
        #[arg(long)]
        rules: bool,
    },
    /// Verify and print the audit log
    #[command(after_help = "\
Examples:
  mimir audit verify             check that the log was not changed
  mimir audit tail -f            follow new events
  mimir audit show --since 2h")]
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Print what monitoring systems need; `mimir help telemetry` shows the settings
    Telemetry {
        #[command(subcommand)]
        command: TelemetryCommand,
    },
    /// Read and set config keys; print the schema and the paths of config files, and check them
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Check the installation and the settings
    Doctor,
    /// Print this help, a topic of the manual, or the help of a command
    #[command(after_help = "\
Without a topic, lists the topics. On a terminal, a topic is shown by $PAGER (default: less -FRX).

Examples:
  mimir help scripts       how to write a tool in a YAML file
  mimir help tools build   the same as `mimir tools build --help`")]
    Help {
        /// A topic, or a command such as `tools build`
        #[arg(value_name = "TOPIC")]
        words: Vec<String>,
    },
    /// Print the version
    #[command(hide = true)]
    Version,
    /// Print the licences of the Python, JavaScript and bash engines, and of the secret rules
    #[command(visible_alias = "licenses")]
    Licences,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: mimir completions bash > ~/.local/share/bash-completion/completions/mimir"
    )]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands into a folder, for packages
    #[command(hide = true)]
    ManPages {
        /// The folder; it is created if it is missing
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

/// Arguments of `mimir run`.
#[derive(Debug, PartialEq, Args)]
pub struct RunArgs {
    /// The task; `-` reads it from stdin
    #[arg(value_name = "TASK")]
    pub task: String,
    /// Run the task as this worker from .mimir/workers, with its tools only
    #[arg(long, value_name = "NAME")]
    pub worker: Option<String>,
    /// Model to use instead of the one in the settings
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Image to send with the task, for a model that reads images; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub image: Vec<PathBuf>,
    /// How to answer when the rules require approval
    #[arg(long, value_enum, default_value_t = ApproveMode::Ask)]
    pub approve: ApproveMode,
}

/// Arguments of `mimir chat`.
#[derive(Debug, PartialEq, Args)]
pub struct ChatArgs {
    /// Continue a conversation; `latest` or no ID is the newest
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    #[expect(
        clippy::option_option,
        reason = "absent, given without an ID, or given with an ID"
    )]
    pub resume: Option<Option<String>>,
    /// Model to use instead of the one in the settings
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// List the stored conversations, also those of `mimir run`
    #[arg(long, conflicts_with_all = ["resume", "model"])]
    pub list: bool,
    /// List the stored conversations that contain all of these words
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["resume", "model"])]
    pub search: Option<String>,
    /// Delete a stored conversation
    #[arg(long, value_name = "ID", conflicts_with_all = ["resume", "model", "list", "search"])]
    pub delete: Option<String>,
}

/// Arguments of `mimir undo`.
#[derive(Debug, PartialEq, Args)]
pub struct UndoArgs {
    /// ID of the change, as `--list` shows it, or a prefix of it [default: the newest]
    #[arg(value_name = "ID", conflicts_with = "list")]
    pub id: Option<String>,
    /// List the changes that can be undone
    #[arg(short, long)]
    pub list: bool,
    /// Undo even if the file has changed since
    #[arg(short, long, conflicts_with = "list")]
    pub force: bool,
    /// Undo even if the newest change is older than an hour
    #[arg(short, long, conflicts_with = "list")]
    pub yes: bool,
}

/// Answer to approval questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ApproveMode {
    /// Ask on the terminal and at open consoles; without either, refuse
    Ask,
    /// Approve everything that no rule denies
    Always,
    /// Refuse
    Never,
}

/// Language of a new tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ToolLanguage {
    /// A plugin in Rust
    Rust,
    /// A plugin in TypeScript
    Ts,
    /// A plugin in JavaScript
    Js,
    /// A plugin in Python
    Python,
    /// A plugin in Go
    Go,
    /// A plugin in C
    C,
    /// A plugin in C++
    Cpp,
    /// A plugin in Zig
    Zig,
    /// TypeScript in a YAML file
    YamlTs,
    /// JavaScript in a YAML file
    YamlJs,
    /// Python in a YAML file
    YamlPython,
    /// bash in a YAML file
    YamlBash,
}

impl ToolLanguage {
    /// Returns the language of a plugin, or `None` for a tool in a YAML file.
    pub const fn plugin(self) -> Option<PluginLanguage> {
        Some(match self {
            Self::Rust => PluginLanguage::Rust,
            Self::Ts => PluginLanguage::TypeScript,
            Self::Js => PluginLanguage::JavaScript,
            Self::Python => PluginLanguage::Python,
            Self::Go => PluginLanguage::Go,
            Self::C => PluginLanguage::C,
            Self::Cpp => PluginLanguage::Cpp,
            Self::Zig => PluginLanguage::Zig,
            Self::YamlTs | Self::YamlJs | Self::YamlPython | Self::YamlBash => return None,
        })
    }
}

/// Client format of printed definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionFormat {
    /// `tools` of the OpenAI API
    Openai,
    /// `tools` of the Anthropic API
    Anthropic,
    /// `tools/list` of the Model Context Protocol
    Mcp,
    /// As for Anthropic, with schemas in the dialect of OpenAPI 3.0
    #[serde(rename = "openApi3")]
    #[value(name = "openApi3", alias = "openapi3")]
    OpenApi3,
}

impl DefinitionFormat {
    /// All formats.
    pub const ALL: [DefinitionFormat; 4] = [
        DefinitionFormat::Openai,
        DefinitionFormat::Anthropic,
        DefinitionFormat::Mcp,
        DefinitionFormat::OpenApi3,
    ];

    /// Returns the name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            DefinitionFormat::Openai => "openai",
            DefinitionFormat::Anthropic => "anthropic",
            DefinitionFormat::Mcp => "mcp",
            DefinitionFormat::OpenApi3 => "openApi3",
        }
    }
}

/// Parses `NAME=VALUE`. The name must not be empty.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Parses an enum of the core by the names that its values have in config files.
fn enum_value<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    values: impl Into<PossibleValuesParser>,
) -> impl TypedValueParser<Value = T> {
    values
        .into()
        .try_map(|name| serde_json::from_value::<T>(name.into()))
}
