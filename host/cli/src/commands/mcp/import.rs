//! The servers that agents on this machine have in their settings, in the forms that each of them writes.
//!
//! Nothing is started, and nothing is taken over that a person was not shown. Where an agent keeps a secret in plain
//! text, the person is told how to keep it better.

use std::path::{Path, PathBuf};

use mimir_core::config::McpServer;
use mimir_core::files::{self, Links};
use serde_json::{Map, Value, json};

use super::card;
use crate::args::Agent;

/// A server in the settings of an agent.
pub struct Imported {
    /// What it is called there, in letters that a name here has.
    pub name: String,
    /// The file.
    pub place: String,
    /// Whether it is the person's own, and did not come with the project.
    pub own: bool,
    /// As it would stand in our settings.
    pub block: Value,
    /// Why it cannot be taken over.
    pub fault: Option<String>,
    /// What a person should know.
    pub hints: Vec<String>,
}

/// The longest file that is read: histories of agents stand in some of them.
const LONGEST: u64 = 64 << 20;

/// The servers in the settings of these agents, or of all of them.
pub fn find(workspace: &Path, from: Option<Agent>) -> Vec<Imported> {
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    let home = home.map(PathBuf::from).filter(|home| home.is_absolute());
    let all = [Agent::Claude, Agent::Codex, Agent::Cursor, Agent::Vscode];
    let agents = all
        .into_iter()
        .filter(|agent| from.is_none_or(|from| from == *agent));
    let mut found = Vec::new();
    for agent in agents {
        for (path, own) in places(agent, workspace, home.as_deref()) {
            let Ok(text) = files::read_text(&path, Links::Followed, LONGEST) else {
                continue;
            };
            let place = path.display().to_string();
            let blocks = match path.extension().is_some_and(|kind| kind == "toml") {
                true => of_toml(&text),
                false => of_json(&text, workspace),
            };
            found.extend(blocks.into_iter().map(|(name, block)| Imported {
                own,
                ..imported(&name, &place, &block, workspace)
            }));
        }
    }
    found
}

/// Where an agent keeps its servers, and whether that is the person's own place: those go before the project's.
fn places(agent: Agent, workspace: &Path, home: Option<&Path>) -> Vec<(PathBuf, bool)> {
    let project = |rest: &str| Some((workspace.join(rest), false));
    // What is in the workspace is the project's, wherever the home is.
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
        Agent::Opencode | Agent::Zed => Vec::new(),
    };
    all.into_iter().flatten().collect()
}

/// `mcpServers` of most agents, `servers` of VS Code, and what Claude Code keeps for one project.
fn of_json(text: &str, workspace: &Path) -> Vec<(String, Value)> {
    // Comments and commas at the end are VS Code's; YAML reads the rest of JSON, and neither of these.
    let Ok(value) = serde_json::from_str::<Value>(&plain(text)) else {
        return Vec::new();
    };
    let project = &value["projects"][workspace.display().to_string()]["mcpServers"];
    let blocks = [&value["mcpServers"], &value["servers"], project];
    let each = blocks.into_iter().filter_map(Value::as_object).flatten();
    each.map(|(name, block)| (name.clone(), block.clone()))
        .collect()
}

/// JSON without comments, and without commas before an end.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' if quoted => {
                out.push(c);
                out.extend(rest.next());
            }
            '"' => {
                quoted = !quoted;
                out.push(c);
            }
            '/' if !quoted && rest.peek() == Some(&'/') => {
                while rest.next_if(|c| *c != '\n').is_some() {}
            }
            '/' if !quoted && rest.peek() == Some(&'*') => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            '}' | ']' if !quoted => {
                let kept = out.trim_end().trim_end_matches(',').len();
                if out.trim_end().ends_with(',') {
                    out.truncate(kept);
                }
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// `[mcp_servers.NAME]` of Codex.
fn of_toml(text: &str) -> Vec<(String, Value)> {
    let Ok(value) = toml::from_str::<toml::Value>(text) else {
        return Vec::new();
    };
    let servers = value.get("mcp_servers").and_then(toml::Value::as_table);
    let each = servers.into_iter().flatten();
    each.filter_map(|(name, block)| Some((name.clone(), serde_json::to_value(block).ok()?)))
        .collect()
}

fn imported(theirs: &str, place: &str, block: &Value, workspace: &Path) -> Imported {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = theirs
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .take(40)
        .collect();
    let mut hints = Vec::new();
    let (mut ours, mut fault) = ours(block, &mut hints);
    card::root(&mut ours, workspace);
    let checked =
        serde_json::from_value::<McpServer>(ours.clone()).map_err(|error| error.to_string());
    let checked = checked.and_then(|server| server.check(&name).map_err(|error| error.to_string()));
    if let (None, Err(error)) = (&fault, checked) {
        fault = Some(error);
    }
    Imported {
        name,
        place: place.to_owned(),
        own: false,
        block: ours,
        fault,
        hints,
    }
}

/// A block of theirs as one of ours, or why not.
fn ours(theirs: &Value, hints: &mut Vec<String>) -> (Value, Option<String>) {
    let mut block = Map::new();
    let mut put = |key: &str, value: &Value| {
        let empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            block.insert(key.to_owned(), value.clone());
        }
    };
    let is = theirs["type"].as_str().unwrap_or_default();
    put("command", &theirs["command"]);
    put("args", &theirs["args"]);
    if let Some(program) = theirs["command"]
        .as_str()
        .filter(|program| fetches(program))
    {
        hints.push(format!(
            "`{program}` fetches the server from the network, which the sandbox does not have: `sandbox: none` in its block lets it"
        ));
    }
    put("env", &variables(&theirs["env"], hints));
    put("cwd", &theirs["cwd"]);
    put("url", &theirs["url"]);
    let headers = match theirs.get("headers") {
        Some(headers) => headers,
        None => &theirs["http_headers"],
    };
    let mut headers = variables(headers, hints);
    if let Some(name) = theirs["bearer_token_env_var"].as_str() {
        if headers.is_null() {
            headers = json!({});
        }
        headers["Authorization"] = format!("Bearer ${{{name}}}").into();
        hints.push(format!("`mimir secrets set {name}` keeps its token"));
    }
    put("headers", &headers);
    if theirs["disabled"] == true || theirs["enabled"] == false {
        put("enabled", &json!(false));
    }
    let fault =
        (is == "sse").then(|| "it is of a form of HTTP (SSE) that is not used any more".to_owned());
    (block.into(), fault)
}

