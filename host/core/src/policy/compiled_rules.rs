//! All rules for one tool, compiled so that a thousand rules are evaluated in one pass over each argument.
//!
//! A rule that denies or asks matches if *any* value at its path passes the test, in any spelling. A rule that allows
//! matches only if *every* value passes, in every spelling. The target of a link is another spelling of a path. A
//! missing value passes no test.

use std::collections::{BTreeMap, HashMap};

use globset::{Candidate, GlobSet, GlobSetBuilder};
use regex::{RegexSet, RegexSetBuilder};
use serde_json::Value;

use crate::decision::Decision;
use crate::paths::fold_path;

use super::argument_path::ArgumentPath;
use super::condition::{ArgumentCondition, ValueTest};
use super::link_resolver::LinkResolver;
use super::regex_budget::SET_MAX;
use super::spelling;

/// The index of a condition, across all rules.
type ConditionId = u32;

/// The rules of one tool.
#[derive(Debug, Default)]
pub(super) struct CompiledRules {
    columns: Vec<PathConditions>,
    /// The index in `columns` for each condition.
    condition_columns: Vec<u32>,
    rules: Vec<CompiledRule>,
}

#[derive(Debug)]
struct CompiledRule {
    index: u32,
    allows: bool,
    required: Vec<(ConditionId, RequiredMatch)>,
}

/// The result of a condition's test that a rule requires.
#[derive(Debug, Clone, Copy)]
enum RequiredMatch {
    Fits,
    Fails,
    Absent,
}

/// All tests for the values at one path.
#[derive(Debug)]
struct PathConditions {
    path: ArgumentPath,
    globs: GlobSet,
    glob_ids: Vec<ConditionId>,
    regexes: RegexSet,
    regex_ids: Vec<ConditionId>,
    equals: HashMap<String, Vec<ConditionId>>,
    ranges: Vec<(f64, f64, ConditionId)>,
    inside: HashMap<String, Vec<ConditionId>>,
    inside_folded: HashMap<String, Vec<ConditionId>>,
    exists: Vec<ConditionId>,
}

impl CompiledRules {
    /// Compiles rules, each given by its index, its decision and its conditions.
    pub(super) fn new<'a>(
        rules: impl IntoIterator<Item = (u32, Decision, &'a [ArgumentCondition])>,
    ) -> Result<Self, String> {
        let mut compiled = Self::default();
        let mut columns: BTreeMap<&ArgumentPath, Vec<(ConditionId, &ValueTest, bool)>> =
            BTreeMap::new();
        let mut next: ConditionId = 0;
        for (rule, decision, conditions) in rules {
            let allows = decision == Decision::Allow;
            let mut required = Vec::with_capacity(conditions.len());
            for condition in conditions {
                let required_match = match (&condition.test, condition.negated) {
                    (_, false) => RequiredMatch::Fits,
                    (ValueTest::Exists, true) => RequiredMatch::Absent,
                    (_, true) => RequiredMatch::Fails,
                };
                required.push((next, required_match));
                let column = columns.entry(&condition.path).or_default();
                column.push((next, &condition.test, allows));
                next += 1;
            }
            compiled.rules.push(CompiledRule {
                index: rule,
                allows,
                required,
            });
        }
        compiled.condition_columns = vec![0; next as usize];
        for (path, tests) in columns {
            let at = compiled.columns.len() as u32;
            for (id, ..) in &tests {
                compiled.condition_columns[*id as usize] = at;
            }
            compiled
                .columns
                .push(PathConditions::new(path.clone(), &tests)?);
        }
        Ok(compiled)
    }

    /// Calls `on_match` with the index of each rule that matches the arguments, in the order of the rules.
    pub(super) fn for_each_match(
        &self,
        arguments: &Value,
        links: &LinkResolver<'_>,
        mut on_match: impl FnMut(u32),
    ) {
        if self.rules.is_empty() {
            return;
        }
        let mut hits = vec![0_u32; self.condition_columns.len()];
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            values.push(column.count_matches(arguments, links, &mut hits));
        }
        if let Some(decoded) = spelling::with_decoded_content(arguments) {
            for (column, total) in self.columns.iter().zip(&mut values) {
                *total += column.count_matches(&decoded, links, &mut hits);
            }
        }
        for rule in &self.rules {
            let holds = |&(id, required_match): &(ConditionId, RequiredMatch)| {
                let (fitting, total) = (
                    hits[id as usize],
                    values[self.condition_columns[id as usize] as usize],
                );
                match (required_match, rule.allows) {
                    (RequiredMatch::Absent, _) => total == 0,
                    (RequiredMatch::Fits, false) => fitting > 0,
                    (RequiredMatch::Fits, true) => total > 0 && fitting == total,
                    (RequiredMatch::Fails, false) => total == 0 || fitting < total,
                    (RequiredMatch::Fails, true) => total > 0 && fitting == 0,
                }
            };
            if rule.required.iter().all(holds) {
                on_match(rule.index);
            }
        }
    }
}

