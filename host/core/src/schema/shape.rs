//! What of a schema decides how long a check takes: which part is applied to which part of a value. Built once, before
//! the schema is compiled, and refused where no value at all could be checked in time.
//!
//! References make a schema of a few kilobytes as large as one likes: a chain of 24 definitions, each with two
//! references to the next, is 16 million schemas. Nothing that checks can be stopped, so it is counted beforehand.
//!
//! Never here: saying whether a value matches. That is the library's.

use std::collections::HashMap;

use jsonschema::{Draft, Registry, uri};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::BadSchema;

mod order;

/// Schemas that may be applied to one and the same value. The largest honest ones have some hundred alternatives.
const WIDEST: u64 = 20_000;

/// How deep schemas may be inside each other on one and the same value: the library recurses, on a stack of 2 MiB.
const DEEPEST: u64 = 128;

/// The longest search of a pattern that looks back and forth, in steps. The library would take a million, for every
/// text.
pub(super) const BACKTRACK: usize = 5_000;

/// What such a search counts as.
const SEARCH: u64 = BACKTRACK as u64;

/// Where a schema without an `$id` is.
const HERE: &str = "json-schema:///";

/// One schema, at the place where it is written.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Steps for its own keywords.
    pub(super) own: u64,
    /// How many patterns it has.
    patterns: usize,
    /// Steps for each member's name, or for a text, by its length.
    pub(super) search: u64,
    /// Whether a keyword of its own looks at all of a value, as `const` does.
    pub(super) whole: bool,
    /// Whether it asks which members or items others have looked at. They are checked once more for that.
    pub(super) unevaluated: bool,
    /// Applied to the same value.
    pub(super) same: Vec<usize>,
    /// Applied to the member of this name.
    pub(super) named: HashMap<String, usize>,
    /// Applied to the members whose names match; without a pattern, to any.
    pub(super) matched: Vec<(Option<Regex>, usize)>,
    /// Applied to the members that none of the two above take.
    pub(super) others: Vec<usize>,
    /// Applied to the names of members.
    pub(super) names: Vec<usize>,
    /// Applied to the first items, each to one.
    pub(super) first: Vec<usize>,
    /// Applied to every item.
    pub(super) items: Vec<usize>,
    /// More than one part applies it.
    pub(super) shared: bool,
    /// A chain of references leads back to it: the library keeps what it has found out about it.
    pub(super) looping: bool,
}

impl Part {
    /// The parts that are applied to what is inside of a value.
    fn inner(&self) -> impl Iterator<Item = usize> {
        let matched = self.matched.iter().map(|(_, part)| part);
        self.named
            .values()
            .chain(matched)
            .chain(&self.others)
            .chain(&self.names)
            .chain(&self.first)
            .chain(&self.items)
            .copied()
    }

    /// All parts that it applies.
    fn all(&self) -> impl Iterator<Item = usize> {
        self.same.iter().copied().chain(self.inner())
    }
}

/// The parts of a schema; the first one is the whole.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) parts: Vec<Part>,
    /// Steps for one value inside of another, at most, where no part loops.
    pub(super) unfolded: Option<u64>,
    /// How many patterns it has.
    pub(super) patterns: usize,
    /// Whether any part asks what others have looked at.
    pub(super) unevaluated: bool,
}

impl Shape {
    /// Takes a schema apart, and refuses one that no value could be checked against.
    pub(super) fn of(schema: &Value) -> Result<Self, BadSchema> {
        let mut parts = take_apart(schema)?;
        order::mark_loops(&mut parts);
        order::mark_shared(&mut parts);
        let (widest, deepest) = order::same_value(&parts).ok_or_else(|| {
            BadSchema(
                "a reference leads back to itself without going into a member or an item".into(),
            )
        })?;
        if deepest > DEEPEST {
            return Err(BadSchema(format!(
                "its schemas are more than {DEEPEST} deep inside each other for one value"
            )));
        }
        if widest > WIDEST {
            return Err(BadSchema(format!(
                "its references unfold to more than {WIDEST} schemas for one value; refer to each definition from fewer places"
            )));
        }
        Ok(Self {
            unfolded: order::unfolded(&parts),
            patterns: parts.iter().map(|part| part.patterns).sum(),
            unevaluated: parts.iter().any(|part| part.unevaluated),
            parts,
        })
    }
}

