//! What was approved for good.

use std::io::{self, Write};

use jiff::Timestamp;
use mimir_core::approval::Lease;
use mimir_core::text::visible;
use serde_json::json;

use crate::exit::Failure;

use super::{FAINT, Printer, STRONG, WARN, styled};

/// Prints the approvals of a workspace, the newest first.
pub fn list(printer: Printer, leases: &[Lease], now: Timestamp) -> Result<(), Failure> {
    let mut sorted: Vec<&Lease> = leases.iter().collect();
    sorted.sort_by_key(|lease| std::cmp::Reverse(lease.added_at));
    let rows: Vec<_> = sorted.iter().map(|lease| row(lease, now)).collect();
    printer.result(&json!({ "approvals": rows }), |out| text(out, &sorted, now))
}

fn row(lease: &Lease, now: Timestamp) -> serde_json::Value {
    json!({
        "id": lease.id, "tool": lease.tool, "pattern": lease.pattern.describe(), "digest": lease.digest,
        "callers": lease.callers.iter().map(|caller| caller.tool.as_str()).collect::<Vec<_>>(),
        "reasons": lease.reasons, "addedBy": lease.added_by, "addedAt": lease.added_at,
        "expiresAt": lease.expires_at, "lastUsed": lease.last_used, "live": lease.is_live(now),
    })
}

fn text(out: &mut dyn Write, leases: &[&Lease], now: Timestamp) -> io::Result<()> {
    if leases.is_empty() {
        return writeln!(
            out,
            "{}",
            styled(FAINT, "nothing was approved for good here")
        );
    }
    for lease in leases {
        let state = match lease.expires_at {
            _ if lease.added_at > now => styled(WARN, "from the future: it does not count"),
            Some(end) if end <= now => styled(WARN, format_args!("expired {end:.0}")),
            Some(end) => format!("until {end:.0}"),
            None => "for good".to_owned(),
        };
        let used = lease.last_used.map_or_else(
            || "never used".to_owned(),
            |at| format!("last used {at:.0}"),
        );
        writeln!(
            out,
            "{}  {} with {}{}",
            styled(FAINT, lease.id.short()),
            styled(STRONG, visible(&lease.tool)),
            visible(&lease.pattern.describe()),
            callers(lease)
        )?;
        writeln!(
            out,
            "              added by {} {:.0}, {state}, {used}",
            visible(&lease.added_by),
            lease.added_at
        )?;
    }
    Ok(())
}

/// In the middle of which calls it counts.
fn callers(lease: &Lease) -> String {
    let names: Vec<&str> = lease
        .callers
        .iter()
        .map(|caller| caller.tool.as_str())
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => visible(&format!(", called by {}", names.join(" > "))),
    }
}
