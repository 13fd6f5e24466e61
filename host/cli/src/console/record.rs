//! The audit log of the workspace: pages of lines, search, verification and export.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mimir_audit::{AuditEntry, AuditLog, VerifyReport, verify};
use mimir_console::RecordFilter;
use mimir_core::ToolError;
use mimir_core::audit::OutcomeKind;
use mimir_core::text::{prefix, visible};
use serde_json::{Value, json};

use mimir::audit_watermark::AuditWatermark;
use mimir::file_error::file_error;
use mimir::setup::HostSetup;
use mimir::undo::UndoStore;

use super::page_entries::PageEntries;
use super::record_source::RecordSource;

/// Maximum time of a search for a page. The next page goes on from there.
const SEARCH_TIME: Duration = Duration::from_secs(5);

/// Number of lines after the page that are read for the effects of its last calls.
const READ_AHEAD_LINES: u64 = 500;

/// Number of lines between two looks at the clock.
const CLOCK_LINES: u64 = 1_024;

/// A filter of lines, checked and ready for use.
pub struct LineFilter {
    filter: RecordFilter,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    outcome: Option<OutcomeKind>,
    /// Texts that each matching line contains as they are, so that most other lines are not parsed.
    words: Vec<String>,
    /// A text that each matching line contains, in any case.
    lower_text: Option<String>,
}

impl LineFilter {
    /// Checks a filter.
    pub fn new(mut filter: RecordFilter) -> Result<Self, ToolError> {
        filter.code = filter.code.map(|code| code.to_ascii_uppercase());
        let time = |name: &str, text: &Option<String>| {
            let parse = |text: &String| {
                text.parse::<Timestamp>().map_err(|_| {
                    ToolError::invalid_input(format!(
                        "`{name}` is not a time: expected RFC 3339, such as 2026-01-31T12:00:00Z, but it is `{}`",
                        visible(prefix(text, 64))
                    ))
                })
            };
            text.as_ref().map(parse).transpose()
        };
        let (since, until) = (time("since", &filter.since)?, time("until", &filter.until)?);
        let outcome = filter.outcome.as_ref().map(|name| {
            OutcomeKind::parse(name).ok_or_else(|| {
                let names = OutcomeKind::ALL.map(OutcomeKind::as_str).join(", ");
                ToolError::invalid_input(format!(
                    "`outcome` is not an outcome: expected one of {names}, but it is `{}`",
                    visible(prefix(name, 64))
                ))
            })
        });
        let outcome = outcome.transpose()?;
        // Texts with other characters may be escaped in the log.
        let is_plain = |word: &&String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/ ".contains(c);
            word.chars().all(plain)
        };
        let exact = [
            &filter.tool,
            &filter.code,
            &filter.decision,
            &filter.event,
            &filter.session,
        ];
        let exact = exact.into_iter().flatten().filter(is_plain);
        let text = filter.text.iter().find(is_plain);
        let ok = outcome.map(|outcome| format!("\"ok\":{}", outcome == OutcomeKind::Ok));
        Ok(Self {
            since,
            until,
            outcome,
            words: exact.cloned().chain(ok).collect(),
            lower_text: text.map(|text| text.to_ascii_lowercase()),
            filter,
        })
    }

    /// Returns false for lines that cannot match.
    fn may_match(&self, line: &[u8]) -> bool {
        let Ok(line) = std::str::from_utf8(line) else {
            return true;
        };
        let has_text = |text: &String| line.to_ascii_lowercase().contains(text.as_str());
        self.words.iter().all(|word| line.contains(word.as_str()))
            && self.lower_text.as_ref().is_none_or(has_text)
    }

    /// Returns true if all conditions hold.
    fn matches(&self, entry: &AuditEntry) -> bool {
        let filter = &self.filter;
        let is = |name: &str, wanted: &Option<String>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| entry.text(name) == *wanted)
        };
        let names = |wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| {
                let subject = entry.text("subject");
                subject.contains(wanted.as_str()) || contains(&entry.value()["arguments"], wanted)
            })
        };
        let has_part = |text: &dyn Fn() -> String, wanted: &Option<String>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| text().to_lowercase().contains(&wanted.to_lowercase()))
        };
        let has_outcome = |wanted| entry.outcome() == Some(wanted);
        is("tool", &filter.tool)
            && self.outcome.is_none_or(has_outcome)
            && is("code", &filter.code)
            && is("decision", &filter.decision)
            && is("event", &filter.event)
            && is("session", &filter.session)
            && names(&filter.host)
            && names(&filter.file)
            && self.is_in_period(entry)
            && has_part(&|| entry.text("client"), &filter.client)
            && has_part(&|| entry.value().to_string(), &filter.text)
    }

    fn is_in_period(&self, entry: &AuditEntry) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let time = entry.value()["time"].as_str();
        let Some(time) = time.and_then(|time| time.parse::<Timestamp>().ok()) else {
            return false;
        };
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
    }
}

