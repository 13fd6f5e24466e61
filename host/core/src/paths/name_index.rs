//! An index of the names in all patterns, matched against one path component at a time.
//!
//! The index is used for every component of every path that a plugin accesses, so the common forms are fast: plain
//! names are looked up in a hash table, `start*end` is compared at both ends, and only other globs use the glob set.

use super::PathPatternError;
use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::HashMap;

/// A name in a pattern: the indexes of the rule and of the component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ComponentRef {
    pub(super) rule: u16,
    pub(super) component: u16,
}

/// A glob of the form `start*end`.
#[derive(Debug)]
struct AffixPattern {
    /// The first byte of `start` and the last byte of `end`, which rule out nearly all names.
    outer: (Option<u8>, Option<u8>),
    start: Box<str>,
    end: Box<str>,
    steps: Vec<ComponentRef>,
}

impl AffixPattern {
    fn new(start: &str, end: &str) -> Self {
        Self {
            outer: (start.bytes().next(), end.bytes().next_back()),
            start: start.into(),
            end: end.into(),
            steps: Vec::new(),
        }
    }

    fn matches(&self, name: &str, first: Option<u8>, last: Option<u8>) -> bool {
        (self.outer.0.is_none() || self.outer.0 == first)
            && (self.outer.1.is_none() || self.outer.1 == last)
            && name.len() >= self.start.len() + self.end.len()
            && name.starts_with(&*self.start)
            && name.ends_with(&*self.end)
    }
}

#[derive(Debug, Default)]
pub(super) struct NameIndex {
    plain: HashMap<Box<str>, Vec<ComponentRef>>,
    ends: Vec<AffixPattern>,
    globs: GlobSet,
    glob_steps: Vec<Vec<ComponentRef>>,
}

impl NameIndex {
    /// Compiles folded names, each with a flag for globs and a position.
    pub(super) fn compile<'n>(
        names: impl Iterator<Item = (&'n str, bool, ComponentRef)>,
    ) -> Result<Self, PathPatternError> {
        let mut compiled = Self::default();
        let mut set = GlobSetBuilder::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (text, is_glob, step) in names {
            if !is_glob {
                compiled.plain.entry(text.into()).or_default().push(step);
            } else if let Some((start, end)) = split_at_star(text) {
                let is_same = |ends: &AffixPattern| *ends.start == *start && *ends.end == *end;
                let at = compiled.ends.iter().position(is_same).unwrap_or_else(|| {
                    compiled.ends.push(AffixPattern::new(start, end));
                    compiled.ends.len() - 1
                });
                compiled.ends[at].steps.push(step);
            } else if let Some(index) = seen.get(text) {
                compiled.glob_steps[*index].push(step);
            } else {
                // A component has no separator, and without the option globset uses its fast paths.
                let glob = GlobBuilder::new(text)
                    .literal_separator(false)
                    .backslash_escape(true)
                    .build();
                set.add(glob.map_err(|source| PathPatternError::Glob {
                    pattern: text.to_owned(),
                    source,
                })?);
                seen.insert(text, compiled.glob_steps.len());
                compiled.glob_steps.push(vec![step]);
            }
        }
        compiled.globs = set.build().map_err(|source| PathPatternError::Glob {
            pattern: String::new(),
            source,
        })?;
        Ok(compiled)
    }

    /// Calls `on_match` with every position that matches the folded `name`.
    pub(super) fn find(&self, name: &str, mut on_match: impl FnMut(ComponentRef)) {
        for step in self.plain.get(name).into_iter().flatten() {
            on_match(*step);
        }
        let (first, last) = (name.bytes().next(), name.bytes().next_back());
        for ends in self
            .ends
            .iter()
            .filter(|ends| ends.matches(name, first, last))
        {
            ends.steps.iter().for_each(|step| on_match(*step));
        }
        if !self.glob_steps.is_empty() {
            for glob in self.globs.matches_candidate(&Candidate::new(name)) {
                for step in self.glob_steps.get(glob).into_iter().flatten() {
                    on_match(*step);
                }
            }
        }
    }
}

/// Splits a glob with one `*` and no other special character at the `*`.
fn split_at_star(glob: &str) -> Option<(&str, &str)> {
    let (start, end) = glob.split_once('*')?;
    let has_wildcard = |text: &str| text.contains(['*', '?', '[', ']', '{', '}', '\\']);
    (!has_wildcard(start) && !has_wildcard(end)).then_some((start, end))
}
