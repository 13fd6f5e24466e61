//! The command line as clap reads it. What it means is decided in [`typed`], so that the rest of the
//! program never sees a raw argument.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use serde::Serialize;

mod audit;
mod config;
mod gates;
mod mcp;
mod serve;
mod tools;
mod typed;

pub use audit::{AuditWish, Filter};
pub use config::ConfigWish;
pub use gates::{AddWish, ApprovalsWish, PolicyWish, SecretsWish, TrustWish};
pub use mcp::{Agent, Allow, McpAdd, McpWish};
pub use serve::{HttpWish, Provider, ServeWish};
pub use tools::ToolsWish;
pub use typed::{Command, Globals, Invocation, UndoWish, Unread};

/// Runs tools for AI agents, each call in a fresh, bounded sandbox.
#[derive(Debug, Parser)]
#[command(
    name = "mimir",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "\
Examples:
  mimir init                                         make .mimir in this folder
  mimir tools list                                   what can be called
  mimir call read_file path=README.md                call a tool
  mimir call file_search '{\"mode\":\"grep\",\"query\":\"fuel\"}'
  mimir tools new hello && mimir tools build hello   write a tool of your own
  mimir help                                         list the topics of the manual

Exit codes: 0 ok, 1 the tool failed, 2 usage or invalid input, 3 refused, 4 limit or timeout, \
130 interrupted, 143 asked to end.
Environment: MIMIR_LOG=debug (log to stderr), MIMIR_CACHE_DIR, MIMIR_CONFIG_DIR, \
MIMIR_TEAM_POLICY (a team's policy file, beside the machine's), NO_COLOR, and settings such as \
MIMIR_LIMITS__TIME_MS=5000 (limits.timeMs)."
)]
pub struct Raw {
    #[command(flatten)]
    global: RawGlobals,
    #[command(subcommand)]
    command: Option<RawCommand>,
}

#[derive(Debug, Args)]
struct RawGlobals {
    /// The workspace [default: the nearest folder upwards with .mimir, else the current one]
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum RawCommand {
    /// Make .mimir with a commented config in the workspace
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
    Call(RawCall),
    /// List, switch, show, write and build tools
    #[command(after_help = "\
Without a command it is a screen to look through the tools and switch them on and off; where there is no \
terminal, it is the list.

Examples:
  mimir tools list                 what there is, and what each costs in a prompt
  mimir tools disable git          take a tool away from models
  mimir tools tokens --advise      what could be saved
  mimir tools search rename file")]
    Tools {
        #[command(subcommand)]
        command: Option<tools::RawTools>,
    },
    /// Print the tools' definitions for a model
    Schema {
        /// Whose format
        #[arg(long, value_enum, default_value_t = Format::Mcp)]
        format: Format,
        /// Only these tools
        #[arg(value_name = "TOOL")]
        tools: Vec<String>,
    },
    /// Have an agent work on a task with the tools
    #[command(after_help = "\
The model is that of the settings: `model: PROVIDER/MODEL`, such as anthropic/NAME. Its words are \
shown as they come; where stdout is no terminal, only the last answer is printed. What the agent does \
goes to stderr, and so do the questions where the rules ask for you. With --json, each event is a \
line of JSON on stdout, the last one `{\"event\": \"end\", ...}`.

Exit codes: 0 done, 1 the model failed, 2 bad settings, 3 refused, 4 a bound of `agent` was reached.

Examples:
  mimir run \"what does this project do?\"
  mimir run - < task.txt > answer.txt
  mimir run --model local/qwen --approve never --json \"list the TODOs\"")]
    Run(RawRun),
    /// Talk with an agent that has the tools
    #[command(after_help = "\
A line that ends in `\\` goes on in the next one; Tab completes commands and names of tools. Ctrl-C \
stops the call that runs, and a second time the answer; Ctrl-D ends. `/help` lists the commands. \
Conversations are kept beside your own settings, for you alone and without secrets.

Examples:
  mimir chat
  mimir chat --resume            go on with the newest conversation
  mimir chat --model local/qwen")]
    Chat(RawChat),
    /// Serve the tools to an agent, over MCP
    #[command(after_help = "\
An agent starts it and speaks the Model Context Protocol with it on stdin and stdout; what a person \
should know goes to stderr. The agent asks you where the rules ask for a person, if it can show a \
form; else the answer is no, and stderr has the command that would allow the call. Changes of tools, \
settings and grants count at once.

Examples:
  claude mcp add mimir -- mimir serve -C ~/project      Claude Code
  codex mcp add mimir -- mimir serve -C ~/project       Codex
  mimir serve --http 8808                               http://127.0.0.1:8808/mcp, /healthz, /metrics")]
    Serve(serve::RawServe),
    /// Use other people's MCP servers, and have agents use this one
    #[command(after_help = "\