/// Finds every schema that is applied somewhere, each once, with a list of work and no recursion: a chain of
/// references may be as long as the text.
fn take_apart(schema: &Value) -> Result<Vec<Part>, BadSchema> {
    let bad = |error: &dyn std::fmt::Display| {
        BadSchema(crate::text::prefix(&error.to_string(), super::SHOWN).to_owned())
    };
    let draft = Draft::Draft202012;
    let base = uri::from_str(HERE).map_err(|e| bad(&e))?;
    let registry = Registry::new()
        .draft(draft)
        .add(HERE, schema)
        .and_then(jsonschema::RegistryBuilder::prepare)
        .map_err(|e| bad(&e))?;
    let anchors = dynamic_anchors(schema);
    let mut parts = vec![Part::default()];
    let mut known = HashMap::from([(std::ptr::from_ref(schema), 0)]);
    let mut work = vec![(0, schema, registry.resolver(base))];
    while let Some((at, schema, outer)) = work.pop() {
        let resolver = outer
            .in_subresource(draft.create_resource_ref(schema))
            .map_err(|e| bad(&e))?;
        let mut part = Part {
            own: 1,
            ..Part::default()
        };
        let Some(keywords) = schema.as_object() else {
            parts[at] = part;
            continue;
        };
        let mut find = |schema, resolver| {
            *known
                .entry(std::ptr::from_ref::<Value>(schema))
                .or_insert_with(|| {
                    parts.push(Part::default());
                    work.push((parts.len() - 1, schema, resolver));
                    parts.len() - 1
                })
        };
        for (keyword, value) in keywords {
            let mut sub = |schema| find(schema, resolver.clone());
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    // The library takes an empty one for nothing, as it does one to the schema that it is in.
                    if reference.is_empty() {
                        continue;
                    }
                    let target = resolver.lookup(reference).map_err(|e| bad(&e))?;
                    let (contents, inside, _) = target.into_inner();
                    if !std::ptr::eq(contents, schema) {
                        part.same.push(find(contents, inside));
                    }
                    let name = reference.rsplit_once('#').map_or("", |(_, name)| name);
                    if keyword == "$dynamicRef" {
                        // Which one it is depends on the way here. All are counted.
                        for target in anchors.get(name).into_iter().flatten() {
                            if !std::ptr::eq(*target, contents) {
                                part.same.push(find(target, resolver.clone()));
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
                    part.named = map.iter().map(|(name, v)| (name.clone(), sub(v))).collect();
                }
                ("patternProperties", Value::Object(map)) => {
                    for (pattern, value) in map {
                        part.search += search(pattern);
                        part.patterns += 1;
                        part.matched.push((small(pattern), sub(value)));
                    }
                }
                ("additionalProperties", value) => part.others.push(sub(value)),
                ("unevaluatedProperties", value) => {
                    part.unevaluated = true;
                    part.others.push(sub(value));
                }
                ("propertyNames", value) => part.names.push(sub(value)),
                ("prefixItems" | "items", Value::Array(list)) => {
                    part.first = list.iter().map(sub).collect();
                }
                ("items" | "additionalItems" | "contains", value) => part.items.push(sub(value)),
                ("unevaluatedItems", value) => {
                    part.unevaluated = true;
                    part.items.push(sub(value));
                }
                ("pattern", Value::String(pattern)) => {
                    part.search += search(pattern);
                    part.patterns += 1;
                }
                ("enum", Value::Array(values)) => {
                    // Each is compared until it differs.
                    part.own += values.iter().map(super::cost::size).sum::<u64>();
                    part.whole = true;
                }
                ("const", _) | ("uniqueItems", Value::Bool(true)) => part.whole = true,
                ("required", Value::Array(names)) => part.own += names.len() as u64,
                _ => part.own += 1,
            }
        }
        parts[at] = part;
    }
    Ok(parts)
}

/// A pattern that can be tried cheaply; every name may match any other.
fn small(pattern: &str) -> Option<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(super::PATTERN_LEAST).build().ok()
}

/// What looking for a pattern counts as. Most take time in proportion to the text, and some look back and forth.
fn search(pattern: &str) -> u64 {
    if regex_syntax::parse(pattern).is_ok() {
        2
    } else {
        SEARCH
    }
}

/// The schemas that a `$dynamicRef` may mean, by name.
fn dynamic_anchors(schema: &Value) -> HashMap<&str, Vec<&Value>> {
    let mut found: HashMap<&str, Vec<&Value>> = HashMap::new();
    let mut work = vec![schema];
    while let Some(value) = work.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(name)) = map.get("$dynamicAnchor") {
                    found.entry(name).or_default().push(value);
                }
                work.extend(map.values());
            }
            Value::Array(items) => work.extend(items),
            _ => {}
        }
    }
    found
}
