//! `mimir undo`

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use mimir_core::audit::{AuditSink, Event, FileAudit, Kind};
use mimir_core::{CallContext, Code, RequestId, ToolError};

use crate::args::{Globals, UndoWish};
use crate::exit::{Exit, Failure};
use crate::output::{Printer, undo, warn};
use crate::setup::{self, Setup};
use crate::undo::{Backups, Record};

/// Whoever undoes without a name means what has just happened. Older changes are named.
const RECENT: Duration = Duration::from_secs(60 * 60);

/// Takes back a change, or lists what can be taken back.
pub fn run(globals: &Globals, printer: Printer, wish: UndoWish) -> Result<Exit, Failure> {
    match wish {
        UndoWish::List => {
            let backups = Backups::of(&setup::workspace(globals)?);
            undo::list(printer, &backups.find()?)?;
        }
        UndoWish::Restore { id, force, yes } => {
            let setup = Setup::find(globals)?;
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
                if !yes && age.is_none_or(|age| age > RECENT) {
                    return Err(too_old(record, age).into());
                }
            }
            let audit = FileAudit::new(setup.workspace.audit(), setup.settings.config.audit);
            audit.ready().map_err(|error| {
                let message =
                    format!("nothing was taken back, because it could not be recorded: {error}");
                ToolError::new(Code::Unavailable, message)
            })?;
            let mut event = event(record);
            let start = Instant::now();
            let restored = backups.restore(record.clone(), force);
            event.duration_ms = Some(start.elapsed().as_secs_f64() * 1000.0);
            event.ok = restored.is_ok();
            event.code = restored.as_ref().err().map(|error| error.code);
            if let Err(error) = audit.record(&event) {
                warn(error);
            }
            let restored = restored.map_err(|error| match error.code {
                // Somebody's later work stands in the way.
                Code::AlreadyExists => Failure::ending(error, Exit::Refused),
                _ => Failure::from(error),
            })?;
            undo::restored(printer, record, age, &restored)?;
        }
    }
    Ok(Exit::Done)
}

/// The event of taking back a call: it has the call's id, and a session of its own.
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

fn too_old(record: &Record, age: Option<Duration>) -> ToolError {
    let message = format!(
        "the newest change, of {} by {}, is {}, so nothing was taken back; `mimir undo {}` or `mimir undo --yes` takes it back",
        undo::paths(record),
        mimir_core::text::visible(&record.tool),
        undo::ago(age),
        mimir_core::text::visible(&record.id),
    );
    ToolError::new(Code::ApprovalDenied, message)
}
