//! `mimir undo`

use mimir_core::Code;

use crate::args::{Globals, UndoWish};
use crate::exit::{Exit, Failure};
use crate::output::{Printer, undo};
use crate::setup;
use crate::undo::Backups;

/// Takes back a change, or lists what can be taken back.
pub fn run(globals: &Globals, printer: Printer, wish: UndoWish) -> Result<Exit, Failure> {
    let backups = Backups::of(&setup::workspace(globals)?);
    match wish {
        UndoWish::List => undo::list(printer, &backups.find()?)?,
        UndoWish::Restore { id, force } => {
            let usage = |error| match &id {
                Some(_) => Failure::ending(error, Exit::Usage),
                None => Failure::from(error),
            };
            let record = backups.choose(id.as_deref()).map_err(usage)?;
            let restored =
                backups
                    .restore(record.clone(), force)
                    .map_err(|error| match error.code {
                        // Somebody's later work stands in the way.
                        Code::AlreadyExists => Failure::ending(error, Exit::Refused),
                        _ => Failure::from(error),
                    })?;
            undo::restored(printer, &record, &restored)?;
        }
    }
    Ok(Exit::Done)
}
