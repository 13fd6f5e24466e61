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

mod words;

use words::{Left, Place, Words};

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
            let (blocks, inputs) = match path.extension().is_some_and(|kind| kind == "toml") {
                true => (of_toml(&text), Value::Null),
                false => of_json(&text, workspace),
            };
            let from = From {
                place: &place,
                own,
                inputs: &inputs,
                workspace,
                home: home.as_deref(),
            };
            let blocks = blocks.iter();
            found.extend(blocks.map(|(name, block)| imported(name, block, &from)));
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

/// `mcpServers` of most agents, `servers` of VS Code, and what Claude Code keeps for one project; with what VS Code asks
/// the person for.
fn of_json(text: &str, workspace: &Path) -> (Vec<(String, Value)>, Value) {
    // Comments and commas at the end are VS Code's; YAML reads the rest of JSON, and neither of these.
    let Ok(mut value) = serde_json::from_str::<Value>(&plain(text)) else {
        return (Vec::new(), Value::Null);
    };
    let project = &value["projects"][workspace.display().to_string()]["mcpServers"];
    let blocks = [&value["mcpServers"], &value["servers"], project];
    let each = blocks.into_iter().filter_map(Value::as_object).flatten();
    let each = each.map(|(name, block)| (name.clone(), block.clone()));
    let all = each.collect();
    (all, value["inputs"].take())
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

/// Where a block stands.
struct From<'a> {
    place: &'a str,
    own: bool,
    inputs: &'a Value,
    workspace: &'a Path,
    home: Option<&'a Path>,
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
        server: &name,
        here: ".".to_owned(),
        is_here: false,
        hints: Vec::new(),
    };
    let (mut ours, mut fault) = match ours(block, from, &mut words) {
        Ok(ours) => (ours, None),
        Err((ours, fault)) => (ours, Some(fault)),
    };
    let hints = words.hints;
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
    }
}

/// A block of theirs as one of ours, or as far as it was read and why it is not taken.
fn ours(theirs: &Value, from: &From<'_>, words: &mut Words<'_>) -> Result<Value, (Value, String)> {
    let mut block = Map::new();
    let read = read(theirs, from, words, &mut block);
    let block = Value::Object(block);
    match read {
        Ok(()) => Ok(block),
        Err(why) => Err((block, why)),
    }
}

fn read(
    theirs: &Value,
    from: &From<'_>,
    words: &mut Words<'_>,
    block: &mut Map<String, Value>,
) -> Result<(), String> {
    let mut put = |key: &str, value: Value| {
        let empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            block.insert(key.to_owned(), value);
        }
    };
    let cwd = match theirs["cwd"].as_str() {
        Some(cwd) => {
            let cwd = open(words, "cwd", cwd)?;
            Some(cwd.strip_prefix("./").unwrap_or(&cwd).to_owned())
        }
        None => None,
    };
    if cwd.as_deref().is_some_and(|cwd| cwd != ".") {
        words.here = from.workspace.display().to_string();
    }
    words.is_here = false;
    if let Some(program) = theirs["command"].as_str() {
        put("command", open(words, "command", program)?.into());
        if fetches(program) {
            words.hint(format!(
                "`{program}` fetches the server from the network, which the sandbox does not have: `sandbox: none` in its block lets it"
            ));
        }
    }
    match theirs["args"].as_array() {
        Some(args) => {
            let each = args.iter().map(|arg| match arg.as_str() {
                Some(arg) => open(words, "args", arg).map(Value::from),
                None => Ok(arg.clone()),
            });
            put("args", each.collect::<Result<Vec<Value>, String>>()?.into());
        }
        None => put("args", theirs["args"].clone()),
    }
    let mut given = match theirs["envFile"].as_str() {
        Some(file) => words.file(file, from.own)?,
        None => Map::new(),
    };
    given.extend(theirs["env"].as_object().cloned().unwrap_or_default());
    for name in theirs["env_vars"].as_array().into_iter().flatten() {
        if let Some(name) = name.as_str() {
            given.insert(name.to_owned(), format!("${{{name}}}").into());
        }
    }
    put("env", words.all(&given, |name| Place::Variable(name))?);
    let from_here = words.is_here && words.here == ".";
    match cwd {
        Some(cwd) => put("cwd", cwd.into()),
        // What stands there is meant from there.
        None if from_here && theirs["command"].is_string() => put("cwd", ".".into()),
        None => {}
    }
    words.here = from.workspace.display().to_string();
    if let Some(url) = theirs["url"].as_str() {
        put("url", open(words, "url", url)?.into());
    }
    let headers = match theirs.get("headers") {
        Some(headers) => headers,
        None => &theirs["http_headers"],
    };
    let mut headers = headers.as_object().cloned().unwrap_or_default();
    let named = theirs["env_http_headers"].as_object().into_iter().flatten();
    for (header, name) in named {
        if let Some(name) = name.as_str() {
            headers.insert(header.clone(), format!("${{{name}}}").into());
        }
    }
    if let Some(name) = theirs["bearer_token_env_var"].as_str() {
        let bearer = format!("Bearer ${{{name}}}");
        headers.insert("Authorization".to_owned(), bearer.into());
    }
    put("headers", words.all(&headers, |name| Place::Header(name))?);
    if theirs["disabled"] == true || theirs["enabled"] == false {
        put("enabled", json!(false));
    }
    match theirs["type"] == "sse" {
        true => Err("it is of a form of HTTP (SSE) that is not used any more".to_owned()),
        false => Ok(()),
    }
}

