//! Settings that make each agent use mimir: a command, or a few lines in a config file.

use serde_json::{Value, json};

use crate::args::{CodingAgent, GlobalOptions};
use crate::arguments::quote_for_shell;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{FAINT, note, styled};
use mimir::setup;

/// Setup of an agent.
struct AgentSnippet {
    /// Its config file.
    file: &'static str,
    /// Lines for the file.
    text: String,
    /// A command with the same effect.
    command: Option<String>,
}

/// File and lines that make an agent leave questions about mimir's tools to mimir; `None` if no such setting is known.
fn ask_once(agent: CodingAgent) -> Option<(&'static str, &'static str)> {
    match agent {
        CodingAgent::Claude => Some((
            ".claude/settings.local.json of the project, or ~/.claude/settings.json",
            r#"{"permissions": {"allow": ["mcp__mimir"]}}"#,
        )),
        CodingAgent::Codex => Some((
            "the same table",
            r#"default_tools_approval_mode = "approve""#,
        )),
        CodingAgent::Gemini | CodingAgent::Qwen => Some(("the same server", r#""trust": true"#)),
        _ => None,
    }
}

/// Prints the setup: the lines on stdout, the file name on stderr.
pub fn print(globals: &GlobalOptions, agent: CodingAgent) -> CommandResult {
    let printer = globals.printer();
    let workspace = setup::find_workspace(globals.workspace.as_deref())?;
    let root = workspace.root().display().to_string();
    let snippet = snippet(agent, &root);
    let ask_once = ask_once(agent);
    let value = json!({
        "file": snippet.file, "text": snippet.text, "command": snippet.command,
        "askOnce": ask_once.map(|(file, text)| json!({ "file": file, "text": text })),
    });
    if !printer.is_json() {
        if let Some(command) = &snippet.command {
            note(format_args!("Or run: {command}"));
        }
        if let Some((file, text)) = ask_once {
            note(styled(
                FAINT,
                format_args!(
                    "The agent also asks about tools by itself. To let only mimir ask, add to {file}:"
                ),
            ));
            note(text);
        }
        note(styled(FAINT, format_args!("Add to {}:", snippet.file)));
    }
    printer.print_result(&value, |out| writeln!(out, "{}", snippet.text))?;
    Ok(ExitReason::Done)
}

fn snippet(agent: CodingAgent, root: &str) -> AgentSnippet {
    let args = ["serve", "-C", root];
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let server = json!({ "command": "mimir", "args": args });
    match agent {
        CodingAgent::Claude => AgentSnippet {
            file: ".mcp.json of the project",
            text: pretty(&json!({ "mcpServers": { "mimir": server } })),
            command: Some(format!(
                "claude mcp add mimir -- mimir serve -C {}",
                quote_for_shell(root)
            )),
        },
        CodingAgent::Cursor => AgentSnippet {
            file: ".cursor/mcp.json of the project, or ~/.cursor/mcp.json",
            text: pretty(&json!({ "mcpServers": { "mimir": server } })),
            command: None,
        },
        CodingAgent::Vscode => AgentSnippet {
            file: ".vscode/mcp.json of the project",
            text: pretty(&json!({ "servers": {
                "mimir": { "type": "stdio", "command": "mimir", "args": args },
            } })),
            command: None,
        },
        CodingAgent::Codex => AgentSnippet {
            file: "~/.codex/config.toml",
            // A JSON string is also a valid TOML basic string.
            text: format!(
                "[mcp_servers.mimir]\ncommand = \"mimir\"\nargs = [\"serve\", \"-C\", {}]",
                Value::from(root)
            ),
            command: Some(format!(
                "codex mcp add mimir -- mimir serve -C {}",
                quote_for_shell(root)
            )),
        },
        CodingAgent::Opencode => AgentSnippet {
            file: "opencode.json of the project, or ~/.config/opencode/opencode.json",
            text: pretty(&json!({ "mcp": { "mimir": {
                "type": "local", "command": ["mimir", "serve", "-C", root], "enabled": true,
            } } })),
            command: None,
        },
        CodingAgent::Gemini => AgentSnippet {
            file: ".gemini/settings.json of the project, or ~/.gemini/settings.json",
            text: pretty(&json!({ "mcpServers": { "mimir": server } })),
            command: Some(format!(
                "gemini mcp add mimir mimir serve -C {}",
                quote_for_shell(root)
            )),
        },
        CodingAgent::Qwen => AgentSnippet {
            file: ".qwen/settings.json of the project, or ~/.qwen/settings.json",
            text: pretty(&json!({ "mcpServers": { "mimir": server } })),
            command: Some(format!(
                "qwen mcp add mimir mimir serve -C {}",
                quote_for_shell(root)
            )),
        },
        CodingAgent::Windsurf => AgentSnippet {
            file: "~/.codeium/windsurf/mcp_config.json",
            text: pretty(&json!({ "mcpServers": { "mimir": server } })),
            command: None,
        },
        CodingAgent::Cline => AgentSnippet {
            file: "cline_mcp_settings.json, which \"Configure MCP Servers\" of Cline opens",
            text: pretty(&json!({ "mcpServers": {
                "mimir": { "command": "mimir", "args": args, "disabled": false },
            } })),
            command: None,
        },
        CodingAgent::Goose => AgentSnippet {
            file: "~/.config/goose/config.yaml",
            // JSON inside YAML, because a path may contain any character.
            text: format!(
                "extensions:\n  mimir:\n    name: mimir\n    type: stdio\n    enabled: true\n    cmd: mimir\n    args: {}\n    timeout: 300",
                json!(args)
            ),
            command: None,
        },
        CodingAgent::Zed => AgentSnippet {
            file: "~/.config/zed/settings.json",
            text: pretty(&json!({ "context_servers": {
                "mimir": { "source": "custom", "command": "mimir", "args": args, "env": {} },
            } })),
            command: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_snippets_parse_in_the_format_of_the_agent() {
        let root = "/work/it's \"here\"";
        for agent in [
            CodingAgent::Claude,
            CodingAgent::Cursor,
            CodingAgent::Vscode,
            CodingAgent::Opencode,
            CodingAgent::Zed,
            CodingAgent::Gemini,
            CodingAgent::Qwen,
            CodingAgent::Windsurf,
            CodingAgent::Cline,
        ] {
            let text = snippet(agent, root).text;
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(
                value.to_string().contains(&Value::from(root).to_string()),
                "{text}"
            );
        }
        let codex: toml::Value = toml::from_str(&snippet(CodingAgent::Codex, root).text).unwrap();
        assert_eq!(
            codex["mcp_servers"]["mimir"]["args"][2].as_str(),
            Some(root)
        );
        let (_, line) = ask_once(CodingAgent::Codex).unwrap();
        let text = format!("{}\n{line}", snippet(CodingAgent::Codex, root).text);
        let codex: toml::Value = toml::from_str(&text).unwrap();
        let mode = &codex["mcp_servers"]["mimir"]["default_tools_approval_mode"];
        assert_eq!(mode.as_str(), Some("approve"));
        let goose: serde_yaml::Value =
            serde_yaml::from_str(&snippet(CodingAgent::Goose, root).text).unwrap();
        assert_eq!(goose["extensions"]["mimir"]["args"][2].as_str(), Some(root));
        let command = snippet(CodingAgent::Claude, root).command.unwrap();
        assert!(
            command.ends_with(r#"-C '/work/it'\''s "here"'"#),
            "{command}"
        );
    }
}
