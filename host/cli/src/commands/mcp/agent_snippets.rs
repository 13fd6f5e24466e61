//! Settings that make an agent use mimir: a command, or a few lines in a config file.

use serde_json::json;

use crate::args::{CodingAgent, GlobalOptions};
use crate::arguments::quote_for_shell;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{FAINT, note, styled};
use mimir::agents::{AgentKind, ServeCommand};
use mimir::setup;

/// Settings that add mimir to an agent.
struct AgentSnippet {
    /// Config file of the agent.
    file: &'static str,
    /// Lines for the file.
    text: String,
    /// Command of the agent with the same effect.
    command: Option<String>,
}

/// Returns the file and the lines that make an agent leave approvals of mimir's tools to mimir. Returns `None` for an
/// agent without a known setting.
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

/// Prints the settings: the lines on stdout, the file name and hints on stderr.
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
                    "The agent also asks for approval of each tool. To let only mimir ask, add this to {file}:"
                ),
            ));
            note(text);
        }
        note(styled(FAINT, format_args!("Add to {}:", snippet.file)));
    }
    printer.print_result(&value, |out| writeln!(out, "{}", snippet.text))?;
    Ok(ExitReason::Done)
}

/// The agent, if `mimir setup` knows it.
fn setup_agent(agent: CodingAgent) -> Option<AgentKind> {
    Some(match agent {
        CodingAgent::Claude => AgentKind::Claude,
        CodingAgent::Codex => AgentKind::Codex,
        CodingAgent::Cursor => AgentKind::Cursor,
        CodingAgent::Vscode => AgentKind::Vscode,
        CodingAgent::Opencode => AgentKind::Opencode,
        CodingAgent::Zed => AgentKind::Zed,
        CodingAgent::Gemini => AgentKind::Gemini,
        CodingAgent::Qwen => AgentKind::Qwen,
        CodingAgent::Goose => AgentKind::Goose,
        CodingAgent::Windsurf | CodingAgent::Cline => return None,
    })
}

fn snippet(agent: CodingAgent, root: &str) -> AgentSnippet {
    let file = match agent {
        CodingAgent::Claude => ".mcp.json of the project",
        CodingAgent::Cursor => ".cursor/mcp.json of the project, or ~/.cursor/mcp.json",
        CodingAgent::Gemini => ".gemini/settings.json of the project, or ~/.gemini/settings.json",
        CodingAgent::Qwen => ".qwen/settings.json of the project, or ~/.qwen/settings.json",
        CodingAgent::Windsurf => "~/.codeium/windsurf/mcp_config.json",
        CodingAgent::Vscode => ".vscode/mcp.json of the project",
        CodingAgent::Codex => "~/.codex/config.toml",
        CodingAgent::Opencode => {
            "opencode.json of the project, or ~/.config/opencode/opencode.json"
        }
        CodingAgent::Cline => {
            "cline_mcp_settings.json, which \"Configure MCP Servers\" of Cline opens"
        }
        CodingAgent::Goose => "~/.config/goose/config.yaml",
        CodingAgent::Zed => ".zed/settings.json of the project, or ~/.config/zed/settings.json",
    };
    let text = match setup_agent(agent) {
        Some(agent) => agent.snippet(&ServeCommand {
            program: "mimir".to_owned(),
            workspace: Some(root.to_owned()),
        }),
        None => {
            let mut entry = json!({ "command": "mimir", "args": ["serve", "-C", root] });
            if agent == CodingAgent::Cline {
                entry["disabled"] = false.into();
            }
            let servers = json!({ "mcpServers": { "mimir": entry } });
            serde_json::to_string_pretty(&servers).unwrap_or_default()
        }
    };
    let text = text.trim_end().to_owned();
    let add_command = match agent {
        CodingAgent::Claude => Some("claude mcp add mimir --"),
        CodingAgent::Codex => Some("codex mcp add mimir --"),
        CodingAgent::Gemini => Some("gemini mcp add mimir"),
        CodingAgent::Qwen => Some("qwen mcp add mimir"),
        _ => None,
    };
    let command = add_command
        .map(|add_command| format!("{add_command} mimir serve -C {}", quote_for_shell(root)));
    AgentSnippet {
        file,
        text,
        command,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
