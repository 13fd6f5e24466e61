//! How tools were used, as the record has it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use mimir_core::Tool;
use mimir_core::audit::{Entry, Kind, Log};
use serde::Serialize;
use serde_json::Value;

use crate::exit::{Failure, file_error};
use crate::workspace::Workspace;

/// A call that was made, with its receipt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PastCall {
    /// When, as the record has it.
    pub time: String,
    /// Whether the tool did what it was asked.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the call cost: of `durationMs`, `fuel`, `peakMemory`, `bytesIn`, `bytesOut` and `tokens` what is known.
    pub receipt: BTreeMap<&'static str, Value>,
}

/// What a receipt has in the record.
const RECEIPT: [&str; 6] = [
    "durationMs",
    "fuel",
    "peakMemory",
    "bytesIn",
    "bytesOut",
    "tokens",
];

/// Calls that are shown.
const LAST: usize = 5;

/// The last calls of a tool, the newest first.
pub fn last_calls(workspace: &Workspace, tool: &Tool) -> Result<Vec<PastCall>, Failure> {
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
        calls.truncate(LAST);
    })?;
    Ok(calls.into())
}

/// Which tools were called since the record begins.
#[derive(Debug, Default)]
pub struct Usage {
    /// The time of the first call on record; empty if there is none.
    pub since: String,
    /// How many calls are on record.
    pub calls: u64,
    /// The tools that were called.
    pub called: BTreeSet<String>,
}

impl Usage {
    /// Reads the record.
    pub fn read(workspace: &Workspace) -> Result<Self, Failure> {
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

/// Calls `each` with every call of the tool on record, or of all tools if none is named, the oldest first.
fn each_call(
    workspace: &Workspace,
    tool: &str,
    mut each: impl FnMut(&Entry),
) -> Result<(), Failure> {
    let log = Log::at(workspace.audit());
    let unreadable = |error| file_error("read the audit log", log.path(), &error);
    let snapshot = log.snapshot().map_err(unreadable)?;
    let read = snapshot.lines(|line| {
        // Most lines are of other tools, and reading one takes longer than looking for a name.
        if contains(line.bytes, tool.as_bytes())
            && let Some(entry) = Entry::read(line.bytes)
            && entry.text("event") == Kind::Call.as_str()
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