Examples:
  mimir mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  mimir mcp add search --url https://example.com/mcp --header 'Authorization=Bearer ${SEARCH_KEY}'
  mimir mcp test files           start it, and show what its tools say
  mimir mcp login search         log in, where a server wants that
  mimir mcp import               take over the servers of Claude, Codex, Cursor and VS Code
  mimir mcp config claude        what makes an agent use mimir")]
    Mcp {
        #[command(subcommand)]
        command: Option<mcp::RawMcp>,
    },
    /// Ask what the rules say about a call, check them, or accept the project's settings
    Policy {
        #[command(subcommand)]
        command: gates::RawPolicy,
    },
    /// Store, list and remove secrets for tools; values are never shown
    Secrets {
        #[command(subcommand)]
        command: Option<gates::RawSecrets>,
    },
    /// List and revoke what was approved for good
    Approvals {
        #[command(subcommand)]
        command: Option<gates::RawApprovals>,
    },
    /// Take back what a file tool changed
    #[command(after_help = "\
Takes back the newest change that was recorded and not taken back yet, whichever session made it, \
and says which that was. One that is older than an hour is seldom what is meant: it is named, and \
taken back by its ID or with --yes. One that can't be taken back, and one that is of no call in \
the audit log, is named, too, and nothing older is taken in its place. What has changed since \
stays, unless --force is given. What an undo removes or replaces is kept beside the backups.

Examples:
  mimir undo           take back the newest change
  mimir undo --list    show what can be taken back
  mimir undo ID        take back one change")]
    Undo {
        /// Which change, as `--list` shows it, or the beginning of that [default: the newest]
        #[arg(value_name = "ID", conflicts_with = "list")]
        id: Option<String>,
        /// Show what can be taken back
        #[arg(short, long)]
        list: bool,
        /// Even if the file has changed since
        #[arg(short, long, conflicts_with = "list")]
        force: bool,
        /// Even if the newest change is older than an hour
        #[arg(short, long, conflicts_with = "list")]
        yes: bool,
    },
    /// Mask secrets: from stdin to stdout
    #[command(after_help = "\
Examples:
  git log -p | mimir redact            mask what looks like a secret
  mimir redact --json < .env           only say where, in bytes: {findings: [{rule, start, end}]}
  mimir redact --rules                 the names of the rules, for exceptions")]
    Redact {
        /// List the rules
        #[arg(long)]
        rules: bool,
    },
    /// Check and print the record of what was done
    #[command(after_help = "\
Examples:
  mimir audit verify             has somebody changed the log?
  mimir audit tail -f            what is done, while it is done
  mimir audit show --since 2h")]
    Audit {
        #[command(subcommand)]
        command: audit::RawAudit,
    },
    /// Read and set keys of config files; print their schema, where they are, and what is wrong with them
    Config {
        #[command(subcommand)]
        command: config::RawConfig,
    },
    /// Check that everything is in place
    Doctor,
    /// Print this help, a topic of the manual, or the help of a command
    #[command(after_help = "\
Without a topic it lists the topics. On a terminal a topic is shown by $PAGER (default: less -FRX).

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
    /// Print the licences of the engines of Python, JavaScript and bash, and of the rules of masking
    #[command(visible_alias = "licenses")]
    Licences,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: mimir completions bash > ~/.local/share/bash-completion/completions/mimir"
    )]
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
struct RawCall {
    /// Name or alias
    #[arg(value_name = "TOOL")]
    tool: String,
    /// JSON, `-`, or key=value words
    #[arg(value_name = "ARGS")]
    arguments: Vec<String>,
    /// What to do when the rules ask for a person
    #[arg(long, value_enum, default_value_t = Approve::Ask)]
    approve: Approve,
    /// Longest time for the call: 500ms, 5s, 2m
    #[arg(long, value_name = "TIME", value_parser = typed::duration)]
    timeout: Option<std::time::Duration>,
}

#[derive(Debug, Args)]
struct RawRun {
    /// What is to be done; `-` reads it from stdin
    #[arg(value_name = "TASK")]
    task: String,
    /// A worker of .mimir/workers does it, with its tools alone
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Another model than that of the settings
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// What to do when the rules ask for a person
    #[arg(long, value_enum, default_value_t = Approve::Ask)]
    approve: Approve,
}

#[derive(Debug, Args)]
struct RawChat {
    /// Go on with a conversation [default: the newest]
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    #[expect(
        clippy::option_option,
        reason = "without it, with it, and with the id of one"
    )]
    resume: Option<Option<String>>,
    /// Another model than that of the settings
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
}

/// What stands in for a person when the rules ask for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approve {
    /// Ask on the terminal; without one the answer is no
    Ask,
    /// Yes to everything that no rule denies
    Always,
    /// No
    Never,
}

/// What a new tool is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lang {
    /// A plugin in Rust
    Rust,
    /// A plugin in TypeScript
    Ts,
    /// TypeScript in a YAML file
    YamlTs,
    /// JavaScript in a YAML file
    YamlJs,
    /// Python in a YAML file
    YamlPython,
    /// bash in a YAML file
    YamlBash,
}

/// Whose format a definition is printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `tools` of the OpenAI API
    Openai,
    /// `tools` of the Anthropic API
    Anthropic,
    /// `tools/list` of the Model Context Protocol
    Mcp,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 3] = [Format::Openai, Format::Anthropic, Format::Mcp];

    /// The spelling on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Format::Openai => "openai",
            Format::Anthropic => "anthropic",
            Format::Mcp => "mcp",
        }
    }
}
