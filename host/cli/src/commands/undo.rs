//! `mimir undo`.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use mimir_audit::AuditLog;
use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::{CallContext, ToolError, ToolErrorCode};

use crate::args::{GlobalOptions, UndoArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{undo, warn};
use mimir::setup::{self, HostSetup};
use mimir::undo::{RestoredPath, UndoRecord, UndoStore, is_logged};

/// Maximum age of a change that is undone without an id or `--yes`. An older change is only named.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Undoes a change, or lists the changes that can be undone.
pub fn run(globals: &GlobalOptions, args: &UndoArgs) -> CommandResult {
    let printer = globals.printer();
    if args.list {
        let backups =
            UndoStore::for_workspace(&setup::find_workspace(globals.workspace.as_deref())?);
        undo::list(printer, &backups.read_history()?)?;
        return Ok(ExitReason::Done);
    }
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let backups = UndoStore::for_workspace(&setup.workspace);
    let history = backups.read_history()?;
    let usage = |error| match &args.id {
        Some(_) => CommandFailure::with_exit(error, ExitReason::Usage),
        None => CommandFailure::from(error),
    };
    let record = history.choose(args.id.as_deref()).map_err(usage)?;
    let age = record.age(Timestamp::now());
    if args.id.is_none() {
        // The newest change may be an unreadable one.
        undo::unreadable(&history);
    }
    if let Some(unrecorded) = &record.unrecorded
        && (record.changes.is_empty() || !args.force)
    {
        return Err(cannot_undo(record, age, &unrecorded.why).into());
    }
    if args.id.is_none() && !args.yes && age.is_none_or(|age| age > MAX_AGE) {
        return Err(too_old(record, age).into());
    }
    check_recordable(&*setup.audit())?;
    let logged = is_logged(record, &AuditLog::at(setup.workspace.audit())).unwrap_or(false);
    if args.id.is_none() && !logged {
        return Err(unlogged(record).into());
    }
    let restored = restore_recorded(&setup, record, args.force, logged, None);
    let restored = restored.map_err(|error| match error.code {
        // The files were changed since.
        ToolErrorCode::AlreadyExists => CommandFailure::with_exit(error, ExitReason::Refused),
        _ => CommandFailure::from(error),
    })?;
    undo::print_restored(printer, record, age, &restored)?;
    Ok(ExitReason::Done)
}

/// Undoes the change of a record, and records that in the audit log. `by` is the person, if another front end than the
/// command line asks. `logged` must be true if the call of the record is in the audit log.
pub fn restore_recorded(
    setup: &HostSetup,
    record: &UndoRecord,
    force: bool,
    logged: bool,
    by: Option<&str>,
) -> Result<Vec<RestoredPath>, ToolError> {
    let audit = setup.audit();
    check_recordable(&*audit)?;
    let backups = UndoStore::for_workspace(&setup.workspace);
    let mut event = undo_event(record);
    if let Some(by) = by {
        event = event.with_detail(&format!("undone by {by}"));
    }
    let start = Instant::now();
    let restored = backups.restore(record.clone(), force, logged);
    event.duration_ms = Some(start.elapsed().as_secs_f64() * 1000.0);
    event.ok = restored.is_ok();
    event.code = restored.as_ref().err().map(|error| error.code);
    if let Err(error) = audit.record(&event) {
        warn(error);
    }
    restored
}

/// Fails if an undo cannot be recorded.
fn check_recordable(audit: &dyn AuditSink) -> Result<(), ToolError> {
    audit.ready().map_err(|error| {
        ToolError::unavailable(format!(
            "nothing was taken back, because the undo could not be recorded: {error}"
        ))
    })
}

/// Creates the audit event of an undo, with the id of the undone call and a new session.
fn undo_event(record: &UndoRecord) -> AuditEvent {
    let now = SystemTime::now();
    let mut event = AuditEvent::new(EventKind::Undo, now)
        .with_context(&CallContext::new_session(now))
        .with_tool(&record.tool);
    event.id.clone_from(&record.id);
    event
}

/// Creates the error for a change that cannot be undone, or only in part. No older change is undone instead, because
/// the user would not expect that.
fn cannot_undo(record: &UndoRecord, age: Option<Duration>, why: &str) -> ToolError {
    let id = mimir_core::text::visible(&record.id);
    let hint = match record.changes.len() {
        0 => String::new(),
        count => format!("; `mimir undo {id} --force` takes back the {count} other paths"),
    };
    ToolError::unavailable(format!(
        "the change of {} by {} ({}, {}) can't be taken back, because {}; nothing was taken back, and `mimir undo --list` shows the changes that can be, with their IDs{hint}",
        undo::paths(record),
        mimir_core::text::visible(&record.tool),
        id,
        undo::ago(age),
        mimir_core::text::visible(why),
    ))
}

/// Creates the error for a record without a matching call in the audit log, which may have come with a checkout.
fn unlogged(record: &UndoRecord) -> ToolError {
    let id = mimir_core::text::visible(&record.id);
    ToolError::approval_denied(format!(
        "the newest change, of {} by {}, belongs to no call in the audit log and may be from another machine, so nothing was taken back; use `mimir undo {id}` to take it back",
        undo::paths(record),
        mimir_core::text::visible(&record.tool),
    ))
}

fn too_old(record: &UndoRecord, age: Option<Duration>) -> ToolError {
    ToolError::approval_denied(format!(
        "the newest change, of {} by {}, is {}, so nothing was taken back; use `mimir undo {}` or `mimir undo --yes` to take it back",
        undo::paths(record),
        mimir_core::text::visible(&record.tool),
        undo::ago(age),
        mimir_core::text::visible(&record.id),
    ))
}
