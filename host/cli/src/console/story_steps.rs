//! The steps of a recorded call for people: one for each of its lines, and one for each stage of the call itself.

use mimir_audit::AuditEntry;
use mimir_core::audit::OutcomeKind;
use mimir_core::text::bytes;
use serde_json::{Value, json};

/// Describes the steps that a line records. `subject` and `answered` are those of the call.
pub fn steps(
    entry: &AuditEntry,
    subject: Option<&str>,
    answered: Option<&AuditEntry>,
) -> Vec<Value> {
    let text = |name: &str| entry.text(name);
    let step = |stage: &str, title: &str, text: String| json!({ "stage": stage, "title": title, "text": text, "at": entry.text("time") });
    match entry.text("event").as_str() {
        "call" => call_steps(entry, subject, answered),
        "effect" => vec![step(
            "effect",
            if entry.value()["ok"] == true {
                "Effect"
            } else {
                "Effect refused"
            },
            join(&[
                &text("subject"),
                &text("code"),
                &text("detail"),
                tainted_text(entry),
            ]),
        )],
        "attempt" => vec![step(
            "run",
            "Attempt failed",
            join(&[&text("detail"), &text("code")]),
        )],
        "approval" => vec![step(
            "answer",
            "Answer",
            match text("detail").as_str() {
                "" => text("answer"),
                detail => detail.to_owned(),
            },
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
pub fn stage_rank(stage: &str) -> u8 {
    match stage {
        "validate" | "before" => 0,
        "decide" => 1,
        "answer" => 2,
        "sanitize" | "label" => 4,
        "outcome" => 5,
        "undo" => 6,
        _ => 3,
    }
}

/// Joins the texts that are not empty.
pub fn join(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts
        .iter()
        .copied()
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(", ")
}

/// Describes the stages of a call. Its line is written at the end, so only the arrival has a time.
fn call_steps(
    entry: &AuditEntry,
    subject: Option<&str>,
    answered: Option<&AuditEntry>,
) -> Vec<Value> {
    let value = entry.value();
    let text = |name: &str| entry.text(name);
    let mut steps = vec![json!({
        "stage": "validate",
        "title": "Called",
        "text": join(&[
            &match text("parent").as_str() {
                "" => format!("`{}` was called", text("tool")),
                parent => format!("`{}` was called by `{parent}`", text("tool")),
            },
            subject.unwrap_or_default(),
        ]),
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
        let because = format!("{decision}{because}");
        push("decide", "Rules", join(&[&because, tainted_text(entry)]));
    }
    let answer = text("answer");
    // The line of the answer also says who gave it, and where.
    let is_told = answered.is_some_and(|line| line.text("answer") == answer);
    if !answer.is_empty() && !is_told {
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
    let outcome = entry.outcome().unwrap_or(OutcomeKind::Failed);
    let end = match (outcome, text("code")) {
        (OutcomeKind::Ok, _) => "succeeded".to_owned(),
        (outcome, code) if code.is_empty() => outcome.to_string(),
        (outcome, code) => format!("{outcome}: {code}"),
    };
    push(
        "outcome",
        "Result",
        join(&[&end, &text("detail"), &receipt(value)]),
    );
    steps
}

/// Says that untrusted content was a reason of the decision.
fn tainted_text(entry: &AuditEntry) -> &'static str {
    if entry.value()["tainted"] == true {
        "also because the session had read content of strangers"
    } else {
        ""
    }
}

/// Describes an answer, or the stored approval that was used, by its name in the log.
pub fn describe_answer(answer: &str) -> String {
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
