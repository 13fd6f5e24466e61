//! Agents that `mimir setup` knows: their config files and the form of an entry in them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::agent_environment::AgentEnvironment;
use super::config_text::{ConfigFormat, EntryEdit};
use super::setup_error::AgentSetupError;

/// A coding agent that `mimir setup` can configure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKind {
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
}

/// Name of the entry in a config file.
pub(crate) const ENTRY_NAME: &str = "mimir";

/// Variable for the project's folder in the files of Cursor and VS Code.
const WORKSPACE_VARIABLE: &str = "${workspaceFolder}";

/// The command that an agent runs to start mimir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeCommand {
    /// Name on the PATH, or absolute path of the program.
    pub program: String,
    /// Workspace for `-C`; `None` if mimir finds it from the folder in which the agent starts it.
    pub workspace: Option<String>,
}

impl ServeCommand {
    /// Arguments of the program.
    fn args(&self) -> Vec<&str> {
        match &self.workspace {
            Some(workspace) => vec!["serve", "-C", workspace],
            None => vec!["serve"],
        }
    }
}

impl AgentKind {
    /// All agents.
    pub const ALL: [Self; 9] = [
        Self::Claude,
        Self::Codex,
        Self::Cursor,
        Self::Vscode,
        Self::Opencode,
        Self::Zed,
        Self::Gemini,
        Self::Qwen,
        Self::Goose,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Opencode => "opencode",
            Self::Zed => "zed",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Goose => "goose",
        }
    }

    /// The agent with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Other names that people type.
    pub const fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &["claude-code", "claudecode"],
            Self::Codex => &["codex-cli", "openai-codex"],
            Self::Cursor => &["cursor-agent"],
            Self::Vscode => &["vs-code", "code", "visual-studio-code"],
            Self::Opencode => &["open-code"],
            Self::Zed => &["zed-editor"],
            Self::Gemini => &["gemini-cli"],
            Self::Qwen => &["qwen-code"],
            Self::Goose => &["goose-cli", "block-goose"],
        }
    }

    /// Name as its maker writes it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Opencode => "opencode",
            Self::Zed => "Zed",
            Self::Gemini => "Gemini CLI",
            Self::Qwen => "Qwen Code",
            Self::Goose => "Goose",
        }
    }

    /// Programs by which the agent is recognized. Goose has none: a database tool has the same name.
    pub(crate) const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &["claude"],
            Self::Codex => &["codex"],
            Self::Cursor => &["cursor", "cursor-agent"],
            Self::Vscode => &["code", "code-insiders"],
            Self::Opencode => &["opencode"],
            Self::Zed => &["zed", "zeditor"],
            Self::Gemini => &["gemini"],
            Self::Qwen => &["qwen"],
            Self::Goose => &[],
        }
    }

    /// Folders of the user by which the agent is recognized.
    pub(crate) fn folders(self, environment: &AgentEnvironment) -> Vec<PathBuf> {
        let home = |rest: &str| environment.home.as_ref().map(|home| home.join(rest));
        let config = |rest: &str| environment.config.as_ref().map(|config| config.join(rest));
        let app_data = |rest: &str| {
            environment
                .app_data
                .as_ref()
                .map(|folder| folder.join(rest))
        };
        let folders = match self {
            Self::Claude => vec![home(".claude")],
            Self::Codex => vec![environment.codex_home.clone()],
            Self::Cursor => vec![home(".cursor")],
            Self::Vscode => vec![
                home(".vscode"),
                config("Code"),
                app_data("Code"),
                home("Library/Application Support/Code"),
            ],
            Self::Opencode => vec![config("opencode")],
            Self::Zed => vec![config("zed"), app_data("Zed")],
            Self::Gemini => vec![home(".gemini")],
            Self::Qwen => vec![home(".qwen")],
            Self::Goose => vec![environment.goose_config()],
        };
        folders.into_iter().flatten().collect()
    }

    /// Config files of a project by which the agent is recognized. For the agents whose file belongs to the project,
    /// these are the files that are changed.
    pub(crate) const fn project_files(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &[".mcp.json"],
            Self::Cursor => &[".cursor/mcp.json"],
            Self::Vscode => &[".vscode/mcp.json"],
            Self::Opencode => &["opencode.json", "opencode.jsonc"],
            Self::Zed => &[".zed/settings.json"],
            Self::Gemini => &[".gemini/settings.json"],
            Self::Qwen => &[".qwen/settings.json"],
            Self::Codex | Self::Goose => &[],
        }
    }

    /// The config file to change, and true if it belongs to the project. Codex reads a project's file only after the
    /// project was trusted, and Goose has no such file: theirs are the user's.
    pub(crate) fn config_file(
        self,
        project: &Path,
        environment: &AgentEnvironment,
    ) -> Result<(PathBuf, bool), AgentSetupError> {
        let of_user = |folder: Option<PathBuf>, name: &str| match folder {
            Some(folder) => Ok((folder.join(name), false)),
            None => Err(AgentSetupError::NoHome {
                agent: self.title(),
            }),
        };
        match self {
            Self::Codex => of_user(environment.codex_home.clone(), "config.toml"),
            Self::Goose => of_user(environment.goose_config(), "config.yaml"),
            _ => {
                // opencode reads both names.
                let (first, rest) = match self.project_files() {
                    [first, rest @ ..] => (*first, rest),
                    [] => ("", &[][..]),
                };
                let exists = |name: &&&str| project.join(name).symlink_metadata().is_ok();
                let name = rest.iter().find(exists).copied().unwrap_or(first);
                Ok((project.join(name), true))
            }
        }
    }

    /// Format of the config file.
    pub(crate) const fn format(self) -> ConfigFormat {
        match self {
            Self::Codex => ConfigFormat::Toml,
            Self::Goose => ConfigFormat::Yaml,
            _ => ConfigFormat::Json,
        }
    }

    /// The key of the servers in the config file.
    pub const fn servers_key(self) -> &'static str {
        match self {
            Self::Claude | Self::Cursor | Self::Gemini | Self::Qwen => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Vscode => "servers",
            Self::Opencode => "mcp",
            Self::Zed => "context_servers",
            Self::Goose => "extensions",
        }
    }

    /// The command for this agent's file. It contains no path of this machine where the agent starts servers in the
    /// project, or has a variable for it: a project's file is shared, and a user's file serves all projects.
    pub fn serve_command(self, program: &str) -> ServeCommand {
        let workspace = matches!(self, Self::Cursor | Self::Vscode);
        ServeCommand {
            program: program.to_owned(),
            workspace: workspace.then(|| WORKSPACE_VARIABLE.to_owned()),
        }
    }

    /// The entry of a server in this agent's config file.
    pub fn entry(self, command: &ServeCommand) -> Value {
        let (program, args) = (&command.program, command.args());
        match self {
            Self::Claude | Self::Gemini | Self::Qwen | Self::Codex => {
                json!({ "command": program, "args": args })
            }
            Self::Cursor | Self::Vscode => {
                json!({ "type": "stdio", "command": program, "args": args })
            }
            Self::Opencode => {
                let words: Vec<&str> = std::iter::once(program.as_str()).chain(args).collect();
                json!({ "type": "local", "command": words, "enabled": true })
            }
            Self::Zed => {
                json!({ "source": "custom", "command": program, "args": args, "env": {} })
            }
            Self::Goose => json!({
                "name": ENTRY_NAME, "type": "stdio", "enabled": true, "cmd": program, "args": args, "timeout": 300,
            }),
        }
    }

    /// The word of an entry that names its program.
    pub(crate) fn entry_program(entry: &mut Value) -> Option<&mut String> {
        let key = if entry.get("cmd").is_some() {
            "cmd"
        } else {
            "command"
        };
        match entry.get_mut(key)? {
            Value::String(program) => Some(program),
            Value::Array(words) => match words.first_mut()? {
                Value::String(program) => Some(program),
                _ => None,
            },
            _ => None,
        }
    }

    /// The lines for a config file that has no servers yet.
    pub fn snippet(self, command: &ServeCommand) -> String {
        let entry = self.entry(command);
        let edited = self
            .format()
            .edit("", self.servers_key(), EntryEdit::Set(&entry));
        // An empty text can be edited in each format.
        edited.unwrap_or_default()
    }

    /// A sentence about the first start, if the person has to do something or may be surprised.
    pub const fn hint(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("Claude Code asks once whether to use the servers of .mcp.json."),
            Self::Codex => {
                Some("Codex serves each project in which you start it; the file is your own.")
            }
            Self::Cursor => {
                Some("Cursor starts the server after you switch it on in its MCP settings.")
            }
            Self::Vscode => {
                Some("VS Code asks whether to trust the server before its first start.")
            }
            Self::Zed => Some("Zed starts the servers of a project after you trust the project."),
            Self::Gemini => Some("Gemini CLI starts servers in trusted folders only."),
            Self::Goose => {
                Some("Goose serves each project in which you start it; the file is your own.")
            }
            Self::Opencode | Self::Qwen => None,
        }
    }
}
