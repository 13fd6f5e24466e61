//! `mimir setup --undo`.

use mimir_core::ToolError;

use super::{SetupTarget, is_agreed};
use crate::args::{GlobalOptions, SetupArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::setup_undo::UndoReport;
use mimir::agents::SetupUndo;
use mimir::audit_watermark::AuditWatermark;
use mimir::file_error::file_error;

/// Takes back what earlier setups changed, after showing it.
pub fn run(globals: &GlobalOptions, args: &SetupArgs, target: &SetupTarget) -> CommandResult {
    let printer = globals.printer();
    let records = target.records.read().map_err(ToolError::from)?;
    if records.is_empty_for(target.workspace.root()) {
        return Err(ToolError::not_found(format!(
            "no setup is recorded for {}; run this in the folder in which `mimir setup` ran, or name that with -C",
            mimir_core::text::visible(&target.workspace.root().display().to_string())
        ))
        .into());
    }
    let undo = SetupUndo::make(target.workspace.root(), records.clone());
    let mut report = UndoReport::new(&target.workspace, &undo);
    if !printer.is_json() {
        printer.print_result(&(), |out| report.print_plan(out))?;
    }
    if !is_agreed(printer, args, "mimir setup --undo --yes", &report.summary())? {
        if printer.is_json() {
            printer.print_json(&report)?;
        }
        return Ok(ExitReason::Refused);
    }
    let log = target.workspace.audit();
    let removes_log = undo.removed.iter().any(|created| created.path == log);
    let mut locked = target.records.lock().map_err(ToolError::from)?;
    // A setup may have run since the plan was shown.
    locked.check_unchanged(&records).map_err(ToolError::from)?;
    let (failed, left) = undo.apply();
    locked.records = left;
    locked.write().map_err(ToolError::from)?;
    drop(locked);
    if removes_log {
        forget_log(target)?;
    }
    report.set_applied(&failed);
    if printer.is_json() {
        printer.print_json(&report)?;
    } else {
        printer.print_result(&(), |out| report.print_applied(out))?;
    }
    Ok(ExitReason::done_if(failed.is_empty()))
}

/// Removes the stored position of the audit log, which was removed with the rest.
fn forget_log(target: &SetupTarget) -> Result<(), ToolError> {
    let log = target.workspace.audit();
    if log.symlink_metadata().is_ok() {
        return Ok(());
    }
    AuditWatermark::remove(&target.user_dirs, &target.workspace)
        .map_err(|error| file_error("remove the stored position of", &log, &error))
}
