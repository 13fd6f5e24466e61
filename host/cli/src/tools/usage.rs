//! Usage of tools, from the audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use mimir_audit::{AuditEntry, AuditLog};
use mimir_core::Tool;
use mimir_core::audit::EventKind;
use serde::Serialize;
use serde_json::Value;

use crate::exit::CommandResult;
use mimir::file_error::file_error;
use mimir::workspace::WorkspaceFolder;

/// A recorded call with its receipt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PastCall {
    /// Recorded time of the call.
    pub time: String,
    /// True if the tool succeeded.
    pub ok: bool,
    /// Error code of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Recorded values of the receipt: `durationMs`, `fuel`, `peakMemory`, `bytesIn`, `bytesOut` and `tokens`.
    pub receipt: BTreeMap<&'static str, Value>,
}

/// Keys of a receipt in the log.
const RECEIPT: [&str; 6] = [
    "durationMs",
    "fuel",
    "peakMemory",
    "bytesIn",
    "bytesOut",
    "tokens",
];

/// Maximum number of calls of a tool that are shown.
const SHOWN_CALLS: usize = 5;

/// Returns the last calls of a tool, newest first.
pub fn last_calls(workspace: &WorkspaceFolder, tool: &Tool) -> CommandResult<Vec<PastCall>> {
    let mut calls = std::collections::VecDeque::new();
    each_call(workspace, tool.name().as_str(), |entry| {
        let value = entry.value();
        let receipt = RECEIPT.into_iter().filter_map(|key| {
            let measured = value.get(key).filter(|value| value.is_number())?;
            Some((key, measured.clone()))
        });
        calls.push_front(PastCall {
            time: entry.text("time"),
            ok: value["ok"] == true,
            code: Some(entry.text("code")).filter(|code| !code.is_empty()),
            receipt: receipt.collect(),
        });
        calls.truncate(SHOWN_CALLS);
    })?;
    Ok(calls.into())
}

/// Calls in the audit log, summarized.
#[derive(Debug, Default)]
pub struct ToolUsage {
    /// Time of the first recorded call; empty if there is none.
    pub since: String,
    /// Number of recorded calls.
    pub calls: u64,
    /// Names of the called tools.
    pub called: BTreeSet<String>,
}

impl ToolUsage {
    /// Reads the audit log.
    pub fn read(workspace: &WorkspaceFolder) -> CommandResult<Self> {
        let mut usage = Self::default();
        each_call(workspace, "", |entry| {
            if usage.calls == 0 {
                usage.since = entry.text("time");
            }
            usage.calls += 1;
            usage.called.insert(entry.text("tool"));
        })?;
        Ok(usage)
    }
}

/// Calls `each` with every recorded call of the tool, or of all tools if the name is empty, oldest first.
fn each_call(
    workspace: &WorkspaceFolder,
    tool: &str,
    mut each: impl FnMut(&AuditEntry),
) -> CommandResult<()> {
    let log = AuditLog::at(workspace.audit());
    let unreadable = |error| file_error("read the audit log", log.path(), &error);
    let snapshot = log.snapshot().map_err(unreadable)?;
    let read = snapshot.lines(|line| {
        // Most lines are about other tools, and parsing a line is slower than searching it for a name.
        if contains(line.bytes, tool.as_bytes())
            && let Some(entry) = AuditEntry::read(line.bytes)
            && entry.text("event") == EventKind::Call.as_str()
            && (tool.is_empty() || entry.text("tool") == tool)
        {
            each(&entry);
        }
        ControlFlow::Continue(())
    });
    Ok(read.map_err(unreadable)?)
}

fn contains(line: &[u8], word: &[u8]) -> bool {
    word.is_empty() || line.windows(word.len()).any(|part| part == word)
}
