//! `mimir audit`.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mimir_audit::{AuditEntry, AuditLog, ChainFault, LogFollower, verify, verify_exported};

use crate::args::{AuditCommand, AuditFilter, GlobalOptions, NATS_VARIABLE};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::audit::{self, EventPrinter};
use crate::output::{ResultPrinter, note, warn};
use mimir::audit_watermark::AuditWatermark;
use mimir::file_error::file_error;
use mimir::setup;
use mimir::workspace::WorkspaceFolder;

use super::call::wait_for_interrupt;

mod cluster;

/// Verifies the log, prints events from it, or exports it.
pub async fn run(globals: &GlobalOptions, command: AuditCommand) -> CommandResult {
    let printer = globals.printer();
    let find_log = || -> CommandResult<(WorkspaceFolder, AuditLog)> {
        let workspace = setup::find_workspace(globals.workspace.as_deref())?;
        let log = AuditLog::at(workspace.audit());
        Ok((workspace, log))
    };
    match command {
        AuditCommand::Verify { files, source, .. } if !files.is_empty() => {
            if source.is_cluster() {
                let message = "--cluster and files exclude each other: name the files alone";
                return Err(CommandFailure::usage(message));
            }
            verify_files(&files, printer)
        }
        AuditCommand::Verify { head, source, .. } if source.is_cluster() => {
            cluster::verify(&source.options, printer, head.as_deref()).await
        }
        AuditCommand::Verify { head, .. } => {
            let (workspace, log) = find_log()?;
            let watermark = AuditWatermark::for_workspace(&setup::find_user_dirs(), &workspace);
            verify_log(&log, printer, head.as_deref(), &watermark)
        }
        AuditCommand::Export {
            out,
            remove_before,
            options,
            ..
        } => cluster::export(&options, printer, &out, remove_before).await,
        AuditCommand::Show { filter, source } if source.is_cluster() => {
            cluster::show(&source.options, printer, &filter).await
        }
        AuditCommand::Show { filter, .. } => show(&find_log()?.1, printer, &filter),
        AuditCommand::Tail {
            lines,
            follow,
            source,
        } if source.is_cluster() => cluster::tail(&source.options, printer, lines, follow).await,
        AuditCommand::Tail { lines, follow, .. } => {
            tail(&find_log()?.1, printer, lines, follow).await
        }
    }
}

/// Verifies log files, as `mimir audit export` writes them.
fn verify_files(files: &[PathBuf], printer: ResultPrinter) -> CommandResult {
    let mut is_intact = true;
    for file in files {
        let log = AuditLog::at(file);
        let snapshot = log.snapshot().map_err(unreadable(&log))?;
        if snapshot.files() == 0 {
            let missing = io::ErrorKind::NotFound.into();
            return Err(unreadable(&log)(missing));
        }
        let report = verify_exported(&snapshot).map_err(unreadable(&log))?;
        is_intact &= report.ok;
        audit::file_report(printer, file, &report)?;
    }
    Ok(ExitReason::done_if(is_intact))
}

/// Returns a function that creates the error for an unreadable log.
fn unreadable(log: &AuditLog) -> impl Fn(io::Error) -> CommandFailure {
    |error| file_error("read the audit log", log.path(), &error).into()
}

fn verify_log(
    log: &AuditLog,
    printer: ResultPrinter,
    noted_head: Option<&str>,
    watermark: &AuditWatermark,
) -> CommandResult {
    // The watermark is read first, because other processes may append to the log in between.
    let remembered = watermark.read();
    let snapshot = log.snapshot().map_err(unreadable(log))?;
    let report = verify(&snapshot, noted_head, remembered).map_err(unreadable(log))?;
    audit::report(printer, &report)?;
    if report.lines == 0 {
        note_cluster_log();
    }
    let mut findings = report.findings.iter();
    if findings.any(|finding| finding.fault == ChainFault::Forgotten) {
        note(format_args!("  {}", watermark.remedy()));
    }
    Ok(ExitReason::done_if(report.ok))
}

