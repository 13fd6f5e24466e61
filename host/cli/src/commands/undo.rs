//! `mimir undo`.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use mimir_audit::Log;
use mimir_core::audit::{AuditSink, Event, Kind};
use mimir_core::{CallContext, Code, RequestId, ToolError};

use crate::args::{Globals, UndoWish};
use crate::exit::{Exit, Failure};
use crate::output::{Printer, undo, warn};
use mimir::setup::{self, Setup};
use mimir::undo::{Backups, Record, is_logged};

/// Age limit: undo without an id means a change made just now. Older changes are only named.
const RECENT: Duration = Duration::from_secs(60 * 60);

/// Undoes a change, or lists the changes that can be undone.
pub fn run(globals: &Globals, printer: Printer, wish: UndoWish) -> Result<Exit, Failure> {
    match wish {
        UndoWish::List => {
            let backups = Backups::of(&setup::find_workspace(globals.workspace.as_deref())?);
            undo::list(printer, &backups.find()?)?;
        }
        UndoWish::Restore { id, force, yes } => {
            let setup = Setup::find(globals.workspace.as_deref())?;
            let backups = Backups::of(&setup.workspace);
            let found = backups.find()?;
            let usage = |error| match &id {
                Some(_) => Failure::ending(error, Exit::Usage),
                None => Failure::from(error),
            };
            let record = found.choose(id.as_deref()).map_err(usage)?;
            let age = record.age(Timestamp::now());
            if id.is_none() {
                // The newest change may be among those.
                undo::unreadable(&found);
            }
            if let Some(unkept) = &record.unkept {
                return Err(cannot(record, age, &unkept.why).into());
            }
            if id.is_none() && !yes && age.is_none_or(|age| age > RECENT) {
                return Err(too_old(record, age).into());
            }
            let audit = setup.audit();
            audit.ready().map_err(|error| {
                let message = format!(
                    "nothing was taken back, because the undo could not be recorded: {error}"
                );
                ToolError::new(Code::Unavailable, message)
            })?;
            let logged = is_logged(record, &Log::at(audit.path())).unwrap_or(false);
            if id.is_none() && !logged {
                return Err(unlogged(record).into());
            }
            let mut event = event(record);
            let start = Instant::now();
            let restored = backups.restore(record.clone(), force, logged);
            event.duration_ms = Some(start.elapsed().as_secs_f64() * 1000.0);
            event.ok = restored.is_ok();
            event.code = restored.as_ref().err().map(|error| error.code);
            if let Err(error) = audit.record(&event) {
                warn(error);
            }
            let restored = restored.map_err(|error| match error.code {
                // Later work on the same files is in the way.
                Code::AlreadyExists => Failure::ending(error, Exit::Refused),
                _ => Failure::from(error),
            })?;
            undo::restored(printer, record, age, &restored)?;
        }
    }
    Ok(Exit::Done)
}

/// Event of undoing a call: it has the call's id, and its own session.
fn event(record: &Record) -> Event {
    let now = SystemTime::now();
    let request_id = RequestId::new(now);
    let context = CallContext {
        session_id: request_id.to_string(),
        request_id,
        conversation_id: None,
        user: None,
    };
    let mut event = Event::of(Kind::Undo, now)
        .in_call(&context)
        .with_tool(&record.tool);
    event.id.clone_from(&record.id);
    event
}

/// The newest change can't be undone, and undoing an older one instead would be a surprise.
fn cannot(record: &Record, age: Option<Duration>, why: &str) -> ToolError {
    let message = format!(
        "the change of {} by {} ({}, {}) can't be taken back, because {}; nothing was taken back, and `mimir undo --list` shows the changes that can be, with their IDs",
        undo::paths(record),
        mimir_core::text::visible(&record.tool),
        mimir_core::text::visible(&record.id),
        undo::ago(age),
        mimir_core::text::visible(why),
    );
    ToolError::new(Code::Unavailable, message)
}

/// A record without a matching call in the log. It may have come with a checkout.
fn unlogged(record: &Record) -> ToolError {
    let id = mimir_core::text::visible(&record.id);
    let message = format!(
        "the newest change, of {} by {}, belongs to no call in the audit log and may be from another machine, so nothing was taken back; use `mimir undo {id}` to take it back",
        undo::paths(record),
        mimir_core::text::visible(&record.tool),
    );
    ToolError::new(Code::ApprovalDenied, message)
}

fn too_old(record: &Record, age: Option<Duration>) -> ToolError {
    let message = format!(
        "the newest change, of {} by {}, is {}, so nothing was taken back; use `mimir undo {}` or `mimir undo --yes` to take it back",
        undo::paths(record),
        mimir_core::text::visible(&record.tool),
        undo::ago(age),
        mimir_core::text::visible(&record.id),
    );
    ToolError::new(Code::ApprovalDenied, message)
}
