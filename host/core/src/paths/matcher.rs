//! Matches many patterns against one path, component by component.
//!
//! Each pattern is a sequence of names and `**`. A walk down a path tracks the *live* positions: how far the path has
//! matched each pattern. So a single walk finds both the rules that match the path and those that may match below it.

use super::PathPatternError;
use super::fold::fold;
use super::name_index::{ComponentRef, NameIndex};

/// Maximum number of rules: more than anyone writes by hand, and a rule index fits into 16 bits.
const MAX_RULES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternComponent {
    /// `**`: any number of components.
    Deep,
    /// One component, compared folded; `glob` if it has wildcards.
    Name { text: String, glob: bool },
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern(Vec<PatternComponent>);

impl PathPattern {
    /// Parses a glob as in a `.gitignore`: a glob without an inner `/` matches at any depth, any other is anchored at
    /// the root.
    pub(super) fn parse(glob: &str) -> Result<Self, PathPatternError> {
        let error = |reason| PathPatternError::Malformed {
            pattern: glob.to_owned(),
            reason,
        };
        if cfg!(windows)
            && let Some(reason) = fault_on_windows(glob)
        {
            return Err(error(reason));
        }
        let body = glob.strip_suffix('/').unwrap_or(glob);
        let anchored = body.contains('/');
        let body = body.strip_prefix('/').unwrap_or(body);
        if body.is_empty() {
            return Err(error("the path is empty"));
        }
        let mut components = if anchored {
            Vec::new()
        } else {
            vec![PatternComponent::Deep]
        };
        for part in body.split('/') {
            let component = match part {
                "" | "." | ".." => return Err(error("a part of it is empty, `.` or `..`")),
                "**" if components.last() == Some(&PatternComponent::Deep) => continue,
                "**" => PatternComponent::Deep,
                name if name.contains(['*', '?', '[', ']', '{', '}', '\\']) => {
                    if name.ends_with(['.', ' ']) {
                        return Err(error(
                            "a part with wildcards must not end in a dot or a space",
                        ));
                    }
                    PatternComponent::Name {
                        text: fold(name).into_owned(),
                        glob: true,
                    }
                }
                name => PatternComponent::Name {
                    text: fold(name).into_owned(),
                    glob: false,
                },
            };
            components.push(component);
        }
        Ok(Self(components))
    }

    /// Returns true if the pattern begins with `**`, so that it can match at any depth.
    pub(super) fn matches_any_depth(&self) -> bool {
        self.0.first() == Some(&PatternComponent::Deep)
    }

    /// Creates a pattern for exactly this path from the root, without wildcards.
    pub(super) fn literal(path: &str) -> Result<Self, PathPatternError> {
        let error = |reason| PathPatternError::Malformed {
            pattern: path.to_owned(),
            reason,
        };
        let mut components = Vec::new();
        for part in path.strip_prefix("./").unwrap_or(path).split('/') {
            match part {
                "" | "." | ".." => return Err(error("a part of it is empty, `.` or `..`")),
                name => components.push(PatternComponent::Name {
                    text: fold(name).into_owned(),
                    glob: false,
                }),
            }
        }
        Ok(Self(components))
    }
}

/// Returns the reason why a glob matches nothing on Windows. Otherwise a rule for `secrets\\*` would protect nothing.
pub(super) fn fault_on_windows(glob: &str) -> Option<&'static str> {
    let mut after_backslash = glob.split('\\').skip(1).map(|rest| rest.chars().next());
    if glob.contains(':') {
        Some("it contains a drive or a `:`; write a path from the workspace root")
    } else if after_backslash.any(|next| !matches!(next, Some('[' | ']' | '{' | '}'))) {
        Some("it contains a `\\`; write `/` between names")
    } else {
        None
    }
}

/// The position that a path has reached in a rule's pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MatchState {
    pub(super) rule: u16,
    /// The index of the pattern component for the next path component.
    component: u16,
    /// True if the last path component was matched by a name, not by `**`.
    pub(super) named: bool,
}

