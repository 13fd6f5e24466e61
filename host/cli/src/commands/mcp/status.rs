//! `mimir mcp status`: the state of the servers in the settings and in the running processes.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use mimir_core::Tool;
use mimir_core::config::McpServerSettings;
use mimir_core::text::visible;
use mimir_core::tool::ToolTrust;
use mimir_mcp::client::{ServerFault, ServerState, ServerStatus};
use serde::Serialize;
use serde_json::json;

use super::lifecycle;
use crate::args::GlobalOptions;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN, styled};
use mimir::servers::server_processes::ServerProcess;
use mimir::setup::HostSetup;

/// The state of a server in all processes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerRow<'a> {
    name: &'a str,
    state: RowState,
    /// Tools that are listed, and those that models may call without a review.
    tools: Option<usize>,
    trusted_tools: usize,
    processes: Vec<ProcessRow<'a>>,
    last_error: Option<ErrorRow<'a>>,
    #[serde(skip)]
    settings: Option<&'a McpServerSettings>,
}

/// State of a server, over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum RowState {
    /// In the project's settings, which the user has not accepted.
    NotAccepted,
    /// Disabled by the settings.
    Disabled,
    /// Stopped by `mimir mcp stop`.
    Stopped,
    /// Running in a process.
    Running,
    /// Running in no process; the last start or the last run failed.
    Failed,
    /// Running in no process; a call starts it.
    Idle,
}

/// A process that has used a server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProcessRow<'a> {
    pid: u32,
    program: &'a str,
    #[serde(flatten)]
    status: &'a ServerStatus,
}

/// The last error of a server.
#[derive(Debug, Serialize)]
struct ErrorRow<'a> {
    code: &'a str,
    message: &'a str,
    /// Seconds since 1970, if known.
    at: Option<u64>,
}

/// Prints the state of all servers, or of one.
pub fn print(globals: &GlobalOptions, name: Option<&str>) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    if let Some(name) = name.filter(|name| !withheld_names(&setup).contains(name)) {
        lifecycle::check_known(&setup, name)?;
    }
    with_rows(&setup, name, |rows| {
        printer.print_result(&rows_value(&setup, rows), |out| {
            if rows.is_empty() {
                writeln!(out, "No servers are configured. Add one with `mimir mcp add NAME -- COMMAND`, or import those of your agents with `mimir mcp import`.")?;
            }
            rows.iter().try_for_each(|row| print_row(out, row))
        })
    })?;
    Ok(ExitReason::Done)
}

/// Returns the state of all servers, as `mimir mcp status --json` prints it.
pub fn value(setup: &HostSetup) -> CommandResult<serde_json::Value> {
    with_rows(setup, None, |rows| Ok(rows_value(setup, rows)))
}

