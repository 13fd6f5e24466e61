//! `mimir mcp`: lists, tests, adds, trusts, removes and imports MCP servers.

use std::time::{Duration, SystemTime};

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::config::McpServerSettings;
use mimir_core::text::visible;
use mimir_core::{ListedEntry, Registry, ToolError, ToolErrorCode};
use mimir_mcp::client::{LoginSummary, ServerTools};
use serde_json::{Value, json};

use crate::args::{GlobalOptions, McpCommand};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{BAD, FAINT, STRONG, WARN, note, server_text, styled};
use crate::terminal;
use mimir::servers::control::ServerControl;
use mimir::settings;
use mimir::setup::HostSetup;

mod add;
mod agent_snippets;
mod import;
pub mod lifecycle;
pub mod login;
mod package_request;
mod redirect;
mod registry;
mod secret_detection;
mod server_card;
mod server_edits;
pub mod status;
mod trust;

/// Runs a command of `mimir mcp`.
pub async fn run(globals: &GlobalOptions, command: McpCommand) -> CommandResult {
    match command {
        McpCommand::List => list(globals),
        McpCommand::Test { name } => test(globals, &name).await,
        McpCommand::Status { name } => status::print(globals, name.as_deref()),
        McpCommand::Start { name } => lifecycle::start(globals, &name),
        McpCommand::Stop { name } => lifecycle::stop(globals, &name),
        McpCommand::Restart { name } => lifecycle::restart(globals, &name),
        McpCommand::Logs {
            name,
            lines,
            follow,
        } => lifecycle::print_logs(globals, &name, lines, follow).await,
        McpCommand::Login {
            name,
            browser,
            timeout,
            for_user,
        } => {
            let timeout = Duration::from_secs(timeout);
            login::log_in(globals, &name, for_user.as_deref(), browser, timeout).await
        }
        McpCommand::Logout { name, for_user } => {
            login::log_out(globals, &name, for_user.as_deref()).await
        }
        McpCommand::Add(add) => add::add(globals, &add).await,
        McpCommand::Install {
            name,
            user,
            install_scripts,
        } => add::install(globals, &name, user, install_scripts).await,
        McpCommand::Trust {
            name,
            user,
            trust,
            approve,
        } => add::trust(globals, &name, user, &trust, approve.as_deref()).await,
        McpCommand::Remove { name, user } => remove(globals, &name, user),
        McpCommand::Import {
            from,
            names,
            user,
            yes,
        } => import_all(globals, from, &names, user, yes),
        McpCommand::Config { agent } => agent_snippets::print(globals, agent),
    }
}

/// Describes a server in one line: its package, command or URL, with credentials masked.
fn describe_server(server: &McpServerSettings) -> String {
    if let Some(package) = &server.package {
        let package = package.to_string();
        return secret_detection::mask_words(std::iter::once(&package).chain(&server.args))
            .join(" ");
    }
    match (&server.command, &server.url) {
        (Some(command), _) => {
            secret_detection::mask_words(std::iter::once(command).chain(&server.args)).join(" ")
        }
        (None, Some(url)) => secret_detection::mask_text(url),
        (None, None) => String::new(),
    }
}

/// Returns true if a server may be used.
fn is_enabled(setup: &HostSetup, server: &McpServerSettings) -> bool {
    setup.settings.config.mcp.is_enabled() && server.is_enabled()
}

