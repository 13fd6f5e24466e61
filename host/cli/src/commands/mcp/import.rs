//! Imports servers from the settings of agents on this machine, in each agent's format.
//!
//! Nothing is started, and nothing is imported that a person was not shown. If an agent stores a secret in plain text,
//! the person is told how to store it safely.

use std::path::{Path, PathBuf};

use mimir_core::config::McpServer;
use mimir_core::files::{self, Links};
use serde_json::Value;

use super::card;
use crate::args::Agent;

mod block;
mod dotenv;
mod forms;
mod left;
mod names;
mod words;

use block::From;
pub use names::apart;
use names::{Kept, Server};
use words::Words;

/// A server in the settings of an agent.
pub struct Imported {
    /// Its name, with characters that are valid here.
    pub name: String,
    /// The file.
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
    secrets: Vec<Kept>,
}

/// Result of a search.
#[derive(Default)]
pub struct All {
    pub servers: Vec<Imported>,
    /// Unreadable files, with reasons.
    pub unread: Vec<(String, String)>,
}

impl Imported {
    /// Hints for the person.
    pub fn hints(&self) -> Vec<String> {
        let mut all = self.hints.clone();
        for kept in &self.secrets {
            let hint = kept.hint();
            if !all.contains(&hint) {
                all.push(hint);
            }
        }
        all
    }
}

impl Server for Imported {
    fn name(&self) -> &str {
        &self.name
    }

    fn parts(&mut self) -> (&mut Value, &mut Vec<Kept>) {
        (&mut self.block, &mut self.secrets)
    }
}

/// Size limit of a file: some agents store histories in theirs.
const LONGEST: u64 = 64 << 20;

/// Finds servers in the settings of these agents, or of all.
pub fn find(workspace: &Path, from: Option<Agent>) -> All {
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    let home = home.map(PathBuf::from).filter(|home| home.is_absolute());
    let all = [Agent::Claude, Agent::Codex, Agent::Cursor, Agent::Vscode];
    let agents = all
        .into_iter()
        .filter(|agent| from.is_none_or(|from| from == *agent));
    let mut all = All::default();
    for agent in agents {
        for (path, own) in places(agent, workspace, home.as_deref()) {
            let place = path.display().to_string();
            let read = match files::read_text(&path, Links::Followed, LONGEST) {
                Ok(text) => forms::read(&path, &text, workspace),
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
            let from = From {
                place: &place,
                own,
                inputs: &inputs,
                workspace,
                home: home.as_deref(),
            };
            // It would start mimir from mimir.
            let blocks = blocks.iter().filter(|(_, block)| !is_mimir(block));
            all.servers
                .extend(blocks.map(|(name, block)| imported(name, block, &from)));
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
fn places(agent: Agent, workspace: &Path, home: Option<&Path>) -> Vec<(PathBuf, bool)> {
    let project = |rest: &str| Some((workspace.join(rest), false));
    // A file in the workspace belongs to the project, even if the home folder is there, too.
    let user = |rest: &str| {
        let path = home?.join(rest);
        let own = !path.starts_with(workspace);
        Some((path, own))
    };
    let all = match agent {
        Agent::Claude => vec![
            user(".claude.json"),
            user(".config/Claude/claude_desktop_config.json"),
            user("Library/Application Support/Claude/claude_desktop_config.json"),
            project(".mcp.json"),
        ],
        Agent::Codex => vec![user(".codex/config.toml"), project(".codex/config.toml")],
        Agent::Cursor => vec![user(".cursor/mcp.json"), project(".cursor/mcp.json")],
        Agent::Vscode => vec![
            user(".config/Code/User/mcp.json"),
            user("Library/Application Support/Code/User/mcp.json"),
            project(".vscode/mcp.json"),
        ],
        Agent::Opencode
        | Agent::Zed
        | Agent::Gemini
        | Agent::Qwen
        | Agent::Goose
        | Agent::Windsurf
        | Agent::Cline => Vec::new(),
    };
    all.into_iter().flatten().collect()
}

fn imported(theirs: &str, block: &Value, from: &From<'_>) -> Imported {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = theirs
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .take(40)
        .collect();
    let mut words = Words {
        workspace: from.workspace,
        home: from.home,
        variable: &|name| std::env::var(name).ok(),
        inputs: from.inputs,
        file: from.place,
        server: &name,
        here: ".".to_owned(),
        is_here: false,
        hints: Vec::new(),
        secrets: Vec::new(),
    };
    let (mut ours, mut fault) = match block::ours(block, from, &mut words) {
        Ok(ours) => (ours, None),
        Err((ours, fault)) => (ours, Some(fault)),
    };
    let (hints, secrets) = (words.hints, words.secrets);
    card::root(&mut ours, from.workspace);
    let checked =
        serde_json::from_value::<McpServer>(ours.clone()).map_err(|error| error.to_string());
    let checked = checked.and_then(|server| server.check(&name).map_err(|error| error.to_string()));
    if let (None, Err(error)) = (&fault, checked) {
        fault = Some(error);
    }
    Imported {
        name,
        place: from.place.to_owned(),
        own: from.own,
        block: ours,
        fault,
        hints,
        secrets,
    }
}

#[cfg(test)]
mod tests;
