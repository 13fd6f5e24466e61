//! Printing of stored approvals, and of approvals of running sessions.

use std::cmp::Reverse;
use std::io::{self, Write};

use jiff::Timestamp;
use mimir_core::approval::StoredApproval;
use mimir_core::text::visible;
use serde_json::json;

use crate::exit::CommandResult;
use mimir::approval_store::SessionApproval;

use super::{FAINT, ResultPrinter, STRONG, WARN, styled};

/// Prints the approvals of a workspace: the stored ones, newest first, and those of running sessions.
pub fn list(
    printer: ResultPrinter,
    leases: &[StoredApproval],
    sessions: &[SessionApproval],
    now: Timestamp,
) -> CommandResult<()> {
    let mut all: Vec<_> = leases.iter().map(|lease| (lease, None)).collect();
    all.sort_by_key(|(lease, _)| Reverse(lease.added_at));
    let of_session = |listed: &SessionApproval| (listed.lease.clone(), listed.process);
    let sessions: Vec<_> = sessions.iter().map(of_session).collect();
    all.extend(
        sessions
            .iter()
            .map(|(lease, process)| (lease, Some(*process))),
    );
    let rows: Vec<_> = all
        .iter()
        .map(|(lease, process)| row(lease, *process, now))
        .collect();
    printer.print_result(&json!({ "approvals": rows }), |out| {
        print_text(out, &all, now)
    })
}

fn row(lease: &StoredApproval, process: Option<u32>, now: Timestamp) -> serde_json::Value {
    let mut row = json!({
        "id": lease.id, "tool": lease.tool, "pattern": lease.pattern.describe(), "digest": lease.digest,
        "callers": lease.callers.iter().map(|caller| caller.tool.as_str()).collect::<Vec<_>>(),
        "reasons": lease.reasons, "addedBy": lease.added_by, "addedAt": lease.added_at,
        "expiresAt": lease.expires_at, "lastUsed": lease.last_used, "live": lease.is_live(now),
    });
    if let Some(scope) = &lease.scope {
        row["scope"] = scope.as_str().into();
    }
    if let Some(process) = process {
        row["session"] = json!({ "process": process });
    }
    row
}

fn print_text(
    out: &mut dyn Write,
    all: &[(&StoredApproval, Option<u32>)],
    now: Timestamp,
) -> io::Result<()> {
    if all.is_empty() {
        let nothing =
            "no stored approvals, and no approvals of running sessions, in this workspace";
        return writeln!(out, "{}", styled(FAINT, nothing));
    }
    for (lease, process) in all {
        let state = match (lease.expires_at, process) {
            _ if lease.added_at > now => styled(WARN, "dated in the future: ignored"),
            (_, Some(process)) => format!("for a session of process {process}"),
            (Some(end), _) if end <= now => styled(WARN, format_args!("expired {end:.0}")),
            (Some(end), _) => format!("until {end:.0}"),
            (None, _) => "without expiry".to_owned(),
        };
        let used = match (lease.last_used, process) {
            (_, Some(_)) => String::new(),
            (None, None) => ", never used".to_owned(),
            (Some(at), None) => format!(", last used {at:.0}"),
        };
        writeln!(
            out,
            "{}  {} with {}{}{}",
            styled(FAINT, lease.id.short()),
            styled(STRONG, visible(&lease.tool)),
            visible(&lease.pattern.describe()),
            scope(lease),
            callers(lease)
        )?;
        writeln!(
            out,
            "              added by {} {:.0}, {state}{used}",
            visible(&lease.added_by),
            lease.added_at
        )?;
    }
    Ok(())
}

/// Describes the object that an approval is limited to, such as a site; empty if there is no such limit.
fn scope(lease: &StoredApproval) -> String {
    lease
        .scope
        .as_ref()
        .map_or_else(String::new, |scope| format!(", on {}", visible(scope)))
}

/// Describes the calling tools that an approval is limited to; empty if there is no such limit.
fn callers(lease: &StoredApproval) -> String {
    let names: Vec<&str> = lease
        .callers
        .iter()
        .map(|caller| caller.tool.as_str())
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        visible(&format!(", called by {}", names.join(" > ")))
    }
}