fn list(globals: &GlobalOptions) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let known_servers = setup.servers.servers().known();
    let tools = |name: &str| {
        let location = format!("mcp:{name}");
        let tools = known_servers.tools.iter();
        tools
            .filter(|tool| tool.origin.location == location)
            .count()
    };
    let servers = &setup.settings.config.mcp.servers;
    let logins: std::collections::BTreeMap<&String, LoginSummary> = servers
        .keys()
        .filter_map(|name| Some((name, setup.servers.servers().login(name).ok()??)))
        .collect();
    let rows: Vec<Value> = servers
        .iter()
        .map(|(name, server)| {
            let tool_count = tools(name);
            json!({
                "name": name,
                "command": server.command,
                "package": server.package,
                "args": secret_detection::mask_words(&server.args),
                "url": server.url.as_deref().map(secret_detection::mask_text),
                "enabled": is_enabled(&setup, server),
                "tools": (tool_count > 0).then_some(tool_count),
                "login": logins.get(name),
            })
        })
        .collect();
    printer.print_result(&json!({ "servers": rows }), |out| {
        if servers.is_empty() {
            writeln!(out, "No servers are configured. Add one with `mimir mcp add NAME -- COMMAND`, or import those of your agents with `mimir mcp import`.")?;
        }
        for (name, server) in servers {
            let state = match (is_enabled(&setup, server), tools(name)) {
                (false, _) => styled(FAINT, "off"),
                (true, 0) => styled(FAINT, "not listed yet"),
                (true, 1) => "1 tool".to_owned(),
                (true, count) => format!("{count} tools"),
            };
            writeln!(out, "{:<16} {state:<14} {}", visible(name), styled(FAINT, describe_server(server)))?;
            if let Some(login) = logins.get(name) {
                writeln!(out, "{:<16} {:<14} {}", "", "", login::line(login))?;
            }
        }
        Ok(())
    })?;
    let withheld = setup.settings.withheld().iter();
    for key in withheld.filter(|key| key.starts_with("mcp.servers.")) {
        note(styled(
            WARN,
            format_args!(
                "{} does not apply until you accept the project's settings with `mimir policy accept`",
                visible(key)
            ),
        ));
    }
    Ok(ExitReason::Done)
}

async fn test(globals: &GlobalOptions, name: &str) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let Some(report) = setup.servers.servers().test(name).await else {
        return Err(unknown_server(&setup, name));
    };
    let mut report = report?;
    setup.apply_grants(&mut report.found.tools);
    let ServerTools {
        tools, quarantined, ..
    } = report.found;
    let registry = Registry::new(tools, quarantined);
    let rows: Vec<Value> = registry
        .tools()
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name(),
                "description": tool.definition.description,
                "words": server_text::tool_texts(tool),
                "flags": tool.flags,
                "trust": tool.trust,
                "changes": tool.changes.as_ref().map(|changes| &changes.lines),
            })
        })
        .collect();
    let (own, version) = (visible(&report.server.0), visible(&report.server.1));
    let login = setup.servers.servers().login(name)?;
    let origin = registry.tools().first().map(|tool| &tool.origin);
    let digest = origin.map(|origin| &origin.digest);
    let listed: &[ListedEntry] = origin.map_or(&[], |origin| &origin.listed);
    let value = json!({
        "server": { "name": own, "version": version },
        "digest": digest,
        "tools": rows,
        "listed": listed,
        "quarantined": registry.quarantined(),
        "tookMs": report.took.as_millis(),
        "login": login,
    });
    printer.print_result(&value, |out| {
        let took = report.took.as_secs_f32();
        writeln!(
            out,
            "{} {own} {version}, ready after {took:.1} s",
            styled(STRONG, name)
        )?;
        if let Some(login) = &login {
            writeln!(out, "  {}", login::line(login))?;
        }
        for tool in registry.tools() {
            writeln!(out, "  {}", styled(STRONG, tool.name()))?;
            for line in server_text::shown(tool) {
                writeln!(out, "    {line}")?;
            }
            let changes = tool.changes.iter().flat_map(|changes| &changes.lines);
            for line in changes {
                writeln!(
                    out,
                    "    {}",
                    styled(WARN, format_args!("changed: {}", visible(line)))
                )?;
            }
        }
        for entry in listed.iter().filter(|entry| !entry.is_seen) {
            let line = format!("hidden, not trusted: {}", visible(&entry.text));
            writeln!(out, "  {}", styled(WARN, line))?;
        }
        for left_out in registry.quarantined() {
            let location = visible(&left_out.location);
            writeln!(
                out,
                "  {} {location}: {}",
                styled(BAD, "left out:"),
                visible(&left_out.reason)
            )?;
        }
        Ok(())
    })?;
    let untrusted = registry
        .tools()
        .iter()
        .find(|tool| tool.trust == mimir_core::tool::ToolTrust::Untrusted);
    let unseen = listed.iter().any(|entry| !entry.is_seen);
    if untrusted.is_none() && unseen {
        note(format_args!(
            "`mimir mcp trust {name}` shows the new and changed prompts and resources, and makes them visible to agents"
        ));
    }
    if let Some(tool) = untrusted {
        note(format_args!(
            "each call of these tools asks; `mimir mcp trust {name}` allows them until their texts change (digest {})",
            tool.origin.digest
        ));
    }
    Ok(ExitReason::Done)
}

