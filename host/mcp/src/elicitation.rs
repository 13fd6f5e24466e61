//! Approval cards as forms for the user of an MCP client, and the parsing of the user's answers.
#![expect(
    deprecated,
    reason = "the newest protocol has no sampling and roots requests, but clients of older versions support them"
)]

use std::collections::BTreeMap;

use mimir_core::upstream_request::UpstreamRequestKind;
use mimir_core::{ApprovalAnswer, Card, ToolSource};
use rmcp::model::{
    ClientCapabilities, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, EnumSchema, ListRootsResult, PrimitiveSchemaDefinition, StringSchema,
};
use serde_json::Value;

use crate::quoted_text::{QUOTED_WIDTH, quoted_lines};

mod pending_calls;

pub(crate) use pending_calls::{PendingCall, PendingCallKey, PendingCalls};

/// Names of the form's fields.
const ANSWER: &str = "answer";
const ARGUMENTS: &str = "arguments";

/// Maximum size of a form in bytes: a longer form is not readable in a client's window. The user approves all of the
/// arguments, so a card is never shortened.
const MAX_FORM_SIZE: usize = 64 << 10;

/// Returns true if a client supports forms. A client that declares elicitation without a mode does.
pub(crate) fn can_ask(capabilities: Option<&ClientCapabilities>) -> bool {
    capabilities
        .and_then(|capabilities| capabilities.elicitation.as_ref())
        .is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// Returns true if a client can ask its user to open a web page.
fn can_show_pages(capabilities: Option<&ClientCapabilities>) -> bool {
    let modes = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    modes.is_some_and(|modes| modes.url.is_some())
}

/// Returns the requests of servers that a client can answer.
pub(crate) fn supported_requests(
    capabilities: Option<&ClientCapabilities>,
) -> Vec<UpstreamRequestKind> {
    let Some(all) = capabilities else {
        return Vec::new();
    };
    let kinds = [
        (UpstreamRequestKind::Form, can_ask(capabilities)),
        (UpstreamRequestKind::Page, can_show_pages(capabilities)),
        (UpstreamRequestKind::Model, all.sampling.is_some()),
        (UpstreamRequestKind::Roots, all.roots.is_some()),
    ];
    let supported = kinds.into_iter().filter(|(_, is_supported)| *is_supported);
    supported.map(|(kind, _)| kind).collect()
}

/// Returns true if a value is an answer to a request of this kind.
pub(crate) fn is_answer(kind: UpstreamRequestKind, answer: &Value) -> bool {
    let answer = answer.clone();
    match kind {
        UpstreamRequestKind::Form | UpstreamRequestKind::Page => {
            serde_json::from_value::<ElicitResult>(answer).is_ok()
        }
        UpstreamRequestKind::Model => serde_json::from_value::<CreateMessageResult>(answer).is_ok(),
        UpstreamRequestKind::Roots => serde_json::from_value::<ListRootsResult>(answer).is_ok(),
    }
}

/// The scope of a user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerScope {
    /// The server has one user, whose answer may be permanent.
    Owner,
    /// The server has several users; an answer applies only to the user who gave it.
    SingleUser,
}

/// Returns the form for a card, or `None` if the form would be too long. `note` describes the fault in the previous
/// answer.
pub(crate) fn approval_form(
    card: &Card,
    scope: AnswerScope,
    note: Option<&str>,
) -> Option<ElicitRequestParams> {
    let message = form_message(card, note);
    (message.len() <= MAX_FORM_SIZE).then(|| ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: form_schema(card, scope),
    })
}

fn form_message(card: &Card, note: Option<&str>) -> String {
    let mut lines = Vec::new();
    if let Some(note) = note {
        lines.extend([note.to_owned(), String::new()]);
    }
    lines.push(format!("mimir: may `{}` run?", card.tool));
    if let Some(caller) = &card.caller {
        lines.push(format!(
            "It is called by `{caller}`, as part of that tool's own call."
        ));
    }
    lines.extend(quoted_lines(&card.summary));
    lines.push(String::new());
    let digest: String = card.digest.chars().take(12).collect();
    let badge = card.source.badge();
    lines.push(format!("source: {badge} sha256 {digest}…"));
    if card.source != ToolSource::BuiltIn {
        lines.extend(quoted_lines(&card.location));
    }
    lines.push(format!("risk: {}", card.risk.as_str()));
    lines.push("arguments:".to_owned());
    for line in card.readable_arguments(QUOTED_WIDTH) {
        lines.extend(quoted_lines(&line));
    }
    for section in card.sections() {
        lines.push(format!("{}:", section.title));
        for line in &section.lines {
            lines.extend(quoted_lines(line));
        }
    }
    lines.join("\n")
}

