//! The structure of a schema that determines the cost of validation: the subschemas, and the parts of a value that they
//! are applied to. It is built before the schema is compiled, and schemas that would take too long are rejected.
//!
//! With references, a schema of a few kilobytes can be arbitrarily large: a chain of 24 definitions, each with two
//! references to the next, unfolds to 16 million schemas. Validation cannot be interrupted, so it is estimated first.
//!
//! Out of scope: validation itself, which the library does.

use std::collections::HashMap;

use jsonschema::{Draft, Registry, uri};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::InvalidSchema;

mod order;

/// Maximum number of schemas applied to one value. The largest legitimate schemas have some hundred alternatives.
const SCHEMAS_PER_VALUE_MAX: u64 = 20_000;

/// Maximum nesting of schemas for one value, because the library recurses on a stack of 2 MiB.
const NESTING_MAX: u64 = 128;

/// Maximum number of steps of a backtracking pattern search. The library's default is a million for each text.
pub(super) const BACKTRACK_LIMIT: usize = 5_000;

/// The cost of searching a pattern that may backtrack.
const BACKTRACKING_COST: u64 = BACKTRACK_LIMIT as u64;

/// The base URI of a schema without an `$id`.
const BASE_URI: &str = "json-schema:///";

/// One subschema.
#[derive(Debug, Default)]
pub(super) struct Subschema {
    /// Steps for its own keywords.
    pub(super) own: u64,
    /// Number of its patterns.
    patterns: usize,
    /// Steps of its patterns per member name, or per chunk of a text.
    pub(super) search_cost: u64,
    /// True if one of its own keywords compares the whole value, such as `const`.
    pub(super) compares_whole: bool,
    /// True if it depends on the members or items that other subschemas have evaluated, which are evaluated again.
    pub(super) unevaluated: bool,
    /// Subschemas applied to the same value.
    pub(super) same: Vec<usize>,
    /// Subschemas applied to the member of this name.
    pub(super) by_name: HashMap<String, usize>,
    /// Subschemas applied to members with a matching name. `None` matches any name.
    pub(super) by_pattern: Vec<(Option<Regex>, usize)>,
    /// Subschemas applied to members that match neither `by_name` nor `by_pattern`.
    pub(super) others: Vec<usize>,
    /// Subschemas applied to the names of members.
    pub(super) member_names: Vec<usize>,
    /// Subschemas applied to the first items, one per item.
    pub(super) first_items: Vec<usize>,
    /// Subschemas applied to every item.
    pub(super) items: Vec<usize>,
    /// True if several subschemas apply it.
    pub(super) shared: bool,
    /// True if it is recursive. The library caches its results.
    pub(super) looping: bool,
}

impl Subschema {
    /// Returns the subschemas that are applied to parts of a value.
    fn inner(&self) -> impl Iterator<Item = usize> {
        let by_pattern = self.by_pattern.iter().map(|(_, part)| part);
        self.by_name
            .values()
            .chain(by_pattern)
            .chain(&self.others)
            .chain(&self.member_names)
            .chain(&self.first_items)
            .chain(&self.items)
            .copied()
    }

    /// Returns all subschemas that it applies.
    fn all(&self) -> impl Iterator<Item = usize> {
        self.same.iter().copied().chain(self.inner())
    }
}

/// The subschemas of a schema. The first one is the root.
#[derive(Debug)]
pub(super) struct SchemaShape {
    pub(super) parts: Vec<Subschema>,
    /// Upper bound of the steps for one nested value, unless a subschema is recursive.
    pub(super) unfolded: Option<u64>,
    /// The number of patterns.
    pub(super) patterns: usize,
    /// True if any subschema depends on the members or items that others have evaluated.
    pub(super) unevaluated: bool,
}

impl SchemaShape {
    /// Analyzes a schema. Rejects schemas whose validation would take too long.
    pub(super) fn analyze(schema: &Value) -> Result<Self, InvalidSchema> {
        let mut parts = collect_subschemas(schema)?;
        order::mark_loops(&mut parts);
        order::mark_shared(&mut parts);
        let (schemas, nesting) = order::same_value_bounds(&parts).ok_or_else(|| {
            InvalidSchema(
                "a reference leads back to itself without descending into a member or an item"
                    .into(),
            )
        })?;
        if nesting > NESTING_MAX {
            return Err(InvalidSchema(format!(
                "more than {NESTING_MAX} nested schemas apply to one value"
            )));
        }
        if schemas > SCHEMAS_PER_VALUE_MAX {
            return Err(InvalidSchema(format!(
                "the references unfold to more than {SCHEMAS_PER_VALUE_MAX} schemas for one value: refer to each definition from fewer places"
            )));
        }
        Ok(Self {
            unfolded: order::unfolded_cost(&parts),
            patterns: parts.iter().map(|part| part.patterns).sum(),
            unevaluated: parts.iter().any(|part| part.unevaluated),
            parts,
        })
    }
}

