//! The list of tools.

use std::io::{self, Write};

use mimir_core::{Policy, Quarantined, Registry, Tool, ToolName};
use serde::Serialize;

use crate::exit::Failure;

use super::{BAD, FAINT, GOOD, Printer, STRONG, WARN, columns, first_line, note, styled};

/// Widths of the columns, as the listing has always had them.
const NAME: usize = 25;
const SOURCE: usize = 12;

/// A description needs at least this many columns to say anything.
const NARROWEST: usize = 30;

#[derive(Serialize)]
struct List<'a> {
    tools: Vec<Row<'a>>,
    quarantined: &'a [Quarantined],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    name: &'a ToolName,
    aliases: &'a [ToolName],
    source: &'static str,
    /// Whether it can be called.
    enabled: bool,
    /// Whether models see it: enabled, and among the forms of the profile.
    listed: bool,
    group: &'static str,
    risk: &'static str,
    description: &'a str,
    location: &'a str,
    digest: &'a str,
}

impl<'a> Row<'a> {
    fn new(tool: &'a Tool, policy: &Policy) -> Self {
        let definition = &tool.definition;
        let enabled = policy.refusal(tool).is_none();
        Self {
            name: tool.name(),
            aliases: &tool.aliases,
            source: tool.source.as_str(),
            enabled,
            listed: enabled && policy.is_shown(tool),
            group: definition.group.as_str(),
            risk: definition.risk.as_str(),
            description: &definition.description,
            location: &tool.origin.location,
            digest: &tool.origin.digest,
        }
    }
}

/// Prints the list; the files that are left out go to stderr.
pub fn print(printer: Printer, registry: &Registry, policy: &Policy) -> Result<(), Failure> {
    let list = List {
        tools: registry
            .tools()
            .iter()
            .map(|tool| Row::new(tool, policy))
            .collect(),
        quarantined: registry.quarantined(),
    };
    printer.result(&list, |out| text(out, &list.tools, registry))?;
    if !printer.is_json() {
        for left_out in registry.quarantined() {
            quarantined(left_out);
        }
    }
    Ok(())
}

fn text(out: &mut dyn Write, tools: &[Row<'_>], registry: &Registry) -> io::Result<()> {
    writeln!(out, "Available Tools:\n")?;
    let room = columns().map(|all| all.saturating_sub(NAME + SOURCE + 4).max(NARROWEST));
    let mut unlisted = Vec::new();
    let (on, off) = (styled(GOOD, "✓"), styled(BAD, "✗"));
    for (row, tool) in tools.iter().zip(registry.tools()) {
        if row.enabled && !row.listed {
            unlisted.push(row.name.as_str());
            continue;
        }
        // In one piece: each piece is looked through for colours.
        let line = format!(
            "{} {:<NAME$} {:<SOURCE$} {}\n",
            if row.enabled { &on } else { &off },
            row.name.as_str(),
            tool.source.badge(),
            first_line(row.description, room),
        );
        out.write_all(line.as_bytes())?;
    }
    if tools.is_empty() {
        writeln!(out, "  (none)")?;
    }
    if !unlisted.is_empty() {
        let line = format!(
            "Callable, but not shown to models under this profile: {}",
            unlisted.join(", ")
        );
        writeln!(out, "\n{}", styled(FAINT, line))?;
    }
    writeln!(out, "\nUsage:")?;
    writeln!(out, "  mimir tools info <name>   - Show tool details")?;
    writeln!(out, "  mimir call <name> ...     - Call a tool")
}

/// A file that is left out, and why.
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
