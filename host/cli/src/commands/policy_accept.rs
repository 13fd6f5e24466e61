//! `mimir policy accept`.

use std::collections::BTreeSet;
use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::visible;
use serde_json::json;

use crate::args::GlobalOptions;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{note, warn};
use crate::terminal;
use mimir::settings::ConfigFile;
use mimir::setup::HostSetup;
use mimir::workers::WorkerFile;

/// Prints the values of these keys before the user accepts them.
fn print_excerpts(file: &ConfigFile, keys: &[String]) {
    for (heading, lines) in file.excerpts(keys) {
        note(format_args!("  {heading}"));
        for line in lines {
            note(format_args!("    {line}"));
        }
    }
}

/// Prints a worker file in full, because every part of it is an instruction for a model or a permission.
fn print_worker(file: &WorkerFile) {
    note(format_args!("  {}", file.shown));
    for line in file.text.lines() {
        note(format_args!("    {}", visible(line)));
    }
}

/// Returns the valid worker files. The flag is true if the file is accepted. If `report_errors` is true, warns about
/// invalid files.
fn valid_workers(setup: &HostSetup, report_errors: bool) -> Vec<(WorkerFile, bool)> {
    let workers = setup.workers();
    let mut files = workers.files();
    files.retain(|(file, _)| match workers.fault(file) {
        None => true,
        Some(error) => {
            if report_errors {
                warn(format_args!("left out: {}", visible(&error.message)));
            }
            false
        }
    });
    files
}

/// Returns the digests of the config file and the worker files.
fn current_digests(
    setup: &HostSetup,
    workers: &[(WorkerFile, bool)],
) -> (Option<String>, BTreeSet<String>) {
    let file = setup.settings.project().map(ConfigFile::digest);
    let workers = workers.iter().map(|(worker, _)| worker.digest.clone());
    (file, workers.collect())
}

/// Accepts the project's settings and workers as they are now.
pub fn run(globals: &GlobalOptions, yes: bool) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let approval_store = setup.require_approvals()?;
    let file = setup.settings.project();
    let workers = valid_workers(&setup, true);
    if file.is_none() && workers.is_empty() {
        let config = setup.workspace.display_path(&setup.workspace.config());
        return Err(ToolError::not_found(format!(
            "nothing to accept: {config} does not exist, and there are no usable workers"
        ))
        .into());
    }
    let withheld = setup.settings.withheld();
    let unaccepted_texts = setup.settings.unaccepted_texts();
    let new_workers: Vec<&WorkerFile> = workers
        .iter()
        .filter(|(_, accepted)| !accepted)
        .map(|(file, _)| file)
        .collect();
    let nothing = withheld.is_empty() && unaccepted_texts.is_empty() && new_workers.is_empty();
    if !nothing && !yes {
        if let Some(file) = file.filter(|_| !withheld.is_empty()) {
            note(format_args!("{} would take effect:", file.shown));
            print_excerpts(file, withheld);
        }
        if let Some(file) = file.filter(|_| !unaccepted_texts.is_empty()) {
            note("models would see the reasons of these rules:");
            print_excerpts(file, &unaccepted_texts);
        }
        if !new_workers.is_empty() {
            note(
                "agents would follow the instructions in these files, and models could call them:",
            );
            new_workers.iter().for_each(|worker| print_worker(worker));
        }
        if !terminal::confirm("Do you accept this?")? {
            let message = terminal::refusal(
                "the settings were not accepted",
                "use `mimir policy accept --yes`",
            );
            return Err(ToolError::approval_denied(message).into());
        }
    }
    let shown_digests = current_digests(&setup, &workers);
    let current = HostSetup::find(globals.workspace.as_deref())?;
    if current_digests(&current, &valid_workers(&current, false)) != shown_digests {
        let changed = match file {
            Some(file) => file.shown.as_str(),
            None => "a worker",
        };
        return Err(ToolError::invalid_input(format!(
            "{changed} changed in the meantime, so nothing was accepted; run `mimir policy accept` again"
        )).into());
    }
    let (digest, worker_digests) = shown_digests;
    approval_store.change(|approvals| {
        // Only the current state of each file is accepted, so that an older one cannot return unnoticed.
        approvals.settings = digest.iter().cloned().collect();
        approvals.workers = worker_digests;
    })?;
    let config = file.zip(digest.as_ref());
    let config = config.map(|(file, digest)| (file.shown.as_str(), digest));
    let accepted_workers = new_workers
        .iter()
        .map(|file| (file.shown.as_str(), &file.digest));
    for (shown, digest) in config.into_iter().chain(accepted_workers) {
        let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(shown);
        setup.record_event(&event.with_detail(&format!("accepted as it is now, sha256 {digest}")));
    }
    setup
        .audit_watermark
        .changed_files(&setup.settings.digests());
    let names: Vec<&str> = workers.iter().map(|(file, _)| file.name.as_str()).collect();
    if printer.is_json() {
        let shown = file.map(|file| file.shown.as_str());
        printer.print_json(
            &json!({ "accepted": shown, "digest": digest, "keys": withheld, "workers": names }),
        )?;
    } else {
        if let Some(file) = file {
            note(format_args!("{} is accepted as it is now", file.shown));
        }
        if !names.is_empty() {
            let names = visible(&names.join(", "));
            note(format_args!("workers accepted as they are now: {names}"));
        }
    }
    Ok(ExitReason::Done)
}
