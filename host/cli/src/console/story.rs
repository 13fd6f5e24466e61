//! The whole story of one call, as far as it is on record.

use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use mimir_audit::AuditEntry;
use mimir_core::client_name::ClientName;
use mimir_core::{RequestId, ToolError};
use serde_json::{Value, json};

use mimir::setup::HostSetup;
use mimir::undo::{UndoRecord, UndoStore};

use super::call_subject::{subject_of_arguments, subject_of_effects};
use super::cluster_story::ClusterLines;
use super::record_source::RecordSource;
use super::recorded_calls::{AuditedCall, LONGEST_CALL, is_notable_effect};
use super::story_steps::{describe_answer, join, stage_rank, steps};
use super::strangers::{StrangerTrail, TaintedLine};
use super::undo::undo_row;

/// Time before the start of a call for which the log is searched: clocks may differ.
const MARGIN: SignedDuration = SignedDuration::from_hours(1);

/// Maximum number of lines of a call, and of nested calls, that are returned.
const LINES_MAX: usize = 500;
const NESTED_MAX: usize = 200;

/// Maximum number of calls that content of strangers led to in a story.
const LED_TO_MAX: usize = 200;

/// The lines that are needed for the story of a call.
struct StoryLines<'a> {
    id: &'a str,
    started: Timestamp,
    own: Vec<AuditEntry>,
    /// Calls that other calls have made.
    nested: Vec<AuditEntry>,
    strangers: StrangerTrail,
}

impl StoryLines<'_> {
    /// Adds a line. The lines come newest first.
    fn add(&mut self, line: &[u8]) -> ControlFlow<()> {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let is_about_strangers = is_about_strangers(text);
        if is_about_strangers && let Some(call) = AuditedCall::read(line) {
            self.strangers.add(&call);
        }
        let is_own = text.contains(self.id);
        if !is_own && !text.contains("\"parent\":") {
            return if is_before(text, self.started) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            };
        }
        let Some(entry) = AuditEntry::read(line) else {
            return ControlFlow::Continue(());
        };
        if entry.text("id") == self.id {
            if self.own.len() < LINES_MAX {
                self.own.push(entry);
            }
        } else if entry.text("event") == "call" && self.nested.len() < 100 * NESTED_MAX {
            self.nested.push(entry);
        }
        ControlFlow::Continue(())
    }

    fn call(&self) -> Option<&AuditEntry> {
        let mut own = self.own.iter();
        own.find(|entry| entry.text("event") == "call")
    }

    /// Returns the calls whose untrusted content the session had read when the call was decided.
    fn reads(&self) -> Vec<String> {
        let lines = self.own.iter().map(AuditEntry::value);
        let reads = lines.filter_map(|line| line["untrustedReads"].as_array());
        let mut reads: Vec<String> = reads
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        reads.sort();
        reads.dedup();
        reads
    }
}

/// Returns false for lines that are neither about a result with untrusted content, nor about its consequences.
fn is_about_strangers(line: &str) -> bool {
    line.contains("\"trust\":\"untrusted\"")
        || line.contains("\"untrustedReads\":[")
        || is_notable_effect(line)
        || line.contains("\"rule\":\"taint: untrusted")
}

