//! Printing of changes that can be undone, and of the results of an undo.

use std::io::{self, Write};
use std::time::Duration;

use mimir_core::text::visible;
use serde_json::{Value, json};

use crate::exit::CommandResult;
use mimir::undo::{FOLDER, PathState, RestoreResult, RestoredPath, UndoHistory, UndoRecord};

use super::{FAINT, GOOD, ResultPrinter, columns, first_line, styled, warn};

/// Maximum number of paths on a line.
const MAX_PATHS: usize = 3;

/// Prints the records, newest first.
pub fn list(printer: ResultPrinter, history: &UndoHistory) -> CommandResult<()> {
    let rows: Vec<Value> = history.records.iter().map(row).collect();
    printer.print_result(&json!({ "changes": rows }), |out| print_list(out, history))?;
    unreadable(history);
    Ok(())
}

/// Returns a record as JSON.
pub fn row(record: &UndoRecord) -> Value {
    let paths: Vec<&str> = record.paths().collect();
    let mut row = json!({ "id": record.id, "tool": record.tool, "time": record.time, "undone": record.undone, "paths": paths });
    if let Some(unrecorded) = &record.unrecorded {
        row["unkept"] = unrecorded.why.as_str().into();
    }
    row
}

fn print_list(out: &mut dyn Write, history: &UndoHistory) -> io::Result<()> {
    if history.records.is_empty() {
        return writeln!(out, "Nothing can be taken back.");
    }
    for record in &history.records {
        let line = format!(
            "{}  {}  {:<14} {}",
            visible(&record.id),
            visible(&record.time),
            visible(&record.tool),
            paths(record)
        );
        let state = match (&record.undone, &record.unrecorded) {
            (None, None) => {
                writeln!(out, "{}", first_line(&line, columns()))?;
                continue;
            }
            (Some(_), _) => " (taken back)",
            (None, Some(_)) => " (can't be taken back)",
        };
        let width = columns().map(|columns| columns.saturating_sub(state.len()));
        let line = first_line(&line, width);
        writeln!(out, "{}", styled(FAINT, format_args!("{line}{state}")))?;
    }
    Ok(())
}

/// Returns the first paths of a record, separated by commas.
pub fn paths(record: &UndoRecord) -> String {
    let shown: Vec<String> = record.paths().take(MAX_PATHS).map(visible).collect();
    match record.paths().count().saturating_sub(MAX_PATHS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Formats an age in the largest unit that fits, such as `2 hours old`.
pub fn ago(age: Option<Duration>) -> String {
    let Some(seconds) = age.map(|age| age.as_secs()) else {
        return "dated in the future or not at all".to_owned();
    };
    let units = [
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    match units.iter().find(|(length, _)| seconds >= *length) {
        Some((length, unit)) => {
            let count = seconds / length;
            let s = if count == 1 { "" } else { "s" };
            format!("{count} {unit}{s} old")
        }
        None => "less than a second old".to_owned(),
    }
}

/// Warns about unreadable records.
pub fn unreadable(history: &UndoHistory) {
    for line in &history.unreadable {
        warn(format_args!("left out: {line}"));
    }
}

/// Returns the result of an undo as JSON.
pub fn restored_value(record: &UndoRecord, paths: &[RestoredPath]) -> Value {
    let paths_with = |results: &[RestoreResult]| -> Vec<&str> {
        let paths = paths.iter().filter(|path| results.contains(&path.result));
        paths.map(|path| path.path.as_str()).collect()
    };
    json!({
        "id": record.id,
        "tool": record.tool,
        "time": record.time,
        "restored": paths_with(&[RestoreResult::Restored, RestoreResult::Removed]),
        "kept": paths_with(&[RestoreResult::LeftInPlace]),
        "asBefore": paths_with(&[RestoreResult::Unchanged]),
        "copies": copies(paths),
    })
}

/// Returns the copies of replaced files, by path.
fn copies(paths: &[RestoredPath]) -> serde_json::Map<String, Value> {
    let copy = |path: &RestoredPath| {
        let copy = path.copy.as_ref()?;
        Some((path.path.clone(), json!(format!("{FOLDER}/{copy}"))))
    };
    paths.iter().filter_map(copy).collect()
}

/// Prints the result of an undo.
pub fn print_restored(
    printer: ResultPrinter,
    record: &UndoRecord,
    age: Option<Duration>,
    paths: &[RestoredPath],
) -> CommandResult<()> {
    let copies = copies(paths);
    let value = restored_value(record, paths);
    printer.print_result(&value, |out| {
        writeln!(
            out,
            "{} {} {} ({})",
            styled(GOOD, "took back"),
            visible(&record.tool),
            visible(&record.id),
            ago(age)
        )?;
        for path in paths {
            let result = match (path.result, &path.before) {
                (RestoreResult::Restored, _) => "restored",
                (RestoreResult::Removed, _) => "removed",
                (RestoreResult::LeftInPlace, _) => "left in place, because it is not empty:",
                (RestoreResult::Unchanged, PathState::Absent) => "was already gone:",
                (RestoreResult::Unchanged, _) => "was already there:",
            };
            writeln!(out, "  {result} {}", visible(&path.path))?;
        }
        if !copies.is_empty() {
            let copies = paths.iter().filter(|path| path.copy.is_some()).count();
            let files = if copies == 1 {
                "file that was"
            } else {
                "files that were"
            };
            let id = visible(&record.id);
            writeln!(out, "saved {copies} {files} replaced: {FOLDER}/{id}")?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_age_is_shown_in_one_unit() {
        let age_text = |seconds| ago(Some(Duration::from_secs(seconds)));
        assert_eq!(age_text(0), "less than a second old");
        assert_eq!(age_text(59), "59 seconds old");
        assert_eq!(age_text(60), "1 minute old");
        assert_eq!(age_text(7_300), "2 hours old");
        assert_eq!(age_text(864_000), "10 days old");
    }
}
