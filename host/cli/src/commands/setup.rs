//! `mimir setup`: adds mimir to the agents of this machine, and makes the first calls.

use std::path::PathBuf;

use mimir_core::ToolError;

use crate::args::{GlobalOptions, SetupArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::setup::{AgentReport, SetupReport};
use crate::output::{ResultPrinter, note, wrapped_note};
use crate::terminal;
use mimir::agents::{AgentEnvironment, FolderListing, SetupPlan, SetupRecordStore, SetupRecords};
use mimir::setup::{self, HostSetup};
use mimir::user_dirs::UserDirs;
use mimir::workspace::WorkspaceFolder;

mod approval_example;
mod first_tool;
mod take_back;

/// Sets up the agents of this machine, or takes that back.
pub async fn run(globals: &GlobalOptions, args: &SetupArgs) -> CommandResult {
    let user_dirs = setup::find_user_dirs();
    let workspace = find_workspace(globals, &user_dirs)?;
    workspace.check_separation(&user_dirs)?;
    let records =
        SetupRecordStore::for_workspace(&user_dirs, &workspace).map_err(ToolError::from)?;
    let target = SetupTarget {
        user_dirs,
        workspace,
        records,
    };
    if args.undo {
        take_back::run(globals, args, &target)
    } else {
        set_up(globals, args, &target).await
    }
}

/// The workspace of a setup, and the store that records it.
struct SetupTarget {
    user_dirs: UserDirs,
    workspace: WorkspaceFolder,
    records: SetupRecordStore,
}

/// Finds the workspace. Without a `.mimir` above, it is the root of the repository rather than a folder in it, because
/// agents read their project files there, unless that root cannot be a workspace, such as a home folder, or has a
/// `.mimir` of another user.
fn find_workspace(globals: &GlobalOptions, user_dirs: &UserDirs) -> CommandResult<WorkspaceFolder> {
    let named = globals.workspace.as_deref();
    let workspace = setup::find_workspace(named)?;
    if named.is_none()
        && !workspace.has_mimir_dir()
        && let Some(root) = workspace.repository_root()
    {
        let repository = WorkspaceFolder::find(Some(root))?;
        // No `.mimir` above counted, so one in this root was skipped.
        if !repository.has_mimir_dir() && repository.check_separation(user_dirs).is_ok() {
            return Ok(repository);
        }
    }
    Ok(workspace)
}

async fn set_up(globals: &GlobalOptions, args: &SetupArgs, target: &SetupTarget) -> CommandResult {
    let printer = globals.printer();
    let workspace = &target.workspace;
    let root = workspace.root();
    let records = target.records.read().map_err(ToolError::from)?;
    let program = std::env::current_exe().map_err(|error| {
        ToolError::unavailable(format!("the path of this program is not known: {error}"))
    })?;
    let environment = AgentEnvironment::find();
    let plan = SetupPlan::make(root, &environment, &program, &args.agents);
    let makes_workspace = !workspace.config().is_file();
    let makes_tool = first_tool::is_missing(workspace);
    let mut report = SetupReport::new(workspace, &plan, makes_workspace, makes_tool);
    let is_pending = plan.pending_changes().next().is_some() || makes_workspace || makes_tool;
    // Without a person who says yes to a workspace alone, a setup of no agent is an error.
    let asks = !args.yes && !printer.is_json() && terminal::has_person();
    if let Err(error) = plan.check_any_agent()
        && !(asks && is_pending)
    {
        report.set_error(&error);
        return fail(printer, &report);
    }
    if !printer.is_json() {
        printer.print_result(&(), |out| report.print_plan(out))?;
    }
    if !is_pending {
        if { records }.add_uses(root, &plan) {
            update(target, |records| _ = records.add_uses(root, &plan))?;
        }
        if printer.is_json() {
            printer.print_json(&report)?;
        } else {
            printer.print_result(&(), |out| report.print_next(out))?;
        }
        return Ok(report.exit());
    }
    if !is_agreed(printer, args, "mimir setup --yes", &report.summary())? {
        if printer.is_json() {
            printer.print_json(&report)?;
        }
        return Ok(ExitReason::Refused);
    }
    let before = FolderListing::read(&workspace.mimir_dir());
    update(target, |records| _ = records.add_uses(root, &plan))?;
    for agent in &mut report.agents {
        apply(agent, &plan, target)?;
    }
    report.is_applied = true;
    let made = make_workspace(target, makes_workspace, makes_tool);
    if made.is_ok() && makes_workspace {
        report.created = vec![workspace.display_path(&workspace.mimir_dir()) + "/"];
    }
    let add_created = |records: &mut SetupRecords| records.workspace.add_created_since(&before);
    update(target, add_created)?;
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
            let asks = asks && outcome.result().is_ok();
            approval_example::show(printer, &host, asks).await?;
        }
        drop(host);
        // The calls have written the log, which belongs to a folder that the setup has created.
        if makes_workspace {
            update(target, add_created)?;
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

/// Reports that no agent was set up.
fn fail(printer: ResultPrinter, report: &SetupReport) -> CommandResult {
    printer.print_result(report, |out| report.print_plan(out))?;
    if !printer.is_json() {
        report.print_error();
    }
    Ok(ExitReason::Failed)
}

/// Asks whether to make the changes that were shown, and repeats them in the sentence `summary`, because the list may
/// have scrolled off the screen. Where no person can be asked the answer is no; `command` is the one that needs no
/// answer.
fn is_agreed(
    printer: ResultPrinter,
    args: &SetupArgs,
    command: &str,
    summary: &str,
) -> CommandResult<bool> {
    if args.yes {
        return Ok(true);
    }
    if printer.is_json() || !terminal::has_person() {
        note(format_args!(
            "nothing was changed; `{command}` makes these changes"
        ));
        return Ok(false);
    }
    note(wrapped_note(summary));
    let is_agreed = terminal::confirm("Make these changes?")?;
    if !is_agreed {
        note("nothing was changed");
    }
    Ok(is_agreed)
}

/// Changes the stored records. They are read again each time, because setups of other workspaces may run meanwhile.
fn update(target: &SetupTarget, change: impl FnOnce(&mut SetupRecords)) -> Result<(), ToolError> {
    target.records.update(change).map_err(ToolError::from)
}

/// Makes the change of an agent's file. It is recorded before, so that a killed process leaves nothing unrecorded.
fn apply(report: &mut AgentReport, plan: &SetupPlan, target: &SetupTarget) -> CommandResult<()> {
    let Some(change) = plan
        .pending_changes()
        .find(|change| change.agent() == report.kind)
    else {
        return Ok(());
    };
    let mut locked = target.records.lock().map_err(ToolError::from)?;
    let earlier = locked.records.clone();
    locked.records.add_change(target.workspace.root(), change);
    locked.write().map_err(ToolError::from)?;
    let applied = change.apply();
    if applied.is_err() {
        locked.records = earlier;
        locked.write().map_err(ToolError::from)?;
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
        super::init::create_workspace(target.workspace.root())?;
    }
    if !makes_tool {
        return Ok(None);
    }
    Ok(Some(first_tool::make(&target.workspace)?))
}
