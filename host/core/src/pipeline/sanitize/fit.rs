//! A result whose structured part was masked or written out, and still has to be what the tool's output schema promises. Nothing
//! good is lost to the mask, and nothing that breaks the promise goes out as structured:
//!
//! 1. Where a mark does not fit (a `pattern`, an `enum`, a `maxLength`), a shorter one takes its place, or null, or
//!    the member is left out: whatever the schema takes first.
//! 2. Where it takes none of them, there is no structured part. All of it, masked, is a text part instead, behind
//!    a sentence that says so.

use serde_json::Value;

use crate::outcome::{Content, Output};
use crate::redact::MARK;
use crate::schema::Schema;

/// What stands before a structured result that is text now.
const MOVED: &str = "The structured result is given as text: made safe to show, it no longer matches the tool's output schema.";

/// Marks that do not fit are replaced in so many places at most: each is tried against the whole schema.
const PLACES_MOST: usize = 32;

/// Steps that all these trials may take together: nothing else runs on this thread meanwhile.
const STEPS_MOST: u64 = 2_000_000;

/// What may stand in the place of a mark, the most telling first.
const SHORTER: [&str; 3] = ["[REDACTED]", "***", ""];

/// Makes the masked result fit the schema, or moves it into the text.
pub(in crate::pipeline) fn fit(output: &mut Output, schema: &Schema) {
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

/// Puts something that fits in the place of every mark that does not; says whether all of it fits now.
fn mend(value: &mut Value, schema: &Schema) -> bool {
    let mut faults = schema.faults(value);
    let mut places = Vec::new();
    marked(value, &mut Vec::new(), &mut places);
    let tries = SHORTER.len() as u64 + 2;
    let affordable = STEPS_MOST / schema.steps(value).saturating_mul(tries).max(1);
    let most = PLACES_MOST.min(usize::try_from(affordable).unwrap_or(usize::MAX));
    // From the end: what is left out moves nothing that is looked at later.
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

/// One step into a value.
#[derive(Debug, Clone)]
enum Step {
    Member(String),
    Element(usize),
}

/// Where the strings with a mark in them are.
fn marked(value: &Value, path: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    let mut inner = |step, item: &Value| {
        path.push(step);
        marked(item, path, found);
        path.pop();
    };
    match value {
        Value::String(text) if text.contains(MARK) => found.push(path.clone()),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                inner(Step::Element(at), item);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                inner(Step::Member(key.clone()), item);
            }
        }
        _ => {}
    }
}

/// Replaces the value at `path`, or takes it out.
fn put(value: &mut Value, path: &[Step], with: Option<Value>) {
    match (path, with) {
        ([], Some(with)) => *value = with,
        ([], None) => {}
        ([Step::Member(key)], None) => {
            // The others stay in their order.
            value.as_object_mut().and_then(|map| map.shift_remove(key));
        }
        ([Step::Element(at)], None) => {
            if let Some(items) = value.as_array_mut() {
                items.remove(*at);
            }
        }
        ([step, rest @ ..], with) => {
            let inner = match step {
                Step::Member(key) => value.get_mut(key),
                Step::Element(at) => value.get_mut(at),
            };
            if let Some(inner) = inner {
                put(inner, rest, with);
            }
        }
    }
}
