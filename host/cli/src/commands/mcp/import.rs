//! Imports servers from the settings files of agents, in each agent's format.
//!
//! No server is started, and no server is imported that the user has not seen. If an agent stores a secret in plain
//! text, a hint explains how to store the secret safely.

use std::path::{Path, PathBuf};

use mimir_core::config::McpServerSettings;
use mimir_core::files::{self, LinkPolicy};
use serde_json::Value;

use super::server_card;
use crate::args::CodingAgent;

mod dotenv;
mod formats;
mod other_settings;
mod placeholders;
mod secret_names;
mod server_block;

use placeholders::PlaceholderExpander;
use secret_names::ImportedSecret;
pub use secret_names::rename_conflicting;
use server_block::BlockContext;

/// A server in the settings of an agent.
pub struct ImportedServer {
    /// Name of the server, with invalid characters replaced.
    pub name: String,
    /// Path of the file that contains the server.
    pub place: String,
    /// True if the file is the user's own and did not come with the project.
    pub own: bool,
    /// Settings of the server in mimir's format.
    pub block: Value,
    /// Reason why the server cannot be imported.
    pub fault: Option<String>,
    /// Hints for the user, without those about secrets.
    hints: Vec<String>,
    /// Secrets that the server receives.
    secrets: Vec<ImportedSecret>,
}

/// Result of a search for servers.
#[derive(Default)]
pub struct ImportScan {
    pub servers: Vec<ImportedServer>,
    /// Unreadable files, with reasons.
    pub unread: Vec<(String, String)>,
}

impl ImportedServer {
    /// Returns the hints for the user, including those about secrets.
    pub fn hints(&self) -> Vec<String> {
        let mut hints = self.hints.clone();
        for secret in &self.secrets {
            let hint = secret.hint();
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }
}

/// Maximum size of a settings file in bytes: some agents store histories in theirs.
const MAX_FILE_SIZE: u64 = 64 << 20;

/// Finds servers in the settings of one agent, or of all supported agents.
pub fn find_servers(workspace: &Path, from: Option<CodingAgent>) -> ImportScan {
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    let home = home.map(PathBuf::from).filter(|home| home.is_absolute());
    let all = [
        CodingAgent::Claude,
        CodingAgent::Codex,
        CodingAgent::Cursor,
        CodingAgent::Vscode,
    ];
    let agents = all
        .into_iter()
        .filter(|agent| from.is_none_or(|from| from == *agent));
    let mut all = ImportScan::default();
    for agent in agents {
        for (path, own) in settings_files(agent, workspace, home.as_deref()) {
            let location = path.display().to_string();
            let read = match files::read_text(&path, LinkPolicy::Follow, MAX_FILE_SIZE) {
                Ok(text) => formats::parse_file(&path, &text, workspace),
                Err(error) if is_absent(&error) => continue,
                Err(error) => Err(error.to_string()),
            };
            let (blocks, inputs) = match read {
                Ok(read) => read,
                Err(why) => {
                    all.unread.push((location, why));
                    continue;
                }
            };
            let from = BlockContext {
                place: &location,
                own,
                inputs: &inputs,
                workspace,
                home: home.as_deref(),
            };
            // Importing mimir would make it start itself.
            let blocks = blocks.iter().filter(|(_, block)| !is_mimir(block));
            all.servers
                .extend(blocks.map(|(name, block)| import_server(name, block, &from)));
        }
    }
    all
}

/// Returns true if a block starts `mimir serve`.
fn is_mimir(block: &Value) -> bool {
    let words = std::iter::once(&block["command"]);
    let words = words.chain(block["args"].as_array().into_iter().flatten());
    // In opencode's files, `command` is a list of the program and its arguments.
    let words = words.chain(block["command"].as_array().into_iter().flatten());
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    let program = words
        .first()
        .and_then(|program| program.rsplit(['/', '\\']).next());
    let program = program.map(|program| program.strip_suffix(".exe").unwrap_or(program));
    program == Some("mimir") && words.contains(&"serve")
}

/// Returns true if the file does not exist.
fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the settings files of an agent, and for each true if it is the user's own, which takes precedence over the
/// project's.
fn settings_files(
    agent: CodingAgent,
    workspace: &Path,
    home: Option<&Path>,
) -> Vec<(PathBuf, bool)> {
    let project = |rest: &str| Some((workspace.join(rest), false));
    // A file in the workspace belongs to the project, even if the home folder is there, too.
    let user = |rest: &str| {
        let path = home?.join(rest);
        let own = !path.starts_with(workspace);
        Some((path, own))
    };
    let all = match agent {
        CodingAgent::Claude => vec![
            user(".claude.json"),
            user(".config/Claude/claude_desktop_config.json"),
            user("Library/Application Support/Claude/claude_desktop_config.json"),
            project(".mcp.json"),
        ],
        CodingAgent::Codex => vec![user(".codex/config.toml"), project(".codex/config.toml")],
        CodingAgent::Cursor => vec![user(".cursor/mcp.json"), project(".cursor/mcp.json")],
        CodingAgent::Vscode => vec![
            user(".config/Code/User/mcp.json"),
            user("Library/Application Support/Code/User/mcp.json"),
            project(".vscode/mcp.json"),
        ],
        CodingAgent::Opencode
        | CodingAgent::Zed
        | CodingAgent::Gemini
        | CodingAgent::Qwen
        | CodingAgent::Goose
        | CodingAgent::Windsurf
        | CodingAgent::Cline => Vec::new(),
    };
    all.into_iter().flatten().collect()
}

fn import_server(original_name: &str, block: &Value, context: &BlockContext<'_>) -> ImportedServer {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = original_name
        .chars()
        .map(|c| if is_valid(c) { c } else { '-' })
        .take(40)
        .collect();
    let mut expander = PlaceholderExpander {
        workspace: context.workspace,
        home: context.home,
        variable: &|name| std::env::var(name).ok(),
        inputs: context.inputs,
        file: context.place,
        server: &name,
        here: ".".to_owned(),
        uses_here: false,
        hints: Vec::new(),
        secrets: Vec::new(),
    };
    let (mut block, mut fault) = match server_block::convert_block(block, context, &mut expander) {
        Ok(block) => (block, None),
        Err((block, fault)) => (block, Some(fault)),
    };
    let (hints, secrets) = (expander.hints, expander.secrets);
    server_card::set_workspace_root(&mut block, context.workspace);
    let checked = serde_json::from_value::<McpServerSettings>(block.clone())
        .map_err(|error| error.to_string());
    let checked = checked.and_then(|server| server.check(&name).map_err(|error| error.to_string()));
    if let (None, Err(error)) = (&fault, checked) {
        fault = Some(error);
    }
    ImportedServer {
        name,
        place: context.place.to_owned(),
        own: context.own,
        block,
        fault,
        hints,
        secrets,
    }
}

#[cfg(test)]
mod tests;
