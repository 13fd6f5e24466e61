//! Many patterns against one path, component by component.
//!
//! Each pattern is a row of pieces, a name or `**`. Walking down a path keeps the *live* places: how far into
//! which pattern the path has come. The same walk therefore answers "does a rule match here" and "could a rule
//! match below, because of where this is". Names are looked up in one hash table and one glob set for all
//! patterns together, so that the cost hardly depends on how many there are.

use super::PatternError;
use super::fold::fold;
use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::HashMap;

/// Enough for any list that a person writes; keeps a place in four bytes.
const MAX_RULES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// `**`: any number of components.
    Deep,
    /// One component, compared folded; `glob` when it has wildcards.
    Name { text: String, glob: bool },
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Piece>);

impl Pattern {
    /// A gitignore-like glob: without an inner `/` it floats, with one it is anchored at the root.
    pub(super) fn parse(glob: &str) -> Result<Self, PatternError> {
        let error = |reason| PatternError::Malformed {
            pattern: glob.to_owned(),
            reason,
        };
        let body = glob.strip_suffix('/').unwrap_or(glob);
        let anchored = body.contains('/');
        let body = body.strip_prefix('/').unwrap_or(body);
        if body.is_empty() {
            return Err(error("it names nothing"));
        }
        let mut pieces = if anchored {
            Vec::new()
        } else {
            vec![Piece::Deep]
        };
        for part in body.split('/') {
            let piece = match part {
                "" | "." | ".." => return Err(error("a part of it is empty, `.` or `..`")),
                "**" if pieces.last() == Some(&Piece::Deep) => continue,
                "**" => Piece::Deep,
                name if name.contains(['*', '?', '[', ']', '{', '}', '\\']) => {
                    if name.ends_with(['.', ' ']) {
                        return Err(error(
                            "a wildcard part ends in a dot or a space, which no name does",
                        ));
                    }
                    Piece::Name {
                        text: fold(name).into_owned(),
                        glob: true,
                    }
                }
                name => Piece::Name {
                    text: fold(name).into_owned(),
                    glob: false,
                },
            };
            pieces.push(piece);
        }
        Ok(Self(pieces))
    }

    /// Exactly this path from the root; nothing in it is a wildcard.
    pub(super) fn literal(path: &str) -> Result<Self, PatternError> {
        let error = |reason| PatternError::Malformed {
            pattern: path.to_owned(),
            reason,
        };
        let mut pieces = Vec::new();
        for part in path.strip_prefix("./").unwrap_or(path).split('/') {
            match part {
                "" | "." | ".." => return Err(error("a part of it is empty, `.` or `..`")),
                name => pieces.push(Piece::Name {
                    text: fold(name).into_owned(),
                    glob: false,
                }),
            }
        }
        Ok(Self(pieces))
    }
}

/// A name in a pattern: which rule, which of its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    rule: u16,
    piece: u16,
}

/// How far into a rule's pattern a path has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Live {
    pub(super) rule: u16,
    /// The piece that the next component is held against.
    piece: u16,
    /// Whether the last component was matched by name, not swallowed by `**`.
    pub(super) named: bool,
}

/// All patterns, compiled. A rule is the index of its pattern.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    patterns: Vec<Pattern>,
    names: HashMap<String, Vec<Step>>,
    globs: GlobSet,
    glob_steps: Vec<Vec<Step>>,
    /// Rules that are `**` alone.
    everything: Vec<u16>,
}

