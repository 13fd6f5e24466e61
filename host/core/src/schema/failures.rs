//! Messages for failed validations, which explain the most likely intended alternative and list the valid values.

use std::cmp::Reverse;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{ToolError, ToolErrorCode};
use crate::name_suggestions::{did_you_mean, list_known, nearest};
use crate::text;

use super::QUOTED_MAX;

/// Maximum number of failures per message. The first ones usually show the cause.
const FAILURES_MAX: usize = 20;

/// Maximum length of a list of valid values in characters, enough to show most lists in full.
const CHOICES_QUOTED_MAX: usize = 2_000;

/// A position at which a value does not match the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SchemaFailure {
    path: String,
    message: String,
}

/// Creates an error that lists the positions at which `what` does not match `schema`.
pub(super) fn mismatch_error<'i>(
    what: &str,
    errors: impl Iterator<Item = ValidationError<'i>>,
    schema: &Value,
) -> ToolError {
    let mut failures = Vec::new();
    let mut more = 0_usize;
    for error in errors {
        if failures.len() < FAILURES_MAX {
            explain(&error, schema, &mut failures);
        } else {
            more += 1;
        }
    }
    more += failures.len().saturating_sub(FAILURES_MAX);
    failures.truncate(FAILURES_MAX);
    if more > 0 {
        failures.push(SchemaFailure {
            path: String::new(),
            message: format!("and {more} more"),
        });
    }
    let lines = failures.iter().enumerate().map(|(at, failure)| {
        let is_count = more > 0 && at + 1 == failures.len();
        match failure.path.as_str() {
            "" if is_count => failure.message.clone(),
            "" => format!("{what}: {}", failure.message),
            path => format!("{path}: {}", failure.message),
        }
    });
    let lines: Vec<String> = lines.collect();
    let message = format!("{what} must match the schema: {}", lines.join("; "));
    ToolError::new(ToolErrorCode::InvalidInput, message)
        .with_details(json!({ "failures": failures }))
}

/// Adds the failures that an error stands for: those of the alternative that was most likely intended, or the error
/// itself.
fn explain(error: &ValidationError<'_>, schema: &Value, failures: &mut Vec<SchemaFailure>) {
    let mut report = |message: String| {
        failures.push(SchemaFailure {
            path: text::prefix(error.instance_path().as_str(), QUOTED_MAX).to_owned(),
            message,
        });
    };
    let instance = || text::prefix(&error.instance().to_string(), QUOTED_MAX).to_owned();
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            // If only one value is wrong, the valid values of all alternatives are listed.
            if let Some((path, values)) = valid_choices(context) {
                failures.push(SchemaFailure {
                    path: text::prefix(path, QUOTED_MAX).to_owned(),
                    message: choice_message(&values),
                });
                return;
            }
            let here = error.instance_path().as_str();
            match intended_branch(here, context) {
                Some(branch) => branch
                    .iter()
                    .for_each(|error| explain(error, schema, failures)),
                None => match allowed_types(here, context).as_slice() {
                    [] => report(format!("{} does not match any alternative", instance())),
                    types => report(format!(
                        "{} is not of type {}",
                        instance(),
                        types.join(" or ")
                    )),
                },
            }
        }
        Kind::OneOfMultipleValid { .. } => {
            report(format!(
                "{} matches more than one alternative, but must match exactly one",
                instance()
            ));
        }
        Kind::Enum { options } => {
            let values = options.as_array().map_or(&[][..], Vec::as_slice);
            report(choice_message(&values.iter().collect::<Vec<_>>()));
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_properties(error, schema);
            let list = known.and_then(|known| list_known(known.keys().map(String::as_str)));
            let mut list = match (known, list) {
                (_, Some(list)) => format!(" Known: {list}"),
                (Some(_), None) => " No names are allowed here".to_owned(),
                (None, None) => String::new(),
            };
            for name in unexpected.iter().take(FAILURES_MAX) {
                let names = known.into_iter().flatten().map(|(name, _)| name.as_str());
                let near = did_you_mean(name, names);
                let shown = text::visible(text::prefix(name, QUOTED_MAX));
                // The list is the same for all of them.
                let list = std::mem::take(&mut list);
                report(format!("`{shown}` is unknown.{near}{list}"));
            }
            let rest = unexpected.len().saturating_sub(FAILURES_MAX);
            if rest > 0 {
                report(format!("{rest} more names are unknown"));
            }
        }
        Kind::Required { property } => {
            let mut message = text::prefix(&error.to_string(), QUOTED_MAX).to_owned();
            if let Some(typo) = property
                .as_str()
                .and_then(|name| misspelt(error, schema, name))
            {
                let typo = text::prefix(&text::visible(typo), QUOTED_MAX).to_owned();
                message.push_str(&format!("; `{typo}` is unknown: did you mean {property}?"));
            }
            report(message);
        }
        _ => report(text::prefix(&error.to_string(), QUOTED_MAX).to_owned()),
    }
}

