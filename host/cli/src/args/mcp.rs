//! `mimir mcp`.

use clap::{Args, Subcommand, ValueEnum};
use mimir_core::config::SandboxMode;

#[derive(Debug, Subcommand)]
pub(super) enum RawMcp {
    /// List the servers in the settings
    List,
    /// Put a server into the settings
    Add(Box<RawServer>),
    /// Take a server out of the settings
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// In your own settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Start a server, or reach it, and show what its tools say
    Test {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Log in at a server that wants it, in a browser: here, or on another machine whose address you paste
    Login {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// The program that is started with the page's address; $BROWSER where none is named, and none without that
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
    /// Take over servers from the settings of agents on this machine, after each was shown. Where two places have one
    /// of a name, neither is taken unless it is named: then your own goes before the project's
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
    /// Let it start with what leads into the workspace although it has no sandbox, or has secrets. If it runs what lies
    /// there, whoever may write a file there, as a model may, then runs code as you
    #[arg(long)]
    workspace_code: bool,
    /// What stands before the names of its tools, in place of mcp_NAME_
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// The sandbox that it runs in
    #[arg(long, value_name = "MODE", value_enum)]
    sandbox: Option<Sandbox>,
    /// Let it reach the network from its sandbox
    #[arg(long)]
    network: bool,
    /// In your own settings, not the project's
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
}

/// What `mcp` is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum McpWish {
    /// What there is.
    List,
    /// One more.
    Add(McpAdd),
    /// One less.
    Remove {
        /// Which.
        name: String,
        /// Whether it stands in the user's own settings.
        user: bool,
    },
    /// What one says.
    Test {
        /// Which.
        name: String,
    },
    /// A login at one.
    Login {
        /// Which.
        name: String,
        /// What shows the page.
        browser: Option<String>,
        /// How long the answer is waited for.
        timeout: std::time::Duration,
    },
    /// The end of one.
    Logout {
        /// Which.
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
        if self.network {
            block.insert("networkAccess".into(), true.into());
        }
        McpAdd {
            name: self.name,
            block: block.into(),
            user: self.user,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is written NAME=VALUE".to_owned()),
    }
}
