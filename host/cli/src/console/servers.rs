//! The MCP servers of the workspace.

use mimir_console::ServerAction;
use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::{Value, json};

use crate::commands::mcp::{lifecycle, status};
use mimir::servers::server_logs::ServerLogs;
use mimir::setup::HostSetup;

use super::tools::command_error;
use super::workspace::LoadedWorkspace;

/// Number of lines of each log that are returned.
const LOG_LINES: usize = 50;

/// Returns the servers with their states and the ends of their logs.
pub fn list(setup: &HostSetup) -> Result<Value, ToolError> {
    let mut value = status::value(setup).map_err(command_error)?;
    let logs = ServerLogs::new(&setup.user_dirs, &setup.workspace);
    let rows = value["servers"].as_array_mut().into_iter().flatten();
    for row in rows {
        let name = row["name"].as_str().unwrap_or_default().to_owned();
        let settings = setup.settings.config.mcp.servers.get(&name);
        row["transport"] = match settings {
            Some(server) if server.url.is_some() => json!("http"),
            Some(_) => json!("stdio"),
            None => Value::Null,
        };
        let lines = logs
            .as_ref()
            .and_then(|logs| logs.last_lines(&name, LOG_LINES).ok());
        row["logs"] = json!(lines.map(|excerpt| excerpt.lines).unwrap_or_default());
        // The last error of a server that runs again is over.
        if row["lastError"].is_object() && row["state"] != "running" {
            row["error"] = row["lastError"]["message"].clone();
        }
        if settings.is_some_and(|server| server.oauth.is_some()) {
            row["login"] = json!(format!("mimir mcp login {}", visible(&name)));
        }
    }
    Ok(value)
}

/// Starts, stops or restarts a server in all processes of the workspace.
pub fn control(
    setup: &HostSetup,
    name: &str,
    action: ServerAction,
    by: &str,
) -> Result<(), ToolError> {
    let done = match action {
        ServerAction::Start => {
            let started = lifecycle::start_server(setup, name).map_err(command_error)?;
            if !started {
                return Err(ToolError::unavailable(format!(
                    "the server `{}` runs already: restart it instead",
                    visible(name)
                )));
            }
            "started"
        }
        ServerAction::Stop => {
            lifecycle::stop_server(setup, name).map_err(command_error)?;
            "stopped"
        }
        ServerAction::Restart => {
            lifecycle::restart_server(setup, name).map_err(command_error)?;
            "restarted"
        }
    };
    let detail = format!("server {done} by {} at the console", visible(by));
    let subject = format!("mcp.servers.{name}");
    setup.record_event(&LoadedWorkspace::change_event(&visible(&subject), &detail));
    Ok(())
}

/// Returns the states of all servers as a text to compare.
pub fn states(setup: &HostSetup) -> String {
    let value = status::value(setup).unwrap_or_default();
    value.to_string()
}