impl Matcher {
    pub(super) fn compile(patterns: Vec<Pattern>) -> Result<Self, PatternError> {
        if patterns.len() > MAX_RULES {
            return Err(PatternError::TooMany {
                count: patterns.len(),
                max: MAX_RULES,
            });
        }
        let mut names: HashMap<String, Vec<Step>> = HashMap::new();
        let mut globs: Vec<(&str, Vec<Step>)> = Vec::new();
        let mut everything = Vec::new();
        for (rule, pattern) in patterns.iter().enumerate() {
            if pattern.0 == [Piece::Deep] {
                everything.push(rule as u16);
            }
            for (piece, name) in pattern.0.iter().enumerate() {
                let step = Step {
                    rule: rule as u16,
                    piece: piece as u16,
                };
                match name {
                    Piece::Deep => {}
                    Piece::Name { text, glob: false } => {
                        names.entry(text.clone()).or_default().push(step)
                    }
                    Piece::Name { text, glob: true } => {
                        match globs.iter_mut().find(|(known, _)| known == text) {
                            Some((_, steps)) => steps.push(step),
                            None => globs.push((text, vec![step])),
                        }
                    }
                }
            }
        }
        let mut set = GlobSetBuilder::new();
        let mut glob_steps = Vec::with_capacity(globs.len());
        for (text, steps) in globs {
            // A component holds no separator, and without the option globset takes its fast ways.
            let glob = GlobBuilder::new(text)
                .literal_separator(false)
                .backslash_escape(true)
                .build();
            set.add(glob.map_err(|source| PatternError::Glob {
                pattern: text.to_owned(),
                source,
            })?);
            glob_steps.push(steps);
        }
        let globs = set.build().map_err(|source| PatternError::Glob {
            pattern: String::new(),
            source,
        })?;
        Ok(Self {
            patterns,
            names,
            globs,
            glob_steps,
            everything,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    fn piece(&self, rule: u16, piece: usize) -> Option<&Piece> {
        self.patterns
            .get(usize::from(rule))
            .and_then(|pattern| pattern.0.get(piece))
    }
}

/// A walk down one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Walk {
    live: Vec<Live>,
    depth: usize,
}

impl Walk {
    /// Goes into `name`; `hits` becomes the rules that match the path so far.
    pub(super) fn enter(&mut self, matcher: &Matcher, name: &str, hits: &mut Vec<u16>) {
        let name = fold(name);
        hits.clear();
        hits.extend_from_slice(&matcher.everything);
        let mut next: Vec<Live> = Vec::new();
        for live in &self.live {
            if matcher.piece(live.rule, usize::from(live.piece)) == Some(&Piece::Deep) {
                if matcher
                    .piece(live.rule, usize::from(live.piece) + 1)
                    .is_none()
                {
                    hits.push(live.rule);
                }
                next.push(Live {
                    named: false,
                    ..*live
                });
            }
        }
        for step in matcher.names.get(name.as_ref()).into_iter().flatten() {
            self.take(matcher, *step, &mut next, hits);
        }
        if !matcher.glob_steps.is_empty() {
            let candidate = Candidate::new(name.as_ref());
            for glob in matcher.globs.matches_candidate(&candidate) {
                for step in matcher.glob_steps.get(glob).into_iter().flatten() {
                    self.take(matcher, *step, &mut next, hits);
                }
            }
        }
        self.live = next;
        self.depth += 1;
    }

    /// Advances a rule whose name at `step` matched, if the walk had come that far into it.
    fn take(&self, matcher: &Matcher, step: Step, next: &mut Vec<Live>, hits: &mut Vec<u16>) {
        let at = usize::from(step.piece);
        let deep_before = at > 0 && matcher.piece(step.rule, at - 1) == Some(&Piece::Deep);
        let reached = (at == 0 && self.depth == 0)
            || (at == 1 && deep_before)
            || self.live.iter().any(|live| {
                live.rule == step.rule
                    && (live.piece == step.piece || (deep_before && live.piece + 1 == step.piece))
            });
        if !reached {
            return;
        }
        match matcher.piece(step.rule, at + 1) {
            None => hits.push(step.rule),
            Some(_) => {
                let live = Live {
                    rule: step.rule,
                    piece: step.piece + 1,
                    named: true,
                };
                match next
                    .iter_mut()
                    .find(|known| known.rule == live.rule && known.piece == live.piece)
                {
                    Some(known) => known.named = true,
                    None => next.push(live),
                }
            }
        }
    }

    /// The rules that could match below because of where this is. A floating name could match anywhere and is
    /// not among them.
    pub(super) fn live(&self) -> &[Live] {
        &self.live
    }

    /// The places alone, in order: two walks with equal places see the same verdict for whatever is below.
    pub(super) fn places(&self) -> Vec<(u16, u16)> {
        let mut places: Vec<_> = self
            .live
            .iter()
            .map(|live| (live.rule, live.piece))
            .collect();
        places.sort_unstable();
        places
    }
}
