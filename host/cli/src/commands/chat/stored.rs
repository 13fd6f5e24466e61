//! `mimir chat --list`, `--search` and `--delete`: the stored conversations of the workspace.

use std::io::{self, Write};

use serde_json::json;

use crate::args::GlobalOptions;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, columns, first_line, styled, warn};
use mimir::conversations::{ConversationCatalog, ConversationEntry, ConversationStore};
use mimir::models;
use mimir::setup::HostSetup;
use mimir_core::text::visible;

/// Indentation of the text around a match.
const INDENT: &str = "    ";

/// Lists the conversations, or those that contain all words of `search`.
pub(super) fn list(globals: &GlobalOptions, search: Option<&str>) -> CommandResult {
    let catalog = store(globals)?
        .catalog(search)
        .map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?;
    globals
        .printer()
        .print_result(&json!({ "conversations": catalog.entries }), |out| {
            print_list(out, &catalog, search.is_some())
        })?;
    for problem in &catalog.unreadable {
        warn(format_args!("left out: {problem}"));
    }
    Ok(ExitReason::Done)
}

/// Deletes a conversation.
pub(super) fn delete(globals: &GlobalOptions, id: &str) -> CommandResult {
    let deleted = store(globals)?
        .delete(id)
        .map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?;
    globals
        .printer()
        .print_result(&json!({ "deleted": deleted }), |out| {
            writeln!(out, "deleted the conversation {deleted}")
        })?;
    Ok(ExitReason::Done)
}

fn store(globals: &GlobalOptions) -> CommandResult<ConversationStore> {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    Ok(ConversationStore::for_workspace(
        &setup.user_dirs,
        &setup.workspace,
        models::vault(&setup),
    ))
}

fn print_list(
    out: &mut dyn Write,
    catalog: &ConversationCatalog,
    is_search: bool,
) -> io::Result<()> {
    if catalog.entries.is_empty() {
        return writeln!(
            out,
            "{}",
            if is_search {
                "No conversation matches."
            } else {
                "No conversations are stored for this workspace."
            }
        );
    }
    for entry in &catalog.entries {
        writeln!(out, "{}", first_line(&format_entry(entry), columns()))?;
        if let Some(matched) = &entry.matched_text {
            let room = columns().map(|columns| columns.saturating_sub(INDENT.len()));
            let line = first_line(matched, room);
            writeln!(out, "{INDENT}{}", styled(FAINT, line))?;
        }
    }
    Ok(())
}

/// Formats a conversation on one line.
fn format_entry(entry: &ConversationEntry) -> String {
    let turns = match entry.turns {
        1 => "1 answer".to_owned(),
        turns => format!("{turns} answers"),
    };
    let worker = match &entry.worker {
        Some(worker) => format!(" ({})", visible(worker)),
        None => String::new(),
    };
    // Without seconds and zone, as `2026-01-31 14:05`.
    let time = entry
        .time
        .get(..16)
        .unwrap_or(&entry.time)
        .replace('T', " ");
    format!(
        "{}  {time}  {}{worker}  {turns}  {}",
        entry.id, entry.model, entry.first_words
    )
}
