//! Checks of undo records before they are used. A checkout may contain `.mimir/state` with forged records, so a record
//! is compared with the audit log, and its paths with the protected paths.

use std::io;
use std::ops::ControlFlow;

use mimir_audit::{AuditEntry, AuditLog};
use mimir_core::audit::EventKind;
use mimir_core::paths::{PathRuleLayer, PathRules};
use mimir_core::{ToolError, text};

use super::{PathState, UndoChange, UndoRecord};

/// The combined file tool. Its calls are recorded under this name in the audit log.
const COMPACT: &str = "file_operations";

/// Returns true if the audit log contains the call of the record.
pub fn is_logged(record: &UndoRecord, log: &AuditLog) -> io::Result<bool> {
    let mut found = false;
    log.snapshot()?.lines(|line| {
        // Only lines that contain the id are parsed.
        let mentions_id =
            std::str::from_utf8(line.bytes).is_ok_and(|line| line.contains(&record.id));
        if mentions_id && let Some(entry) = AuditEntry::read(line.bytes) {
            let tool = entry.text("tool");
            found |= entry.text("event") == EventKind::Call.as_str()
                && entry.text("id") == record.id
                && (tool == record.tool || tool == COMPACT);
        }
        if found {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found)
}

/// Refuses paths that no tool can have changed, because no tool may write them. Hidden paths, and links that lead out
/// of the workspace, are only restored if the call is in the audit log (`logged`).
pub fn refuse_protected(change: &UndoChange, logged: bool) -> Result<(), ToolError> {
    let refused = |why: String| {
        let path = text::visible(&change.path);
        Err(ToolError::permission_denied(format!(
            "{path} {why} and is not restored"
        )))
    };
    let rules = PathRules::protected();
    match rules.check_file(&change.path).against_writing() {
        Some(rule)
            if matches!(
                rule.layer(),
                PathRuleLayer::Protected | PathRuleLayer::WindowsName
            ) =>
        {
            return refused(format!("is protected ({rule})"));
        }
        Some(rule) if !logged => {
            return refused(format!(
                "is hidden ({rule}), is in no call of the audit log"
            ));
        }
        _ => {}
    }
    match &change.before {
        PathState::Link { target } if !logged && leads_outside(&change.path, target) => {
            refused(format!(
                "is a link to {} outside of the workspace, is in no call of the audit log",
                text::visible(target)
            ))
        }
        _ => Ok(()),
    }
}

/// Returns true if a link at `path` to `target` could lead out of the workspace.
fn leads_outside(path: &str, target: &str) -> bool {
    let mut depth = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .count()
        - 1;
    let mut descended = false;
    if target.starts_with(['/', '\\']) || target.contains(':') {
        return true;
    }
    for part in target.split(['/', '\\']) {
        match part {
            "" | "." => {}
            // A directory before the `..` may be a link itself.
            ".." if descended || depth == 0 => return true,
            ".." => depth -= 1,
            _ => descended = true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_link_targets_are_checked_against_the_link_path() {
        for (path, target, out) in [
            ("a", "b", false),
            ("a/b/c", "../../d", false),
            ("a/b", "./c/d", false),
            ("a", "../b", true),
            ("a/b/c", "../../../d", true),
            ("a/b/c", "x/../../d", true),
            ("a", "/etc", true),
            ("a", "C:\\x", true),
        ] {
            assert_eq!(leads_outside(path, target), out, "{path} -> {target}");
        }
    }
}
