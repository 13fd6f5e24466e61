//! The whole story of one call, as far as it is on record.

use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use mimir_audit::AuditEntry;
use mimir_core::text::bytes;
use mimir_core::{RequestId, ToolError};
use serde_json::{Value, json};

use mimir::setup::HostSetup;
use mimir::undo::UndoStore;

use super::record::{snapshot, unreadable};
use super::undo::undo_row;

/// Time before the start of a call for which the log is searched: clocks may differ.
const MARGIN: SignedDuration = SignedDuration::from_hours(1);

/// Maximum number of lines of a call, and of nested calls, that are returned.
const LINES_MAX: usize = 500;
const NESTED_MAX: usize = 200;

/// Returns the lines of a call and what they mean.
pub fn call_story(setup: &HostSetup, id: &str, chain: Value) -> Result<Value, ToolError> {
    if !RequestId::is_valid(id) {
        return Err(not_found(id));
    }
    let started = start_of(id);
    let (mut entries, mut candidates) = (Vec::new(), Vec::new());
    let visited = snapshot(setup)?.lines_newest_first(|line| {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let is_own = text.contains(id);
        if !is_own && !text.contains("\"parent\":") {
            return if is_before(text, started) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            };
        }
        let Some(entry) = AuditEntry::read(line) else {
            return ControlFlow::Continue(());
        };
        if entry.text("id") == id {
            if entries.len() < LINES_MAX {
                entries.push(entry);
            }
        } else if entry.text("event") == "call" && candidates.len() < 100 * NESTED_MAX {
            candidates.push(entry);
        }
        ControlFlow::Continue(())
    });
    visited.map_err(|error| unreadable(setup, &error))?;
    entries.reverse();
    let call = entries.iter().find(|entry| entry.text("event") == "call");
    if entries.is_empty() {
        return Err(not_found(id));
    }
    let nested: Vec<String> = call.map_or_else(Vec::new, |call| nested_ids(call, &candidates));
    let store = UndoStore::for_workspace(&setup.workspace);
    let undo = store.record_of(id).map(|record| undo_row(&record));
    let lines: Vec<&Value> = entries.iter().map(AuditEntry::value).collect();
    let mut story: Vec<Value> = entries.iter().flat_map(steps).collect();
    // The line of a call is written at its end, after those of its effects.
    story.sort_by_key(|step| stage_rank(step["stage"].as_str().unwrap_or_default()));
    Ok(json!({
        "entries": lines,
        "story": story,
        "chain": chain,
        "nested": nested,
        "undo": undo,
        "explanation": call.map(explanation),
    }))
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
    // Lines about calls have the time of their arrival, which says little about when they were written.
    if line.contains("\"event\":\"call\"") {
        return false;
    }
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

/// Describes the steps that a line records.
fn steps(entry: &AuditEntry) -> Vec<Value> {
    let text = |name: &str| entry.text(name);
    let step = |stage: &str, title: &str, text: String| json!({ "stage": stage, "title": title, "text": text, "at": entry.text("time") });
    match entry.text("event").as_str() {
        "call" => call_steps(entry),
        "effect" => vec![step(
            "effect",
            if entry.value()["ok"] == true {
                "Effect"
            } else {
                "Effect refused"
            },
            join(&[&text("subject"), &text("code")]),
        )],
        "attempt" => vec![step(
            "run",
            "Attempt failed",
            join(&[&text("detail"), &text("code")]),
        )],
        "approval" => vec![step(
            "answer",
            "Answered",
            join(&[&text("answer"), &text("detail")]),
        )],
        "grant" => vec![step(
            "answer",
            "Rights granted",
            join(&[&text("subject"), &text("detail")]),
        )],
        "canary" => vec![step(
            "alarm",
            "Canary seen",
            join(&[&text("subject"), &text("detail")]),
        )],
        "undo" => vec![step("undo", "Undone", text("detail"))],
        "announced" => vec![step(
            "run",
            "Announced",
            "the call was about to take effect".to_owned(),
        )],
        other => vec![step(
            "record",
            other,
            join(&[&text("subject"), &text("detail")]),
        )],
    }
}

