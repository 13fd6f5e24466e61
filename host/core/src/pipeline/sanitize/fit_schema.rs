//! Makes a structured result match the tool's output schema again after it was masked or escaped. As much as possible
//! is kept, but a result that does not match is never returned as structured:
//!
//! 1. A mark that the schema does not accept (because of a `pattern`, an `enum`, a `maxLength`) is replaced by a
//!    shorter mark or null, or removed. The first change that the schema accepts is used.
//! 2. If the schema accepts none of these changes, the masked structured part is moved to a text part, after a sentence
//!    that explains this.

use serde_json::Value;

use crate::outcome::{Content, ToolOutput};
use crate::redact::MARK;
use crate::schema::Schema;

/// The sentence before a structured result that was moved to the text.
const MOVED: &str = "The structured result is given as text, because after masking or escaping it no longer matches the tool's output schema.";

/// Maximum number of marks to replace. Each replacement is checked against the whole schema.
const MARKS_MAX: usize = 32;

/// Maximum number of validation steps for all replacements, because they block the thread.
const STEPS_MAX: u64 = 2_000_000;

/// The replacements for a mark, the most informative first.
const SHORTER: [&str; 3] = ["[REDACTED]", "***", ""];

/// Makes the masked result match the schema, or moves it to the text.
pub(in crate::pipeline) fn fit_to_schema(output: &mut ToolOutput, schema: &Schema) {
    let Some(value) = &mut output.structured else {
        return;
    };
    let mut fitting = value.clone();
    if replace_marks(&mut fitting, schema) {
        *value = fitting;
        return;
    }
    let text = format!("{MOVED}\n{value}");
    output.structured = None;
    output.content.push(Content::text(text));
}

/// Replaces marks that do not match the schema. Returns true if the whole value then matches.
fn replace_marks(value: &mut Value, schema: &Schema) -> bool {
    let mut faults = schema.count_failures(value);
    let mut paths = Vec::new();
    collect_marked_paths(value, &mut Vec::new(), &mut paths);
    let tries = SHORTER.len() as u64 + 2;
    let affordable = STEPS_MAX / schema.steps(value).saturating_mul(tries).max(1);
    let max = MARKS_MAX.min(usize::try_from(affordable).unwrap_or(usize::MAX));
    // From the end, so that removing an element does not shift the remaining paths.
    for path in paths.iter().rev().take(max) {
        if faults == 0 {
            break;
        }
        let texts = SHORTER.iter().map(|text| Some(Value::from(*text)));
        for replacement in texts.chain([Some(Value::Null), None]) {
            let mut candidate = value.clone();
            replace_at(&mut candidate, path, replacement);
            let left = schema.count_failures(&candidate);
            if left < faults {
                (*value, faults) = (candidate, left);
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

/// Collects the paths of all strings with a mark.
fn collect_marked_paths(value: &Value, path: &mut Vec<ValueStep>, paths: &mut Vec<Vec<ValueStep>>) {
    let mut inner = |step, item: &Value| {
        path.push(step);
        collect_marked_paths(item, path, paths);
        path.pop();
    };
    match value {
        Value::String(text) if text.contains(MARK) => paths.push(path.clone()),
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

/// Replaces the value at `path`, or removes it if `with` is `None`.
fn replace_at(value: &mut Value, path: &[ValueStep], with: Option<Value>) {
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
                replace_at(inner, rest, with);
            }
        }
    }
}
