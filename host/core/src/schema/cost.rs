//! The cost of checking one value against a schema, estimated in advance: the library cannot be interrupted, and its
//! thread has other calls to serve.
//!
//! Two operations are bounded. *Deciding* whether a value matches: there the library caches results of recursive
//! schemas. *Naming* all failures: there it caches nothing, and recursive alternatives can take for ever.

use std::collections::HashMap;

use serde_json::Value;

use super::shape::{SchemaShape, Subschema};

/// Maximum steps of deciding: about a third of a second.
const DECIDING_MAX: u64 = 20_000_000;

/// Maximum steps of counting. Each may be cached, in some 100 bytes.
const COUNTING_MAX: u64 = 2_000_000;

/// Maximum steps of naming all failures; each may be a failure, which takes memory.
const NAMING_MAX: u64 = 200_000;

/// Maximum nesting of schemas and values: the library recurses, on a stack of 2 MiB. A value parsed from JSON is
/// nested at most 128 deep, and a schema for any JSON has two schemas for each of its levels.
const DEEPEST: usize = 512;

/// Characters of text per step.
const TEXT: usize = 64;

/// The cost of checking a value, in steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ValidationCost {
    /// Deciding, where the library caches results of recursive schemas.
    deciding: u64,
    /// Deciding where it caches nothing.
    again: u64,
    /// Finding the evaluated members.
    marking: u64,
    /// Naming all failures.
    pub(super) naming: u64,
}

impl ValidationCost {
    pub(super) fn own(steps: u64) -> Self {
        Self {
            deciding: steps,
            again: steps,
            ..Self::default()
        }
    }

    /// Adds a schema that is applied to the same value.
    pub(super) fn same(&mut self, part: ValidationCost) {
        let mark = part.again.saturating_add(part.marking);
        self.marking = self.marking.saturating_add(mark);
        self.inner(part);
    }

    /// Adds a schema that is applied to a part of the value.
    pub(super) fn inner(&mut self, part: ValidationCost) {
        self.deciding = self.deciding.saturating_add(part.deciding);
        self.again = self.again.saturating_add(part.again);
        self.naming = self.naming.saturating_add(part.naming);
    }

    /// Finishes after all schemas are added.
    pub(super) fn end(&mut self, unevaluated: bool) {
        if unevaluated {
            self.again = self.again.saturating_add(self.marking);
        }
        self.naming = self.naming.saturating_add(self.again);
    }
}

/// The permitted kind of check for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValidationMode {
    /// Check it, and name the failures.
    ListFailures,
    /// Check it.
    Decide,
    /// Skip it: it would take too long.
    Skip,
}

impl SchemaShape {
    /// Chooses the kind of check for this value.
    pub(super) fn verdict(&self, value: &Value) -> ValidationMode {
        let naming = self.naming(value);
        match naming {
            Some(steps) if steps <= NAMING_MAX => return ValidationMode::ListFailures,
            Some(steps) if steps <= DECIDING_MAX => return ValidationMode::Decide,
            _ => {}
        }
        match self.walk(value) {
            Some(cost) if cost.naming <= NAMING_MAX => ValidationMode::ListFailures,
            Some(cost) if cost.naming <= DECIDING_MAX => ValidationMode::Decide,
            // Members evaluated by other schemas are recomputed each time.
            Some(cost) if !self.unevaluated && cost.deciding <= DECIDING_MAX => {
                ValidationMode::Decide
            }
            _ => ValidationMode::Skip,
        }
    }

    /// Upper bound of the steps of a check that names all failures.
    pub(super) fn steps(&self, value: &Value) -> u64 {
        let walked = || self.walk(value).map_or(u64::MAX, |cost| cost.naming);
        self.naming(value)
            .filter(|steps| *steps <= NAMING_MAX)
            .unwrap_or_else(walked)
    }

    /// Upper bound of the steps of naming all failures, if it follows without looking at the value's members: every
    /// schema, unfolded, meets every part of the value at most once.
    fn naming(&self, value: &Value) -> Option<u64> {
        Some(self.unfolded?.saturating_mul(size(value)))
    }

    fn walk(&self, value: &Value) -> Option<ValidationCost> {
        let mut walk = CostWalk {
            parts: &self.parts,
            known: HashMap::new(),
            steps: 0,
        };
        walk.cost(0, value, 0)
    }
}

/// The number of nested values including the value itself, weighted by length.
pub(super) fn size(value: &Value) -> u64 {
    let inside: u64 = match value {
        Value::String(text) => (text.len() / TEXT) as u64,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(name, item)| (name.len() / TEXT) as u64 + size(item))
            .sum(),
        _ => 0,
    };
    inside + 1
}

/// Follows the library's traversal, assuming that no keyword ever ends it early.
struct CostWalk<'a> {
    parts: &'a [Subschema],
    /// Cached costs of a schema on a list or an object.
    known: HashMap<(usize, *const Value), ValidationCost>,
    steps: u64,
}

impl CostWalk<'_> {
    /// The cost; `None` if it takes too long to compute.
    fn cost(&mut self, at: usize, value: &Value, depth: usize) -> Option<ValidationCost> {
        self.steps += 1;
        if self.steps > COUNTING_MAX || depth > DEEPEST {
            return None;
        }
        let part = &self.parts[at];
        // The library caches nothing for texts and numbers either.
        let kept = part.shared && (value.is_array() || value.is_object());
        let key = (at, std::ptr::from_ref(value));
        if kept && let Some(cost) = self.known.get(&key) {
            let mut cost = *cost;
            if part.looping {
                cost.deciding = 1;
            }
            return Some(cost);
        }
        let looked = match value {
            _ if part.whole => size(value),
            Value::String(text) => (text.len() / TEXT) as u64 + 1,
            Value::Array(_) => 1,
            Value::Object(map) => 1 + map.len() as u64,
            _ => 1,
        };
        let mut cost = ValidationCost::own(part.own + looked.saturating_mul(part.search + 1));
        let next = depth + 1;
        for same in &part.same {
            cost.same(self.cost(*same, value, next)?);
        }
        match value {
            Value::Object(map) => {
                for (name, item) in map {
                    for inner in self.members(part, name) {
                        cost.inner(self.cost(inner, item, next)?);
                    }
                    for inner in &part.names {
                        let name = Value::String(name.clone());
                        cost.inner(self.cost(*inner, &name, next)?);
                    }
                }
            }
            Value::Array(items) => {
                for (inner, item) in part.first.iter().zip(items) {
                    cost.inner(self.cost(*inner, item, next)?);
                }
                for item in items {
                    for inner in &part.items {
                        cost.inner(self.cost(*inner, item, next)?);
                    }
                }
            }
            _ => {}
        }
        cost.end(part.unevaluated);
        if kept {
            self.known.insert(key, cost);
        }
        Some(cost)
    }

    /// The subschemas applied to the member of this name.
    fn members(&mut self, part: &Subschema, name: &str) -> Vec<usize> {
        let mut taken: Vec<usize> = part.named.get(name).copied().into_iter().collect();
        self.steps += part.matched.len() as u64;
        let matches = |pattern: &Option<regex::Regex>| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(name))
        };
        let matched = part.matched.iter().filter(|(pattern, _)| matches(pattern));
        taken.extend(matched.map(|(_, part)| *part));
        // Members for `unevaluated` schemas are not known here: counted for all that no named subschema takes.
        if taken.is_empty() {
            taken.extend(&part.others);
        }
        taken
    }
}
