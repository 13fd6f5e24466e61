//! What can be taken back, and what was.

use std::io::{self, Write};

use mimir_core::text::visible;
use serde_json::json;

use crate::exit::Failure;
use crate::undo::{Found, Record, State};

use super::{FAINT, GOOD, Printer, columns, first_line, styled, warn};

/// More paths than this make a line unreadable.
const MOST_PATHS: usize = 3;

/// Prints the records, the newest first.
pub fn list(printer: Printer, found: &Found) -> Result<(), Failure> {
    let rows: Vec<_> = found
        .records
        .iter()
        .map(|record| {
            let paths: Vec<&str> = record.changes.iter().map(|change| change.path.as_str()).collect();
            json!({ "id": record.id, "tool": record.tool, "time": record.time, "undone": record.undone, "paths": paths })
        })
        .collect();
    printer.result(&json!({ "changes": rows }), |out| text(out, found))?;
    for line in &found.unreadable {
        warn(format_args!("left out: {line}"));
    }
    Ok(())
}

fn text(out: &mut dyn Write, found: &Found) -> io::Result<()> {
    if found.records.is_empty() {
        return writeln!(out, "Nothing can be taken back.");
    }
    for record in &found.records {
        let line = format!(
            "{}  {}  {:<14} {}",
            visible(&record.id),
            visible(&record.time),
            visible(&record.tool),
            paths(record)
        );
        let line = first_line(&line, columns());
        match record.undone {
            None => writeln!(out, "{line}")?,
            Some(_) => writeln!(
                out,
                "{}",
                styled(FAINT, format_args!("{line} (taken back)"))
            )?,
        }
    }
    Ok(())
}

fn paths(record: &Record) -> String {
    let shown: Vec<String> = record
        .changes
        .iter()
        .take(MOST_PATHS)
        .map(|change| visible(&change.path))
        .collect();
    match record.changes.len().saturating_sub(MOST_PATHS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Prints what was taken back.
pub fn restored(printer: Printer, record: &Record, paths: &[String]) -> Result<(), Failure> {
    let value = json!({ "id": record.id, "tool": record.tool, "restored": paths });
    printer.result(&value, |out| {
        writeln!(
            out,
            "{} {} of {}",
            styled(GOOD, "took back"),
            visible(&record.tool),
            visible(&record.time)
        )?;
        for change in record
            .changes
            .iter()
            .filter(|change| paths.contains(&change.path))
        {
            let what = match change.before {
                State::Absent => "removed",
                _ => "restored",
            };
            writeln!(out, "  {what} {}", visible(&change.path))?;
        }
        if paths.is_empty() {
            writeln!(out, "  everything was there already")?;
        }
        Ok(())
    })
}