/// A text that all may read.
fn open(words: &mut Words<'_>, key: &str, text: &str) -> Result<String, String> {
    words
        .replaced(text, Place::Open(key))
        .map_err(|left| match left {
            Left::Fault(why) => why,
            // What is left out there is a fault.
            Left::Out => format!("its `{key}` cannot be read"),
        })
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
                    let (blocks, inputs) = if toml {
                        (of_toml(&text), Value::Null)
                    } else {
                        of_json(&text, root)
                    };
                    let from = From {
                        place: "x",
                        own,
                        inputs: &inputs,
                        workspace: root,
                        home: None,
                    };
                    let each = blocks.iter();
                    each.map(|(name, block)| imported(name, block, &from))
                        .collect::<Vec<_>>()
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
    #[test]
    fn what_an_agent_fills_in_when_it_starts_is_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "server.js", "");
        write(root, ".env", "MODE=fast\nDB_PASSWORD=hunter2\n");
        write(root, "sub/.env", "");
        let outside = tempfile::NamedTempFile::new().unwrap();
        let text = json!({
            "inputs": [{"id": "pin", "password": true}],
            "servers": {
                "a": {"command": "node", "args": ["${workspaceFolder}/server.js"], "envFile": "${workspaceFolder}/.env",
                    "env": {"PIN": "${input:pin}", "MODE": "slow"}},
                "b": {"command": "node", "args": ["x"], "cwd": "${workspaceFolder}/sub", "env": {"AT": "${workspaceFolder}"}},
                "c": {"command": "node", "envFile": outside.path()},
                "d": {"command": "node", "envFile": "nowhere.env"},
                "e": {"url": "https://${NOBODY_HAS_THIS:-e.example}/mcp"},
            },
        });
        let (blocks, inputs) = of_json(&text.to_string(), root);
        let from = |own| From {
            place: "x",
            own,
            inputs: &inputs,
            workspace: root,
            home: None,
        };
        let all: Vec<Imported> = blocks
            .iter()
            .map(|(name, block)| imported(name, block, &from(false)))
            .collect();
        let a = json!({"command": "node", "args": ["./server.js"], "cwd": ".",
            "env": {"DB_PASSWORD": "${DB_PASSWORD}", "MODE": "slow", "PIN": "${PIN}"}});
        assert_eq!((&all[0].block, &all[0].fault), (&a, &None));
        let hints = all[0].hints.join("\n");
        for name in ["PIN", "DB_PASSWORD"] {
            assert!(
                hints.contains(&format!("mimir secrets set {name}")),
                "{hints}"
            );
        }
        assert!(!hints.contains("hunter2"), "{hints}");
        assert_eq!(all[1].block["cwd"], "sub");
        assert_eq!(all[1].block["env"]["AT"], root.display().to_string());
        // What lies elsewhere is read for the person's own settings alone.
        let fault = all[2].fault.as_ref().unwrap();
        assert!(fault.contains("not in the project"), "{fault}");
        let own = imported("c", &blocks[2].1, &from(true));
        assert_eq!(own.fault, None);
        assert!(
            all[3].hints[0].contains("cannot be read"),
            "{:?}",
            all[3].hints
        );
        assert_eq!(all[4].block["url"], "https://e.example/mcp");
    }
}