/// Whether a program is one that fetches what it runs.
fn fetches(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.split('.').next().unwrap_or(name);
    matches!(
        name,
        "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "docker" | "podman"
    )
}

/// Values with the names of secrets in the way that our settings write them; those in plain text are told.
fn variables(values: &Value, hints: &mut Vec<String>) -> Value {
    let Some(values) = values.as_object() else {
        return Value::Null;
    };
    let each = values.iter().map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // Cursor and VS Code write `${env:NAME}`, and VS Code `${input:NAME}`.
        let text = text.replace("${env:", "${").replace("${input:", "${");
        let secret = ["KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION"];
        let upper = name.to_uppercase();
        if text.contains("${") {
            hints.push(format!("`{name}` is made of secrets: keep each with `mimir secrets set`"));
        } else if secret.iter().any(|word| upper.contains(word)) {
            hints.push(format!(
                "`{name}` looks like a secret in plain text: keep it with `mimir secrets set {upper}` and write ${{{upper}}}"
            ));
        }
        (name.clone(), text.into())
    });
    Value::Object(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn every_agent_is_read_in_its_own_form() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(
            root,
            ".mcp.json",
            r#"{"mcpServers": {"a": {"type": "stdio", "command": "npx", "args": ["x"], "env": {"API_KEY": "plain"}}}}"#,
        );
        write(
            root,
            ".codex/config.toml",
            "model = \"x\"\n[mcp_servers.b]\ncommand = \"b\"\nargs = [\"1\"]\n[mcp_servers.c]\nurl = \"https://c.example/mcp\"\nbearer_token_env_var = \"C_TOKEN\"\n",
        );
        write(
            root,
            ".cursor/mcp.json",
            r#"{"mcpServers": {"d": {"url": "https://d.example", "headers": {"X": "${env:D}"}}, "e f": {"type": "sse", "url": "https://e.example"}}}"#,
        );
        write(
            root,
            ".vscode/mcp.json",
            "{\n // mine\n \"servers\": {\"g\": {\"command\": \"g\", \"disabled\": true, \"args\": [\"//\", \"a,\"],},},\n /* end */}",
        );
        let found: Vec<_> = [Agent::Claude, Agent::Codex, Agent::Cursor, Agent::Vscode]
            .into_iter()
            .flat_map(|agent| {
                let places = places(agent, root, None);
                places.into_iter().flat_map(|(path, own)| {
                    assert!(!own, "it came with the project");
                    let text = std::fs::read_to_string(&path).unwrap();
                    let toml = path.extension().unwrap() == "toml";
                    let blocks = if toml {
                        of_toml(&text)
                    } else {
                        of_json(&text, root)
                    };
                    blocks
                        .into_iter()
                        .map(|(name, block)| imported(&name, "x", &block, root))
                })
            })
            .collect();
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e-f", "g"]);
        let hints = found[0].hints.join("\n");
        assert!(
            hints.contains("`npx` fetches") && hints.contains("`API_KEY`"),
            "{hints}"
        );
        assert_eq!(found[1].block, json!({"command": "b", "args": ["1"]}));
        assert_eq!(
            found[2].block["headers"]["Authorization"],
            "Bearer ${C_TOKEN}"
        );
        assert_eq!(found[3].block["headers"]["X"], "${D}");
        assert!(found[4].fault.is_some());
        assert_eq!(found[5].block["enabled"], false);
        assert_eq!(found[5].block["args"], json!(["//", "a,"]));
        let sound = found.iter().filter(|one| one.fault.is_none());
        assert_eq!(sound.count(), 5);
    }
}
