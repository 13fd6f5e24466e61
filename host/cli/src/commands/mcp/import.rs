//! Imports servers from the settings of agents on this machine, in each agent's format.
//!
//! Nothing is started, and nothing is imported that a person was not shown. If an agent stores a secret in plain text,
//! the person is told how to store it safely.

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
    /// Its name, with characters that are valid here.
    pub name: String,
    /// The file that contains it.
    pub place: String,
    /// True if the file is the person's own and did not come with the project.
    pub own: bool,
    /// Its block in our format.
    pub block: Value,
    /// Reason why it cannot be imported.
    pub fault: Option<String>,
    /// Hints for the person.
    hints: Vec<String>,
    /// Secrets that it receives.
    secrets: Vec<ImportedSecret>,
}

/// Result of a search.
#[derive(Default)]
pub struct ImportScan {
    pub servers: Vec<ImportedServer>,
    /// Unreadable files, with reasons.
    pub unread: Vec<(String, String)>,
}

impl ImportedServer {
    /// Hints for the person.
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

/// Size limit of a file: some agents store histories in theirs.
const MAX_FILE_SIZE: u64 = 64 << 20;

/// Finds servers in the settings of these agents, or of all.
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
            let place = path.display().to_string();
            let read = match files::read_text(&path, LinkPolicy::Follow, MAX_FILE_SIZE) {
                Ok(text) => formats::parse_file(&path, &text, workspace),
                Err(error) if is_absent(&error) => continue,
                Err(error) => Err(error.to_string()),
            };
            let (blocks, inputs) = match read {
                Ok(read) => read,
                Err(why) => {
                    all.unread.push((place, why));
                    continue;
                }
            };
            let from = BlockContext {
                place: &place,
                own,
                inputs: &inputs,
                workspace,
                home: home.as_deref(),
            };
            // It would start mimir from mimir.
            let blocks = blocks.iter().filter(|(_, block)| !is_mimir(block));
            all.servers
                .extend(blocks.map(|(name, block)| import_server(name, block, &from)));
        }
    }
    all
}

/// Returns true if a block starts `mimir serve`: the agent uses this program already.
fn is_mimir(block: &Value) -> bool {
    let words = std::iter::once(&block["command"]);
    let words = words.chain(block["args"].as_array().into_iter().flatten());
    // opencode has the program and its arguments in one list.
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

/// Settings files of an agent, and whether each is the person's own; those take precedence over the project's.
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
