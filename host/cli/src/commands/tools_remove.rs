//! `mimir tools remove`

use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use mimir_core::audit::{Event, Kind};
use mimir_core::storage::FOLDER;
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output::{Printer, note};
use crate::setup::Setup;
use crate::terminal;
use crate::{args::Globals, tools};

use super::tools_trust::{place, set_prefix};

/// Where tools lie that a person put there.
const TOOLS: &str = ".mimir/tools/";

/// Takes a file out of the folder of tools, with its grant and with what it kept.
pub async fn run(
    globals: &Globals,
    printer: Printer,
    name: &str,
    yes: bool,
) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let ledger = setup.own_ledger()?;
    let location = match broken(&setup, name) {
        Some(location) => location,
        None => place(&setup, &ledger, name).await?,
    };
    let file = setup.workspace.root().join(&location);
    if !location.starts_with(TOOLS) {
        let way = match location.starts_with("mcp:") {
            true => "`mimir mcp remove` takes out its server",
            false => "`mimir tools disable` switches it off",
        };
        let message = format!("{location} is no file of .mimir/tools; {way}");
        return Err(ToolError::new(Code::InvalidInput, message).into());
    }
    if !yes && !terminal::confirm(&format!("Remove {location}, its grant and what it kept?"))? {
        let message = format!(
            "nothing was removed; without a terminal, say so: `mimir tools remove {name} --yes`"
        );
        return Err(ToolError::new(Code::ApprovalDenied, message).into());
    }
    let failed = |what: &Path, error: std::io::Error| {
        let what = setup.workspace.shown(what);
        let message = format!("{what} cannot be removed: {error}");
        Failure::from(ToolError::new(Code::PermissionDenied, message))
    };
    // The grant first: without it the file is nothing that runs unasked.
    let revoked = ledger.revoke(&location)?;
    let event = Event::of(Kind::Revoke, SystemTime::now()).with_subject(&location);
    setup.record(&event.with_detail("removed"));
    let removed = match std::fs::remove_file(&file) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(failed(&file, error)),
    };
    set_prefix(&ledger, &location, "")?;
    let kept = tools::Kept::at(&setup, &location);
    if let Some(kept) = &kept {
        let folder = setup.workspace.root().join(&kept.folder);
        std::fs::remove_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    }
    if !removed && !revoked && kept.is_none() {
        let message = format!("there is no {location}, and it has no grant");
        return Err(ToolError::new(Code::NotFound, message).into());
    }
    if printer.is_json() {
        printer.value(&json!({
            "removed": location,
            "revoked": revoked,
            "values": kept.map_or(0, |kept| kept.size.values),
        }))?;
    } else {
        note(format_args!(
            "{location} is gone, with its grant and what it kept in {FOLDER}"
        ));
    }
    Ok(Exit::Done)
}

/// The file of that name, whatever it holds: what is broken is removed like what works.
fn broken(setup: &Setup, name: &str) -> Option<String> {
    let entries = std::fs::read_dir(setup.workspace.root().join(TOOLS)).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut places: Vec<String> = names
        .map(|file| format!("{TOOLS}{file}"))
        .filter(|place| tools::is_file(place, name))
        .collect();
    places.sort_unstable();
    match places.len() {
        1 => places.pop(),
        _ => places
            .into_iter()
            .find(|place| place.ends_with(&format!("/{name}"))),
    }
}
