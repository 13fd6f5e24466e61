//! `mimir setup`: adds mimir to the agents of this machine, and makes the first calls.

use std::path::PathBuf;

use mimir_core::ToolError;

use crate::args::{GlobalOptions, SetupArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::setup::{AgentReport, SetupReport};
use crate::output::{ResultPrinter, note};
use crate::terminal;
use mimir::agents::{AgentEnvironment, FolderListing, SetupPlan, SetupRecord, SetupRecordFile};
use mimir::setup::{self, HostSetup};
use mimir::user_dirs::UserDirs;
use mimir::workspace::WorkspaceFolder;

mod approval_example;
mod first_tool;
mod take_back;

/// Sets up the agents of this machine, or takes that back.
pub async fn run(globals: &GlobalOptions, args: &SetupArgs) -> CommandResult {
    let user_dirs = setup::find_user_dirs();
    let workspace = setup::find_workspace(globals.workspace.as_deref())?;
    setup::check_separation(&workspace, &user_dirs)?;
    let record = SetupRecordFile::for_workspace(&user_dirs, &workspace).map_err(ToolError::from)?;
    let target = SetupTarget {
        user_dirs,
        workspace,
        record,
    };
    if args.undo {
        take_back::run(globals, args, &target)
    } else {
        set_up(globals, args, &target).await
    }
}

/// The workspace of a setup, and the file that records it.
struct SetupTarget {
    user_dirs: UserDirs,
    workspace: WorkspaceFolder,
    record: SetupRecordFile,
}

async fn set_up(globals: &GlobalOptions, args: &SetupArgs, target: &SetupTarget) -> CommandResult {
    let printer = globals.printer();
    let workspace = &target.workspace;
    let mut record = target.record.read().map_err(ToolError::from)?;
    let program = std::env::current_exe().map_err(|error| {
        ToolError::unavailable(format!("the path of this program is not known: {error}"))
    })?;
    let environment = AgentEnvironment::find();
    let plan = SetupPlan::make(workspace.root(), &environment, &program, &args.agents);
    let makes_workspace = !workspace.config().is_file();
    let makes_tool = first_tool::is_missing(workspace);
    let mut report = SetupReport::new(workspace, &plan, makes_workspace, makes_tool);
    let is_pending = plan.pending_changes().next().is_some() || makes_workspace || makes_tool;
    if !printer.is_json() {
        printer.print_result(&(), |out| report.print_plan(out))?;
    }
    if !is_pending {
        if printer.is_json() {
            printer.print_json(&report)?;
        } else {
            printer.print_result(&(), |out| report.print_next(out))?;
        }
        return Ok(report.exit());
    }
    if !is_agreed(printer, args, "mimir setup --yes")? {
        if printer.is_json() {
            printer.print_json(&report)?;
        }
        return Ok(ExitReason::Refused);
    }
    let before = FolderListing::read(&workspace.mimir_dir());
    let record = record.get_or_insert_default();
    for agent in &mut report.agents {
        apply(agent, &plan, record, &target.record)?;
    }
    report.is_applied = true;
    let made = make_workspace(target, makes_workspace, makes_tool);
    if made.is_ok() && makes_workspace {
        report.created = vec![workspace.display_path(&workspace.mimir_dir()) + "/"];
    }
    record.add_created_since(&before);
    target.record.write(record).map_err(ToolError::from)?;
    let tool_file = made?;
    if !printer.is_json() {
        printer.print_result(&(), |out| report.print_applied(out))?;
    }
    if let Some(path) = tool_file {
        report.created.push(workspace.display_path(&path));
        let host = HostSetup::find(Some(workspace.root()))?;
        let called = first_tool::call(printer, &host, &path).await;
        if let Ok(outcome) = &called
            && !printer.is_json()
        {
            let asks = !args.yes && terminal::has_person() && outcome.result().is_ok();
            approval_example::show(printer, &host, asks).await?;
        }
        drop(host);
        // The calls have written the log, which belongs to a folder that the setup has created.
        if makes_workspace {
            record.add_created_since(&before);
            target.record.write(record).map_err(ToolError::from)?;
        }
        report.first_call = Some(called?);
    }
    if printer.is_json() {
        printer.print_json(&report)?;
    } else {
        printer.print_result(&(), |out| report.print_next(out))?;
    }
    Ok(report.exit())
}

/// Asks whether to make the changes that were shown. Where no person can be asked the answer is no; `command` is the one
/// that needs no answer.
fn is_agreed(printer: ResultPrinter, args: &SetupArgs, command: &str) -> CommandResult<bool> {
    if args.yes {
        return Ok(true);
    }
    if printer.is_json() || !terminal::has_person() {
        note(format_args!(
            "nothing was changed; `{command}` makes these changes"
        ));
        return Ok(false);
    }
    let is_agreed = terminal::confirm("Make these changes?")?;
    if !is_agreed {
        note("nothing was changed");
    }
    Ok(is_agreed)
}

/// Makes the change of an agent's file. It is recorded before, so that a killed process leaves nothing unrecorded.
fn apply(
    report: &mut AgentReport,
    plan: &SetupPlan,
    record: &mut SetupRecord,
    record_file: &SetupRecordFile,
) -> CommandResult<()> {
    let Some(change) = plan
        .pending_changes()
        .find(|change| change.agent() == report.kind)
    else {
        return Ok(());
    };
    let earlier = record.clone();
    record.add_change(change);
    record_file.write(record).map_err(ToolError::from)?;
    let applied = change.apply();
    if applied.is_err() {
        *record = earlier;
        record_file.write(record).map_err(ToolError::from)?;
    }
    report.set_applied(applied);
    Ok(())
}

/// Creates `.mimir` and the first tool if they are missing. Returns the tool's file if it is new.
fn make_workspace(
    target: &SetupTarget,
    makes_workspace: bool,
    makes_tool: bool,
) -> Result<Option<PathBuf>, ToolError> {
    if makes_workspace {
        super::init::create_workspace(Some(target.workspace.root()))?;
    }
    if !makes_tool {
        return Ok(None);
    }
    Ok(Some(first_tool::make(&target.workspace)?))
}