/// Returns the properties that the schema of an object names, beside the keyword that the object violates.
fn known_properties<'s>(
    error: &ValidationError<'_>,
    schema: &'s Value,
) -> Option<&'s Map<String, Value>> {
    let (object, _) = error.schema_path().as_str().rsplit_once('/')?;
    schema.pointer(object)?.get("properties")?.as_object()
}

/// Returns the unknown property that is most similar to a missing one. Where unknown properties are allowed, nothing
/// else reports it.
fn misspelt<'e>(error: &'e ValidationError<'_>, schema: &Value, missing: &str) -> Option<&'e str> {
    let known = known_properties(error, schema)?;
    let given = error.instance().as_object()?.keys();
    let unknown = given.filter(|name| !known.contains_key(name.as_str()));
    // A name that is nearer to another known property is a misspelling of that one.
    let near = nearest(missing, unknown.map(String::as_str));
    near.into_iter().find(|name| {
        let names = nearest(name, known.keys().map(String::as_str));
        names.first() == Some(&missing)
    })
}

/// Returns the valid values of one position, if the fixed values of all alternatives fail only at that position.
fn valid_choices<'e>(
    context: &'e [Vec<ValidationError<'static>>],
) -> Option<(&'e str, Vec<&'e Value>)> {
    let mut position = None;
    let mut values = Vec::new();
    for branch in context {
        let mut has_choice = false;
        for error in branch {
            let path = error.instance_path().as_str();
            let valid: &[Value] = match error.kind() {
                Kind::Constant { expected_value } => std::slice::from_ref(&**expected_value),
                Kind::Enum { options } => options.as_array()?,
                // With a wrong tag, other failures are to be expected.
                _ => continue,
            };
            if position.is_some_and(|position| position != path) {
                return None;
            }
            position = Some(path);
            has_choice = true;
            values.extend(valid);
        }
        if !has_choice {
            return None;
        }
    }
    position.map(|position| (position, values))
}

fn choice_message(values: &[&Value]) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for value in values {
        let value = value.to_string();
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    let list = distinct.join(", ");
    let shown = text::prefix(&list, CHOICES_QUOTED_MAX);
    let more = if shown.len() < list.len() { "…" } else { "" };
    match distinct.len() {
        1 => format!("must be {shown}{more}"),
        _ => format!("must be one of {shown}{more}"),
    }
}

/// Returns the types that the alternatives allow at this position.
fn allowed_types(here: &str, context: &[Vec<ValidationError<'static>>]) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for error in context.iter().flatten() {
        if error.instance_path().as_str() != here {
            continue;
        }
        let Kind::Type { kind } = error.kind() else {
            continue;
        };
        let named: Vec<String> = match kind {
            TypeKind::Single(kind) => vec![kind.to_string()],
            TypeKind::Multiple(kinds) => kinds.iter().map(|kind| kind.to_string()).collect(),
        };
        types.extend(named);
    }
    types.dedup();
    types
}

/// Returns the most likely intended alternative: the right type counts most, then matching fixed values, then the
/// number of failures. `None` if all of several alternatives have the wrong type.
fn intended_branch<'e>(
    here: &str,
    context: &'e [Vec<ValidationError<'static>>],
) -> Option<&'e Vec<ValidationError<'static>>> {
    // The depth of the first wrong fixed value. The deeper it is, the further the alternative matches.
    let tag_depth = |branch: &[ValidationError<'static>]| {
        let tags = branch
            .iter()
            .filter(|error| matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. }));
        let depth =
            |error: &ValidationError<'_>| error.instance_path().as_str().matches('/').count();
        tags.map(depth).min().unwrap_or(usize::MAX)
    };
    let rejects_type = |error: &&ValidationError<'static>| {
        error.instance_path().as_str() == here
            && matches!(error.kind(), Kind::Type { .. } | Kind::FalseSchema)
    };
    let rank = |branch: &Vec<ValidationError<'static>>| {
        let type_failures = branch.iter().filter(rejects_type).count();
        (type_failures, Reverse(tag_depth(branch)), branch.len())
    };
    let best = context.iter().min_by_key(|branch| rank(branch))?;
    // Several alternatives of the wrong type are equally unlikely.
    let (type_failures, ..) = rank(best);
    (type_failures == 0 || context.len() == 1).then_some(best)
}