/// Returns true if a string in the value contains the text.
fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(map) => map.values().any(|item| contains(item, text)),
        _ => false,
    }
}

/// Returns a page of matching lines, newest first.
pub fn page(setup: &HostSetup, filter: RecordFilter) -> Result<Value, ToolError> {
    let (before, limit) = (filter.before, filter.limit.clamp(1, 200));
    let filter = LineFilter::new(filter)?;
    let mut entries = PageEntries::default();
    let mut next = None;
    let (mut read, mut read_ahead) = (0_u64, 0_u64);
    let until = Instant::now() + SEARCH_TIME;
    let searched = RecordSource::open(setup)?.newest_first(before, |line| {
        let Some(position) = line.position() else {
            return ControlFlow::Continue(());
        };
        if entries.needs_effects() {
            entries.add_effect(&line);
        }
        if next.is_some() {
            // The effects of the last calls of the page are older than its lines.
            read_ahead += 1;
            return if entries.needs_effects() && read_ahead < READ_AHEAD_LINES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            };
        }
        read += 1;
        if read.is_multiple_of(CLOCK_LINES) && Instant::now() > until {
            next = Some(position + 1);
            return ControlFlow::Break(());
        }
        if !filter.may_match(&line) {
            return ControlFlow::Continue(());
        }
        let Some(entry) = AuditEntry::read(&line).filter(|entry| filter.matches(entry)) else {
            return ControlFlow::Continue(());
        };
        if entries.len() == limit {
            next = Some(position + 1);
        } else {
            entries.push(&entry, line.shown(&entry));
        }
        ControlFlow::Continue(())
    })?;
    let entries = entries.finish(&UndoStore::for_workspace(&setup.workspace));
    Ok(json!({ "entries": entries, "next": next.or(searched.next), "searched": searched.value() }))
}

/// Verifies the whole log.
pub fn verify_log(setup: &HostSetup) -> Result<VerifyReport, ToolError> {
    let watermark = AuditWatermark::for_workspace(&setup.user_dirs, &setup.workspace);
    // The watermark is read first, because other processes may append to the log in between.
    let remembered = watermark.read();
    let unreadable =
        |error: &io::Error| file_error("read the audit log", &setup.workspace.audit(), error);
    let snapshot = AuditLog::at(setup.workspace.audit()).snapshot();
    let report = snapshot.and_then(|snapshot| verify(&snapshot, None, remembered));
    report.map_err(|error| unreadable(&error))
}

/// Passes the matching lines of the log to `send`, oldest first, until it returns false.
pub fn export(
    setup: &HostSetup,
    filter: RecordFilter,
    mut send: impl FnMut(String) -> bool,
) -> Result<(), ToolError> {
    let filter = LineFilter::new(filter)?;
    RecordSource::open(setup)?.oldest_first(|line| {
        if filter.may_match(&line)
            && let Some(entry) = AuditEntry::read(&line)
            && filter.matches(&entry)
            // The line itself, so that its hash can be checked.
            && let Ok(text) = std::str::from_utf8(&line)
            && !send(text.to_owned())
        {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
}
