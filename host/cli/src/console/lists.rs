//! Lists: sessions, workers, memory notes and packages.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::files::reject_links;
use mimir_core::text::bytes;
use serde_json::{Value, json};

use mimir::live_calls::LiveAgent;
use mimir::packages::PackageStore;
use mimir::setup::HostSetup;

use super::live::stop_value;
use super::recorded_calls::{days_ago, visit_calls};

/// Period of the listed sessions in days, and their maximum number.
const SESSION_DAYS: u32 = 30;
const SESSIONS_MAX: usize = 500;

/// Folder of the memory notes, relative to the workspace, and their maximum number.
const MEMORY_FOLDER: &str = ".mimir/memory";
const NOTES_MAX: usize = 1_000;

struct SessionRow {
    user: Option<String>,
    first: Timestamp,
    last: Timestamp,
    calls: u64,
    is_untrusted: bool,
    tokens: u64,
    /// The program that made the newest call for which one is on record.
    client: Option<String>,
    /// The agent, if its process is connected.
    agent: Option<LiveAgent>,
}

impl SessionRow {
    fn new(user: Option<String>, time: Timestamp) -> Self {
        Self {
            user,
            first: time,
            last: time,
            calls: 0,
            is_untrusted: false,
            tokens: 0,
            client: None,
            agent: None,
        }
    }
}

/// Returns the sessions of the last days and those of connected processes, the last used first.
pub fn sessions(setup: &HostSetup, agents: Vec<LiveAgent>) -> Result<Value, ToolError> {
    let mut sessions: HashMap<String, SessionRow> = HashMap::new();
    visit_calls(setup, days_ago(SESSION_DAYS), |call| {
        let client = call.shown_client();
        let row = sessions
            .entry(call.session)
            .or_insert_with(|| SessionRow::new(call.user.clone(), call.time));
        row.first = row.first.min(call.time);
        row.last = row.last.max(call.time);
        row.calls += 1;
        row.tokens += call.tokens;
        row.is_untrusted |= call.trust.is_some();
        if row.client.is_none() {
            row.client = client;
        }
        ControlFlow::Continue(())
    })?;
    for agent in agents {
        let last = agent.last.unwrap_or_else(Timestamp::now);
        let row = sessions
            .entry(agent.session.clone())
            .or_insert_with(|| SessionRow::new(agent.user.clone(), last));
        row.last = row.last.max(last);
        // A session that several processes share is shown with the one that has used it last.
        if row
            .agent
            .as_ref()
            .is_none_or(|known| known.last < agent.last)
        {
            row.agent = Some(agent);
        }
    }
    let mut rows: Vec<_> = sessions.into_iter().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.last));
    rows.truncate(SESSIONS_MAX);
    let rows: Vec<Value> = rows
        .into_iter()
        .map(|(id, row)| {
            let labels: &[&str] = if row.is_untrusted {
                &["untrusted"]
            } else {
                &[]
            };
            let mut value = json!({
                "id": id,
                "first": format!("{:.0}", row.first),
                "last": format!("{:.0}", row.last),
                "calls": row.calls,
                "tokens": row.tokens,
                "labels": labels,
            });
            if let Some(user) = row.user {
                value["user"] = json!(user);
            }
            if let Some(client) = row.client {
                value["client"] = json!(client);
            }
            if let Some(agent) = row.agent {
                value["process"] = json!(agent.process);
                value["running"] = json!(agent.running);
                value["waiting"] = json!(agent.waiting);
                if let Some(client) = agent.client {
                    value["client"] = json!(client);
                }
                if let Some(stop) = &agent.stop {
                    value["stop"] = stop_value(Some(stop));
                }
            }
            value
        })
        .collect();
    Ok(json!({ "sessions": rows }))
}

/// Returns the workers of the workspace and of its teams.
pub fn workers(setup: &HostSetup) -> Value {
    let workers = setup.workers();
    let rows: Vec<Value> = workers
        .files()
        .into_iter()
        .map(|(file, is_accepted)| {
            let state = match workers.fault(&file) {
                Some(error) => error.message,
                None if is_accepted => "accepted".to_owned(),
                None => "not accepted: `mimir policy accept` shows it".to_owned(),
            };
            json!([file.name, file.shown, state])
        })
        .collect();
    json!({ "columns": ["Worker", "File", "State"], "rows": rows })
}

/// Returns the memory notes of the workspace.
pub fn memory(setup: &HostSetup) -> Result<Value, ToolError> {
    let root = setup.workspace.root();
    let folder = root.join(MEMORY_FOLDER);
    let mut rows: Vec<(String, Value)> = Vec::new();
    let is_usable = reject_links(root, &folder).is_ok();
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    for entry in entries.filter(|_| is_usable).take(NOTES_MAX) {
        let path = entry.path();
        let is_note = path.extension().is_some_and(|end| end == "md");
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if !is_note || !metadata.is_file() {
            continue;
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let changed = metadata.modified().ok();
        let changed = changed.and_then(|time| Timestamp::try_from(time).ok());
        let changed = changed.map_or(String::new(), |time| format!("{time:.0}"));
        rows.push((name.clone(), json!([name, bytes(metadata.len()), changed])));
    }
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    let rows: Vec<Value> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(json!({ "columns": ["Note", "Size", "Changed"], "rows": rows }))
}

/// Returns the packages of the configured servers.
pub fn packages(setup: &HostSetup) -> Value {
    let store = PackageStore::new(&setup.user_dirs);
    let servers = setup.settings.config.mcp.servers.iter();
    let rows: Vec<Value> = servers
        .filter_map(|(name, server)| {
            let package = server.package.as_ref()?;
            let state = match store.find(package) {
                Some(_) => "installed",
                None => "not installed: the first start of the server installs it",
            };
            Some(json!([name, package.to_string(), state]))
        })
        .collect();
    json!({ "columns": ["Server", "Package", "State"], "rows": rows })
}
