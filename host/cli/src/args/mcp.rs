//! Arguments of `mimir mcp`.

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use mimir_core::config::SandboxMode;
use serde_json::{Map, Value, json};

use super::{enum_value, pair};

const ALLOW_HELP: &str = "\
--allow names the tools that run without asking: `reads` (tools that only read, or that reach nothing
outside their sandbox), `all`, `none`, or a comma-separated list of tool names. The others ask each time.
Results count as third-party content, which marks a session: --own-data declares that the server
returns only your own data.";

const ADD_HELP: &str = "\
A package runs in a sandbox: no network except the hosts of --network, no workspace folders except those
that its arguments name, and its own home folder. Install scripts are not run.
--allow is `reads`, `all`, `none`, or a comma-separated list of tool names.

Examples:
  mimir mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  mimir mcp add time -- uvx mcp-server-time
  mimir mcp add docs --network context7.com -- npx -y @upstash/context7-mcp
  mimir mcp add web --network '*' -- uvx mcp-server-fetch
  mimir mcp add desk --sandbox none -- npx -y @wonderwhy-er/desktop-commander
  mimir mcp add --registry io.github.owner/server --env REGION=eu
  mimir mcp add search --url https://example.com/mcp --header 'Authorization=Bearer ${SEARCH_KEY}'";