/// Returns the fields of the form. No answer is preselected: the user must choose one.
fn form_schema(card: &Card, scope: AnswerScope) -> ElicitationSchema {
    let mut answers = vec![("once", "once: yes, allow this call.")];
    if card.offers_session() {
        answers.push((
            "session",
            "session: yes, allow what \"always\" covers until this connection ends.",
        ));
    }
    if card.always.is_some() && scope == AnswerScope::Owner {
        answers.push((
            "always",
            "always: yes, allow what the card lists until that expires or is revoked.",
        ));
    }
    if card.editable {
        answers.push(("edit", "edit: allow it with the arguments below instead."));
    }
    answers.push(("no", "no: deny."));
    let descriptions: Vec<&str> = answers
        .iter()
        .map(|(_, description)| *description)
        .collect();
    let descriptions = descriptions.join(" ");
    let answers = answers.iter().map(|(answer, _)| (*answer).to_owned());
    let answers = answers.collect();
    let answer = EnumSchema::builder(answers)
        .title("Answer")
        .description(descriptions)
        .build();
    let arguments = StringSchema::new()
        .title("Arguments")
        .description("Only for edit: the arguments to use instead, as a JSON object.");
    let answer = PrimitiveSchemaDefinition::Enum(answer);
    let mut fields = BTreeMap::from([(ANSWER.to_owned(), answer)]);
    if card.editable {
        let arguments = PrimitiveSchemaDefinition::String(arguments);
        fields.insert(ARGUMENTS.to_owned(), arguments);
    }
    ElicitationSchema::new(fields).with_required(vec![ANSWER.to_owned()])
}

/// Parses the user's answer. The error describes the fault in the answer, for a second attempt.
pub(crate) fn parse_answer(
    card: &Card,
    scope: AnswerScope,
    result: &ElicitResult,
) -> Result<ApprovalAnswer, &'static str> {
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return Ok(ApprovalAnswer::No),
        // The form was closed, perhaps not by the user.
        _ => {
            return Ok(ApprovalAnswer::Unattended {
                remedy:
                    "The question was closed without an answer: repeat the call to be asked again."
                        .to_owned(),
            });
        }
    }
    let field = |name| {
        result
            .content
            .as_ref()
            .and_then(|content| content.get(name))
    };
    let edited = match field(ARGUMENTS)
        .filter(|_| card.editable)
        .and_then(Value::as_str)
        .map(str::trim)
    {
        None | Some("") => None,
        Some(text) => Some(serde_json::from_str::<Value>(text)),
    };
    let answer = field(ANSWER).and_then(Value::as_str).unwrap_or_default();
    let approval = match answer {
        "no" => return Ok(ApprovalAnswer::No),
        "edit" if card.editable => {
            return match edited {
                Some(Ok(value)) if value.is_object() => Ok(ApprovalAnswer::Edit(value)),
                Some(_) => Err("These arguments are not a JSON object."),
                None => Err("To edit, fill in the arguments."),
            };
        }
        "once" => ApprovalAnswer::Once,
        "session" if card.offers_session() => ApprovalAnswer::Session,
        "always" if card.always.is_some() && scope == AnswerScope::Owner => ApprovalAnswer::Always,
        _ => return Err("This is not one of the possible answers."),
    };
    // A yes with edited arguments approves the edited ones, which are checked as a new call.
    match edited {
        None => Ok(approval),
        Some(Ok(value)) if is_unchanged(&value, card) => Ok(approval),
        Some(Ok(value)) if value.is_object() => Ok(ApprovalAnswer::Edit(value)),
        Some(_) => Err("These arguments are not a JSON object."),
    }
}

fn is_unchanged(value: &Value, card: &Card) -> bool {
    serde_json::from_str::<Value>(&card.arguments).is_ok_and(|shown| shown == *value)
}

/// Returns a random token of 128 bits, or `None` if the system's random number generator fails.
pub fn random_token() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}
