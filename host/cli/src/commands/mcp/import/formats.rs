//! File formats of the agents: JSON with comments and trailing commas, and TOML for Codex.
//!
//! Out of scope: the meaning of a server block.

use std::path::Path;

use serde_json::Value;

/// Server blocks with their names, and the `inputs` of VS Code.
pub type ServerBlocks = (Vec<(String, Value)>, Value);

/// Parses the servers in a settings file. Errors name the position but quote no content, which may be secret.
pub fn parse_file(path: &Path, text: &str, workspace: &Path) -> Result<ServerBlocks, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if path.extension().is_some_and(|kind| kind == "toml") {
        Ok((parse_toml(text)?, Value::Null))
    } else {
        parse_json(text, workspace)
    }
}

/// Parses a JSON file: `mcpServers` of most agents, `servers` and `inputs` of VS Code, and the entries of Claude Code
/// for this workspace.
pub fn parse_json(text: &str, workspace: &Path) -> Result<ServerBlocks, String> {
    // An agent may have created the file without content.
    if text.trim().is_empty() {
        return Ok((Vec::new(), Value::Null));
    }
    // VS Code allows comments and trailing commas, which `serde_json` rejects.
    let mut value = serde_json::from_str::<Value>(&strip_json_comments(text)).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("invalid JSON at line {line}, column {column}")
    })?;
    let workspace = workspace.display().to_string();
    let project = &value["projects"][workspace]["mcpServers"];
    let mut all = Vec::new();
    for (key, blocks) in [
        ("mcpServers", &value["mcpServers"]),
        ("servers", &value["servers"]),
        ("projects.….mcpServers", project),
    ] {
        match blocks {
            Value::Null => {}
            Value::Object(blocks) => {
                let each = blocks.iter();
                all.extend(each.map(|(name, block)| (name.clone(), block.clone())));
            }
            _ => return Err(format!("`{key}` is not an object of servers")),
        }
    }
    Ok((all, value["inputs"].take()))
}

/// Removes comments and trailing commas from JSON. Line numbers stay the same.
fn strip_json_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    // Position in `out` of a comma that only blanks follow so far.
    let mut comma = None;
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    while let Some(c) = rest.next() {
        match c {
            '\\' if quoted => {
                out.push(c);
                out.extend(rest.next());
            }
            '"' => {
                quoted = !quoted;
                comma = None;
                out.push(c);
            }
            '/' if !quoted && rest.peek() == Some(&'/') => {
                while rest.next_if(|c| *c != '\n').is_some() {}
            }
            '/' if !quoted && rest.peek() == Some(&'*') => {
                rest.next();
                out.push_str("  ");
                let mut before = ' ';
                for c in rest.by_ref() {
                    out.push(blank(c));
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            '}' | ']' if !quoted => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(c);
            }
            c => {
                if !quoted && c == ',' {
                    comma = Some(out.len());
                } else if !c.is_whitespace() {
                    comma = None;
                }
                out.push(c);
            }
        }
    }
    out
}

/// Parses the tables `[mcp_servers.NAME]` of a Codex file.
pub fn parse_toml(text: &str) -> Result<Vec<(String, Value)>, String> {
    let value = toml::from_str::<toml::Value>(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(at).filter(|b| *b == b'\n').count() + 1;
        format!("invalid TOML at line {line}")
    })?;
    let servers = match value.get("mcp_servers") {
        None => return Ok(Vec::new()),
        Some(toml::Value::Table(servers)) => servers,
        Some(_) => return Err("`mcp_servers` is not a table of servers".to_owned()),
    };
    let each = servers.iter();
    each.map(|(name, block)| match serde_json::to_value(block) {
        Ok(block) => Ok((name.clone(), block)),
        Err(error) => Err(error.to_string()),
    })
    .collect()
}
