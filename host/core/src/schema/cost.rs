//! Estimates the cost of validating a value before it is validated, because the library cannot be interrupted, and its
//! thread has other calls to serve.
//!
//! Two operations are bounded: *deciding* if a value matches, for which the library caches results of recursive
//! schemas, and *listing* all failures, for which it caches nothing, so that recursive alternatives can take forever.

use std::collections::HashMap;

use serde_json::Value;

use super::shape::{SchemaShape, Subschema};

/// Maximum number of steps for deciding: about a third of a second.
const DECIDING_MAX: u64 = 20_000_000;

/// Maximum number of steps for estimating. Each step may add a cache entry of about 100 bytes.
const ESTIMATING_MAX: u64 = 2_000_000;

/// Maximum number of steps for listing all failures. Each step may produce a failure, which takes memory.
const LISTING_MAX: u64 = 200_000;

/// Maximum nesting of schemas and values, because the library recurses on a stack of 2 MiB. A value parsed from JSON is
/// nested at most 128 deep, and a schema for arbitrary JSON has two schemas per level.
const NESTING_MAX: usize = 512;

/// Bytes of text that count as one step.
const BYTES_PER_STEP: usize = 64;

/// The cost of validating a value, in steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ValidationCost {
    /// Steps for deciding if results of recursive schemas are cached.
    deciding: u64,
    /// Steps for deciding without a cache.
    uncached: u64,
    /// Steps for finding the evaluated members.
    marking: u64,
    /// Steps for listing all failures.
    pub(super) listing: u64,
}

impl ValidationCost {
    /// Creates the cost of a schema's own keywords, without its subschemas.
    pub(super) fn of_keywords(steps: u64) -> Self {
        Self {
            deciding: steps,
            uncached: steps,
            ..Self::default()
        }
    }

    /// Adds a subschema that is applied to the same value.
    pub(super) fn add_same_value(&mut self, part: ValidationCost) {
        let mark = part.uncached.saturating_add(part.marking);
        self.marking = self.marking.saturating_add(mark);
        self.add_part(part);
    }

    /// Adds a subschema that is applied to a part of the value.
    pub(super) fn add_part(&mut self, part: ValidationCost) {
        self.deciding = self.deciding.saturating_add(part.deciding);
        self.uncached = self.uncached.saturating_add(part.uncached);
        self.listing = self.listing.saturating_add(part.listing);
    }

    /// Completes the cost after all subschemas are added. `unevaluated` is true if the schema depends on the evaluated
    /// members.
    pub(super) fn finish(&mut self, unevaluated: bool) {
        if unevaluated {
            self.uncached = self.uncached.saturating_add(self.marking);
        }
        self.listing = self.listing.saturating_add(self.uncached);
    }
}

/// The permitted kind of validation for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValidationMode {
    /// Validate, and list the failures.
    ListFailures,
    /// Only decide if the value matches.
    Decide,
    /// Do not validate, because it would take too long.
    Skip,
}

impl SchemaShape {
    /// Chooses the kind of validation for a value.
    pub(super) fn mode_for(&self, value: &Value) -> ValidationMode {
        let listing = self.listing_bound(value);
        match listing {
            Some(steps) if steps <= LISTING_MAX => return ValidationMode::ListFailures,
            Some(steps) if steps <= DECIDING_MAX => return ValidationMode::Decide,
            _ => {}
        }
        match self.estimate(value) {
            Some(cost) if cost.listing <= LISTING_MAX => ValidationMode::ListFailures,
            Some(cost) if cost.listing <= DECIDING_MAX => ValidationMode::Decide,
            // The library does not cache the evaluated members.
            Some(cost) if !self.unevaluated && cost.deciding <= DECIDING_MAX => {
                ValidationMode::Decide
            }
            _ => ValidationMode::Skip,
        }
    }

    /// Returns an upper bound of the steps of a validation that lists all failures.
    pub(super) fn steps(&self, value: &Value) -> u64 {
        let exact = || self.estimate(value).map_or(u64::MAX, |cost| cost.listing);
        self.listing_bound(value)
            .filter(|steps| *steps <= LISTING_MAX)
            .unwrap_or_else(exact)
    }

