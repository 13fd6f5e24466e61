//! The log of a cluster: `mimir audit … --cluster`.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use mimir::cluster::{cluster_error, connect};
use mimir::process_identity::{machine_name, user_name};
use mimir_audit::AuditEntry;
use mimir_cluster::{
    ClusterAuditError, ClusterExport, ClusterExportError, ClusterLog, ClusterRemoval, NatsState,
};
use mimir_core::{ToolError, ToolErrorCode};
use serde::Serialize;

use super::{matches_filter, print, reader_is_gone, wait_for_interrupt, warn_skipped_lines};
use crate::args::{AuditFilter, ClusterOptions, SinceTime};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::ResultPrinter;
use crate::output::audit::{self, EventPrinter};

/// Interval at which the log is polled for new messages.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Connects to a cluster and returns its log and its shared state.
async fn open(options: &ClusterOptions) -> CommandResult<(ClusterLog, NatsState)> {
    let connection = connect(options.require_connection()?).await?;
    // A lost log must not look like an empty one.
    let exists = connection.require_audit_log().await;
    exists.map_err(cluster_error)?;
    let state = NatsState::new(connection.clone());
    Ok((ClusterLog::new(connection), state))
}

fn unreadable(error: ClusterAuditError) -> CommandFailure {
    ToolError::new(ToolErrorCode::Unavailable, error.to_string()).into()
}

/// Verifies the log.
pub(super) async fn verify(
    options: &ClusterOptions,
    printer: ResultPrinter,
    noted_head: Option<&str>,
) -> CommandResult {
    let (log, state) = open(options).await?;
    let report = log.verify(&state, noted_head).await.map_err(unreadable)?;
    audit::cluster_report(printer, &report)?;
    Ok(ExitReason::done_if(report.ok))
}

/// The result of an export.
#[derive(Serialize)]
struct ExportResult {
    #[serde(flatten)]
    export: ClusterExport,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<ClusterRemoval>,
}

/// Copies new lines into files, and removes older messages from the log if a time is given.
pub(super) async fn export(
    options: &ClusterOptions,
    printer: ResultPrinter,
    folder: &Path,
    remove_before: Option<SinceTime>,
) -> CommandResult {
    let (log, state) = open(options).await?;
    let exported = match remove_before {
        Some(time) => {
            let older_than = time.to_time(SystemTime::now());
            let by = format!("{} on {}", user_name(), machine_name());
            let exported = log.export_and_remove(&state, folder, older_than, &by).await;
            exported.map(|(export, removed)| (export, Some(removed)))
        }
        None => log.export(folder).await.map(|export| (export, None)),
    };
    let (export, removed) = exported.map_err(|error| match error {
        ClusterExportError::Log(error) => unreadable(error),
        error => ToolError::new(ToolErrorCode::Unavailable, error.to_string()).into(),
    })?;
    let result = ExportResult { export, removed };
    printer.print_result(&result, |out| {
        writeln!(
            out,
            "Exported {} new lines into {} files in {}, up to message {}.",
            export.lines,
            export.files,
            mimir_core::text::visible(&folder.display().to_string()),
            export.sequence
        )?;
        match removed {
            None => Ok(()),
            Some(removed) if removed.messages == 0 => {
                writeln!(out, "The log has no older messages that can be removed.")
            }
            Some(removed) => writeln!(
                out,
                "Removed {} messages of {} processes from the log, before message {}.",
                removed.messages, removed.writers, removed.before
            ),
        }
    })?;
    Ok(ExitReason::Done)
}

/// Prints the events that match a filter.
pub(super) async fn show(
    options: &ClusterOptions,
    printer: ResultPrinter,
    filter: &AuditFilter,
) -> CommandResult {
    let (log, _) = open(options).await?;
    let since = filter.since.map(|since| since.to_time(SystemTime::now()));
    let mut event_printer = EventPrinter::begin(printer)?;
    let mut skipped = 0;
    if let Some(extent) = log.extent().await.map_err(unreadable)? {
        let failed = log.read(extent.first, extent.last, |message| {
            for line in message.iter().flat_map(mimir_cluster::AuditMessage::lines) {
                match AuditEntry::read(line) {
                    Some(entry) if matches_filter(&entry, filter, since) => {
                        if let Err(error) = event_printer.add(&entry) {
                            return ControlFlow::Break(error);
                        }
                    }
                    Some(_) => {}
                    None => skipped += 1,
                }
            }
            ControlFlow::Continue(())
        });
        if let Some(error) = failed.await.map_err(unreadable)? {
            return Err(error);
        }
    }
    event_printer.end()?;
    warn_skipped_lines(skipped);
    Ok(ExitReason::Done)
}

/// Prints the newest lines, and new ones until Ctrl-C.
pub(super) async fn tail(
    options: &ClusterOptions,
    printer: ResultPrinter,
    count: usize,
    follow: bool,
) -> CommandResult {
    let (log, _) = open(options).await?;
    let extent = log.extent().await.map_err(unreadable)?;
    let mut last = extent.map_or(0, |extent| extent.last);
    // Each message has at least one line.
    let first = last.saturating_sub((count as u64).saturating_sub(1));
    let mut lines = read_lines(&log, first, last).await?;
    lines.drain(..lines.len().saturating_sub(count));
    print(printer, &lines)?;
    if !follow {
        return Ok(ExitReason::Done);
    }
    let mut stop = std::pin::pin!(wait_for_interrupt());
    loop {
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
        let extent = log.extent().await.map_err(unreadable)?;
        let newest = extent.map_or(0, |extent| extent.last);
        if newest > last {
            print(printer, &read_lines(&log, last + 1, newest).await?)?;
            last = newest;
        }
    }
}

/// Returns the lines of the messages from `first` to `last`.
async fn read_lines(log: &ClusterLog, first: u64, last: u64) -> CommandResult<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    let read = log.read(first, last, |message| {
        let message = message.iter().flat_map(mimir_cluster::AuditMessage::lines);
        lines.extend(message.map(<[u8]>::to_vec));
        ControlFlow::<()>::Continue(())
    });
    read.await.map_err(unreadable)?;
    Ok(lines)
}