/// Collects every subschema once. Uses a work list instead of recursion, because chains of references can be long.
fn collect_subschemas(schema: &Value) -> Result<Vec<Subschema>, InvalidSchema> {
    let invalid = |error: &dyn std::fmt::Display| {
        InvalidSchema(crate::text::prefix(&error.to_string(), super::QUOTED_MAX).to_owned())
    };
    let draft = Draft::Draft202012;
    let base = uri::from_str(BASE_URI).map_err(|e| invalid(&e))?;
    let registry = Registry::new()
        .draft(draft)
        .add(BASE_URI, schema)
        .and_then(jsonschema::RegistryBuilder::prepare)
        .map_err(|e| invalid(&e))?;
    let anchors = dynamic_anchors(schema);
    let mut parts = vec![Subschema::default()];
    let mut indexes = HashMap::from([(std::ptr::from_ref(schema), 0)]);
    let mut work = vec![(0, schema, registry.resolver(base))];
    while let Some((at, schema, outer)) = work.pop() {
        let resolver = outer
            .in_subresource(draft.create_resource_ref(schema))
            .map_err(|e| invalid(&e))?;
        let mut part = Subschema {
            own: 1,
            ..Subschema::default()
        };
        let Some(keywords) = schema.as_object() else {
            parts[at] = part;
            continue;
        };
        let mut index_of = |schema, resolver| {
            *indexes
                .entry(std::ptr::from_ref::<Value>(schema))
                .or_insert_with(|| {
                    parts.push(Subschema::default());
                    work.push((parts.len() - 1, schema, resolver));
                    parts.len() - 1
                })
        };
        for (keyword, value) in keywords {
            let mut sub = |schema| index_of(schema, resolver.clone());
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    // The library ignores an empty reference and one to the enclosing schema.
                    if reference.is_empty() {
                        continue;
                    }
                    let target = resolver.lookup(reference).map_err(|e| invalid(&e))?;
                    let (contents, inside, _) = target.into_inner();
                    if !std::ptr::eq(contents, schema) {
                        part.same.push(index_of(contents, inside));
                    }
                    let name = reference.rsplit_once('#').map_or("", |(_, name)| name);
                    if keyword == "$dynamicRef" {
                        // The target depends on the dynamic scope, so all candidates are counted.
                        for target in anchors.get(name).into_iter().flatten() {
                            if !std::ptr::eq(*target, contents) {
                                part.same.push(index_of(target, resolver.clone()));
                            }
                        }
                    }
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    part.same.extend(list.iter().map(sub));
                }
                ("not" | "if" | "then" | "else", value) => part.same.push(sub(value)),
                ("dependentSchemas" | "dependencies", Value::Object(map)) => {
                    let schemas = map.values().filter(|value| !value.is_array());
                    part.same.extend(schemas.map(sub));
                }
                ("properties", Value::Object(map)) => {
                    part.by_name = map.iter().map(|(name, v)| (name.clone(), sub(v))).collect();
                }
                ("patternProperties", Value::Object(map)) => {
                    for (pattern, value) in map {
                        part.search_cost += pattern_cost(pattern);
                        part.patterns += 1;
                        part.by_pattern.push((compile_small(pattern), sub(value)));
                    }
                }
                ("additionalProperties", value) => part.others.push(sub(value)),
                ("unevaluatedProperties", value) => {
                    part.unevaluated = true;
                    part.others.push(sub(value));
                }
                ("propertyNames", value) => part.member_names.push(sub(value)),
                ("prefixItems" | "items", Value::Array(list)) => {
                    part.first_items = list.iter().map(sub).collect();
                }
                ("items" | "additionalItems" | "contains", value) => part.items.push(sub(value)),
                ("unevaluatedItems", value) => {
                    part.unevaluated = true;
                    part.items.push(sub(value));
                }
                ("pattern", Value::String(pattern)) => {
                    part.search_cost += pattern_cost(pattern);
                    part.patterns += 1;
                }
                ("enum", Value::Array(values)) => {
                    // Each value is compared until it differs.
                    part.own += values.iter().map(super::cost::size).sum::<u64>();
                    part.compares_whole = true;
                }
                ("const", _) | ("uniqueItems", Value::Bool(true)) => part.compares_whole = true,
                ("required", Value::Array(names)) => part.own += names.len() as u64,
                _ => part.own += 1,
            }
        }
        parts[at] = part;
    }
    Ok(parts)
}

/// Compiles a pattern that is cheap to match. `None` for other patterns, which are assumed to match every name.
fn compile_small(pattern: &str) -> Option<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(super::PATTERN_MIN).build().ok()
}

/// Returns the cost of searching a pattern. Most searches take linear time, but some backtrack.
fn pattern_cost(pattern: &str) -> u64 {
    if regex_syntax::parse(pattern).is_ok() {
        2
    } else {
        BACKTRACKING_COST
    }
}

/// Returns the possible targets of `$dynamicRef`, by name.
fn dynamic_anchors(schema: &Value) -> HashMap<&str, Vec<&Value>> {
    let mut anchors: HashMap<&str, Vec<&Value>> = HashMap::new();
    let mut work = vec![schema];
    while let Some(value) = work.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(name)) = map.get("$dynamicAnchor") {
                    anchors.entry(name).or_default().push(value);
                }
                work.extend(map.values());
            }
            Value::Array(items) => work.extend(items),
            _ => {}
        }
    }
    anchors
}