    /// Returns an upper bound of the steps of listing all failures, based on the size of the value alone: each unfolded
    /// schema is applied to each part of the value at most once. `None` for recursive schemas.
    fn listing_bound(&self, value: &Value) -> Option<u64> {
        Some(self.unfolded?.saturating_mul(size(value)))
    }

    /// Estimates the cost of validating a value. `None` if that takes too long.
    fn estimate(&self, value: &Value) -> Option<ValidationCost> {
        let mut walk = CostWalk {
            parts: &self.parts,
            cache: HashMap::new(),
            steps: 0,
        };
        walk.cost(0, value, 0)
    }
}

/// Returns the number of nested values, including the value itself, weighted by length.
pub(super) fn size(value: &Value) -> u64 {
    let inside: u64 = match value {
        Value::String(text) => (text.len() / BYTES_PER_STEP) as u64,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(name, item)| (name.len() / BYTES_PER_STEP) as u64 + size(item))
            .sum(),
        _ => 0,
    };
    inside + 1
}

/// Follows the library's traversal, assuming that no keyword ends it early.
struct CostWalk<'a> {
    parts: &'a [Subschema],
    /// Costs of shared schemas for lists and objects.
    cache: HashMap<(usize, *const Value), ValidationCost>,
    steps: u64,
}

impl CostWalk<'_> {
    /// Computes the cost of a subschema for a value. `None` if computing it takes too long.
    fn cost(&mut self, at: usize, value: &Value, depth: usize) -> Option<ValidationCost> {
        self.steps += 1;
        if self.steps > ESTIMATING_MAX || depth > NESTING_MAX {
            return None;
        }
        let part = &self.parts[at];
        // As in the library, nothing is cached for texts and numbers.
        let is_cached = part.shared && (value.is_array() || value.is_object());
        let key = (at, std::ptr::from_ref(value));
        if is_cached && let Some(cost) = self.cache.get(&key) {
            let mut cost = *cost;
            if part.looping {
                cost.deciding = 1;
            }
            return Some(cost);
        }
        let compared = match value {
            _ if part.compares_whole => size(value),
            Value::String(text) => (text.len() / BYTES_PER_STEP) as u64 + 1,
            Value::Array(_) => 1,
            Value::Object(map) => 1 + map.len() as u64,
            _ => 1,
        };
        let mut cost =
            ValidationCost::of_keywords(part.own + compared.saturating_mul(part.search_cost + 1));
        let next = depth + 1;
        for same in &part.same {
            cost.add_same_value(self.cost(*same, value, next)?);
        }
        match value {
            Value::Object(map) => {
                for (name, item) in map {
                    for inner in self.applied_to_member(part, name) {
                        cost.add_part(self.cost(inner, item, next)?);
                    }
                    for inner in &part.member_names {
                        let name = Value::String(name.clone());
                        cost.add_part(self.cost(*inner, &name, next)?);
                    }
                }
            }
            Value::Array(items) => {
                for (inner, item) in part.first_items.iter().zip(items) {
                    cost.add_part(self.cost(*inner, item, next)?);
                }
                for item in items {
                    for inner in &part.items {
                        cost.add_part(self.cost(*inner, item, next)?);
                    }
                }
            }
            _ => {}
        }
        cost.finish(part.unevaluated);
        if is_cached {
            self.cache.insert(key, cost);
        }
        Some(cost)
    }

    /// Returns the subschemas applied to the member of this name.
    fn applied_to_member(&mut self, part: &Subschema, name: &str) -> Vec<usize> {
        let mut applied: Vec<usize> = part.by_name.get(name).copied().into_iter().collect();
        self.steps += part.by_pattern.len() as u64;
        let matches = |pattern: &Option<regex::Regex>| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(name))
        };
        let matched = part
            .by_pattern
            .iter()
            .filter(|(pattern, _)| matches(pattern));
        applied.extend(matched.map(|(_, part)| *part));
        // The unevaluated members are not known here, so all members without another subschema are counted.
        if applied.is_empty() {
            applied.extend(&part.others);
        }
        applied
    }
}