/// Returns the lines of a call and what they mean.
pub fn call_story(setup: &HostSetup, id: &str, chain: Value) -> Result<Value, ToolError> {
    if !RequestId::is_valid(id) {
        return Err(not_found(id));
    }
    let mut lines = StoryLines {
        id,
        started: start_of(id),
        own: Vec::new(),
        nested: Vec::new(),
        strangers: StrangerTrail::default(),
    };
    let source = RecordSource::open(setup)?;
    let mut in_cluster = ClusterLines::new(id);
    source.newest_first(None, |line| {
        in_cluster.add(&line);
        let was_found = lines.call().is_some();
        lines.add(&line)?;
        // The content that the session had read before is older than the call.
        if !was_found && let Some(first) = lines.reads().first() {
            lines.started = lines.started.min(start_of(first));
        }
        ControlFlow::Continue(())
    })?;
    lines.own.reverse();
    if lines.own.is_empty() {
        return Err(not_found(id));
    }
    let reads = lines.reads();
    let call = lines.call();
    let session = lines.own[0].text("session");
    let nested: Vec<String> = call.map_or_else(Vec::new, |call| nested_ids(call, &lines.nested));
    let store = UndoStore::for_workspace(&setup.workspace);
    let changed = store.record_of(id);
    let undo = changed.as_ref().map(undo_row);
    let subject = call.and_then(|call| call_subject(call, &lines.own, changed.as_ref()));
    let values: Vec<&Value> = lines.own.iter().map(AuditEntry::value).collect();
    let answers = || lines.own.iter().rev().filter(|entry| is_answer(entry));
    // The line of a console, which says who has answered, and not the line about storing the answer.
    let mut of_people = answers().filter(|entry| entry.value().get("digest").is_none());
    let answered = of_people.next().or_else(|| answers().next());
    let mut story: Vec<Value> = lines
        .own
        .iter()
        .flat_map(|entry| steps(entry, subject.as_deref(), answered))
        .collect();
    let outcome = call.and_then(AuditEntry::outcome);
    let explanation = call.map(|call| explanation(call, answered));
    let client = call.and_then(|call| ClientName::new(&call.text("client")));
    let client = client.map(|name| name.to_string());
    let shown = json!(values);
    lines.strangers.add_changes(&store);
    let (before, led_to) = lines.strangers.around(&session, id, &reads);
    story.extend(before.iter().map(|read| {
        let read = read.value();
        json!({
            "stage": "before",
            "title": "Had read content of strangers",
            "text": named_call(&read),
            "at": read["time"],
            "callId": read["callId"],
        })
    }));
    let in_cluster = in_cluster.story(setup);
    let undo_elsewhere = in_cluster.as_ref().and_then(|story| story.undo.clone());
    let last_message = in_cluster.as_ref().map(|story| story.last_message);
    story.extend(in_cluster.into_iter().flat_map(|story| story.steps));
    // The line of a call is written at its end, after those of its effects.
    story.sort_by_key(|step| stage_rank(step["stage"].as_str().unwrap_or_default()));
    Ok(json!({
        "entries": shown,
        "story": story,
        "chain": chain,
        "lastMessage": last_message,
        "nested": nested,
        "undoElsewhere": undo_elsewhere.filter(|_| undo.is_none()),
        "undo": undo,
        "explanation": explanation,
        "outcome": outcome,
        "subject": subject,
        "client": client,
        "ledTo": led_to.iter().take(LED_TO_MAX).map(TaintedLine::value).collect::<Vec<_>>(),
        "ledToTotal": led_to.len(),
    }))
}

/// Names a call by its tool and its subject.
fn named_call(call: &Value) -> String {
    let text = |name: &str| call[name].as_str().unwrap_or_default();
    join(&[&format!("`{}`", text("tool")), text("subject")])
}

/// Returns true for a line about a person's answer to the question of a call.
fn is_answer(entry: &AuditEntry) -> bool {
    entry.text("event") == "approval" && !entry.text("answer").is_empty()
}

/// Returns the page, the file or the command of a call: from its arguments if they are on record, else from its effects.
fn call_subject(
    call: &AuditEntry,
    own: &[AuditEntry],
    changed: Option<&UndoRecord>,
) -> Option<String> {
    let named = subject_of_arguments(&call.value()["arguments"]);
    named.or_else(|| {
        let effects = own.iter().filter(|entry| entry.text("event") == "effect");
        let effects = effects.map(|entry| entry.text("subject")).collect();
        subject_of_effects(changed, effects, call.text("subject"))
    })
}

fn not_found(id: &str) -> ToolError {
    let shown = mimir_core::text::visible(mimir_core::text::prefix(id, 64));
    ToolError::not_found(format!(
        "the call {shown} is not on record: expected the id of a call that has ended and that `audit.keep` still keeps"
    ))
}