/// Commands of `mimir mcp`.
#[derive(Debug, Default, PartialEq, Subcommand)]
pub enum McpCommand {
    /// List the servers in the settings
    #[default]
    List,
    /// Add a server to the settings. A package of npx or uvx is downloaded once and pinned; on a terminal, the server
    /// is started, its texts are shown, and one answer adds and trusts it
    #[command(after_help = ADD_HELP)]
    Add(Box<McpAddArgs>),
    /// Remove a server from the settings
    Remove {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        /// Write to your user settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Start or connect to a server, and show its tools and their descriptions
    Test {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show the state of servers: in which processes they run, their trust, tools, failures and last error
    Status {
        /// Only this server
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Start a server in the running processes of this workspace, and undo `mimir mcp stop`
    Start {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Stop a server in all processes of this workspace after its calls in progress, until `mimir mcp start`
    Stop {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Restart a server in the running processes of this workspace, and send calls to it again
    Restart {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show the last output of a server: its stderr, starts and failures, with masked secrets
    Logs {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        /// Number of lines
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        lines: u32,
        /// Print new lines as they come, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
    },
    /// Show every text of a server that models read, and allow calls of its tools until a text changes
    #[command(after_help = ALLOW_HELP)]
    Trust {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        trust: ServerTrust,
        /// Without a terminal: the digest of the texts that you have seen, from `mimir mcp test NAME --json`
        #[arg(long, value_name = "DIGEST")]
        approve: Option<String>,
        /// Write to your user settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Download the package of a server in the settings, and pin it
    Install {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        /// Allow install scripts of packages; they run in the sandbox of the download
        #[arg(long)]
        install_scripts: bool,
        /// Write to your user settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Log in to a server in a browser: on this machine, or on another one whose final address you paste
    Login {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        /// Program that opens the page [default: $BROWSER; without it, the address is only printed]
        #[arg(long, value_name = "PROGRAM")]
        browser: Option<String>,
        /// Seconds to wait for the login
        #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
        /// Log in for a user of `mimir serve --issuer`, by the id in the error of the user's call
        #[arg(long, value_name = "ID", value_parser = user_id)]
        for_user: Option<String>,
    },
    /// Delete the login to a server, and revoke it at the authorization server if supported
    Logout {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        /// Delete only the login of this user of `mimir serve --issuer`; without it, those of all users are deleted
        #[arg(long, value_name = "ID", value_parser = user_id)]
        for_user: Option<String>,
    },
    /// Import servers from the settings of agents on this machine, after showing each. If two files define the same
    /// name, name it to import it; your user settings take precedence over the project's
    Import {
        /// Only from this agent
        #[arg(long, value_enum, value_name = "AGENT")]
        from: Option<CodingAgent>,
        /// Only these servers
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Write to your user settings, not the project's
        #[arg(long)]
        user: bool,
        /// Do not ask for confirmation; servers from project files need `--from`
        #[arg(short, long)]
        yes: bool,
    },
    /// Print the settings that make an agent use mimir
    Config {
        /// The agent
        #[arg(value_enum, value_name = "AGENT")]
        agent: CodingAgent,
    },
}

/// Arguments of `mimir mcp add`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct McpAddArgs {
    /// Name of the server in the settings
    #[arg(value_name = "NAME", required_unless_present = "registry")]
    pub name: Option<String>,
    /// Its name in the MCP registry, or NAME@VERSION; words after `--` are further arguments
    #[arg(long, value_name = "NAME", group = "address", conflicts_with_all = ["url", "cwd", "workspace_code"])]
    pub registry: Option<String>,
    /// Its URL, for a server over HTTP
    #[arg(long, value_name = "URL", group = "address", conflicts_with_all = ["command", "env", "cwd", "workspace_code", "sandbox", "network"])]
    pub url: Option<String>,
    /// A header of each request; ${NAME} is replaced by the secret of that name
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, requires = "address")]
    pub headers: Vec<(String, String)>,
    /// Its authorization server; no other is accepted
    #[arg(long, value_name = "URL", requires = "url")]
    pub issuer: Option<String>,
    /// Client ID registered there for `mimir mcp login`
    #[arg(long, value_name = "ID", requires = "url")]
    pub client_id: Option<String>,
    /// Client secret, as ${NAME}: the secret of that name
    #[arg(long, value_name = "${NAME}", requires = "client_id")]
    pub client_secret: Option<String>,
    /// Scopes that a login requests, instead of those that the server names
    #[arg(long = "scope", value_name = "SCOPE", requires = "url")]
    pub scopes: Vec<String>,
    /// An environment variable of the program; ${NAME} is replaced by the secret of that name
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// Folder to start in, relative to the workspace [default: an empty folder]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Allow start arguments that are workspace paths although the server has no sandbox, or has secrets. If it runs
    /// code from there, a model that can write there can run code as you
    #[arg(long)]
    pub workspace_code: bool,
    /// Prefix for the names of its tools, instead of mcp_NAME_
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Sandbox to run it in
    #[arg(long, value_name = "MODE", value_parser = enum_value::<SandboxMode>([
        PossibleValue::new("auto").help("The strongest available"),
        PossibleValue::new("process").help("Sandbox features of the operating system"),
        PossibleValue::new("container").help("A container"),
        PossibleValue::new("none").help("No sandbox"),
    ]))]
    pub sandbox: Option<SandboxMode>,
    /// A host that it may reach from its sandbox: `api.example.com`, `*.example.com`, or `*` for every public host
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub network: Vec<String>,
    /// A workspace folder that a package may access, with `:ro` appended for read only [default: the folders that its
    /// arguments name]
    #[arg(long = "folder", value_name = "DIR", conflicts_with = "url")]
    pub folders: Vec<String>,
    /// Allow install scripts of packages; they run in the sandbox of the download
    #[arg(long, conflicts_with = "url")]
    pub install_scripts: bool,
    #[command(flatten)]
    pub trust: ServerTrust,
    /// Without a terminal: trust it if its texts have this digest, from `mimir mcp test NAME --json`
    #[arg(long, value_name = "DIGEST")]
    pub approve: Option<String>,
    /// Write the settings without starting the server
    #[arg(long, conflicts_with = "approve")]
    pub no_start: bool,
    /// Write to your user settings, not the project's
    #[arg(long)]
    pub user: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl McpAddArgs {
    /// The settings of the server, as they are written to the config file.
    pub fn settings_block(&self) -> Value {
        let object = |pairs: &[(String, String)]| -> Map<String, Value> {
            let pairs = pairs.iter().cloned();
            pairs.map(|(name, value)| (name, value.into())).collect()
        };
        let mut block = json!({
            "command": self.command.first(),
            "args": self.command.get(1..),
            "url": self.url,
            "env": object(&self.env),
            "headers": object(&self.headers),
            "cwd": self.cwd,
            "prefix": self.prefix,
            "oauth": {
                "issuer": self.issuer,
                "clientId": self.client_id,
                "clientSecret": self.client_secret,
                "scopes": self.scopes,
            },
            "sandbox": self.sandbox,
            "workspaceCode": self.workspace_code,
            "network": self.network,
        });
        remove_unset(&mut block);
        block
    }
}

/// Removes options that were not given. Returns true if anything is left.
fn remove_unset(value: &mut Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(keys) => {
            keys.retain(|_, value| remove_unset(value));
            !keys.is_empty()
        }
        _ => true,
    }
}

/// A coding agent with settings of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CodingAgent {
    /// Claude Code
    #[value(aliases = ["claude-code", "claudecode"])]
    Claude,
    /// Codex
    #[value(aliases = ["codex-cli", "openai-codex"])]
    Codex,
    /// Cursor
    #[value(aliases = ["cursor-agent"])]
    Cursor,
    /// VS Code
    #[value(aliases = ["vs-code", "code", "visual-studio-code"])]
    Vscode,
    /// opencode
    #[value(aliases = ["open-code"])]
    Opencode,
    /// Zed
    #[value(aliases = ["zed-editor"])]
    Zed,
    /// Gemini CLI
    #[value(aliases = ["gemini-cli"])]
    Gemini,
    /// Qwen Code
    #[value(aliases = ["qwen-code"])]
    Qwen,
    /// Goose
    #[value(aliases = ["goose-cli", "block-goose"])]
    Goose,
    /// Windsurf
    Windsurf,
    /// Cline
    Cline,
}