/// Returns the position of a stage in a story.
fn stage_rank(stage: &str) -> u8 {
    match stage {
        "validate" => 0,
        "decide" => 1,
        "answer" => 2,
        "sanitize" | "label" => 4,
        "outcome" => 5,
        "undo" => 6,
        _ => 3,
    }
}

fn join(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts
        .iter()
        .copied()
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(", ")
}

/// Describes the stages of a call. Its line is written at the end, so only the arrival has a time.
fn call_steps(entry: &AuditEntry) -> Vec<Value> {
    let value = entry.value();
    let text = |name: &str| entry.text(name);
    let mut steps = vec![json!({
        "stage": "validate",
        "title": "Called",
        "text": match text("parent").as_str() {
            "" => format!("`{}` was called", text("tool")),
            parent => format!("`{}` was called by `{parent}`", text("tool")),
        },
        "at": text("time"),
    })];
    let mut push = |stage: &str, title: &str, text: String| {
        steps.push(json!({ "stage": stage, "title": title, "text": text }));
    };
    let decision = text("decision");
    if !decision.is_empty() {
        let rule = text("rule");
        let because = if rule.is_empty() {
            String::new()
        } else {
            format!(" ({rule})")
        };
        push("decide", "Rules", format!("{decision}{because}"));
    }
    let answer = text("answer");
    if !answer.is_empty() {
        let waited = value["waitedMs"].as_u64();
        let waited = waited.map_or(String::new(), |ms| {
            format!(", after {:.1} s", ms as f64 / 1000.0)
        });
        push(
            "answer",
            "Answer",
            format!("{}{waited}", describe_answer(&answer)),
        );
    }
    if let Some(attempts) = value["attempts"].as_u64() {
        push("run", "Attempts", attempts.to_string());
    }
    if value["cached"] == true {
        push(
            "run",
            "Cached",
            "the result of an earlier call was returned".to_owned(),
        );
    }
    if let Some(secrets) = value["secretsFound"].as_u64() {
        push(
            "sanitize",
            "Masked",
            format!("{secrets} secrets were masked in the result"),
        );
    }
    if text("trust") == "untrusted" {
        push(
            "label",
            "Untrusted",
            "the result has content of strangers".to_owned(),
        );
    }
    let end = match (value["ok"] == true, text("code")) {
        (true, _) => "succeeded".to_owned(),
        (false, code) => format!("failed: {code}"),
    };
    push("outcome", "Result", join(&[&end, &receipt(value)]));
    steps
}

fn describe_answer(answer: &str) -> String {
    match answer {
        "lease" => "a stored approval covered the call".to_owned(),
        "session lease" => "an approval for this session covered the call".to_owned(),
        "skill" => "a permission of a skill covered the call".to_owned(),
        "beforehand" => "approved in advance".to_owned(),
        "nobody" => "no person answered".to_owned(),
        answer => format!("a person answered `{answer}`"),
    }
}

fn receipt(value: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(ms) = value["durationMs"].as_f64() {
        parts.push(format!("{ms:.1} ms"));
    }
    if let Some(memory) = value["peakMemory"].as_u64() {
        parts.push(format!("{} of memory", bytes(memory)));
    }
    if let Some(fuel) = value["fuel"].as_u64() {
        parts.push(format!("{fuel} units of fuel"));
    }
    if let Some(out) = value["bytesOut"].as_u64() {
        parts.push(format!("{} of result", bytes(out)));
    }
    if let Some(tokens) = value["tokens"].as_u64() {
        parts.push(format!("{tokens} tokens"));
    }
    parts.join(", ")
}

/// Returns the recorded reasons of the decision.
fn explanation(call: &AuditEntry) -> Value {
    let text = |name: &str| {
        let text = call.text(name);
        (!text.is_empty()).then_some(text)
    };
    json!({
        "decision": text("decision"),
        "rule": text("rule"),
        "answer": text("answer").map(|answer| describe_answer(&answer)),
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
