//! `mimir tools trust` and `mimir tools revoke`

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::audit::{Event, Kind};
use mimir_core::grants::{self, Grant};
use mimir_core::tool::Trust;
use mimir_core::{Code, Decision, Registry, Source, Tool, ToolError};
use serde_json::json;

use crate::args::{Globals, TrustWish};
use crate::exit::{Exit, Failure};
use crate::ledger::UserLedger;
use crate::output::{Printer, grant, note};
use crate::setup::Setup;
use crate::terminal;

use crate::tools::is_file;

mod named;

pub(super) use named::set_prefix;

/// Grants a plugin what it needs, after a person has seen it.
pub async fn trust(globals: &Globals, printer: Printer, wish: TrustWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let ledger = setup.own_ledger()?;
    let mut registry = setup.registry().await;
    let mut name = wish.name.clone();
    if let Some(prefix) = &wish.prefix {
        // All of its tools may be left out because of their names.
        let location = location(&registry, &name)?;
        named::set_prefix(&ledger, &location, prefix)?;
        registry = setup.registry().await;
        name = location;
    }
    let mut plugin = plugin(&registry, &name)?;
    let Some(tool) = plugin.first() else {
        return Err(Failure::usage("the plugin has no tools"));
    };
    if tool.source == Source::BuiltIn {
        return Err(Failure::usage(format!(
            "`{}` is built in and needs no grant; `tools.{}.approval` in the config decides when it asks",
            tool.name(),
            tool.name()
        )));
    }
    let location = tool.origin.location.clone();
    let named = named::rights(&setup, &ledger, &wish, tool)?;
    if tool.trust == Trust::Harmless && named.is_empty() {
        if wish.prefix.is_some() {
            return renamed(printer, &location, &plugin);
        }
        let can_name = match grants::takes_files(tool) {
            true => "; it can be given folders: `--read DIR`, `--write DIR`",
            false => "",
        };
        return Err(Failure::usage(format!(
            "`{}` asks for nothing and can reach nothing: it needs no grant{can_name}",
            tool.name()
        )));
    }
    for tool in plugin.iter_mut().filter(|tool| grants::is_foreign(tool)) {
        // As a person is shown it.
        Arc::make_mut(tool).definition.needs = grants::nameable(tool, named.clone());
    }
    let Some(tool) = plugin.first() else {
        return Err(Failure::usage("the plugin has no tools"));
    };
    match &wish.digest {
        Some(digest) if *digest != tool.origin.digest => {
            return Err(refused(format!(
                "{} has the digest {}, and not the one that was named: nothing was granted",
                tool.origin.location, tool.origin.digest
            )));
        }
        Some(_) => {}
        None => {
            grant::show(&plugin, &wish.without);
            if !terminal::confirm("Grant this?")? {
                return Err(refused(format!(
                    "nothing was granted; without a terminal, name the build that you mean: `mimir tools trust {} --digest {}`",
                    tool.name(),
                    tool.origin.digest
                )));
            }
        }
    }
    let Some(grant) = Grant::new(&plugin, wish.without) else {
        return Err(Failure::usage("the plugin has no tools"));
    };
    let grant = grant.with_named(named);
    // The bytes that were shown are the bytes that are granted: the digest is of what was described.
    ledger.put(&location, grant)?;
    let event = Event::of(Kind::Grant, SystemTime::now()).with_subject(&location);
    setup.record(&event.with_detail(&format!("sha256 {}", tool.origin.digest)));
    if printer.is_json() {
        printer.value(&json!({ "granted": location, "digest": tool.origin.digest }))?;
    } else {
        let lock = setup.workspace.shown(ledger.lock().path());
        note(format_args!("{location} has its grant, in {lock}"));
        still_asks(&plugin);
    }
    Ok(Exit::Done)
}

/// Says which tools ask for each call all the same, and what ends that.
fn still_asks(plugin: &[Arc<Tool>]) {
    let asking = plugin
        .iter()
        .filter(|tool| tool.source != Source::Mcp && tool.definition.approval == Decision::Ask);
    for tool in asking {
        let name = tool.name();
        note(format_args!(
            "`{name}` still asks before each call, as its author wants; `mimir config set tools.{name}.approval allow` ends that"
        ));
    }
}

/// A plugin that got other names and needs nothing.
fn renamed(printer: Printer, location: &str, plugin: &[Arc<Tool>]) -> Result<Exit, Failure> {
    let names: Vec<&str> = plugin.iter().map(|tool| tool.name().as_str()).collect();
    match printer.is_json() {
        true => printer.value(&json!({ "named": location, "tools": names }))?,
        false => note(format_args!("{location}: {}", names.join(", "))),
    }
    Ok(Exit::Done)
}

/// The place of the plugin that a person means, also if all of its tools are left out.
fn location(registry: &Registry, name: &str) -> Result<String, Failure> {
    let mut left_out = registry.quarantined().iter();
    let found = left_out.find_map(|left_out| {
        let location = left_out.location.split(" (").next()?;
        is_file(location, name).then(|| location.to_owned())
    });
    match (plugin(registry, name), found) {
        (Ok(tools), _) if !tools.is_empty() => Ok(tools[0].origin.location.clone()),
        (_, Some(location)) => Ok(location),
        (other, None) => other.and(Err(Failure::usage("the plugin has no tools"))),
    }
}

/// Takes back what a plugin was granted.
pub async fn revoke(globals: &Globals, printer: Printer, name: &str) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let ledger = setup.own_ledger()?;
    let location = place(&setup, &ledger, name).await?;
    let revoked = ledger.revoke(&location);
    if !matches!(revoked, Ok(false)) {
        setup.record(&Event::of(Kind::Revoke, SystemTime::now()).with_subject(&location));
    }
    if !revoked? {
        let error = ToolError::new(Code::NotFound, format!("{location} has no grant"));
        return Err(error.into());
    }
    if printer.is_json() {
        printer.value(&json!({ "revoked": location }))?;
    } else {
        note(format_args!("{location} has no grant any more"));
    }
    Ok(Exit::Done)
}

/// Where the plugin stands whose grant a person means. The file may be gone already, the lock lost or broken,
/// and the grant not.
pub(super) async fn place(
    setup: &Setup,
    ledger: &UserLedger,
    name: &str,
) -> Result<String, Failure> {
    let book = ledger.book()?;
    let lock = ledger.lock().read().unwrap_or_default();
    let mut known = lock.plugins.keys().chain(book.grants.keys());
    if let Some(location) = known.find(|location| is_file(location, name)) {
        return Ok(location.clone());
    }
    let registry = setup.registry().await;
    let plugin = plugin(&registry, name)?;
    let location = plugin.first().map(|tool| tool.origin.location.clone());
    Ok(location.unwrap_or_default())
}

/// All tools of the plugin that a person means: by a tool's name, an alias, or the file.
fn plugin(registry: &Registry, name: &str) -> Result<Vec<Arc<Tool>>, Failure> {
    let tools = registry.tools().iter();
    let mut of_file = tools.filter(|tool| is_file(&tool.origin.location, name));
    let tool = match (registry.get(name), of_file.next()) {
        (Some(tool), _) | (None, Some(tool)) => tool,
        (None, None) => registry
            .find(name)
            .map_err(|error| Failure::ending(error, Exit::Usage))?,
    };
    Ok(registry.plugin(tool))
}

fn refused(message: String) -> Failure {
    ToolError::new(Code::ApprovalDenied, message).into()
}