/// Rights that a person gives to the tools of a server.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ServerTrust {
    /// The tools that run without asking
    #[arg(long, value_name = "WHICH", default_value = "reads", value_parser = allow)]
    pub allow: AllowedTools,
    /// Their results are your own data, not third-party content: reading them does not mark a session
    #[arg(long)]
    pub own_data: bool,
    /// The reading tools do not ask after untrusted content was read, although they send arguments to the server
    #[arg(long)]
    pub accept_untrusted: bool,
}

impl ServerTrust {
    /// The command line options for this value, each with a space before it.
    pub fn options(&self) -> String {
        let mut options = match &self.allow {
            AllowedTools::Reads => String::new(),
            AllowedTools::All => " --allow all".to_owned(),
            AllowedTools::Nothing => " --allow none".to_owned(),
            AllowedTools::Tools(names) => format!(" --allow {}", names.join(",")),
        };
        if self.own_data {
            options += " --own-data";
        }
        if self.accept_untrusted {
            options += " --accept-untrusted";
        }
        options
    }
}

/// Selection of a server's tools that run without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedTools {
    /// Tools that only read, or reach nothing.
    Reads,
    /// All.
    All,
    /// No tools.
    Nothing,
    /// These tools.
    Tools(Vec<String>),
}

fn allow(text: &str) -> Result<AllowedTools, String> {
    Ok(match text {
        "reads" => AllowedTools::Reads,
        "all" => AllowedTools::All,
        "none" => AllowedTools::Nothing,
        names => {
            let names: Vec<String> = names
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect();
            if names.iter().any(String::is_empty) {
                return Err(
                    "expected `reads`, `all`, `none`, or a comma-separated list of tool names"
                        .to_owned(),
                );
            }
            AllowedTools::Tools(names)
        }
    })
}

/// Parses the id of a user, as errors show it.
fn user_id(text: &str) -> Result<String, String> {
    if mimir_mcp::is_user_id(text) {
        Ok(text.to_owned())
    } else {
        Err(
            "expected an id as in the error of the user's call: `oauth-` and 64 hex digits"
                .to_owned(),
        )
    }
}
