//! Changes of files that can be undone, with their differences.

use mimir_audit::AuditLog;
use mimir_core::redact::Redactor;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Value, json};

use crate::commands::undo::restore_recorded;
use crate::output::undo;
use mimir::setup::HostSetup;
use mimir::undo::{CHANGED_SINCE, CallDiff, CallDiffKind, UndoRecord, UndoStore, is_logged};

/// Maximum number of records, of files in a record, and of lines of a difference that are returned.
const RECORDS_MAX: usize = 1_000;
const FILES_MAX: usize = 100;
const LINES_MAX: usize = 2_000;

/// Returns the changes, newest first.
pub fn records(setup: &HostSetup) -> Result<Value, ToolError> {
    let history = UndoStore::for_workspace(&setup.workspace).read_history()?;
    let records: Vec<Value> = history
        .records
        .iter()
        .take(RECORDS_MAX)
        .map(undo_row)
        .collect();
    Ok(json!({ "records": records, "unreadable": history.unreadable }))
}

/// Returns a record as a row of the list.
pub fn undo_row(record: &UndoRecord) -> Value {
    let mut row = undo::row(record);
    let files: Vec<&str> = record.paths().take(FILES_MAX).collect();
    row["files"] = json!(files);
    row["summary"] = json!(undo::paths(record));
    if let Some(map) = row.as_object_mut() {
        map.remove("paths");
        map.retain(|_, value| !value.is_null());
    }
    row
}

/// Returns a change with its differences.
pub fn details(setup: &HostSetup, id: &str, redactor: &Redactor) -> Result<Value, ToolError> {
    let store = UndoStore::for_workspace(&setup.workspace);
    let record = find(&store, id)?;
    let diffs = store.call_diffs(&record.id, redactor, LINES_MAX);
    let diffs: Vec<Value> = diffs.iter().map(|diff| diff_value(None, diff)).collect();
    let mut value = undo_row(&record);
    value["diff"] = json!(diffs);
    Ok(value)
}

fn find(store: &UndoStore, id: &str) -> Result<UndoRecord, ToolError> {
    let history = store.read_history()?;
    let mut records = history.records.into_iter();
    records.find(|record| record.id == id).ok_or_else(|| {
        let shown = mimir_core::text::visible(mimir_core::text::prefix(id, 64));
        ToolError::not_found(format!(
            "unknown change `{shown}`: it may have been removed; the list shows the changes that can be undone"
        ))
    })
}

/// Returns a difference as JSON.
pub fn diff_value(kind: Option<&str>, diff: &CallDiff) -> Value {
    let kind = kind.unwrap_or(match (diff.added, diff.removed) {
        (_, 0) if diff.lines.len() == diff.added + 1 => "added",
        (0, _) if diff.lines.len() == diff.removed + 1 => "removed",
        _ => "changed",
    });
    let lines: Vec<Value> = diff
        .lines
        .iter()
        .map(|line| {
            let name = match line.kind {
                CallDiffKind::Position => "hunk",
                CallDiffKind::Unchanged => "context",
                CallDiffKind::Added => "add",
                CallDiffKind::Removed => "remove",
            };
            json!({ "type": name, "text": line.text })
        })
        .collect();
    let mut value = json!({
        "path": diff.path,
        "kind": kind,
        "added": diff.added,
        "removed": diff.removed,
        "lines": lines,
    });
    if diff.lines_left_out > 0 {
        value["truncated"] = true.into();
    }
    if let Some(why) = diff.unknown {
        value["unknown"] = why.into();
        value["changedSince"] = (why == CHANGED_SINCE).into();
    }
    value
}

/// Undoes a change, unless its files were changed since. `by` is the person.
pub fn undo(setup: &HostSetup, id: &str, by: &str) -> Result<Value, ToolError> {
    let store = UndoStore::for_workspace(&setup.workspace);
    let record = find(&store, id)?;
    if record.undone.is_some() {
        return Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!("the change {} was already undone", record.id),
        ));
    }
    if let Some(unrecorded) = &record.unrecorded {
        return Err(ToolError::unavailable(format!(
            "the change cannot be taken back, because {}; nothing was taken back",
            mimir_core::text::visible(&unrecorded.why)
        )));
    }
    let logged = is_logged(&record, &AuditLog::at(setup.workspace.audit())).unwrap_or(false);
    let restored = restore_recorded(setup, &record, false, logged, Some(by))?;
    Ok(undo::restored_value(&record, &restored))
}
