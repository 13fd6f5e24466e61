//! `mimir tools trust` and `mimir tools revoke`

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::audit::{Event, Kind};
use mimir_core::grants::{self, Grant};
use mimir_core::needs::HostNeed;
use mimir_core::tool::Trust;
use mimir_core::{Code, Registry, Source, Tool, ToolError};
use serde_json::json;

use crate::args::{Globals, TrustWish};
use crate::exit::{Exit, Failure};
use crate::ledger::UserLedger;
use crate::output::{Printer, grant, note};
use crate::setup::Setup;
use crate::terminal;

use crate::tools::is_file;

/// Grants a plugin what it needs, after a person has seen it.
pub async fn trust(globals: &Globals, printer: Printer, wish: TrustWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let ledger = setup.own_ledger()?;
    let registry = setup.registry().await;
    let plugin = plugin(&registry, &wish.name)?;
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
    if tool.trust == Trust::Harmless {
        return Err(Failure::usage(format!(
            "`{}` asks for nothing and can reach nothing: it needs no grant",
            tool.name()
        )));
    }
    let location = tool.origin.location.clone();
    let hosts = hosts(&ledger, &location, &wish, tool)?;
    let mut plugin = plugin;
    for tool in plugin.iter_mut().filter(|tool| grants::takes_hosts(tool)) {
        // As a person is shown it.
        Arc::make_mut(tool)
            .definition
            .needs
            .hosts
            .clone_from(&hosts);
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
    let grant = grant.with_hosts(hosts);
    // The bytes that were shown are the bytes that are granted: the digest is of what was described.
    ledger.put(&location, grant)?;
    let event = Event::of(Kind::Grant, SystemTime::now()).with_subject(&location);
    setup.record(&event.with_detail(&format!("sha256 {}", tool.origin.digest)));
    if printer.is_json() {
        printer.value(&json!({ "granted": location, "digest": tool.origin.digest }))?;
    } else {
        let lock = setup.workspace.shown(ledger.lock().path());
        note(format_args!("{location} has its grant, in {lock}"));
    }
    Ok(Exit::Done)
}

/// The hosts for a plugin that cannot ask for any: those that are named now, or else those of its grant before.
fn hosts(
    ledger: &UserLedger,
    location: &str,
    wish: &TrustWish,
    tool: &Tool,
) -> Result<Vec<HostNeed>, Failure> {
    if !grants::takes_hosts(tool) {
        return match wish.hosts.is_empty() {
            true => Ok(Vec::new()),
            false => Err(Failure::usage(format!(
                "`{}` takes no hosts: only a component that imports wasi:http and is no plugin of mimir's own kind cannot ask for them itself",
                tool.name()
            ))),
        };
    }
    if !wish.hosts.is_empty() {
        return Ok(wish.hosts.iter().map(grants::named_host).collect());
    }
    // A lock that this person has not written says nothing.
    let counts = |id: &str| {
        let book = ledger.book().ok();
        book.is_some_and(|book| book.grants.get(location).is_some_and(|known| known == id))
    };
    let lock = ledger.lock().read().unwrap_or_default();
    let before = lock.plugins.get(location);
    let before = before.filter(|grant| counts(&grant.id(location)));
    Ok(before.map_or_else(Vec::new, |grant| grant.hosts.clone()))
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
