//! Differences between two builds of one component, for a person who decides about an update.

use std::sync::Arc;

use crate::text;
use crate::tool::Tool;

use super::{Grant, GrantStatus, declaration_lines, differences};

/// Returns the differences between two builds, one line each: imports, needs, and tools with their texts and schemas.
/// Empty if both builds are equal in these.
pub fn build_changes(old: &[Arc<Tool>], new: &[Arc<Tool>]) -> Vec<String> {
    let mut changes = match Grant::new(old, Vec::new()).map(|grant| grant.status(new)) {
        Some(GrantStatus::Changed(changes)) => changes.lines,
        Some(GrantStatus::Granted) => return Vec::new(),
        // An earlier build without valid tools: everything is new.
        None => Vec::new(),
    };
    if new.is_empty() {
        let removed = old.iter();
        changes.extend(removed.map(|tool| format!("no longer has the tool `{}`", tool.own_name())));
    }
    for tool in new {
        let name = tool.own_name();
        let before = old.iter().find(|before| before.own_name() == name);
        if before.is_none() && old.is_empty() {
            changes.push(format!("has a new tool `{name}`"));
            let needs = tool.definition.needs.lines();
            differences(&format!("`{name}` may"), &[], &needs, &mut changes);
        }
        let before = before.map_or_else(Vec::new, |before| declaration_lines(&before.definition));
        let now = declaration_lines(&tool.definition);
        differences(&format!("`{name}` declares"), &before, &now, &mut changes);
    }
    changes.iter().map(|line| text::visible(line)).collect()
}