/// Returns the error about a server that is unknown, disabled or not accepted. Only an unknown name is a usage error.
fn unknown_server(setup: &HostSetup, name: &str) -> CommandFailure {
    let error = unknown(setup, name);
    match error.code {
        ToolErrorCode::NotFound => CommandFailure::with_exit(error, ExitReason::Usage),
        _ => error.into(),
    }
}

fn unknown(setup: &HostSetup, name: &str) -> ToolError {
    let servers = &setup.settings.config.mcp.servers;
    let shown = visible(mimir_core::text::prefix(name, 64));
    if setup.settings.server_control.is_stopped(name) && servers.contains_key(name) {
        let message = format!("the server `{shown}` is stopped");
        return ToolError::unavailable(message)
            .with_remedies([format!("`mimir mcp start {shown}` starts it")]);
    }
    if servers.contains_key(name) && !setup.settings.config.mcp.is_enabled() {
        let message = format!("the server `{shown}` is switched off with all others (mcp.enabled)");
        return ToolError::unavailable(message).with_remedies([
            "`mimir config` shows which file sets `mcp.enabled: false`".to_owned(),
        ]);
    }
    if servers.get(name).is_some_and(|server| !server.is_enabled()) {
        let message = format!("the server `{shown}` is switched off (mcp.servers.{shown}.enabled)");
        return ToolError::unavailable(message);
    }
    let withheld = setup.settings.withheld().iter();
    let key_prefix = format!("mcp.servers.{name}");
    if withheld
        .into_iter()
        .any(|key| key.split(": ").next() == Some(key_prefix.as_str()))
    {
        let message = format!(
            "the server `{shown}` is in the project's settings, which you have not accepted"
        );
        let remedy = "`mimir policy accept` shows and accepts them";
        return ToolError::policy_denied(message).with_remedies([remedy.to_owned()]);
    }
    let near = mimir_core::name_suggestions::did_you_mean(name, servers.keys().map(String::as_str));
    ToolError::not_found(format!(
        "unknown server `{shown}`.{near} `mimir mcp list` lists all servers."
    ))
}

fn remove(globals: &GlobalOptions, name: &str, user: bool) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let file = settings::change_config(&setup, user, |text| {
        let mut edits = server_edits::remove(text, name)?;
        edits.extend(server_edits::remove_permissions(text, name)?);
        Ok(edits)
    })?;
    // The other settings file may define a server of this name, which stays stopped.
    let is_gone = HostSetup::find(globals.workspace.as_deref())
        .is_ok_and(|changed| !changed.settings.config.mcp.servers.contains_key(name));
    if is_gone {
        ServerControl::forget(&setup.user_dirs, &setup.workspace, name)?;
        revoke_grant(&setup, name)?;
    }
    printer.print_done(
        &json!({ "removed": name, "file": file }),
        format_args!("removed {} from {file}", visible(name)),
    )
}

/// Revokes the grant of a removed server, so that another server of this name is not trusted.
fn revoke_grant(setup: &HostSetup, name: &str) -> CommandResult<()> {
    let location = format!("mcp:{name}");
    if let Some(approval_store) = setup.approvals()
        && approval_store.revoke(&location)?
    {
        let event = AuditEvent::new(EventKind::Revoke, SystemTime::now()).with_subject(&location);
        setup.record_event(&event.with_detail("removed"));
    }
    Ok(())
}

