//! `mimir call`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::text::visible;
use mimir_core::{Call, CallContext, Outcome, Tool, ToolError, ToolErrorCode};
use serde_json::Value;

use crate::args::{ApproveMode, CallArgs, GlobalOptions};
use crate::arguments::ArgumentInput;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, ResultPrinter, note, outcome, styled, tools};
use crate::terminal::{CallWatcher, StartedCommand, approver, is_question_open};
use mimir::setup::HostSetup;
use mimir::workspace::WorkspaceFolder;

pub use super::interrupt::wait_for_interrupt;

use crate::tools::is_named;

/// Calls a tool and prints the outcome.
pub async fn run(globals: &GlobalOptions, args: CallArgs) -> CommandResult {
    let printer = globals.printer();
    let input = ArgumentInput::parse(args.arguments)?;
    let mut setup = HostSetup::find_with_bundles(globals.workspace.as_deref(), true).await?;
    if let Some(folder) = &args.tools_from {
        setup = setup.with_tools_from(folder)?;
    }
    // Reading the definition of a plugin that is not cached requires compiling it, which may take a while.
    let mut loaded = tokio::select! {
        loaded = setup.registry_for(&args.tool) => loaded,
        exit = wait_for_interrupt() => return Err(cancellation(printer, exit)),
    };
    let tool = loaded.registry.get(&args.tool).cloned();
    let arguments = input
        .resolve(tool.as_deref())
        .map_err(|error| match error.code {
            ToolErrorCode::LimitExceeded => CommandFailure::from(error),
            _ => CommandFailure::with_exit(error, ExitReason::Usage),
        })?;
    if !loaded.is_complete
        && arguments.get("tools").is_some()
        && tool.as_deref().is_some_and(Tool::runs_code)
    {
        // Code that names tools may call those of servers; other code does not need the servers.
        loaded = tokio::select! {
            all = setup.registry() => all,
            exit = wait_for_interrupt() => return Err(cancellation(printer, exit)),
        };
    }
    let is_complete = loaded.is_complete;
    let registry = loaded.into_registry();
    if let (Some(timeout), Some(tool)) = (args.timeout, &tool) {
        setup.settings.limit_tool_time(tool, timeout);
    }
    if tool.is_none() && !printer.is_json() {
        // The tool may be unknown because its file was left out. The error of the call tells which files are missing.
        let matching = registry.quarantined().iter().filter(|left_out| {
            left_out.code != ToolErrorCode::FileNotFound && is_named(left_out, &args.tool)
        });
        matching.for_each(tools::quarantined);
    }
    let policy = setup.settings.policy()?;
    let snapshot = if is_complete {
        setup.join_snapshot(policy, registry)
    } else {
        let policy = setup.skills().show_in(policy);
        PipelineSnapshot { registry, policy }
    };
    // If this fails, the pipeline reports that it cannot record the call.
    let _ = setup.workspace.make_state();
    let pipeline = setup.pipeline(snapshot, approver(args.approve, StartedCommand::Call));
    if args.approve == ApproveMode::Ask {
        setup.share_questions_of_command(&pipeline);
    }
    let watcher = Arc::new(CallWatcher::new(&args.tool));
    let mut call = new_call(args.tool, arguments);
    call.observer = Arc::clone(&watcher) as Arc<_>;
    let outcome = tokio::select! {
        outcome = pipeline.call(call) => outcome,
        // Dropping the call stops the tool and records it as cancelled.
        exit = wait_for_interrupt() => {
            exit_soon(exit);
            watcher.finish();
            return Err(cancellation(printer, exit));
        }
    };
    watcher.finish();
    if is_question_open() {
        note("");
    }
    let exit = exit_reason(&outcome, tool.as_deref());
    let shows_path_base = !printer.is_json() && outcome.result().is_err_and(is_about_path);
    // Printed on a thread, so that a blocked reader does not delay cancellation.
    let (printed, done) = tokio::sync::oneshot::channel();
    let outcome = Arc::new(outcome);
    let shown = Arc::clone(&outcome);
    let printing = std::thread::Builder::new().spawn(move || {
        let _ = printed.send(outcome::print(printer, &shown));
    });
    match printing {
        Ok(_) => tokio::select! {
            printed = done => printed.map_err(std::io::Error::other)??,
            exit = wait_for_interrupt() => std::process::exit(i32::from(exit.number())),
        },
        // No thread is available, so print the result on this one.
        Err(_) => outcome::print(printer, &outcome)?,
    }
    if shows_path_base {
        note_path_base(&setup.workspace);
    }
    Ok(exit)
}

fn cancellation(printer: ResultPrinter, exit: ExitReason) -> CommandFailure {
    if !printer.is_json() {
        // The terminal has written `^C` at the start of the line.
        note("");
    }
    cancelled(exit)
}

/// Returns the failure of a call that the person interrupted.
pub fn cancelled(exit: ExitReason) -> CommandFailure {
    CommandFailure::with_exit(
        ToolError::new(ToolErrorCode::Cancelled, "the call was cancelled"),
        exit,
    )
}

/// Maximum time to report a cancelled call before the program exits.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Exits after [`CANCEL_TIMEOUT`], even if the remaining output is not read.
fn exit_soon(exit: ExitReason) {
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(CANCEL_TIMEOUT);
        std::process::exit(i32::from(exit.number()));
    });
}

/// Creates a call in a new session.
pub fn new_call(tool: String, arguments: Value) -> Call {
    Call::new(tool, arguments, CallContext::new_session(SystemTime::now()))
}

/// Prints the folder that paths are relative to, if the current folder is not the workspace root.
fn note_path_base(workspace: &WorkspaceFolder) {
    let current = std::env::current_dir().and_then(|current| current.canonicalize());
    let (Ok(current), Ok(root)) = (current, workspace.root().canonicalize()) else {
        return;
    };
    if let Ok(relative) = current.strip_prefix(&root)
        && !relative.as_os_str().is_empty()
    {
        let [root, relative] =
            [workspace.root(), relative].map(|path| visible(&path.display().to_string()));
        note(styled(
            FAINT,
            format_args!("  paths are relative to {root}; the current folder is {relative}"),
        ));
    }
}

fn is_about_path(error: &ToolError) -> bool {
    matches!(
        error.code,
        ToolErrorCode::FileNotFound | ToolErrorCode::InvalidPath
    )
}

fn exit_reason(outcome: &Outcome, tool: Option<&Tool>) -> ExitReason {
    match outcome.result() {
        Ok(output) if output.exit_code.is_none_or(|code| code == 0) => ExitReason::Done,
        Ok(_) => ExitReason::Failed,
        // An unknown tool is a usage error.
        Err(error) if error.code == ToolErrorCode::NotFound && tool.is_none() => ExitReason::Usage,
        Err(error) => error.code.into(),
    }
}
