//! A card as a form that a client shows its person, and what the person's answer means.
#![expect(
    deprecated,
    reason = "the newest protocol has no sampling and roots by requests; clients of the older ones still do"
)]

use std::collections::BTreeMap;

use mimir_core::wish::Want;
use mimir_core::{Answer, Card, Source};
use rmcp::model::{
    ClientCapabilities, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, EnumSchema, ListRootsResult, PrimitiveSchemaDefinition, StringSchema,
};
use serde_json::Value;

mod parked;

pub(crate) use parked::{Key, Parked, Parking};

/// The fields of the form.
const ANSWER: &str = "answer";
const ARGUMENTS: &str = "arguments";

/// The longest form, in bytes. A person says yes to all of the arguments, so a card is shown whole or not at all; a
/// client's window is no place to read more than this.
const FORM_MAX: usize = 64 << 10;

/// What stands before every line that a tool had a hand in, so that none can pass for mimir's own words.
const GUTTER: &str = "  │ ";

/// Whether a client shows forms to its person. One that names neither mode means forms.
pub(crate) fn can_ask(capabilities: Option<&ClientCapabilities>) -> bool {
    capabilities
        .and_then(|capabilities| capabilities.elicitation.as_ref())
        .is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// What a client has for servers behind its tools.
pub(crate) fn has(capabilities: Option<&ClientCapabilities>) -> Vec<Want> {
    let Some(all) = capabilities else {
        return Vec::new();
    };
    let each = [
        (Want::Form, can_ask(capabilities)),
        (Want::Model, all.sampling.is_some()),
        (Want::Roots, all.roots.is_some()),
    ];
    let has = each.into_iter().filter(|(_, has)| *has);
    has.map(|(want, _)| want).collect()
}

/// Whether this answers a wish of this kind.
pub(crate) fn is_answer(want: Want, answer: &Value) -> bool {
    let answer = answer.clone();
    match want {
        Want::Form => serde_json::from_value::<ElicitResult>(answer).is_ok(),
        Want::Model => serde_json::from_value::<CreateMessageResult>(answer).is_ok(),
        Want::Roots => serde_json::from_value::<ListRootsResult>(answer).is_ok(),
    }
}

/// Whose answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// That of the person whose mimir this is, who says what holds for good.
    Own,
    /// That of one of many people, who speaks for nobody else.
    OneOfMany,
}

/// The form for a card; nothing if it is too long to be read there. `note` says what was wrong with the answer before.
pub(crate) fn form(card: &Card, whose: Whose, note: Option<&str>) -> Option<ElicitRequestParams> {
    let message = message(card, note);
    (message.len() <= FORM_MAX).then(|| ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema(card, whose),
    })
}

fn message(card: &Card, note: Option<&str>) -> String {
    let mut lines = Vec::new();
    if let Some(note) = note {
        lines.extend([note.to_owned(), String::new()]);
    }
    lines.push(format!("mimir: may `{}` run?", card.tool));
    if let Some(caller) = &card.caller {
        lines.push(format!(
            "It is called by `{caller}`, in the middle of its own call."
        ));
    }
    quote(&card.summary, &mut lines);
    lines.push(String::new());
    let digest: String = card.digest.chars().take(12).collect();
    let badge = card.source.badge();
    lines.push(format!("source: {badge} sha256 {digest}…"));
    if card.source != Source::BuiltIn {
        quote(&card.location, &mut lines);
    }
    lines.push(format!("risk: {}", card.risk.as_str()));
    lines.push("arguments:".to_owned());
    quote(&card.arguments, &mut lines);
    for fact in card.facts() {
        lines.push(format!("{}:", fact.title));
        fact.lines.iter().for_each(|line| quote(line, &mut lines));
    }
    lines.join("\n")
}

fn quote(text: &str, to: &mut Vec<String>) {
    to.extend(text.lines().map(|line| format!("{GUTTER}{line}")));
}

/// The form's fields. Nothing is filled in: an answer that nobody chose is none.
fn schema(card: &Card, whose: Whose) -> ElicitationSchema {
    let mut answers = vec![("once", "once: yes, to this call.")];
    if card.always.is_some() {
        answers.push((
            "session",
            "session: yes, until this connection ends, to what \"always\" covers.",
        ));
    }
    if card.always.is_some() && whose == Whose::Own {
        answers.push(("always", "always: yes, until it is revoked."));
    }
    if card.editable {
        answers.push(("edit", "edit: with the arguments below instead."));
    }
    answers.push(("no", "no."));
    let words: Vec<&str> = answers.iter().map(|(_, words)| *words).collect();
    let words = words.join(" ");
    let answers = answers.iter().map(|(answer, _)| (*answer).to_owned());
    let answers = answers.collect();
    let answer = EnumSchema::builder(answers)
        .title("Answer")
        .description(words)
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

/// What an answer means: an answer, or what is wrong with it, so that the person is asked again.
pub(crate) fn read(
    card: &Card,
    whose: Whose,
    result: &ElicitResult,
) -> Result<Answer, &'static str> {
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return Ok(Answer::No),
        // It was closed, perhaps by a program.
        _ => {
            return Ok(Answer::Nobody {
                way_out: "The question was closed without an answer; call again to be asked again."
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
    let yes = match answer {
        "no" => return Ok(Answer::No),
        "edit" if card.editable => {
            return match edited {
                Some(Ok(value)) if value.is_object() => Ok(Answer::Edit(value)),
                Some(_) => Err("These arguments are no JSON object."),
                None => Err("To edit, fill in the arguments."),
            };
        }
        "once" => Answer::Once,
        "session" if card.always.is_some() => Answer::Session,
        "always" if card.always.is_some() && whose == Whose::Own => Answer::Always,
        _ => return Err("That is none of the answers."),
    };
    // Whoever writes other arguments and says yes means those: they are judged, and asked about, as such.
    match edited {
        None => Ok(yes),
        Some(Ok(value)) if is_as_shown(&value, card) => Ok(yes),
        Some(Ok(value)) if value.is_object() => Ok(Answer::Edit(value)),
        Some(_) => Err("These arguments are no JSON object."),
    }
}

fn is_as_shown(value: &Value, card: &Card) -> bool {
    serde_json::from_str::<Value>(&card.arguments).is_ok_and(|shown| shown == *value)
}

/// A word that nobody guesses: 128 random bits. None if the system has no randomness to give.
pub fn token() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}
