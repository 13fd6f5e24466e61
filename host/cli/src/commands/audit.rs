//! `mimir audit`.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use mimir_audit::{Entry, Fault, Follower, Log, verify};

use crate::args::{AuditWish, Filter, Globals};
use crate::exit::{Exit, Failure};
use crate::output::audit::{self, Records};
use crate::output::{Printer, note, warn};
use mimir::file_error::file_error;
use mimir::memory::Memory;
use mimir::setup;

use super::call::interrupted;

/// Verifies the log or prints events from it.
pub async fn run(globals: &Globals, printer: Printer, wish: AuditWish) -> Result<Exit, Failure> {
    let workspace = setup::find_workspace(globals.workspace.as_deref())?;
    let log = Log::at(workspace.audit());
    match wish {
        AuditWish::Verify { head } => {
            let memory = Memory::of(&setup::places(), &workspace);
            check(&log, printer, head.as_deref(), &memory)
        }
        AuditWish::Show(filter) => show(&log, printer, &filter),
        AuditWish::Tail { lines, follow } => tail(&log, printer, lines, follow).await,
    }
}

/// Error for an unreadable log.
fn unreadable(log: &Log) -> impl Fn(io::Error) -> Failure {
    |error| file_error("read the audit log", log.path(), &error).into()
}

fn check(
    log: &Log,
    printer: Printer,
    noted: Option<&str>,
    memory: &Memory,
) -> Result<Exit, Failure> {
    // In this order, because other processes may append after the watermark is read.
    let remembered = memory.read();
    let snapshot = log.snapshot().map_err(unreadable(log))?;
    let report = verify(&snapshot, noted, remembered).map_err(unreadable(log))?;
    audit::report(printer, &report)?;
    let mut findings = report.findings.iter();
    if findings.any(|finding| finding.fault == Fault::Forgotten) {
        note(format_args!("  {}", memory.way_out()));
    }
    Ok(match report.ok {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

fn show(log: &Log, printer: Printer, filter: &Filter) -> Result<Exit, Failure> {
    let snapshot = log.snapshot().map_err(unreadable(log))?;
    let since = filter.since.map(|since| since.moment(SystemTime::now()));
    let mut records = Records::begin(printer)?;
    let mut printed = Ok(());
    let mut foreign = 0_u64;
    let read = snapshot.lines(|line| {
        match Entry::read(line.bytes) {
            Some(entry) if wanted(&entry, filter, since) => printed = records.add(&entry),
            Some(_) => {}
            None => foreign += 1,
        }
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    printed?;
    read.map_err(unreadable(log))?;
    records.end()?;
    left_out(foreign);
    Ok(Exit::Done)
}

fn left_out(foreign: u64) {
    if foreign > 0 {
        warn(format_args!(
            "skipped {foreign} lines that do not belong to the log; `mimir audit verify` lists them"
        ));
    }
}

/// Resolves an alias of a built-in tool, because the log has names only.
fn canonical(alias: &str) -> Option<&'static str> {
    let mut aliases = mimir_builtins::ALL
        .iter()
        .flat_map(|built_in| built_in.aliases);
    let found = aliases.find(|(_, known)| *known == alias);
    found.map(|(name, _)| *name)
}

fn wanted(entry: &Entry, filter: &Filter, since: Option<SystemTime>) -> bool {
    let about = |tool: &String| {
        let texts = [entry.text("tool"), entry.text("subject")];
        texts
            .iter()
            .any(|text| text == tool || Some(text.as_str()) == canonical(tool))
    };
    filter.tool.as_ref().is_none_or(about)
        && filter
            .decision
            .is_none_or(|decision| entry.text("decision") == decision.as_str())
        && filter
            .event
            .is_none_or(|kind| entry.text("event") == kind.as_str())
        && since.is_none_or(|since| entry.time().is_some_and(|time| time >= since))
}

/// Poll interval for a followed log.
const LOOK: Duration = Duration::from_millis(200);

async fn tail(log: &Log, printer: Printer, count: usize, follow: bool) -> Result<Exit, Failure> {
    let snapshot = log.snapshot().map_err(unreadable(log))?;
    print(printer, &snapshot.last(count).map_err(unreadable(log))?)?;
    if !follow {
        return Ok(Exit::Done);
    }
    let mut follower = Follower::behind(log, snapshot).map_err(unreadable(log))?;
    let mut stop = std::pin::pin!(interrupted());
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
                // The normal way to end `tail -f`.
                Exit::Interrupted => Exit::Done,
                exit => exit,
            }),
            () = tokio::time::sleep(LOOK) => {}
        }
        if reader_is_gone() {
            return Ok(Exit::Done);
        }
    }
}

fn print(printer: Printer, lines: &[Vec<u8>]) -> Result<(), Failure> {
    let entries: Vec<Entry> = lines.iter().filter_map(|line| Entry::read(line)).collect();
    audit::entries(printer, &entries)?;
    left_out((lines.len() - entries.len()) as u64);
    Ok(())
}

/// Returns true if the reader of stdout is gone. A write would fail, too, but there may be nothing to write for hours.
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