fn rows_value(setup: &HostSetup, rows: &[ServerRow<'_>]) -> serde_json::Value {
    json!({ "enabled": setup.settings.config.mcp.is_enabled(), "servers": rows })
}

/// Passes the states of all servers, or of one, to `use_rows`.
fn with_rows<T>(
    setup: &HostSetup,
    name: Option<&str>,
    use_rows: impl FnOnce(&[ServerRow<'_>]) -> CommandResult<T>,
) -> CommandResult<T> {
    let settings = &setup.settings.config.mcp;
    let withheld: Vec<&str> = withheld_names(setup);
    let processes = lifecycle::processes(setup)?;
    let mut known = setup.servers.servers().known().tools;
    setup.apply_grants(&mut known);
    let errors = settings.servers.keys();
    let errors: std::collections::BTreeMap<_, _> = errors
        .filter_map(|name| Some((name.as_str(), setup.servers.servers().last_error(name)?)))
        .collect();
    let names = settings.servers.keys().map(String::as_str);
    let new = withheld.iter().copied();
    let new = new.filter(|name| !settings.servers.contains_key(*name));
    let names = names.chain(new);
    let rows: Vec<ServerRow> = names
        .filter(|row| name.is_none_or(|name| name == *row))
        .map(|name| {
            let mut row = server_row(setup, name, &processes, &known);
            if row.last_error.is_none() {
                row.last_error = errors.get(name).map(|error| ErrorRow {
                    code: error.code.as_str(),
                    message: &error.message,
                    at: None,
                });
            }
            row
        })
        .collect();
    use_rows(&rows)
}

/// Returns the names of the servers whose settings are ignored until the user accepts the project's settings.
fn withheld_names(setup: &HostSetup) -> Vec<&str> {
    let keys = setup.settings.withheld().iter();
    keys.filter_map(|key| {
        let key = key.split(": ").next().unwrap_or(key);
        key.strip_prefix("mcp.servers.")
    })
    .collect()
}

fn server_row<'a>(
    setup: &'a HostSetup,
    name: &'a str,
    processes: &'a [ServerProcess],
    known: &[Tool],
) -> ServerRow<'a> {
    let settings = setup.settings.config.mcp.servers.get(name);
    let location = format!("mcp:{name}");
    let own: Vec<&Tool> = known
        .iter()
        .filter(|tool| tool.origin.location == location)
        .collect();
    let users = processes.iter();
    let users: Vec<ProcessRow> = users
        .filter_map(|process| {
            Some(ProcessRow {
                pid: process.pid,
                program: &process.program,
                status: process.servers.get(name)?,
            })
        })
        .collect();
    let has = |state| users.iter().any(|user| user.status.state == state);
    let state = match settings {
        None => RowState::NotAccepted,
        Some(_) if setup.settings.server_control.is_stopped(name) => RowState::Stopped,
        Some(server) if !super::is_enabled(setup, server) => RowState::Disabled,
        Some(_) if has(ServerState::Running) => RowState::Running,
        Some(_) if has(ServerState::Failed) => RowState::Failed,
        Some(_) => RowState::Idle,
    };
    let faults = users
        .iter()
        .filter_map(|user| user.status.last_error.as_ref());
    let last_error = faults
        .max_by_key(|fault| fault.at)
        .map(|fault: &ServerFault| ErrorRow {
            code: fault.code.as_str(),
            message: &fault.message,
            at: Some(fault.at),
        });
    ServerRow {
        name,
        state,
        tools: (!own.is_empty()).then_some(own.len()),
        trusted_tools: own
            .iter()
            .filter(|tool| tool.trust != ToolTrust::Untrusted)
            .count(),
        processes: users,
        last_error,
        settings,
    }
}

fn print_row(out: &mut dyn Write, row: &ServerRow<'_>) -> io::Result<()> {
    let name = visible(row.name);
    let state = match row.state {
        RowState::NotAccepted => styled(WARN, "not accepted: `mimir policy accept` shows it"),
        RowState::Disabled => styled(FAINT, "switched off in the settings"),
        RowState::Stopped => styled(
            WARN,
            format_args!("stopped; `mimir mcp start {name}` starts it"),
        ),
        RowState::Running => styled(GOOD, "running"),
        RowState::Failed => styled(BAD, "failed"),
        RowState::Idle => styled(FAINT, "not running; a call starts it"),
    };
    writeln!(out, "{:<16} {state}", styled(STRONG, &name))?;
    if let Some(server) = row.settings {
        let described = super::describe_server(server);
        if !described.is_empty() {
            writeln!(out, "  {}", styled(FAINT, described))?;
        }
    }
    match (row.tools, row.trusted_tools) {
        (None, _) => {}
        (Some(tools), trusted) if trusted == tools => writeln!(out, "  {tools} tools, trusted")?,
        (Some(tools), trusted) => writeln!(
            out,
            "  {tools} tools, {trusted} of them trusted; `mimir mcp trust {name}` shows their texts"
        )?,
    }
    for process in &row.processes {
        let status = process.status;
        let state = match status.state {
            ServerState::Idle => "stopped",
            ServerState::Running => "running",
            ServerState::Failed => "failed",
        };
        let program = visible(process.program);
        let since = age(status.since);
        writeln!(
            out,
            "  {state} for {since} in {program} (process {}), started {}",
            process.pid,
            match status.starts {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            }
        )?;
        if let Some(until) = status.paused_until {
            let line = format!(
                "{} calls in a row have failed; the next one is sent {}",
                status.failed_calls,
                match until.saturating_sub(now()) {
                    0 => "as a test".to_owned(),
                    seconds => format!("in {seconds} s, as a test"),
                }
            );
            writeln!(out, "    {}", styled(BAD, line))?;
        } else if status.failed_calls > 0 {
            let line = format!("failed calls in a row: {}", status.failed_calls);
            writeln!(out, "    {}", styled(WARN, line))?;
        }
    }
    if let Some(error) = &row.last_error {
        let since = error.at.map(|at| format!("{} ago", age(at)));
        let since = since.map_or_else(String::new, |since| format!(" ({since})"));
        let message = visible(error.message);
        writeln!(out, "  last error{since}: {message} [{}]", error.code)?;
    }
    Ok(())
}

/// Describes the time since `at`, in seconds since 1970.
fn age(at: u64) -> String {
    let seconds = now().saturating_sub(at);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

fn now() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |since_epoch| since_epoch.as_secs())
}