fn import_all(
    globals: &GlobalOptions,
    from: Option<crate::args::CodingAgent>,
    names: &[String],
    user: bool,
    yes: bool,
) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let known = &setup.settings.config.mcp.servers;
    let is_named = |name: &String| names.contains(name);
    let import::ImportScan {
        servers: mut scanned,
        unread,
    } = import::find_servers(setup.workspace.root(), from);
    scanned.retain(|found| names.is_empty() || is_named(&found.name));
    // The user's own files come first, whatever the agent.
    scanned.sort_by_key(|found| !found.own);
    let others = |at: usize| {
        scanned
            .iter()
            .enumerate()
            .filter(move |(other, _)| *other != at)
    };
    let clashes = |at: usize, found: &import::ImportedServer| {
        let mut same = others(at).filter(|(_, other)| other.name == found.name);
        let first = same.clone().all(|(other, _)| other > at);
        same.next().is_some() && !(first && is_named(&found.name))
    };
    let clashes: Vec<bool> = scanned
        .iter()
        .enumerate()
        .map(|(at, found)| clashes(at, found))
        .collect();
    let mut new: Vec<&mut import::ImportedServer> = scanned
        .iter_mut()
        .filter(|found| found.fault.is_none() && !known.contains_key(&found.name))
        .collect();
    import::rename_conflicting(&mut new, &server_card::secrets_of(known.values()));
    for (file, why) in &unread {
        note(styled(
            BAD,
            format_args!("{}: {}", visible(file), visible(why)),
        ));
    }
    let mut servers: Vec<(String, Value)> = Vec::new();
    let mut rows = Vec::new();
    for (found, clashes) in scanned.into_iter().zip(clashes) {
        let name = &found.name;
        let is_known = known.contains_key(name) || servers.iter().any(|(other, _)| other == name);
        let fault = found.fault.clone().or_else(|| {
            // A server from a checkout must not take the name of the user's own server, and `--yes` alone must not
            // accept it.
            if clashes {
                let hint = if is_named(name) {
                    "the server above takes precedence"
                } else {
                    "name it to import it; your own server takes precedence over the project's"
                };
                return Some(format!(
                    "several files define a server of this name: {hint}"
                ));
            }
            (yes && !found.own && from.is_none()).then(|| {
                "it is in a project file: `--yes` imports it only together with `--from AGENT`"
                    .to_owned()
            })
        });
        let card = server_card::block_lines(&found.block);
        let is_imported = fault.is_none() && !is_known;
        rows.push(json!({
            "name": name,
            "from": found.place,
            "taken": is_imported,
            "there": is_known,
            "fault": fault,
            "hints": found.hints(),
            "card": card,
        }));
        let line = format!(
            "{:<16} {}",
            visible(name),
            styled(FAINT, visible(&found.place))
        );
        match (&fault, is_known) {
            (_, true) => note(format_args!(
                "{line} {}",
                styled(FAINT, "already configured")
            )),
            (Some(fault), _) => note(format_args!("{line} {}", styled(BAD, visible(fault)))),
            (None, false) => note(line),
        }
        for line in &card {
            note(format_args!("    {line}"));
        }
        if is_imported {
            for hint in found.hints() {
                note(styled(WARN, format_args!("    {}", visible(&hint))));
            }
            servers.push((name.clone(), found.block));
        }
    }
    if !servers.is_empty() {
        if !yes && !terminal::confirm("Add these to the settings?")? {
            let message = terminal::refusal("nothing was imported", "use `mimir mcp import --yes`");
            return Err(ToolError::approval_denied(message).into());
        }
        let file = settings::change_config(&setup, user, |text| {
            server_edits::add_servers(text, &servers)
        })?;
        note(format_args!("imported {} into {file}", servers.len()));
        for (name, block) in &servers {
            if let Ok(Some(_)) = package_request::requested_package(block) {
                note(format_args!(
                    "`mimir mcp install {0}` downloads and pins the package of {0}",
                    visible(name)
                ));
            }
        }
    } else if !printer.is_json() && unread.is_empty() {
        note("No servers to import.");
    }
    if printer.is_json() {
        let imported: Vec<&String> = servers.iter().map(|(name, _)| name).collect();
        let unread: Vec<Value> = unread
            .iter()
            .map(|(file, why)| json!({ "from": file, "fault": why }))
            .collect();
        printer.print_json(&json!({ "imported": imported, "found": rows, "unread": unread }))?;
    }
    // The user has to repair an unreadable file.
    Ok(ExitReason::done_if(unread.is_empty()))
}
