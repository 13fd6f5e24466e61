//! `mimir call`

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_core::pipeline::World;
use mimir_core::text::visible;
use mimir_core::{Call, CallContext, Code, Outcome, RequestId, Tool, ToolError};
use serde_json::Value;

use crate::args::{Approve, Globals};
use crate::arguments::Words;
use crate::exit::{Exit, Failure};
use crate::output::{FAINT, Printer, note, outcome, styled, tools};
use crate::setup::Setup;
use crate::terminal::{Started, Watcher, approver, left_open};
use crate::workspace::Workspace;

use crate::tools::is_named;

/// What is to be called, and how.
pub struct Wish {
    /// Name or alias.
    pub tool: String,
    /// Its arguments as they were typed.
    pub words: Words,
    /// What stands in for a person.
    pub approve: Approve,
    /// The call's wall clock.
    pub timeout: Option<Duration>,
}

/// Calls a tool and prints the outcome.
pub async fn run(globals: &Globals, printer: Printer, wish: Wish) -> Result<Exit, Failure> {
    let mut setup = Setup::find(globals)?;
    // An unknown plugin is asked what it offers, which may take its time.
    let (mut registry, mut all) = tokio::select! {
        found = setup.registry_for(&wish.tool) => found,
        exit = interrupted() => return Err(cancelled(printer, exit)),
    };
    let tool = registry.get(&wish.tool).cloned();
    let arguments = wish
        .words
        .resolve(tool.as_deref())
        .map_err(|error| match error.code {
            Code::LimitExceeded => Failure::from(error),
            _ => Failure::ending(error, Exit::Usage),
        })?;
    if !all && arguments.get("tools").is_some() && tool.as_deref().is_some_and(Tool::runs_code) {
        // The tools that the code names may be those of servers, which are not started for any code.
        registry = tokio::select! {
            registry = setup.registry() => registry,
            exit = interrupted() => return Err(cancelled(printer, exit)),
        };
        all = true;
    }
    if let (Some(timeout), Some(tool)) = (wish.timeout, &tool) {
        setup.settings.bound(tool, timeout);
    }
    if tool.is_none() && !printer.is_json() {
        // The name may be missing because its file is left out.
        let named = registry
            .quarantined()
            .iter()
            .filter(|left_out| is_named(left_out, &wish.tool));
        named.for_each(tools::quarantined);
    }
    let policy = setup.settings.policy()?;
    let world = match all {
        true => setup.joined(policy, registry),
        false => World { registry, policy },
    };
    // If this fails, the pipeline cannot record the call and says so.
    let _ = setup.workspace.make_state();
    let pipeline = setup.pipeline(world, approver(wish.approve, Started::Call));
    let watcher = Arc::new(Watcher::new(&wish.tool));
    let mut call = call(wish.tool, arguments);
    call.observer = Arc::clone(&watcher) as Arc<_>;
    let outcome = tokio::select! {
        outcome = pipeline.call(call) => outcome,
        // The call is dropped: that stops the tool and records it as cancelled.
        exit = interrupted() => {
            end_soon(exit);
            watcher.finish();
            return Err(cancelled(printer, exit));
        }
    };
    watcher.finish();
    if left_open() {
        note("");
    }
    let exit = ending(&outcome, tool.as_deref());
    let hints = !printer.is_json() && outcome.result().is_err_and(is_about_path);
    // A reader who does not read keeps nobody from stopping this.
    let (printed, done) = tokio::sync::oneshot::channel();
    let outcome = Arc::new(outcome);
    let shown = Arc::clone(&outcome);
    let printing = std::thread::Builder::new().spawn(move || {
        let _ = printed.send(outcome::print(printer, &shown));
    });
    match printing {
        Ok(_) => tokio::select! {
            printed = done => printed.map_err(std::io::Error::other)??,
            exit = interrupted() => std::process::exit(i32::from(exit.number())),
        },
        // No more threads to be had: the result of what has been done is told all the same.
        Err(_) => outcome::print(printer, &outcome)?,
    }
    if hints {
        hint(&setup.workspace);
    }
    Ok(exit)
}

fn cancelled(printer: Printer, exit: Exit) -> Failure {
    if !printer.is_json() {
        // The terminal has written `^C` where the message would stand.
        note("");
    }
    Failure::ending(
        ToolError::new(Code::Cancelled, "the call was cancelled"),
        exit,
    )
}

/// How long a cancelled call may take to say that it was.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Ends the program in a moment, even if nobody reads what it still has to say.
fn end_soon(exit: Exit) {
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(LAST_WORDS);
        std::process::exit(i32::from(exit.number()));
    });
}

/// A call from this command line: one process is one session.
pub fn call(tool: String, arguments: Value) -> Call {
    let request_id = RequestId::new(SystemTime::now());
    let context = CallContext {
        session_id: request_id.to_string(),
        request_id,
        conversation_id: None,
        user: None,
    };
    Call::new(tool, arguments, context)
}

/// Says where paths count from, to a person who is somewhere else in the workspace.
fn hint(workspace: &Workspace) {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let (Ok(here), Ok(root)) = (here, workspace.root().canonicalize()) else {
        return;
    };
    if let Ok(below) = here.strip_prefix(&root)
        && !below.as_os_str().is_empty()
    {
        let [root, below] =
            [workspace.root(), below].map(|path| visible(&path.display().to_string()));
        note(styled(
            FAINT,
            format_args!("  paths count from {root}; this folder is {below} there"),
        ));
    }
}

fn is_about_path(error: &ToolError) -> bool {
    matches!(error.code, Code::FileNotFound | Code::InvalidPath)
}

fn ending(outcome: &Outcome, tool: Option<&Tool>) -> Exit {
    match outcome.result() {
        Ok(output) if output.exit_code.is_none_or(|code| code == 0) => Exit::Done,
        Ok(_) => Exit::Failed,
        // There is no such tool: that is the caller's slip, not the tool's failure.
        Err(error) if error.code == Code::NotFound && tool.is_none() => Exit::Usage,
        Err(error) => error.code.into(),
    }
}

/// Completes when this process is asked to stop.
pub async fn interrupted() -> Exit {
    let ctrl_c = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let heard = async |kind| match signal(kind) {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        };
        tokio::select! {
            () = ctrl_c => Exit::Interrupted,
            () = heard(SignalKind::terminate()) => Exit::Terminated,
            // The terminal is gone: whoever asked for the call will not read of it, but the record says it.
            () = heard(SignalKind::hangup()) => Exit::Terminated,
        }
    }
    #[cfg(not(unix))]
    {
        ctrl_c.await;
        Exit::Interrupted
    }
}
