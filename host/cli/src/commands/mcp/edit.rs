//! Servers in a config file, with all else in it left as it is: comments, quotes, order.
//!
//! The text is changed line by line, and what comes of it is read again: if that is anything but the settings from
//! before with the one change, nothing is written and the person is shown what to write.

use std::path::PathBuf;

use mimir_core::config::Config;
use mimir_core::{Code, ToolError};
use serde_json::Value;

use crate::exit::{Failure, file_error};
use crate::private::{self, Readers};
use crate::settings::{Place, Settings, Whose};
use crate::setup::Setup;

/// Changes the project's config file, or the user's. Says how messages call it.
pub fn change(
    setup: &Setup,
    user: bool,
    change: impl FnOnce(&str) -> Result<String, ToolError>,
) -> Result<String, Failure> {
    let whose = if user { Whose::User } else { Whose::Project };
    let mut places = Place::all(&setup.places, &setup.workspace).into_iter();
    let Some(place) = places.find(|place| place.whose == whose) else {
        let message = "there is no folder for your own settings; set MIMIR_CONFIG_DIR";
        return Err(ToolError::new(Code::Unavailable, message).into());
    };
    if whose == Whose::Project {
        setup.workspace.own(&place.path)?;
    }
    let before = place.text()?.unwrap_or_default();
    let after = change(&before)?;
    let path: PathBuf = place.path.clone();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| file_error("make", folder, &error))?;
    }
    let counted = setup.settings.withheld().is_empty();
    private::replace(&path, after.as_bytes(), Readers::Everybody)
        .map_err(|error| file_error("write", &path, &error))?;
    if whose == Whose::Project {
        accept(setup, counted)?;
    }
    Ok(place.shown)
}

/// A person has changed the file here and now: if it counted in full before, it does so after.
fn accept(setup: &Setup, counted: bool) -> Result<(), Failure> {
    let now = Settings::read(&setup.places, &setup.workspace)?;
    let (Some(file), true) = (now.project(), counted) else {
        if !counted {
            crate::output::note(
                "the project's settings count in full once you accept them: `mimir policy accept`",
            );
        }
        return Ok(());
    };
    let digest = file.digest();
    setup.own_ledger()?.change(|book| {
        book.settings.clear();
        book.settings.insert(digest)
    })?;
    Ok(())
}

/// The text with these servers in it.
pub fn add(text: &str, servers: &[(String, Value)]) -> Result<String, ToolError> {
    let before = read(text)?;
    let mut wanted = before.clone();
    for (name, block) in servers {
        if before.mcp.servers.contains_key(name) {
            let message = format!(
                "there is a server `{name}` already; `mimir mcp remove {name}` takes it out"
            );
            return Err(ToolError::new(Code::AlreadyExists, message));
        }
        let server: mimir_core::config::McpServer = serde_json::from_value(block.clone())
            .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))?;
        server
            .check(name)
            .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))?;
        wanted.mcp.servers.insert(name.clone(), server);
    }
    let lines: Vec<&str> = text.lines().collect();
    let (at, indent, head) = place(&lines);
    let mut out: Vec<String> = lines[..at].iter().map(|line| (*line).to_owned()).collect();
    if at == lines.len() && lines.last().is_some_and(|line| !line.trim().is_empty()) {
        out.push(String::new());
    }
    out.extend(head.iter().map(|line| (*line).to_owned()));
    for (name, block) in servers {
        out.extend(written(name, block, indent));
    }
    out.extend(lines[at..].iter().map(|line| (*line).to_owned()));
    checked(out, &wanted, || {
        let blocks = servers
            .iter()
            .flat_map(|(name, block)| written(name, block, 4));
        let blocks: Vec<String> = blocks.collect();
        format!(
            "write this into it: mcp:\n  servers:\n{}",
            blocks.join("\n")
        )
    })
}

/// The text without this server.
pub fn remove(text: &str, name: &str) -> Result<String, ToolError> {
    let mut wanted = read(text)?;
    if wanted.mcp.servers.remove(name).is_none() {
        let shown = mimir_core::text::visible(mimir_core::text::prefix(name, 64));
        let message = format!("there is no server `{shown}` in this file");
        return Err(ToolError::new(Code::NotFound, message));
    }
    let lines: Vec<&str> = text.lines().collect();
    let fault = || format!("take `{name}` out of `mcp.servers` in it");
    let (at, indent, head) = place(&lines);
    let key = |line: &str| {
        let line = line.trim_start();
        [
            format!("{name}:"),
            format!("\"{name}\":"),
            format!("'{name}':"),
        ]
        .iter()
        .any(|key| line.starts_with(key.as_str()))
    };
    let inside = lines[at..].iter();
    let begin = inside
        .take_while(|line| line.trim().is_empty() || indent_of(line) >= indent)
        .position(|line| indent_of(line) == indent && key(line));
    let (true, Some(begin)) = (head.is_empty(), begin.map(|begin| at + begin)) else {
        return Err(unsure(fault()));
    };
    let rest = &lines[begin + 1..];
    let length = rest
        .iter()
        .take_while(|line| !line.trim().is_empty() && indent_of(line) > indent);
    let end = begin + 1 + length.count();
    let mut out: Vec<String> = lines[..begin]
        .iter()
        .map(|line| (*line).to_owned())
        .collect();
    out.extend(lines[end..].iter().map(|line| (*line).to_owned()));
    checked(out, &wanted, fault)
}

