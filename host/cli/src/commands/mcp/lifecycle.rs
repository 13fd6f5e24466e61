//! `mimir mcp start`, `stop`, `restart` and `logs`: control of servers in all processes of a workspace.

use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::json;

use crate::args::GlobalOptions;
use crate::exit::{CommandResult, ExitReason};
use crate::output::note;
use mimir::servers::control::ServerControl;
use mimir::servers::server_logs::ServerLogs;
use mimir::servers::server_processes::{ServerProcess, running_processes};
use mimir::setup::HostSetup;
use mimir_mcp::client::ServerState;

/// Interval at which `mimir mcp logs --follow` looks for new lines.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// Stops a server in all processes of the workspace, until it is started again.
pub fn stop(globals: &GlobalOptions, name: &str) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let running = stop_server(&setup, name)?;
    report(globals, name, "stopped", &running, "no process runs it now")
}

/// Stops a server like [`stop`]. Returns the processes in which it runs.
pub fn stop_server(setup: &HostSetup, name: &str) -> CommandResult<Vec<ServerProcess>> {
    check_known(setup, name)?;
    let running = processes_in_states(setup, name, &[ServerState::Running])?;
    ServerControl::stop(&setup.user_dirs, &setup.workspace, name)?;
    Ok(running)
}

/// Starts a stopped server in the running processes. Returns false if it runs already.
pub fn start_server(setup: &HostSetup, name: &str) -> CommandResult<bool> {
    check_startable(setup, name)?;
    let running = processes_in_states(setup, name, &[ServerState::Running])?;
    if !setup.settings.server_control.is_stopped(name) && !running.is_empty() {
        return Ok(false);
    }
    ServerControl::start(&setup.user_dirs, &setup.workspace, name)?;
    Ok(true)
}

/// Restarts a server in the processes in which it is running.
pub fn restart_server(setup: &HostSetup, name: &str) -> CommandResult<()> {
    check_startable(setup, name)?;
    ServerControl::restart(&setup.user_dirs, &setup.workspace, name)?;
    Ok(())
}

/// Starts a server in the running processes, and undoes [`stop`].
pub fn start(globals: &GlobalOptions, name: &str) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    check_startable(&setup, name)?;
    let running = processes_in_states(&setup, name, &[ServerState::Running])?;
    let is_stopped = setup.settings.server_control.is_stopped(name);
    if !is_stopped && !running.is_empty() {
        let again = format!("it runs already; `mimir mcp restart {name}` restarts it");
        return report(globals, name, "started", &running, &again);
    }
    ServerControl::start(&setup.user_dirs, &setup.workspace, name)?;
    check_still_startable(globals, name)?;
    let later = "no process uses servers of this workspace now; the next call starts it";
    report(globals, name, "started", &processes(&setup)?, later)
}

/// Restarts a server in the processes in which it is running. A stopped server is started.
pub fn restart(globals: &GlobalOptions, name: &str) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    check_startable(&setup, name)?;
    let was_stopped = setup.settings.server_control.is_stopped(name);
    let concerned = if was_stopped {
        processes(&setup)?
    } else {
        processes_in_states(&setup, name, &[ServerState::Running, ServerState::Failed])?
    };
    ServerControl::restart(&setup.user_dirs, &setup.workspace, name)?;
    check_still_startable(globals, name)?;
    let later = "no process runs it now; the next call starts it";
    report(globals, name, "restarted", &concerned, later)
}

/// Fails if the settings disable a server that was stopped, too.
fn check_still_startable(globals: &GlobalOptions, name: &str) -> CommandResult<()> {
    let changed = HostSetup::find(globals.workspace.as_deref())?;
    check_startable(&changed, name)
}

