//! `mimir mcp`.

use clap::{Args, Subcommand, ValueEnum};
use mimir_core::config::SandboxMode;

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
  mimir mcp add search --url https://example.com/mcp --header 'Authorization=Bearer ${SEARCH_KEY}'";

#[derive(Debug, Subcommand)]
pub(super) enum McpArgs {
    /// List the servers in the settings
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
    },
    /// Delete the login to a server, and revoke it at the authorization server if supported
    Logout {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
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

#[derive(Debug, Args)]
pub(super) struct McpAddArgs {
    /// Name of the server in the settings
    #[arg(value_name = "NAME")]
    name: String,
    /// Its URL, for a server over HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env", "cwd", "workspace_code", "sandbox", "network"])]
    url: Option<String>,
    /// A header of each request; ${NAME} is replaced by the secret of that name
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, requires = "url")]
    headers: Vec<(String, String)>,
    /// Its authorization server; no other is accepted
    #[arg(long, value_name = "URL", requires = "url")]
    issuer: Option<String>,
    /// Client ID registered there for `mimir mcp login`
    #[arg(long, value_name = "ID", requires = "url")]
    client_id: Option<String>,
    /// Client secret, as ${NAME}: the secret of that name
    #[arg(long, value_name = "${NAME}", requires = "client_id")]
    client_secret: Option<String>,
    /// Scopes that a login requests, instead of those that the server names
    #[arg(long = "scope", value_name = "SCOPE", requires = "url")]
    scopes: Vec<String>,
    /// An environment variable of the program; ${NAME} is replaced by the secret of that name
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Folder to start in, relative to the workspace [default: an empty folder]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Allow start arguments that are workspace paths although the server has no sandbox, or has secrets. If it runs
    /// code from there, a model that can write there can run code as you
    #[arg(long)]
    workspace_code: bool,
    /// Prefix for the names of its tools, instead of mcp_NAME_
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Sandbox to run it in
    #[arg(long, value_name = "MODE", value_enum)]
    sandbox: Option<SandboxArg>,
    /// A host that it may reach from its sandbox: `api.example.com`, `*.example.com`, or `*` for every public host
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    network: Vec<String>,
    /// A workspace folder that a package may access, with `:ro` appended for read only [default: the folders that its
    /// arguments name]
    #[arg(long = "folder", value_name = "DIR", conflicts_with = "url")]
    folders: Vec<String>,
    /// Allow install scripts of packages; they run in the sandbox of the download
    #[arg(long, conflicts_with = "url")]
    install_scripts: bool,
    #[command(flatten)]
    trust: ServerTrust,
    /// Without a terminal: trust it if its texts have this digest, from `mimir mcp test NAME --json`
    #[arg(long, value_name = "DIGEST")]
    approve: Option<String>,
    /// Write the settings without starting the server
    #[arg(long, conflicts_with = "approve")]
    no_start: bool,
    /// Write to your user settings, not the project's
    #[arg(long)]
    user: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SandboxArg {
    /// The strongest available
    Auto,
    /// Sandbox features of the operating system
    Process,
    /// A container
    Container,
    /// No sandbox
    None,
}

/// A coding agent with settings of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CodingAgent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Cursor
    Cursor,
    /// VS Code
    Vscode,
    /// opencode
    Opencode,
    /// Zed
    Zed,
    /// Gemini CLI
    Gemini,
    /// Qwen Code
    Qwen,
    /// Goose
    Goose,
    /// Windsurf
    Windsurf,
    /// Cline
    Cline,
}