impl PathConditions {
    fn new(path: ArgumentPath, tests: &[(ConditionId, &ValueTest, bool)]) -> Result<Self, String> {
        let mut globs = GlobSetBuilder::new();
        let mut regexes = Vec::new();
        let mut column = Self {
            path,
            globs: GlobSet::empty(),
            glob_ids: Vec::new(),
            regexes: RegexSet::empty(),
            regex_ids: Vec::new(),
            equals: HashMap::new(),
            ranges: Vec::new(),
            inside: HashMap::new(),
            inside_folded: HashMap::new(),
            exists: Vec::new(),
        };
        for &(id, test, allows) in tests {
            match test {
                ValueTest::Glob(glob) => {
                    globs.add(glob.clone());
                    column.glob_ids.push(id);
                }
                ValueTest::Regex(text) => {
                    regexes.push(text.as_str());
                    column.regex_ids.push(id);
                }
                ValueTest::Equals(value) => column.equals.entry(key(value)).or_default().push(id),
                ValueTest::Range { min, max } => column.ranges.push((*min, *max, id)),
                ValueTest::Inside(folder) if allows => {
                    column.inside.entry(folder.clone()).or_default().push(id);
                }
                ValueTest::Inside(folder) => {
                    let folded = fold_path(folder);
                    column.inside_folded.entry(folded).or_default().push(id);
                }
                ValueTest::Exists => column.exists.push(id),
            }
        }
        column.globs = globs.build().map_err(|error| error.to_string())?;
        column.regexes = RegexSetBuilder::new(regexes)
            .size_limit(SET_MAX)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(column)
    }

    /// Adds to `hits` the number of values that pass each condition. Returns the number of values. Each spelling of a
    /// string counts as a value.
    fn count_matches(&self, arguments: &Value, links: &LinkResolver<'_>, hits: &mut [u32]) -> u32 {
        let mut total = 0;
        let mut matched = Vec::new();
        self.path.values(arguments, &mut |value| match value {
            Value::String(text) => {
                let mut count = |text: Option<&str>| {
                    total += 1;
                    if let Some(text) = text {
                        self.count_text(text, hits, &mut matched);
                    }
                };
                if self.is_about_paths() {
                    spelling::spellings_and_links(text, links, &mut count);
                } else {
                    spelling::spellings(text, &mut count);
                }
            }
            value => {
                total += 1;
                self.count_other(value, hits);
            }
        });
        total
    }

    /// Returns true if a test may be about paths, so that link targets matter.
    fn is_about_paths(&self) -> bool {
        !(self.glob_ids.is_empty() && self.inside.is_empty() && self.inside_folded.is_empty())
    }

    /// Adds to `hits` the conditions that a string passes.
    fn count_text(&self, text: &str, hits: &mut [u32], matched: &mut Vec<usize>) {
        let mut hit = |id: ConditionId| hits[id as usize] += 1;
        if !self.glob_ids.is_empty() {
            self.globs
                .matches_candidate_into(&Candidate::new(text), matched);
            matched.iter().for_each(|&at| hit(self.glob_ids[at]));
        }
        if !self.regex_ids.is_empty() {
            let matches = self.regexes.matches(text);
            matches.iter().for_each(|at| hit(self.regex_ids[at]));
        }
        if !self.equals.is_empty() {
            let same = self.equals.get(&text_key(text));
            same.into_iter().flatten().for_each(|&id| hit(id));
        }
        for (folders, folded) in [(&self.inside, false), (&self.inside_folded, true)] {
            if folders.is_empty() {
                continue;
            }
            let Some(path) = spelling::workspace_path(text, cfg!(windows)) else {
                continue;
            };
            let path = if folded {
                fold_path(&path)
            } else {
                path.into_owned()
            };
            for folder in ancestors(&path) {
                folders
                    .get(folder)
                    .into_iter()
                    .flatten()
                    .for_each(|&id| hit(id));
            }
        }
        self.exists.iter().for_each(|&id| hit(id));
    }

    /// Adds to `hits` the conditions that a value other than a string passes.
    fn count_other(&self, value: &Value, hits: &mut [u32]) {
        let mut hit = |id: ConditionId| hits[id as usize] += 1;
        if !self.equals.is_empty() {
            let same = self.equals.get(&key(value));
            same.into_iter().flatten().for_each(|&id| hit(id));
        }
        if let Some(number) = value.as_f64() {
            for &(min, max, id) in &self.ranges {
                if min <= number && number <= max {
                    hit(id);
                }
            }
        }
        self.exists.iter().for_each(|&id| hit(id));
    }
}

/// Returns the workspace root (the empty path), the parent folders of a path, and the path.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let folders = ends.chain([path.len()]).map(|end| &path[..end]);
    std::iter::once("").chain(folders.filter(|folder| !folder.is_empty()))
}

/// Returns a key that is the same exactly for equal values: `1` equals `1.0`, and the order of members does not matter.
fn key(value: &Value) -> String {
    match value {
        Value::String(text) => text_key(text),
        Value::Number(number) => match number.as_f64() {
            // Integers beyond the precision of a float are compared by their digits.
            Some(float) if number.is_f64() || float.abs() < 9e15 => format!("n{float}"),
            _ => format!("n{number}"),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inner_key).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => {
            let member = |(name, item): (&String, &Value)| {
                format!("{}:{}", Value::from(name.as_str()), inner_key(item))
            };
            let mut members: Vec<String> = map.iter().map(member).collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

/// Returns the key of a value inside an array or object, where a string needs quotes to separate it from the rest.
fn inner_key(value: &Value) -> String {
    match value {
        Value::String(_) => value.to_string(),
        other => key(other),
    }
}

fn text_key(text: &str) -> String {
    format!("s{text}")
}
