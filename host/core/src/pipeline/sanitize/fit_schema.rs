//! Makes a structured result match the tool's output schema again after it was masked or escaped. The result keeps as
//! much as possible, and is never returned as structured if it does not match:
//!
//! 1. A mark that does not fit (a `pattern`, an `enum`, a `maxLength`) is replaced by a shorter one or null, or the
//!    member is removed: whatever the schema accepts first.
//! 2. If the schema accepts none of them, the structured part is removed. All of it, masked, becomes a text part,
//!    after a sentence that explains it.

use serde_json::Value;

use crate::outcome::{Content, ToolOutput};
use crate::redact::MARK;
use crate::schema::Schema;

/// The sentence before a structured result that was moved to the text.
const MOVED: &str = "The structured result is given as text: made safe to show, it no longer matches the tool's output schema.";

/// Maximum number of marks that are replaced: each is tried against the whole schema.
const PLACES_MOST: usize = 32;

/// Maximum number of steps of all these trials: they block this thread.
const STEPS_MOST: u64 = 2_000_000;

/// The replacements for a mark, the most informative first.
const SHORTER: [&str; 3] = ["[REDACTED]", "***", ""];

/// Makes the masked result match the schema, or moves it to the text.
pub(in crate::pipeline) fn fit(output: &mut ToolOutput, schema: &Schema) {
    let Some(value) = &mut output.structured else {
        return;
    };
    let mut fitting = value.clone();
    if mend(&mut fitting, schema) {
        *value = fitting;
        return;
    }
    let text = format!("{MOVED}\n{value}");
    output.structured = None;
    output.content.push(Content::text(text));
}

/// Replaces every mark that does not match the schema; returns true if the whole value matches now.
fn mend(value: &mut Value, schema: &Schema) -> bool {
    let mut faults = schema.faults(value);
    let mut places = Vec::new();
    marked(value, &mut Vec::new(), &mut places);
    let tries = SHORTER.len() as u64 + 2;
    let affordable = STEPS_MOST / schema.steps(value).saturating_mul(tries).max(1);
    let most = PLACES_MOST.min(usize::try_from(affordable).unwrap_or(usize::MAX));
    // From the end, so that a removed element shifts no later path.
    for place in places.iter().rev().take(most) {
        if faults == 0 {
            break;
        }
        let with = SHORTER.iter().map(|text| Some(Value::from(*text)));
        for instead in with.chain([Some(Value::Null), None]) {
            let mut tried = value.clone();
            put(&mut tried, place, instead);
            let left = schema.faults(&tried);
            if left < faults {
                (*value, faults) = (tried, left);
                break;
            }
        }
    }
    faults == 0
}

/// One step of a path into a value.
#[derive(Debug, Clone)]
enum ValueStep {
    Member(String),
    Element(usize),
}

/// Collects the paths of the strings with a mark.
fn marked(value: &Value, path: &mut Vec<ValueStep>, found: &mut Vec<Vec<ValueStep>>) {
    let mut inner = |step, item: &Value| {
        path.push(step);
        marked(item, path, found);
        path.pop();
    };
    match value {
        Value::String(text) if text.contains(MARK) => found.push(path.clone()),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                inner(ValueStep::Element(at), item);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                inner(ValueStep::Member(key.clone()), item);
            }
        }
        _ => {}
    }
}

/// Replaces the value at `path`, or removes it.
fn put(value: &mut Value, path: &[ValueStep], with: Option<Value>) {
    match (path, with) {
        ([], Some(with)) => *value = with,
        ([], None) => {}
        ([ValueStep::Member(key)], None) => {
            // Keeps the order of the other members.
            value.as_object_mut().and_then(|map| map.shift_remove(key));
        }
        ([ValueStep::Element(at)], None) => {
            if let Some(items) = value.as_array_mut() {
                items.remove(*at);
            }
        }
        ([step, rest @ ..], with) => {
            let inner = match step {
                ValueStep::Member(key) => value.get_mut(key),
                ValueStep::Element(at) => value.get_mut(at),
            };
            if let Some(inner) = inner {
                put(inner, rest, with);
            }
        }
    }
}
