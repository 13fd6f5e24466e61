//! Prints the results of `mimir tools` and `/tools`, in the format of the seed implementations.

use std::io::{self, Write};

use mimir_core::Quarantined;

use crate::exit::Failure;
use crate::tools::{Found, List, Row, Switched};

use super::{BAD, FAINT, GOOD, Printer, STRONG, WARN, columns, first_line, note, styled};

mod tokens;

pub use tokens::{advice, spending};

/// Reader of the output: decides how commands are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// In a shell.
    Shell,
    /// In a chat.
    Chat,
}

impl Face {
    /// Prefix of a subcommand.
    pub const fn command(self) -> &'static str {
        match self {
            Face::Shell => "mimir tools",
            Face::Chat => "/tools",
        }
    }
}

/// Column widths, as in the seed implementations.
const NAME: usize = 24;
const SOURCE: usize = 12;

/// Minimum width for a description; narrower ones are left out.
const NARROWEST: usize = 30;

/// Prints the list; skipped files go to stderr.
pub fn list(printer: Printer, face: Face, list: &List<'_>) -> Result<(), Failure> {
    printer.result(list, |out| text(out, face, list))?;
    if !printer.is_json() {
        for left_out in list.quarantined {
            quarantined(left_out);
        }
    }
    Ok(())
}

fn text(out: &mut dyn Write, face: Face, list: &List<'_>) -> io::Result<()> {
    writeln!(out, "Available Tools:\n")?;
    let mut unlisted = Vec::new();
    let marks = Marks::new();
    let room = room();
    for row in &list.tools {
        if row.enabled && !row.listed {
            unlisted.push(row.name.as_str());
            continue;
        }
        // One write per line, because each write is scanned for colours.
        out.write_all(line(row, &marks, room).as_bytes())?;
    }
    if list.tools.is_empty() {
        writeln!(out, "  (none)")?;
    }
    if let Some(total) = list.total_tokens {
        writeln!(out, "\nTotal system prompt cost: ~{total} tokens")?;
    }
    if !unlisted.is_empty() {
        let line = format!(
            "Callable, but not shown to models under this profile: {}",
            unlisted.join(", ")
        );
        writeln!(out, "\n{}", styled(FAINT, line))?;
    }
    usage(out, face)
}

fn line(row: &Row<'_>, marks: &Marks, room: Option<usize>) -> String {
    let mark = marks.of(row.enabled);
    let (name, badge) = (row.name.as_str(), row.source.badge());
    let tail = match row.cost {
        Some(cost) => format!("~{} tokens", cost.tokens),
        None => first_line(row.description, room),
    };
    format!("{mark} {name:<NAME$} {badge:<SOURCE$} {tail}\n")
}

fn usage(out: &mut dyn Write, face: Face) -> io::Result<()> {
    let command = face.command();
    writeln!(out, "\nUsage:")?;
    for (rest, about) in [
        ("enable <name> ", "Enable a tool"),
        ("disable <name>", "Disable a tool"),
        ("info <name>   ", "Show tool details"),
        ("tokens        ", "Show token breakdown"),
    ] {
        writeln!(out, "  {command} {rest}  - {about}")?;
    }
    Ok(())
}

/// Coloured marks for on and off, created once.
struct Marks {
    on: String,
    off: String,
}

impl Marks {
    fn new() -> Self {
        Self {
            on: styled(GOOD, "✓"),
            off: styled(BAD, "✗"),
        }
    }

    fn of(&self, on: bool) -> &str {
        if on { &self.on } else { &self.off }
    }
}

fn room() -> Option<usize> {
    columns().map(|all| all.saturating_sub(NAME + SOURCE + 4).max(NARROWEST))
}

/// Reports that a tool was switched, or already was.
pub fn switched(printer: Printer, switched: &Switched) -> Result<(), Failure> {
    let marks = Marks::new();
    let name = &switched.name;
    let (mark, word) = match switched.enabled {
        true => (marks.of(true), "enabled"),
        false => (marks.of(false), "disabled"),
    };
    let sign = if switched.enabled { "+" } else { "-" };
    let tokens = switched.tokens.unsigned_abs();
    printer.result(switched, |out| match (switched.changed, switched.enabled) {
        (_, false) if switched.refused.is_some() => {
            writeln!(out, "{mark} Still refused: {name} (+0 tokens)")
        }
        (false, _) => writeln!(out, "Tool already {word}: {name}"),
        (true, true) => writeln!(out, "{mark} Enabled tool: {name} ({sign}{tokens} tokens)"),
        (true, false) => writeln!(out, "{mark} Disabled tool: {name} ({sign}{tokens} tokens)"),
    })
}

/// Prints search results.
pub fn found(printer: Printer, words: &str, found: &[Found<'_>]) -> Result<(), Failure> {
    let result = serde_json::json!({ "tools": found });
    printer.result(&result, |out| {
        if found.is_empty() {
            let words = mimir_core::text::visible(words);
            return writeln!(out, "No tool matches: {words}");
        }
        let marks = Marks::new();
        for tool in found {
            let mark = marks.of(tool.enabled);
            let (name, badge) = (tool.name.as_str(), tool.source.badge());
            let about = first_line(tool.description, room());
            writeln!(out, "{mark} {name:<NAME$} {badge:<SOURCE$} {about}")?;
        }
        Ok(())
    })
}

/// A skipped file, and the reason.
pub fn quarantined(left_out: &Quarantined) {
    let place = mimir_core::text::visible(&left_out.location);
    let reason = mimir_core::text::visible(&left_out.reason);
    note(format_args!(
        "{} {} [{}]\n  {reason}",
        styled(WARN, "left out:"),
        styled(STRONG, place),
        left_out.code
    ));
}
