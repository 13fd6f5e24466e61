//! Open questions, and answers to them.

use std::sync::Arc;

use jiff::Timestamp;
use mimir_console::{ConsoleUser, QuestionAnswer, QuestionAnswerKind};
use mimir_core::approval::ApprovalAnswer;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::redact::Redactor;
use mimir_core::text::{prefix, visible};
use mimir_core::{PolicyLayer, Tool, ToolError, ToolErrorCode};
use serde_json::{Value, json};

use mimir::cluster::state_error;
use mimir::shared_questions::{GivenAnswer, QuestionStore, SharedQuestion};

use super::previews::PreviewCache;
use super::workspace::LoadedWorkspace;

/// Maximum length of a reason in characters.
const REASON_MAX: usize = 300;

/// Returns a question as the page shows it.
pub fn question_value(
    question: &SharedQuestion,
    tool: Option<&Tool>,
    preview: Option<Value>,
    redactor: &Redactor,
) -> Value {
    let card = &question.card;
    let arguments: Value = serde_json::from_str(&card.arguments).unwrap_or_default();
    let commands: Vec<Value> = card
        .facts
        .commands
        .iter()
        .map(|verdict| {
            json!({
                "text": verdict.command,
                "verdict": verdict.decision,
                "reason": verdict.why,
                "rule": verdict.rule,
            })
        })
        .collect();
    let mut commands = Value::Array(commands);
    let mut shown = json!(card);
    if let Some(map) = shown.as_object_mut() {
        map.remove("facts");
    }
    redactor.mask_value(&mut commands);
    redactor.mask_value(&mut shown);
    // Digests look like secrets, and the answer needs the fingerprint as it is.
    shown["fingerprint"] = json!(card.fingerprint);
    shown["digest"] = json!(card.digest);
    let mut hosts = Vec::new();
    collect_hosts(&arguments, &mut hosts);
    hosts.sort();
    hosts.dedup();
    let mut value = json!({
        "id": question.id,
        "askedAt": question.asked_at,
        "expiresAt": question.expires_at,
        "process": question.process,
        "workspace": question.workspace,
        "card": shown,
        "commands": commands,
        "hosts": hosts,
        "secrets": secrets(tool, &arguments),
        "labels": labels(question),
        "answers": answers(question),
    });
    if let Some(always) = card
        .always
        .as_ref()
        .filter(|always| !always.commands.is_empty())
    {
        value["patterns"] = json!(always.commands);
    }
    if !card.facts.session.is_empty() {
        value["session"] = json!(card.facts.session);
    }
    if let Some(client) = &card.facts.client {
        let mut client = client.clone();
        redactor.mask_text(&mut client);
        value["client"] = json!(client);
    }
    if !card.facts.call_id.is_empty() {
        value["callId"] = json!(card.facts.call_id);
    }
    if let Some(preview) = preview {
        value["preview"] = preview;
    }
    value
}

/// Returns the answers that the card offers.
fn answers(question: &SharedQuestion) -> Vec<&'static str> {
    let card = &question.card;
    let mut answers = vec!["once"];
    if card.offers_session() {
        answers.push("session");
    }
    if card.always.is_some() {
        answers.push("always");
    }
    if card.editable {
        answers.push("edit");
    }
    answers.push("no");
    answers
}

/// Returns what the session has read, and why that matters for this call.
fn labels(question: &SharedQuestion) -> Value {
    let facts = &question.card.facts;
    let is_known = !facts.call_id.is_empty();
    let reads = facts.untrusted.iter().map(|read| {
        let text = format!(
            "the session has read content of strangers, from {}",
            read.origin
        );
        match read.call_id.as_str() {
            "" => json!({ "text": text }),
            id => json!({ "text": text, "callId": id }),
        }
    });
    let sensitive = facts.sensitive.iter().map(
        |origin| json!({ "text": format!("the session has read sensitive data, from {origin}") }),
    );
    let taint = question.card.reasons.iter();
    let taint = taint.filter(|reason| reason.layer == PolicyLayer::Taint);
    let taint = taint.map(|reason| json!({ "text": reason.text }));
    let why: Vec<Value> = taint.chain(reads).chain(sensitive).collect();
    let level = |is_worst: bool, worst: &'static str, best: &'static str| match (is_known, is_worst)
    {
        (_, true) => worst,
        (true, false) => best,
        (false, false) => "unknown",
    };
    json!({
        "trust": level(!facts.untrusted.is_empty(), "untrusted", "system"),
        "dataClass": level(facts.sensitive.is_some(), "sensitive", "public"),
        "why": why,
    })
}

/// Collects the hosts of the URLs in a value.
fn collect_hosts(value: &Value, hosts: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            for word in text.split(|c: char| c.is_whitespace() || "\"'()<>`".contains(c)) {
                if hosts.len() < 50
                    && let Ok(target) = mimir_core::network::RequestTarget::parse(word)
                {
                    hosts.push(target.origin().to_string());
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_hosts(item, hosts)),
        Value::Object(map) => map.values().for_each(|item| collect_hosts(item, hosts)),
        _ => {}
    }
}