/// All compiled patterns. A rule is identified by the index of its pattern.
#[derive(Debug, Default)]
pub(super) struct PathMatcher {
    patterns: Vec<PathPattern>,
    names: NameIndex,
    /// Rules that consist of `**` alone.
    everything: Vec<u16>,
}

impl PathMatcher {
    pub(super) fn compile(patterns: Vec<PathPattern>) -> Result<Self, PathPatternError> {
        if patterns.len() > MAX_RULES {
            return Err(PathPatternError::TooMany {
                count: patterns.len(),
                max: MAX_RULES,
            });
        }
        let everything = |(rule, pattern): (usize, &PathPattern)| {
            (pattern.0 == [PatternComponent::Deep]).then_some(rule as u16)
        };
        let everything = patterns.iter().enumerate().filter_map(everything).collect();
        let names = NameIndex::compile(patterns.iter().enumerate().flat_map(|(rule, pattern)| {
            pattern
                .0
                .iter()
                .enumerate()
                .filter_map(move |(component, name)| match name {
                    PatternComponent::Deep => None,
                    PatternComponent::Name { text, glob } => {
                        let step = ComponentRef {
                            rule: rule as u16,
                            component: component as u16,
                        };
                        Some((text.as_str(), *glob, step))
                    }
                })
        }))?;
        Ok(Self {
            patterns,
            names,
            everything,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    fn component(&self, rule: u16, component: usize) -> Option<&PatternComponent> {
        self.patterns
            .get(usize::from(rule))
            .and_then(|pattern| pattern.0.get(component))
    }
}

/// A walk down one path.
#[derive(Debug, Clone, Default)]
pub(super) struct PathWalk {
    live: Vec<MatchState>,
    depth: usize,
}

impl PathWalk {
    /// Enters the component `name`. Replaces `hits` by the rules that match the path so far.
    pub(super) fn enter(&mut self, matcher: &PathMatcher, name: &str, hits: &mut Vec<u16>) {
        let name = fold(name);
        hits.clear();
        hits.extend_from_slice(&matcher.everything);
        let mut next: Vec<MatchState> = Vec::new();
        for live in &self.live {
            if matcher.component(live.rule, usize::from(live.component))
                == Some(&PatternComponent::Deep)
            {
                if matcher
                    .component(live.rule, usize::from(live.component) + 1)
                    .is_none()
                {
                    hits.push(live.rule);
                }
                next.push(MatchState {
                    named: false,
                    ..*live
                });
            }
        }
        matcher
            .names
            .find(&name, |step| self.advance(matcher, step, &mut next, hits));
        self.live = next;
        self.depth += 1;
    }

    /// Advances the rule whose name at `step` has matched, if the walk had reached that position.
    fn advance(
        &self,
        matcher: &PathMatcher,
        step: ComponentRef,
        next: &mut Vec<MatchState>,
        hits: &mut Vec<u16>,
    ) {
        let at = usize::from(step.component);
        let deep_before =
            at > 0 && matcher.component(step.rule, at - 1) == Some(&PatternComponent::Deep);
        let reached = (at == 0 && self.depth == 0)
            || (at == 1 && deep_before)
            || self.live.iter().any(|live| {
                live.rule == step.rule
                    && (live.component == step.component
                        || (deep_before && live.component + 1 == step.component))
            });
        if !reached {
            return;
        }
        match matcher.component(step.rule, at + 1) {
            None => hits.push(step.rule),
            Some(_) => {
                let live = MatchState {
                    rule: step.rule,
                    component: step.component + 1,
                    named: true,
                };
                match next
                    .iter_mut()
                    .find(|known| known.rule == live.rule && known.component == live.component)
                {
                    Some(known) => known.named = true,
                    None => next.push(live),
                }
            }
        }
    }

    /// Returns the rules that may match below because of this path. Names that match at any depth are not included.
    pub(super) fn live(&self) -> &[MatchState] {
        &self.live
    }

    /// Returns the sorted positions. Two walks with equal positions have equal verdicts for everything below.
    pub(super) fn state_positions(&self) -> Vec<(u16, u16)> {
        let mut positions: Vec<_> = self
            .live
            .iter()
            .map(|live| (live.rule, live.component))
            .collect();
        positions.sort_unstable();
        positions
    }
}
