//! Printing of stored approvals, and of approvals of running sessions.

use std::cmp::Reverse;
use std::io::{self, Write};

use jiff::Timestamp;
use mimir_core::approval::StoredApproval;
use mimir_core::text::visible;
use serde_json::json;

use crate::exit::CommandResult;
use mimir::approval_store::SessionApproval;
use mimir::shared_questions::SharedQuestion;

use super::{FAINT, ResultPrinter, STRONG, WARN, styled};

/// An approval for a session.
pub struct ListedSession {
    /// The approval.
    pub approval: StoredApproval,
    /// The process of the session; `None` if it may be in any process of a cluster.
    process: Option<u32>,
}

impl ListedSession {
    /// Creates the approval for a session of a process on this machine.
    pub fn of_process(listed: SessionApproval) -> Self {
        Self {
            approval: listed.lease,
            process: Some(listed.process),
        }
    }

    /// Creates the approval for a session of a cluster.
    pub fn of_cluster(approval: StoredApproval) -> Self {
        Self {
            approval,
            process: None,
        }
    }
}

/// Prints the approvals of a workspace: the stored ones, newest first, and those of running sessions.
pub fn list(
    printer: ResultPrinter,
    leases: &[StoredApproval],
    sessions: &[ListedSession],
    now: Timestamp,
) -> CommandResult<()> {
    let mut all: Vec<_> = leases.iter().map(|lease| (lease, None)).collect();
    all.sort_by_key(|(lease, _)| Reverse(lease.added_at));
    all.extend(
        sessions
            .iter()
            .map(|session| (&session.approval, Some(session))),
    );
    let rows: Vec<_> = all
        .iter()
        .map(|(lease, session)| row(lease, *session, now))
        .collect();
    printer.print_result(&json!({ "approvals": rows }), |out| {
        print_text(out, &all, now)
    })
}

fn row(
    lease: &StoredApproval,
    session: Option<&ListedSession>,
    now: Timestamp,
) -> serde_json::Value {
    let mut row = json!({
        "id": lease.id, "tool": lease.tool, "pattern": lease.pattern.describe(), "digest": lease.digest,
        "callers": lease.callers.iter().map(|caller| caller.tool.as_str()).collect::<Vec<_>>(),
        "reasons": lease.reasons, "addedBy": lease.added_by, "addedAt": lease.added_at,
        "expiresAt": lease.expires_at, "lastUsed": lease.last_used, "live": lease.is_live(now),
    });
    if let Some(scope) = &lease.scope {
        row["scope"] = scope.as_str().into();
    }
    if let Some(session) = session {
        row["session"] = json!({ "process": session.process });
    }
    row
}

/// Prints questions that wait for an answer.
pub fn list_questions(
    printer: ResultPrinter,
    questions: &[SharedQuestion],
    now: Timestamp,
) -> CommandResult<()> {
    printer.print_result(&json!({ "questions": questions }), |out| {
        if questions.is_empty() {
            return writeln!(out, "{}", styled(FAINT, "no questions wait for an answer"));
        }
        for question in questions {
            let client = question.card.facts.client.as_deref();
            let client = client.map_or(String::new(), |name| format!("{}, ", visible(name)));
            let waiting = now.duration_since(question.asked_at).as_secs().max(0);
            writeln!(
                out,
                "{}  {}  {}",
                styled(FAINT, visible(&question.id)),
                styled(STRONG, visible(&question.card.tool)),
                visible(&question.card.summary),
            )?;
            writeln!(
                out,
                "                  in {}, {client}{}, waits for {waiting} s, until {:.0}",
                visible(&question.workspace),
                visible(&question.process),
                question.expires_at
            )?;
        }
        writeln!(
            out,
            "{}",
            styled(
                FAINT,
                "`mimir approvals answer ID once` shows a question and answers it"
            )
        )
    })
}

fn print_text(
    out: &mut dyn Write,
    all: &[(&StoredApproval, Option<&ListedSession>)],
    now: Timestamp,
) -> io::Result<()> {
    if all.is_empty() {
        let nothing =
            "no stored approvals, and no approvals of running sessions, in this workspace";
        return writeln!(out, "{}", styled(FAINT, nothing));
    }
    for (lease, session) in all {
        let state = match (lease.expires_at, session) {
            _ if lease.added_at > now => styled(WARN, "dated in the future: ignored"),
            (_, Some(session)) => match session.process {
                Some(process) => format!("for a session of process {process}"),
                None => "for a session".to_owned(),
            },
            (Some(end), _) if end <= now => styled(WARN, format_args!("expired {end:.0}")),
            (Some(end), _) => format!("until {end:.0}"),
            (None, _) => "without expiry".to_owned(),
        };
        let used = match (lease.last_used, session) {
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
