//! Printing of a plugin's requested rights before they are granted.

use std::sync::Arc;

use mimir_core::grants::GrantChanges;
use mimir_core::needs::NeedKind;
use mimir_core::text::visible;
use mimir_core::{Tool, ToolSource};
use mimir_wasm::family::proofs;

use super::{FAINT, STRONG, WARN, note, styled};

/// Prints a plugin and the rights of its tools to stderr, because a question follows. `without` are withheld rights.
pub fn show(plugin: &[Arc<Tool>], without: &[NeedKind]) {
    let Some(first) = plugin.first() else { return };
    let origin = &first.origin;
    note(format_args!(
        "{} {} ({})",
        styled(STRONG, visible(&origin.plugin)),
        visible(&origin.version),
        visible(&origin.location)
    ));
    note(styled(FAINT, format_args!("sha256 {}", origin.digest)));
    if let Some(changes) = plugin.iter().find_map(|tool| tool.changes.as_ref()) {
        show_changes(changes, without);
    }
    if first.source == ToolSource::Mcp {
        return show_server(plugin);
    }
    for (tools, lines) in tools_by_rights(plugin, without) {
        note(format_args!("{tools} may"));
        if lines.is_empty() {
            note(styled(FAINT, "  only compute"));
        }
        lines
            .iter()
            .for_each(|line| note(format_args!("  - {}", visible(line))));
    }
    let proofs = proofs(&origin.imports);
    if !proofs.is_empty() {
        note("Its imports prove that it");
        proofs
            .iter()
            .for_each(|proof| note(format_args!("  - {proof}")));
    }
}

/// Number of tools of a plugin from which on tools with the same rights are shown together.
const GROUPED_TOOLS: usize = 10;

/// Number of tools that are named in such a group.
const NAMED_TOOLS: usize = 5;

/// Returns names of tools with the lines of their rights: each tool, or groups if there are many tools.
fn tools_by_rights(plugin: &[Arc<Tool>], without: &[NeedKind]) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for tool in plugin {
        let mut needs = tool.definition.needs.clone();
        without.iter().for_each(|kind| needs.clear(*kind));
        let (name, lines) = (format!("`{}`", tool.name()), needs.lines());
        let is_grouped = plugin.len() >= GROUPED_TOOLS;
        let known = groups
            .iter_mut()
            .find(|(_, known)| is_grouped && *known == lines);
        match known {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], lines)),
        }
    }
    let shown = |names: Vec<String>| {
        let named: Vec<&str> = names.iter().take(NAMED_TOOLS).map(String::as_str).collect();
        let named = named.join(", ");
        match names.len().saturating_sub(NAMED_TOOLS) {
            0 => named,
            1 => format!("{named} and one more tool"),
            more => format!("{named} and {more} more tools"),
        }
    };
    let groups = groups.into_iter();
    groups.map(|(names, lines)| (shown(names), lines)).collect()
}

/// Prints a server and its tools, with the texts that a model would read.
fn show_server(plugin: &[Arc<Tool>]) {
    let origin = plugin.first().map(|tool| &tool.origin);
    for line in origin.iter().flat_map(|origin| &origin.imports) {
        note(format_args!("It is {}", visible(line)));
    }
    for tool in plugin {
        note(format_args!("`{}` declares", tool.name()));
        for line in super::server_text::shown(tool) {
            note(format_args!("  {line}"));
        }
    }
    note(styled(
        FAINT,
        "A grant lets these tools be called as the rules allow, until any of these texts changes.",
    ));
}

/// Prints the changes since the previous grant, and the rights that it withheld.
fn show_changes(changes: &GrantChanges, without: &[NeedKind]) {
    if changes.lines.is_empty() {
        note("It was rebuilt since it was granted, and requests the same rights as before.");
    } else {
        note(styled(WARN, "It has changed since it was granted:"));
        let lines = changes.lines.iter();
        lines.for_each(|line| note(format_args!("  - {}", visible(line))));
    }
    let withheld = changes.withheld.iter();
    for kind in withheld.filter(|kind| !without.contains(kind)) {
        let kind = kind.as_str();
        note(styled(
            WARN,
            format_args!(
                "The previous grant withheld {kind}; use `--without {kind}` to withhold it again."
            ),
        ));
    }
}