/// Returns the names of the secrets that the tool may use, or that the arguments name as `${NAME}`.
fn secrets(tool: Option<&Tool>, arguments: &Value) -> Vec<String> {
    let needs = tool.map(|tool| &tool.definition.needs.secrets);
    let mut names: Vec<String> = needs
        .into_iter()
        .flatten()
        .map(|need| need.name.clone())
        .collect();
    let text = arguments.to_string();
    let named = text.split("${").skip(1);
    let named = named.filter_map(|rest| Some(rest.split_once('}')?.0));
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.len() <= 64
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    names.extend(named.filter(is_name).take(20).map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// Returns the open questions.
pub async fn open_questions(
    store: &QuestionStore,
    workspace: &LoadedWorkspace,
    previews: &PreviewCache,
) -> Result<Value, ToolError> {
    let open = store.open_questions().await;
    let open = open.map_err(|error| state_error(&error))?;
    let redactor = workspace.redactor()?;
    let snapshot = workspace.snapshot();
    let questions: Vec<Value> = open
        .iter()
        .map(|question| {
            let tool = snapshot.registry.get(&question.card.tool);
            let preview = previews.get(&question.id).flatten();
            question_value(question, tool.map(Arc::as_ref), preview, &redactor)
        })
        .collect();
    Ok(json!({ "questions": questions }))
}

/// Answers a question. Returns the event for the audit log.
pub async fn answer_question(
    store: &QuestionStore,
    user: &ConsoleUser,
    id: &str,
    answer: QuestionAnswer,
) -> Result<AuditEvent, ToolError> {
    let question = store.find(id).await?;
    if question.id != id {
        return Err(ToolError::not_found(
            "the id of the question is not complete: expected the id from the list of questions",
        ));
    }
    if question.card.fingerprint.as_str() != answer.fingerprint {
        return Err(ToolError::unavailable(
            "the answer is for another call than the one that is asked about, so it does not count; look at the question again",
        ));
    }
    let reason = answer.reason.as_deref().map(str::trim);
    let reason = reason.filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| visible(prefix(reason, REASON_MAX)));
    let kind = answer.answer;
    let given = GivenAnswer {
        answer: given_answer(&answer)?,
        by: user.name.clone(),
        at: Timestamp::now(),
        reason: reason.clone(),
    };
    let name = given.answer.as_str();
    let patterns = match &given.answer {
        ApprovalAnswer::AlwaysCommands(patterns) => {
            format!(", for commands that match {}", patterns.join(", "))
        }
        _ => String::new(),
    };
    store.answer(id, given).await.map_err(|mut error| {
        // Another answer was faster.
        if error.code == ToolErrorCode::AlreadyExists {
            error.code = ToolErrorCode::Unavailable;
        }
        error
    })?;
    let because = reason.map_or(String::new(), |reason| format!(": {reason}"));
    let (tool, by) = (visible(&question.card.tool), visible(&user.name));
    let detail = match kind {
        QuestionAnswerKind::No => {
            format!("refused by {by} at the console{because} (question {id} about `{tool}`)")
        }
        _ => format!("question {id} about `{tool}` was answered by {by} at the console{patterns}"),
    };
    let mut event = AuditEvent::new(EventKind::Approval, std::time::SystemTime::now())
        .with_tool(&question.card.tool)
        .with_subject(question.card.fingerprint.as_str())
        .with_detail(&detail);
    // Part of the story of the call.
    event.id = question.card.facts.call_id.clone();
    event.session = question.card.facts.session.clone();
    event.answer = Some(name);
    Ok(event)
}

fn given_answer(answer: &QuestionAnswer) -> Result<ApprovalAnswer, ToolError> {
    let unexpected = |what: &str, kind: &str| {
        Err(ToolError::invalid_input(format!(
            "`{what}` is only for the answer `{kind}`: leave it out"
        )))
    };
    let kind = answer.answer;
    if answer.arguments.is_some() && kind != QuestionAnswerKind::Edit {
        return unexpected("arguments", "edit");
    }
    if answer.pattern.is_some() && kind != QuestionAnswerKind::Always {
        return unexpected("pattern", "always");
    }
    Ok(match kind {
        QuestionAnswerKind::Once => ApprovalAnswer::Once,
        QuestionAnswerKind::Session => ApprovalAnswer::Session,
        QuestionAnswerKind::Always => match &answer.pattern {
            Some(patterns) => ApprovalAnswer::AlwaysCommands(patterns.clone()),
            None => ApprovalAnswer::Always,
        },
        QuestionAnswerKind::No => ApprovalAnswer::No,
        QuestionAnswerKind::Edit => match &answer.arguments {
            Some(arguments) if arguments.is_object() => ApprovalAnswer::Edit(arguments.clone()),
            _ => {
                return Err(ToolError::invalid_input(
                    "`arguments` must be an object with the new arguments for the answer `edit`",
                ));
            }
        },
    })
}
