//! `mimir mcp`.

use clap::{Args, Subcommand, ValueEnum};
use mimir_core::config::SandboxMode;

const ALLOW_HELP: &str = "\
--allow names the tools that run without a question: `reads` (those that read, or that reach nothing
outside their sandbox), `all`, `none`, or names of tools with commas. The others ask each time.";

const ADD_HELP: &str = "\
A package runs in a sandbox: no network but the hosts of --network, nothing of the workspace but the
folders that its arguments name, and a home of its own. Install scripts are not run.
--allow is `reads`, `all`, `none`, or names of tools with commas.

Examples:
  mimir mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  mimir mcp add time -- uvx mcp-server-time
  mimir mcp add docs --network context7.com -- npx -y @upstash/context7-mcp
  mimir mcp add web --network '*' -- uvx mcp-server-fetch
  mimir mcp add desk --sandbox none -- npx -y @wonderwhy-er/desktop-commander
  mimir mcp add search --url https://example.com/mcp --header 'Authorization=Bearer ${SEARCH_KEY}'";

#[derive(Debug, Subcommand)]
pub(super) enum RawMcp {
    /// List the servers in the settings
    List,
    /// Put a server into the settings. A package of npx or uvx is downloaded once and pinned; on a terminal the server is
    /// started, its words are shown, and one answer adds and trusts it
    #[command(after_help = ADD_HELP)]
    Add(Box<RawServer>),
    /// Take a server out of the settings
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Write into your own settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Start a server, or reach it, and show what its tools say
    Test {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show every word that models read of a server, and let its tools be called as long as they say the same
    #[command(after_help = ALLOW_HELP)]
    Trust {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// The tools that run without a question
        #[arg(long, value_name = "WHICH", default_value = "reads", value_parser = allow)]
        allow: Allow,
        /// Without a terminal: the digest of the words that you have seen, as `mimir mcp test NAME --json` has it
        #[arg(long, value_name = "DIGEST")]
        approve: Option<String>,
        /// Write into your own settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Download the package of a server that is in the settings, and pin it
    Install {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Let packages run programs of their own while they are installed, in the sandbox of the download
        #[arg(long)]
        install_scripts: bool,
        /// Write into your own settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Log in at a server that wants it, in a browser: here, or on another machine whose address you paste
    Login {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// The program that opens the page [default: $BROWSER; without it the address is only printed]
        #[arg(long, value_name = "PROGRAM")]
        browser: Option<String>,
        /// How long the answer is waited for, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
    },
    /// Forget the login at a server, and end it at its authorization server where that takes it
    Logout {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Take over servers from the settings of agents on this machine, after each was shown. If two places define the same
    /// name, name it to import it; your own settings win over the project's
    Import {
        /// Only from this agent
        #[arg(long, value_enum, value_name = "AGENT")]
        from: Option<Agent>,
        /// Only these servers
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Into your own settings, not the project's
        #[arg(long)]
        user: bool,
        /// Without a question; from files of the project only where `--from` names the agent
        #[arg(short, long)]
        yes: bool,
    },
    /// Print what makes an agent use mimir
    Config {
        /// Which agent
        #[arg(value_enum, value_name = "AGENT")]
        agent: Agent,
    },
}

#[derive(Debug, Args)]
pub(super) struct RawServer {
    /// What it is called here
    #[arg(value_name = "NAME")]
    name: String,
    /// Where it is reached over HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env", "cwd", "workspace_code", "sandbox", "network"])]
    url: Option<String>,
    /// A header of each request; ${NAME} is the secret of that name
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, requires = "url")]
    headers: Vec<(String, String)>,
    /// The authorization server that logs people in at it, and no other
    #[arg(long, value_name = "URL", requires = "url")]
    issuer: Option<String>,
    /// The client that was registered there for `mimir mcp login`
    #[arg(long, value_name = "ID", requires = "url")]
    client_id: Option<String>,
    /// Its secret, as ${NAME}: the secret of that name
    #[arg(long, value_name = "${NAME}", requires = "client_id")]
    client_secret: Option<String>,
    /// What a login asks for, in place of what the server names
    #[arg(long = "scope", value_name = "SCOPE", requires = "url")]
    scopes: Vec<String>,
    /// A variable of the program; ${NAME} is the secret of that name
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// The folder that it starts in, from the workspace; an empty one of its own where none is named
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Let it start with paths into the workspace although it has no sandbox, or has secrets. If it runs code from
    /// there, a model that writes there can then run code as you
    #[arg(long)]
    workspace_code: bool,
    /// What stands before the names of its tools, in place of mcp_NAME_
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// The sandbox that it runs in
    #[arg(long, value_name = "MODE", value_enum)]
    sandbox: Option<Sandbox>,
    /// A host that it reaches from its sandbox: `api.example.com`, `*.example.com`, or `*` for every public host
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    network: Vec<String>,
    /// A folder of the workspace that a package sees, `:ro` behind it to be read only; those that its arguments name
    /// where none is given
    #[arg(long = "folder", value_name = "DIR", conflicts_with = "url")]
    folders: Vec<String>,
    /// Let packages run programs of their own while they are installed, in the sandbox of the download
    #[arg(long, conflicts_with = "url")]
    install_scripts: bool,
    /// The tools that run without a question
    #[arg(long, value_name = "WHICH", default_value = "reads", value_parser = allow)]
    allow: Allow,
    /// Without a terminal: trust it if its words have this digest, as `mimir mcp test NAME --json` has it
    #[arg(long, value_name = "DIGEST")]
    approve: Option<String>,
    /// Write the settings without starting the server
    #[arg(long, conflicts_with = "approve")]
    no_start: bool,
    /// Write into your own settings, not the project's
    #[arg(long)]
    user: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sandbox {
    /// The strongest that there is
    Auto,
    /// What the kernel has
    Process,
    /// A container
    Container,
    /// None at all
    None,
}

/// Whose settings are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Agent {
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

/// A server that is to be put into the settings.
#[derive(Debug, Clone, PartialEq)]
pub struct McpAdd {
    /// Its name.
    pub name: String,
    /// As it stands in the settings, without its name.
    pub block: serde_json::Value,
    /// Whether it goes into the user's own settings.
    pub user: bool,
    /// The folders of the workspace that its package sees.
    pub folders: Vec<String>,
    /// True if install scripts are run.
    pub install_scripts: bool,
    /// The tools that run without a question.
    pub allow: Allow,
    /// The digest of the words that a person has seen.
    pub approve: Option<String>,
    /// True if the settings are written without starting the server.
    pub no_start: bool,
}

/// The tools of a server that run without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow {
    /// Tools that read, or reach nothing.
    Reads,
    /// All.
    All,
    /// No tools.
    Nothing,
    /// These.
    Tools(Vec<String>),
}

fn allow(text: &str) -> Result<Allow, String> {
    Ok(match text {
        "reads" => Allow::Reads,
        "all" => Allow::All,
        "none" => Allow::Nothing,
        names => {
            let names: Vec<String> = names
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect();
            if names.iter().any(String::is_empty) {
                return Err(
                    "write `reads`, `all`, `none`, or names of tools with commas".to_owned(),
                );
            }
            Allow::Tools(names)
        }
    })
}

/// What `mcp` is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum McpWish {
    /// What there is.
    List,
    /// One more.
    Add(McpAdd),
    /// Removes a server.
    Remove {
        /// The name of the server.
        name: String,
        /// True if it is in the user's own settings.
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
        /// The tools that run without a question.
        allow: Allow,
        /// The digest of what was seen.
        approve: Option<String>,
        /// True if the approvals go into the user's own settings.
        user: bool,
    },
    /// Installs the package of a server.
    Install {
        /// The name of the server.
        name: String,
        /// True if install scripts are run.
        install_scripts: bool,
        /// True if it is in the user's own settings.
        user: bool,
    },
    /// Logs in at a server.
    Login {
        /// The name of the server.
        name: String,
        /// What shows the page.
        browser: Option<String>,
        /// How long the answer is waited for.
        timeout: std::time::Duration,
    },
    /// Logs out from a server.
    Logout {
        /// The name of the server.
        name: String,
    },
    /// Those of agents.
    Import {
        /// Of which agent; all where none is named.
        from: Option<Agent>,
        /// Which; all where none is named.
        names: Vec<String>,
        /// Whether they go into the user's own settings.
        user: bool,
        /// Whether nobody is asked.
        yes: bool,
    },
    /// What makes an agent use mimir.
    Config(Agent),
}

impl RawMcp {
    pub(super) fn typed(self) -> McpWish {
        match self {
            Self::List => McpWish::List,
            Self::Add(server) => McpWish::Add(server.typed()),
            Self::Remove { name, user } => McpWish::Remove { name, user },
            Self::Test { name } => McpWish::Test { name },
            Self::Trust {
                name,
                allow,
                approve,
                user,
            } => McpWish::Trust {
                name,
                allow,
                approve,
                user,
            },
            Self::Install {
                name,
                install_scripts,
                user,
            } => McpWish::Install {
                name,
                install_scripts,
                user,
            },
            Self::Login {
                name,
                browser,
                timeout,
            } => McpWish::Login {
                name,
                browser,
                timeout: std::time::Duration::from_secs(timeout),
            },
            Self::Logout { name } => McpWish::Logout { name },
            Self::Import {
                from,
                names,
                user,
                yes,
            } => McpWish::Import {
                from,
                names,
                user,
                yes,
            },
            Self::Config { agent } => McpWish::Config(agent),
        }
    }
}

impl RawServer {
    fn typed(self) -> McpAdd {
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
                Sandbox::Auto => SandboxMode::Auto,
                Sandbox::Process => SandboxMode::Process,
                Sandbox::Container => SandboxMode::Container,
                Sandbox::None => SandboxMode::None,
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
        McpAdd {
            name: self.name,
            block: block.into(),
            user: self.user,
            folders: self.folders,
            install_scripts: self.install_scripts,
            allow: self.allow,
            approve: self.approve,
            no_start: self.no_start,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is written NAME=VALUE".to_owned()),
    }
}
