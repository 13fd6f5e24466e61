//! How many steps it takes to check one value against a schema, counted before it is done: nothing can stop the
//! library once it runs, and the thread that it runs on has other calls to serve.
//!
//! Two things are bounded. *Deciding* whether a value matches: there the library keeps what it knows of a schema that
//! loops. *Naming* all failures: there it keeps nothing, and alternatives that loop can take for ever.

use std::collections::HashMap;

use serde_json::Value;

use super::shape::{Part, Shape};

/// Steps of deciding, at most: about a third of a second.
const DECIDING_MOST: u64 = 20_000_000;

/// Steps of counting, at most. Each may be kept, in some 100 bytes.
const COUNTING_MOST: u64 = 2_000_000;

/// Steps of naming all failures, at most; each may be a failure, which takes memory.
const NAMING_MOST: u64 = 200_000;

/// How deep schemas and values may be inside each other: the library recurses, on a stack of 2 MiB. A value of JSON
/// text is 128 deep at most, and a schema for any JSON has two schemas for each of its levels.
const DEEPEST: usize = 512;

/// The characters of a text that take one step.
const TEXT: usize = 64;

/// What it takes to check a value, in steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// To decide, where the library keeps what it knows of schemas that loop.
    deciding: u64,
    /// To decide where it keeps nothing.
    again: u64,
    /// To find out what was looked at.
    marking: u64,
    /// To name all failures.
    pub(super) naming: u64,
}

impl Cost {
    pub(super) fn own(steps: u64) -> Self {
        Self {
            deciding: steps,
            again: steps,
            ..Self::default()
        }
    }

    /// Adds a schema that is applied to the same value.
    pub(super) fn same(&mut self, part: Cost) {
        let mark = part.again.saturating_add(part.marking);
        self.marking = self.marking.saturating_add(mark);
        self.inner(part);
    }

    /// Adds a schema that is applied to something inside of the value.
    pub(super) fn inner(&mut self, part: Cost) {
        self.deciding = self.deciding.saturating_add(part.deciding);
        self.again = self.again.saturating_add(part.again);
        self.naming = self.naming.saturating_add(part.naming);
    }

    /// All schemas are added.
    pub(super) fn end(&mut self, unevaluated: bool) {
        if unevaluated {
            self.again = self.again.saturating_add(self.marking);
        }
        self.naming = self.naming.saturating_add(self.again);
    }
}

/// What may be done with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Check it, and name what does not match.
    Name,
    /// Check it.
    Decide,
    /// Leave it: it would take too long.
    Leave,
}

impl Shape {
    /// What may be done with this value.
    pub(super) fn verdict(&self, value: &Value) -> Verdict {
        let naming = self.naming(value);
        match naming {
            Some(steps) if steps <= NAMING_MOST => return Verdict::Name,
            Some(steps) if steps <= DECIDING_MOST => return Verdict::Decide,
            _ => {}
        }
        match self.walk(value) {
            Some(cost) if cost.naming <= NAMING_MOST => Verdict::Name,
            Some(cost) if cost.naming <= DECIDING_MOST => Verdict::Decide,
            // What others have looked at is found out anew each time.
            Some(cost) if !self.unevaluated && cost.deciding <= DECIDING_MOST => Verdict::Decide,
            _ => Verdict::Leave,
        }
    }

    /// Steps of a check that names all failures, at most.
    pub(super) fn steps(&self, value: &Value) -> u64 {
        let walked = || self.walk(value).map_or(u64::MAX, |cost| cost.naming);
        self.naming(value)
            .filter(|steps| *steps <= NAMING_MOST)
            .unwrap_or_else(walked)
    }

    /// At most so many steps take it to name all failures, if that is known without a look at the value's members:
    /// every schema, unfolded, meets everything inside of the value at most once.
    fn naming(&self, value: &Value) -> Option<u64> {
        Some(self.unfolded?.saturating_mul(size(value)))
    }

    fn walk(&self, value: &Value) -> Option<Cost> {
        let mut walk = Walk {
            parts: &self.parts,
            known: HashMap::new(),
            steps: 0,
        };
        walk.cost(0, value, 0)
    }
}

/// The values inside of a value, and itself, by their length.
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

/// Goes the way that the library would go, where no keyword ever spares it a part of the way.
struct Walk<'a> {
    parts: &'a [Part],
    /// What is known of a schema on a list or an object.
    known: HashMap<(usize, *const Value), Cost>,
    steps: u64,
}

impl Walk<'_> {
    /// Nothing if it takes too long to say.
    fn cost(&mut self, at: usize, value: &Value, depth: usize) -> Option<Cost> {
        self.steps += 1;
        if self.steps > COUNTING_MOST || depth > DEEPEST {
            return None;
        }
        let part = &self.parts[at];
        // The library keeps nothing about texts and numbers either.
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
        let mut cost = Cost::own(part.own + looked.saturating_mul(part.search + 1));
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

    /// The parts that are applied to the member of this name.
    fn members(&mut self, part: &Part, name: &str) -> Vec<usize> {
        let mut taken: Vec<usize> = part.named.get(name).copied().into_iter().collect();
        self.steps += part.matched.len() as u64;
        let matches = |pattern: &Option<regex::Regex>| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(name))
        };
        let matched = part.matched.iter().filter(|(pattern, _)| matches(pattern));
        taken.extend(matched.map(|(_, part)| *part));
        // What no other schema looks at is not known here: counted for all of them that have no name of their own.
        if taken.is_empty() {
            taken.extend(&part.others);
        }
        taken
    }
}