/// A server to be added to the settings.
#[derive(Debug, Clone, PartialEq)]
pub struct McpAddCommand {
    /// Its name.
    pub name: String,
    /// The settings block, without the name.
    pub block: serde_json::Value,
    /// True if it goes into the user settings.
    pub user: bool,
    /// Workspace folders that its package may access.
    pub folders: Vec<String>,
    /// True if install scripts are run.
    pub install_scripts: bool,
    /// Rights of its tools.
    pub trust: ServerTrust,
    /// Digest of the texts that the person has seen.
    pub approve: Option<String>,
    /// True if the settings are written without starting the server.
    pub no_start: bool,
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
    /// Writes the options that make this value, each with a blank before it.
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

/// Commands of `mimir mcp`.
#[derive(Debug, Clone, PartialEq)]
pub enum McpCommand {
    /// Lists the servers.
    List,
    /// Adds a server.
    Add(McpAddCommand),
    /// Removes a server.
    Remove {
        /// The name of the server.
        name: String,
        /// True if it is in the user settings.
        user: bool,
    },
    /// Tests a server.
    Test {
        /// The name of the server.
        name: String,
    },
    /// Trusts a server as it is now.
    Trust {
        /// The name of the server.
        name: String,
        /// Rights of its tools.
        trust: ServerTrust,
        /// Digest of the texts that the person has seen.
        approve: Option<String>,
        /// True if the approvals go into the user settings.
        user: bool,
    },
    /// Installs the package of a server.
    Install {
        /// The name of the server.
        name: String,
        /// True if install scripts are run.
        install_scripts: bool,
        /// True if it is in the user settings.
        user: bool,
    },
    /// Logs in at a server.
    Login {
        /// The name of the server.
        name: String,
        /// Program that opens the page.
        browser: Option<String>,
        /// How long to wait for the login.
        timeout: std::time::Duration,
    },
    /// Logs out from a server.
    Logout {
        /// The name of the server.
        name: String,
    },
    /// Imports servers from the settings of agents.
    Import {
        /// The agent; all if none is named.
        from: Option<CodingAgent>,
        /// Names of the servers; all if empty.
        names: Vec<String>,
        /// True if they go into the user settings.
        user: bool,
        /// True if no confirmation is asked for.
        yes: bool,
    },
    /// Prints the settings that make an agent use mimir.
    Config(CodingAgent),
}

impl McpArgs {
    pub(super) fn into_command(self) -> McpCommand {
        match self {
            Self::List => McpCommand::List,
            Self::Add(server) => McpCommand::Add(server.into_command()),
            Self::Remove { name, user } => McpCommand::Remove { name, user },
            Self::Test { name } => McpCommand::Test { name },
            Self::Trust {
                name,
                trust,
                approve,
                user,
            } => McpCommand::Trust {
                name,
                trust,
                approve,
                user,
            },
            Self::Install {
                name,
                install_scripts,
                user,
            } => McpCommand::Install {
                name,
                install_scripts,
                user,
            },
            Self::Login {
                name,
                browser,
                timeout,
            } => McpCommand::Login {
                name,
                browser,
                timeout: std::time::Duration::from_secs(timeout),
            },
            Self::Logout { name } => McpCommand::Logout { name },
            Self::Import {
                from,
                names,
                user,
                yes,
            } => McpCommand::Import {
                from,
                names,
                user,
                yes,
            },
            Self::Config { agent } => McpCommand::Config(agent),
        }
    }
}

impl McpAddArgs {
    fn into_command(self) -> McpAddCommand {
        let mut block = serde_json::Map::new();
        let mut words = self.command.into_iter();
        let object = |pairs: Vec<(String, String)>| {
            let pairs = pairs.into_iter();
            pairs
                .map(|(name, value)| (name, value.into()))
                .collect::<serde_json::Map<_, _>>()
        };
        if let Some(command) = words.next() {
            block.insert("command".into(), command.into());
        }
        let args: Vec<String> = words.collect();
        if !args.is_empty() {
            block.insert("args".into(), args.into());
        }
        if let Some(url) = self.url {
            block.insert("url".into(), url.into());
        }
        for (key, pairs) in [("env", self.env), ("headers", self.headers)] {
            if !pairs.is_empty() {
                block.insert(key.into(), object(pairs).into());
            }
        }
        for (key, value) in [("cwd", self.cwd), ("prefix", self.prefix)] {
            if let Some(value) = value {
                block.insert(key.into(), value.into());
            }
        }
        let mut oauth = serde_json::Map::new();
        let login = [
            ("issuer", self.issuer),
            ("clientId", self.client_id),
            ("clientSecret", self.client_secret),
        ];
        for (key, value) in login {
            if let Some(value) = value {
                oauth.insert(key.into(), value.into());
            }
        }
        if !self.scopes.is_empty() {
            oauth.insert("scopes".into(), self.scopes.into());
        }
        if !oauth.is_empty() {
            block.insert("oauth".into(), oauth.into());
        }
        if let Some(sandbox) = self.sandbox {
            let mode = match sandbox {
                SandboxArg::Auto => SandboxMode::Auto,
                SandboxArg::Process => SandboxMode::Process,
                SandboxArg::Container => SandboxMode::Container,
                SandboxArg::None => SandboxMode::None,
            };
            let mode = serde_json::to_value(mode).unwrap_or_default();
            block.insert("sandbox".into(), mode);
        }
        if self.workspace_code {
            block.insert("workspaceCode".into(), true.into());
        }
        if !self.network.is_empty() {
            block.insert("network".into(), self.network.into());
        }
        McpAddCommand {
            name: self.name,
            block: block.into(),
            user: self.user,
            folders: self.folders,
            install_scripts: self.install_scripts,
            trust: self.trust,
            approve: self.approve,
            no_start: self.no_start,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