fn read(text: &str) -> Result<Config, ToolError> {
    let value: serde_yaml::Value = serde_yaml::from_str(text).map_err(bad)?;
    match value {
        serde_yaml::Value::Null => Ok(Config::default()),
        value => serde_yaml::from_value(value).map_err(bad),
    }
}

fn bad(error: serde_yaml::Error) -> ToolError {
    let message = format!("the config file cannot be read: {error}");
    ToolError::new(Code::InvalidInput, message)
}

fn unsure(by_hand: String) -> ToolError {
    let message = "the config file is written in a way that mimir does not change";
    ToolError::new(Code::InvalidInput, format!("{message}; {by_hand}"))
}

/// The new text, if it says what it should.
fn checked(
    lines: Vec<String>,
    wanted: &Config,
    by_hand: impl FnOnce() -> String,
) -> Result<String, ToolError> {
    let mut text = lines.join("\n");
    text.push('\n');
    // Of the rest nothing was touched; what `Debug` shows is all of it.
    match read(&text) {
        Ok(now) if format!("{now:?}") == format!("{wanted:?}") => Ok(text),
        _ => Err(unsure(by_hand())),
    }
}

/// Where servers stand: before which line the next one goes, how far it is indented, and what has to stand before it.
fn place(lines: &[&str]) -> (usize, usize, &'static [&'static str]) {
    let is = |line: &str, key: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with('#'))
    };
    let Some(mcp) = lines
        .iter()
        .position(|line| indent_of(line) == 0 && is(line, "mcp:"))
    else {
        return (lines.len(), 4, &["mcp:", "  servers:"]);
    };
    let below = lines[mcp + 1..].iter();
    let servers = below
        .take_while(|line| blank(line) || indent_of(line) > 0)
        .position(|line| is(line, "servers:"));
    let Some(servers) = servers.map(|at| mcp + 1 + at) else {
        return (mcp + 1, 4, &["  servers:"]);
    };
    let outer = indent_of(lines[servers]);
    let first = lines[servers + 1..].iter().find(|line| !blank(line));
    let indent = first
        .map(|line| indent_of(line))
        .filter(|indent| *indent > outer);
    (servers + 1, indent.unwrap_or(outer + 2), &[])
}

fn blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// A server as it stands in a file: JSON is YAML, and needs no thought about quotes.
fn written(name: &str, block: &Value, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    let mut lines = vec![format!("{pad}{name}:")];
    let keys = block.as_object().into_iter().flatten();
    lines.extend(keys.map(|(key, value)| format!("{pad}  {key}: {value}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn servers() -> Vec<(String, Value)> {
        vec![(
            "files".to_owned(),
            json!({"command": "npx", "args": ["-y", "it's: #1"], "env": {"A": "${B}"}}),
        )]
    }

    #[test]
    fn a_server_is_added_and_removed_and_the_rest_stays() {
        for before in [
            "",
            "# mine\npolicy:\n  deny: [git] # no\n",
            "mcp:\n  servers:\n    # the first\n    old:\n      command: 'x'\n\npolicy: {deny: [git]}\n",
            "mcp:\n    servers:\n        old: {command: x}\n",
            "mcp: # nothing yet\npolicy:\n  deny: [git]\n",
        ] {
            let after = add(before, &servers()).unwrap();
            let kept: Vec<&str> = before.lines().filter(|line| !line.is_empty()).collect();
            kept.iter()
                .for_each(|line| assert!(after.contains(line), "{line}\n{after}"));
            let config = read(&after).unwrap();
            assert_eq!(config.mcp.servers["files"].args[1], "it's: #1");
            let again = add(&after, &servers()).unwrap_err();
            assert_eq!(again.code, Code::AlreadyExists);
            let gone = remove(&after, "files").unwrap();
            assert!(!gone.contains("files"), "{gone}");
            let kept: Vec<&str> = before.lines().filter(|line| !line.is_empty()).collect();
            kept.iter()
                .for_each(|line| assert!(gone.contains(line), "{line}\n{gone}"));
        }
    }

    #[test]
    fn what_it_cannot_change_it_leaves_and_shows_the_way() {
        let flow = "mcp: {servers: {old: {command: x}}}\n";
        let error = add(flow, &servers()).unwrap_err();
        assert!(
            error.message.contains("files:") && error.message.contains("npx"),
            "{error}"
        );
        assert!(remove(flow, "old").unwrap_err().message.contains("`old`"));
        assert_eq!(remove(flow, "none").unwrap_err().code, Code::NotFound);
        let bad = vec![("x y".to_owned(), json!({"command": "x"}))];
        assert!(add("", &bad).unwrap_err().message.contains("the name"));
    }
}