/// Prints what was done, and the processes that it concerns. `otherwise` is printed if there are none.
fn report(
    globals: &GlobalOptions,
    name: &str,
    done: &str,
    processes: &[ServerProcess],
    otherwise: &str,
) -> CommandResult {
    let printer = globals.printer();
    let rows = processes.iter();
    let rows: Vec<_> = rows
        .map(|process| json!({ "pid": process.pid, "program": process.program }))
        .collect();
    printer.print_done(
        &json!({ done: name, "processes": rows }),
        format_args!("{done} {}", visible(name)),
    )?;
    if !printer.is_json() {
        for process in processes {
            note(format_args!(
                "  in {} (process {}), within a few seconds",
                visible(&process.program),
                process.pid
            ));
        }
        if processes.is_empty() {
            note(format_args!("  {otherwise}"));
        }
    }
    Ok(ExitReason::Done)
}

/// Prints the last lines of a server's log.
pub async fn print_logs(
    globals: &GlobalOptions,
    name: &str,
    count: u32,
    follow: bool,
) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    check_known(&setup, name)?;
    if follow && printer.is_json() {
        return Err(crate::exit::CommandFailure::usage(
            "--follow prints lines, not JSON: leave out --json",
        ));
    }
    let logs = ServerLogs::new(&setup.user_dirs, &setup.workspace).ok_or_else(|| {
        ToolError::unavailable("this platform has no cache folder, so there are no logs")
            .with_remedies(["set MIMIR_CACHE_DIR to a folder of your own".to_owned()])
    })?;
    let read_error = |error: std::io::Error| {
        let path = visible(&logs.path(name).display().to_string());
        ToolError::execution(format!("cannot read {path}: {error}"))
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut excerpt = logs.last_lines(name, count).map_err(read_error)?;
    let path = logs.path(name).display().to_string();
    printer.print_result(
        &json!({ "server": name, "file": path, "lines": excerpt.lines }),
        |out| {
            for line in &excerpt.lines {
                writeln!(out, "{line}")?;
            }
            Ok(())
        },
    )?;
    if excerpt.lines.is_empty() && !printer.is_json() {
        note(format_args!(
            "the server `{}` has written nothing yet",
            visible(name)
        ));
    }
    if !follow {
        return Ok(ExitReason::Done);
    }
    loop {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        excerpt = logs.lines_after(name, excerpt.next).map_err(read_error)?;
        printer.print_result(&json!(null), |out| {
            for line in &excerpt.lines {
                writeln!(out, "{line}")?;
            }
            out.flush()
        })?;
    }
}

/// Fails if the settings in force do not contain a server.
pub fn check_known(setup: &HostSetup, name: &str) -> CommandResult<()> {
    if setup.settings.config.mcp.servers.contains_key(name) {
        return Ok(());
    }
    Err(super::unknown_server(setup, name))
}

/// Fails if a server is unknown, or disabled by the settings.
fn check_startable(setup: &HostSetup, name: &str) -> CommandResult<()> {
    check_known(setup, name)?;
    let server = &setup.settings.config.mcp.servers[name];
    let is_stopped = setup.settings.server_control.is_stopped(name);
    if super::is_enabled(setup, server) || (is_stopped && setup.settings.config.mcp.is_enabled()) {
        return Ok(());
    }
    Err(super::unknown_server(setup, name))
}

/// Returns the running processes that have used servers of the workspace.
pub fn processes(setup: &HostSetup) -> CommandResult<Vec<ServerProcess>> {
    let processes = running_processes(&setup.user_dirs, &setup.workspace).map_err(|error| {
        ToolError::execution(format!("cannot read the states of the servers: {error}"))
    })?;
    Ok(processes)
}

/// Returns the processes in which a server has one of these states.
fn processes_in_states(
    setup: &HostSetup,
    name: &str,
    states: &[ServerState],
) -> CommandResult<Vec<ServerProcess>> {
    let mut processes = processes(setup)?;
    processes.retain(|process| {
        let status = process.servers.get(name);
        status.is_some_and(|status| states.contains(&status.state))
    });
    Ok(processes)
}
