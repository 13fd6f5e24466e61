//! `mimir policy accept`

use std::time::SystemTime;

use mimir_core::audit::{Event, Kind};
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::args::Globals;
use crate::exit::{Exit, Failure};
use crate::output::{Printer, note};
use crate::settings::ConfigFile;
use crate::setup::Setup;
use crate::terminal;

/// Prints what stands under these keys: nobody agrees to what he has not seen.
fn show(file: &ConfigFile, keys: &[String]) {
    for (place, lines) in file.excerpts(keys) {
        note(format_args!("  {place}"));
        for line in lines {
            note(format_args!("    {line}"));
        }
    }
}

/// Lets the project's settings count in full, as they are now.
pub fn run(globals: &Globals, printer: Printer, yes: bool) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let ledger = setup.own_ledger()?;
    let Some(file) = setup.settings.project() else {
        let place = setup.workspace.shown(&setup.workspace.config());
        let error = ToolError::new(Code::NotFound, format!("there is no {place} to accept"));
        return Err(error.into());
    };
    let withheld = setup.settings.withheld();
    let words = setup.settings.unread_words();
    let nothing = withheld.is_empty() && words.is_empty();
    if !nothing && !yes {
        if !withheld.is_empty() {
            note(format_args!("{} would be put in force:", file.shown));
            show(file, withheld);
        }
        if !words.is_empty() {
            note("models would read the reasons of these rules:");
            show(file, &words);
        }
        if !terminal::confirm("Do you accept this?")? {
            let error = ToolError::new(
                Code::ApprovalDenied,
                "the settings were not accepted; `mimir policy accept --yes` needs no terminal",
            );
            return Err(error.into());
        }
    }
    let digest = file.digest();
    let now = Setup::find(globals)?;
    if now.settings.project().map(|file| file.digest()).as_ref() != Some(&digest) {
        let message = format!(
            "{} has changed meanwhile, and nothing was accepted; run `mimir policy accept` again",
            file.shown
        );
        return Err(ToolError::new(Code::InvalidInput, message).into());
    }
    ledger.change(|book| {
        // One state of the file counts: an older one must not come back unseen.
        book.settings.clear();
        book.settings.insert(digest.clone())
    })?;
    let event = Event::of(Kind::ConfigChange, SystemTime::now()).with_subject(&file.shown);
    setup.record(&event.with_detail(&format!("accepted as it is now, sha256 {digest}")));
    setup.memory.files(&setup.settings.digests());
    if printer.is_json() {
        printer.value(&json!({ "accepted": file.shown, "digest": digest, "keys": withheld }))?;
    } else {
        note(format_args!("{} counts in full, as it is now", file.shown));
    }
    Ok(Exit::Done)
}