fn show(log: &AuditLog, printer: ResultPrinter, filter: &AuditFilter) -> CommandResult {
    let snapshot = log.snapshot().map_err(unreadable(log))?;
    let since = filter.since.map(|since| since.to_time(SystemTime::now()));
    let mut event_printer = EventPrinter::begin(printer)?;
    let mut printed = Ok(());
    let mut skipped = 0_u64;
    let read = snapshot.lines(|line| {
        match AuditEntry::read(line.bytes) {
            Some(entry) if matches_filter(&entry, filter, since) => {
                printed = event_printer.add(&entry)
            }
            Some(_) => {}
            None => skipped += 1,
        }
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    printed?;
    read.map_err(unreadable(log))?;
    let is_empty = event_printer.is_empty();
    event_printer.end()?;
    if is_empty {
        note_cluster_log();
    }
    warn_skipped_lines(skipped);
    Ok(ExitReason::Done)
}

/// Says which log was read, if nothing was found in it and the environment names a cluster.
fn note_cluster_log() {
    if std::env::var_os(NATS_VARIABLE).is_some_and(|servers| !servers.is_empty()) {
        note(format_args!(
            "this is the audit log of the workspace on this machine; --cluster shows that of the cluster in {NATS_VARIABLE}"
        ));
    }
}

fn warn_skipped_lines(skipped: u64) {
    if skipped > 0 {
        warn(format_args!(
            "skipped {skipped} lines that do not belong to the log; `mimir audit verify` lists them"
        ));
    }
}

/// Returns the name of the built-in tool with this alias, because the log contains only names.
fn built_in_name(alias: &str) -> Option<&'static str> {
    let mut aliases = mimir_builtins::ALL
        .iter()
        .flat_map(|built_in| built_in.aliases);
    let alias_entry = aliases.find(|(_, known)| *known == alias);
    alias_entry.map(|(name, _)| *name)
}

fn matches_filter(entry: &AuditEntry, filter: &AuditFilter, since: Option<SystemTime>) -> bool {
    let is_about = |tool: &String| {
        let texts = [entry.text("tool"), entry.text("subject")];
        texts
            .iter()
            .any(|text| text == tool || Some(text.as_str()) == built_in_name(tool))
    };
    let has_outcome = || {
        let outcome = entry.outcome();
        outcome.is_some_and(|outcome| filter.outcome.contains(&outcome))
    };
    let is_of_client = |client: &String| {
        let name = entry.text("client").to_lowercase();
        name.contains(&client.to_lowercase())
    };
    filter.tool.as_ref().is_none_or(is_about)
        && filter.client.as_ref().is_none_or(is_of_client)
        && (filter.outcome.is_empty() || has_outcome())
        && filter
            .decision
            .is_none_or(|decision| entry.text("decision") == decision.as_str())
        && filter
            .event
            .is_none_or(|kind| entry.text("event") == kind.as_str())
        && since.is_none_or(|since| entry.time().is_some_and(|time| time >= since))
}

/// Interval at which a followed log is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

async fn tail(log: &AuditLog, printer: ResultPrinter, count: usize, follow: bool) -> CommandResult {
    let snapshot = log.snapshot().map_err(unreadable(log))?;
    let lines = snapshot.last(count).map_err(unreadable(log))?;
    print(printer, &lines)?;
    if lines.is_empty() {
        note_cluster_log();
    }
    if !follow {
        return Ok(ExitReason::Done);
    }
    let mut follower = LogFollower::after(log, snapshot).map_err(unreadable(log))?;
    let mut stop = std::pin::pin!(wait_for_interrupt());
    loop {
        loop {
            let lines = follower.poll().map_err(unreadable(log))?;
            if lines.is_empty() {
                break;
            }
            print(printer, &lines)?;
        }
        tokio::select! {
            exit = &mut stop => return Ok(match exit {
                // Ctrl-C is the usual way to end `tail -f`.
                ExitReason::Interrupted => ExitReason::Done,
                exit => exit,
            }),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        if reader_is_gone() {
            return Ok(ExitReason::Done);
        }
    }
}

fn print(printer: ResultPrinter, lines: &[Vec<u8>]) -> CommandResult<()> {
    let entries: Vec<AuditEntry> = lines
        .iter()
        .filter_map(|line| AuditEntry::read(line))
        .collect();
    audit::entries(printer, &entries)?;
    warn_skipped_lines((lines.len() - entries.len()) as u64);
    Ok(())
}

/// Returns true if the reader of stdout is gone. A failing write would also show that, but hours may pass without a
/// write.
#[cfg(unix)]
fn reader_is_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec::default();
    poll(&mut fds, Some(&at_once)).is_ok()
        && fds[0]
            .revents()
            .intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}

#[cfg(not(unix))]
fn reader_is_gone() -> bool {
    false
}