/// Returns the time at which a call arrived: its id begins with it.
fn start_of(id: &str) -> Timestamp {
    let millis = id.split('-').next().unwrap_or_default();
    let millis = i64::from_str_radix(millis, 16).ok();
    let time = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    time.unwrap_or(Timestamp::MIN)
}

/// Returns true if a line was written long before the time.
fn is_before(line: &str, time: Timestamp) -> bool {
    let Some(begin) = time.checked_sub(MARGIN).ok() else {
        return false;
    };
    // Lines about calls have the time of their arrival, and are written when the calls end.
    let is_call = line.contains("\"event\":\"call\"");
    let begin = begin
        .checked_sub(if is_call {
            LONGEST_CALL
        } else {
            SignedDuration::ZERO
        })
        .unwrap_or(Timestamp::MIN);
    let written = line
        .strip_prefix("{\"time\":\"")
        .and_then(|rest| rest.split('"').next());
    let written = written.and_then(|text| text.parse::<Timestamp>().ok());
    written.is_some_and(|written| written < begin)
}

/// Returns the ids of the calls that a call has made. The record names only their caller, so they are found by session,
/// caller and time.
fn nested_ids(call: &AuditEntry, candidates: &[AuditEntry]) -> Vec<String> {
    let number = |entry: &AuditEntry, name: &str| entry.value()[name].as_f64().unwrap_or_default();
    let time = |entry: &AuditEntry| entry.text("time").parse::<Timestamp>().ok();
    let Some(begin) = time(call) else {
        return Vec::new();
    };
    let millis = number(call, "durationMs") + number(call, "waitedMs");
    let lasted = SignedDuration::from_millis(millis as i64 + 1_000);
    let end = begin.checked_add(lasted).unwrap_or(Timestamp::MAX);
    let is_nested = |entry: &&AuditEntry| {
        entry.text("parent") == call.text("tool")
            && entry.text("session") == call.text("session")
            && time(entry).is_some_and(|at| at >= begin && at <= end)
    };
    let mut nested: Vec<String> = candidates
        .iter()
        .filter(is_nested)
        .map(|entry| entry.text("id"))
        .collect();
    nested.sort();
    nested.truncate(NESTED_MAX);
    nested
}

/// Returns the recorded reasons of the decision.
fn explanation(call: &AuditEntry, answered: Option<&AuditEntry>) -> Value {
    let text = |name: &str| {
        let text = call.text(name);
        (!text.is_empty()).then_some(text)
    };
    json!({
        "decision": text("decision"),
        "rule": text("rule"),
        "answer": match answered.map(|line| line.text("detail")) {
            Some(detail) if !detail.is_empty() => Some(detail),
            _ => text("answer").map(|answer| describe_answer(&answer)),
        },
        "waitedMs": call.value()["waitedMs"],
        "argumentsRecorded": call.value().get("arguments").is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn story_search_ends_at_lines_from_before_the_call() {
        let time: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        for (line, before) in [
            (
                r#"{"time":"2026-01-02T01:00:00.000Z","event":"effect"}"#,
                true,
            ),
            (
                r#"{"time":"2026-01-02T02:30:00.000Z","event":"effect"}"#,
                false,
            ),
            (
                r#"{"time":"2026-01-02T01:00:00.000Z","event":"call"}"#,
                false,
            ),
            (
                r#"{"time":"2026-01-01T01:00:00.000Z","event":"call"}"#,
                true,
            ),
            (r#"{"event":"effect"}"#, false),
            ("", false),
        ] {
            assert_eq!(is_before(line, time), before, "{line}");
        }
    }

    #[test]
    fn story_start_is_read_from_the_id() {
        let now = std::time::SystemTime::now();
        let id = RequestId::new(now).to_string();
        let started = start_of(&id);
        let millis = Timestamp::try_from(now).unwrap().as_millisecond();
        assert_eq!(started.as_millisecond(), millis);
    }
}
