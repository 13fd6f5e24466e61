//! Path rules for tools: pure matching over workspace-relative paths, no I/O.
//!
//! The caller resolves a path first, through every link and `..`, and asks about the canonical result. Rules
//! compare names folded (case, Unicode form, invisible characters, dots and spaces at the end), so that they
//! hold on filesystems that take two spellings for one file; on others they refuse a little more than needed.
//!
//! Never here: opening anything, or deciding what a refusal looks like to a tool.

mod fold;
mod matcher;
mod names;
mod obeyed;
mod protected;
mod rule;
#[cfg(test)]
mod tests;

pub use obeyed::{is_obeyed, obeyed_note};
pub use rule::{Layer, Rule, Shield};

/// A path as it is compared: two spellings of one file on any file system are one string.
pub(crate) fn fold_path(path: &str) -> String {
    let parts: Vec<_> = path.split('/').map(fold::fold).collect();
    parts.join("/")
}

use matcher::{Matcher, Pattern, Walk};
use std::sync::{Arc, LazyLock};

/// An invalid pattern.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PatternError {
    /// The pattern can't mean a path below the workspace.
    #[error("the pattern `{pattern}` is refused: {reason}")]
    Malformed {
        /// As it was written.
        pattern: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A part of the pattern is no valid glob.
    #[error("the pattern `{pattern}` is no valid glob: {source}")]
    Glob {
        /// The part of it.
        pattern: String,
        /// What is wrong with it.
        source: globset::Error,
    },
    /// More rules than anyone writes by hand.
    #[error("{count} path rules are more than the {max} that are supported")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
}

/// The verdict of the rules on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// No rule matches.
    Free,
    /// It may be read and listed only.
    ReadOnly {
        /// The rule that says so.
        rule: &'a Rule,
    },
    /// Nothing may be done with it.
    Hidden {
        /// The rule that says so.
        rule: &'a Rule,
    },
}

impl<'a> Verdict<'a> {
    /// The rule that stands against changing the path.
    pub fn against_writing(self) -> Option<&'a Rule> {
        match self {
            Self::Free => None,
            Self::ReadOnly { rule } | Self::Hidden { rule } => Some(rule),
        }
    }

    /// The rule that stands against reading the path.
    pub fn against_reading(self) -> Option<&'a Rule> {
        match self {
            Self::Free | Self::ReadOnly { .. } => None,
            Self::Hidden { rule } => Some(rule),
        }
    }
}

/// An ordered set of path rules, compiled; a clone shares it.
///
/// ```
/// use mimir_core::paths::PathRules;
/// let rules = PathRules::protected().deny(["build/**", "*.sqlite"])?.reveal(["config/.env"])?;
/// assert!(rules.check("src/main.rs").against_writing().is_none());
/// assert!(rules.check("sub/.ENV").against_reading().is_some());
/// assert!(rules.check("config/.env").against_reading().is_none());
/// assert!(rules.check(".mimir/config.yml").against_reading().is_none());
/// assert!(rules.check(".mimir/config.yml").against_writing().is_some());
/// # Ok::<(), mimir_core::paths::PatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PathRules {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: Vec<Rule>,
    patterns: Vec<Pattern>,
    matcher: Matcher,
    /// What a name is refused by that Windows would read as another one.
    odd_name: Rule,
}

impl PathRules {
    /// Whether these are the very rules, not only such that say the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Default for PathRules {
    /// The rules that are always on.
    fn default() -> Self {
        Self::protected()
    }
}

/// Where a directory stands among the rules, so that its entries are judged without walking down again.
#[derive(Debug, Clone)]
pub struct Scope {
    walk: Walk,
    worst: Option<u16>,
}

impl PathRules {
    /// No rules: everything is free.
    pub fn none() -> Self {
        Self::of(Vec::new(), Vec::new(), Matcher::default())
    }

    /// The rules that are always on: what other programs run or obey is read-only, secrets files are hidden.
    pub fn protected() -> Self {
        static PROTECTED: LazyLock<PathRules> = LazyLock::new(|| {
            let list: Result<Vec<_>, _> = [
                (
                    protected::READ_ONLY_LEAF,
                    Shield::ReadOnly,
                    Layer::Protected,
                    true,
                ),
                (
                    protected::READ_ONLY,
                    Shield::ReadOnly,
                    Layer::Protected,
                    false,
                ),
                (protected::HIDDEN, Shield::Hidden, Layer::Protected, false),
                (protected::SECRETS, Shield::Hidden, Layer::Secrets, false),
            ]
            .into_iter()
            .flat_map(|(globs, shield, layer, leaf)| {
                globs.iter().map(move |glob| {
                    let (rule, pattern) = parse(glob, shield, layer)?;
                    Ok((Rule { leaf, ..rule }, pattern))
                })
            })
            .collect();
            // The tables are constants and tests use every one; were one broken all the same, the answer is
            // to refuse everything.
            list.and_then(|list| PathRules::none().with(list))
                .unwrap_or_else(|_: PatternError| PathRules::nothing())
        });
        PROTECTED.clone()
    }

    /// Hides everything.
    pub fn nothing() -> Self {
        let all = parse("**", Shield::Hidden, Layer::Denied);
        all.and_then(|all| Self::none().with(vec![all]))
            .unwrap_or_else(|_| Self::none())
    }

    /// Also hides what a person denied. Later globs win over earlier ones of the list; `!glob` is an exception.
    pub fn deny<S: AsRef<str>>(
        &self,
        globs: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        let added = globs
            .into_iter()
            .map(|glob| parse(glob.as_ref(), Shield::Hidden, Layer::Denied));
        self.with(added.collect::<Result<_, _>>()?)
    }

    /// Shows secrets files that a person granted, each by its exact path from the workspace root. What is
    /// read-only, and what a person denied, stays so.
    pub fn reveal<S: AsRef<str>>(
        &self,
        paths: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        let added = paths.into_iter().map(|path| {
            let path = path.as_ref();
            let rule = Rule {
                text: format!("!{path}").into(),
                shield: Shield::Hidden,
                layer: Layer::Secrets,
                lifts: true,
                leaf: false,
            };
            Ok((rule, Pattern::literal(path)?))
        });
        self.with(added.collect::<Result<_, _>>()?)
    }

    /// Of these rules those that a person made with `deny`: what holds in a folder of mimir's own that is given to a tool.
    #[must_use]
    pub fn of_person(&self) -> Self {
        let own = self.pairs().filter(|(rule, _)| rule.layer == Layer::Denied);
        Self::none()
            .with(own.collect())
            .unwrap_or_else(|_| Self::nothing())
    }

    /// These rules inside those of the caller: what either denies is denied, and what a person granted by
    /// name is seen only if both may see it.
    #[must_use]
    pub fn within(&self, outer: &Self) -> Self {
        let stays = |rule: &Rule| {
            let granted = rule.lifts && rule.layer == Layer::Secrets;
            !granted || outer.inner.rules.contains(rule)
        };
        let comes = |rule: &Rule| rule.layer == Layer::Denied && !self.inner.rules.contains(rule);
        if self.rules().iter().all(stays) && !outer.rules().iter().any(comes) {
            return self.clone();
        }
        let own = self.pairs().filter(|(rule, _)| stays(rule));
        let all: Vec<_> = own
            .chain(outer.pairs().filter(|(rule, _)| comes(rule)))
            .collect();
        // Too many rules together: then nothing is reachable.
        Self::none().with(all).unwrap_or_else(|_| Self::nothing())
    }

    fn pairs(&self) -> impl Iterator<Item = (Rule, Pattern)> {
        let pairs = self.pairs_by_ref();
        pairs.map(|(rule, pattern)| (rule.clone(), pattern.clone()))
    }

    fn pairs_by_ref(&self) -> impl Iterator<Item = (&Rule, &Pattern)> {
        self.inner.rules.iter().zip(&self.inner.patterns)
    }

    fn with(&self, added: Vec<(Rule, Pattern)>) -> Result<Self, PatternError> {
        let (mut rules, mut patterns) = (self.inner.rules.clone(), self.inner.patterns.clone());
        for (rule, pattern) in added {
            rules.push(rule);
            patterns.push(pattern);
        }
        let matcher = Matcher::compile(patterns.clone())?;
        Ok(Self::of(rules, patterns, matcher))
    }

    fn of(rules: Vec<Rule>, patterns: Vec<Pattern>, matcher: Matcher) -> Self {
        let odd_name = Rule {
            text: "a name that Windows reads as another one".into(),
            shield: Shield::Hidden,
            layer: Layer::Protected,
            lifts: false,
            leaf: false,
        };
        Self {
            inner: Arc::new(Inner {
                rules,
                patterns,
                matcher,
                odd_name,
            }),
        }
    }

    /// The rules in order.
    pub fn rules(&self) -> &[Rule] {
        &self.inner.rules
    }

    /// What the rules say of `path`, as a directory or as something to read. `path` is canonical and relative
    /// to the workspace root, with `/` between components; the root itself is `""`.
    pub fn check(&self, path: &str) -> Verdict<'_> {
        self.judge(path, false)
    }

    /// What the rules say of putting, changing or removing something at `path` that is not a directory.
    pub fn check_file(&self, path: &str) -> Verdict<'_> {
        self.judge(path, true)
    }

    /// The rule that stands against opening `path`: as a directory or something to read, or to change it, be it a file or
    /// a directory.
    pub(crate) fn against(&self, path: &str, writes: bool) -> Option<&Rule> {
        let found = self.check(path);
        match writes {
            true => {
                let file = self.check_file(path).against_writing();
                file.or(found.against_writing())
            }
            false => found.against_reading(),
        }
    }

    /// The rule that could shield something below the directory `dir` because of where `dir` is. A rule that
    /// matches a name at any depth holds wherever a directory is moved, and is not meant.
    pub fn may_cover_below(&self, dir: &str) -> Option<&Rule> {
        let scope = self.scope(dir);
        scope
            .walk
            .live()
            .first()
            .and_then(|live| self.rule(live.rule))
    }

    /// Returns true if a rule that a person made with `deny` could match something below the directory `dir`, be it for
    /// the path of `dir` or by a name at any depth.
    pub fn may_deny_below(&self, dir: &str) -> bool {
        let denies = |rule: &Rule| rule.layer == Layer::Denied && !rule.lifts;
        self.pairs_by_ref()
            .any(|(rule, pattern)| denies(rule) && pattern.floats())
            || self
                .scope(dir)
                .walk
                .live()
                .iter()
                .any(|live| self.rule(live.rule).is_some_and(denies))
    }

    /// The rule that stands against moving a directory (or a link to one) from `from` to `to`: one that
    /// shields what is below in one place and not in the other, or that names a part of either path.
    pub fn against_moving(&self, from: &str, to: &str) -> Option<&Rule> {
        let (from, to) = (self.scope(from), self.scope(to));
        let named = from
            .walk
            .live()
            .iter()
            .chain(to.walk.live())
            .find(|live| live.named);
        if let Some(live) = named {
            return self.rule(live.rule);
        }
        if from.walk.places() == to.walk.places() {
            return None;
        }
        from.walk
            .live()
            .iter()
            .chain(to.walk.live())
            .next()
            .and_then(|live| self.rule(live.rule))
    }

    /// Where `dir` stands, for [`check_in`](Self::check_in).
    pub fn scope(&self, dir: &str) -> Scope {
        let mut scope = Scope {
            walk: Walk::default(),
            worst: None,
        };
        let mut hits = Vec::new();
        for name in dir.split('/').filter(|name| !name.is_empty()) {
            self.enter(&mut scope, name, false, &mut hits);
        }
        scope
    }

    /// The same as [`check`](Self::check) of `name` inside the directory that `scope` was made for.
    pub fn check_in(&self, scope: &Scope, name: &str) -> Verdict<'_> {
        if cfg!(windows) && fold::is_odd_on_windows(name) {
            return Verdict::Hidden {
                rule: &self.inner.odd_name,
            };
        }
        if self.inner.matcher.is_empty() {
            return Verdict::Free;
        }
        let mut scope = scope.clone();
        self.enter(&mut scope, name, false, &mut Vec::new());
        self.verdict(scope.worst)
    }

    fn judge(&self, path: &str, file: bool) -> Verdict<'_> {
        if cfg!(windows) && path.split('/').any(fold::is_odd_on_windows) {
            return Verdict::Hidden {
                rule: &self.inner.odd_name,
            };
        }
        if self.inner.matcher.is_empty() {
            return Verdict::Free;
        }
        let mut scope = Scope {
            walk: Walk::default(),
            worst: None,
        };
        let mut hits = Vec::new();
        let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            self.enter(&mut scope, name, file && names.peek().is_none(), &mut hits);
        }
        self.verdict(scope.worst)
    }

    /// Goes one component down; within a layer the last rule that matches speaks, over layers the strictest.
    fn enter(&self, scope: &mut Scope, name: &str, leaf: bool, hits: &mut Vec<u16>) {
        scope.walk.enter(&self.inner.matcher, name, hits);
        if hits.is_empty() {
            return;
        }
        let mut last: [Option<u16>; Layer::COUNT] = [None; Layer::COUNT];
        for &hit in hits.iter() {
            if let Some(rule) = self.rule(hit).filter(|rule| leaf || !rule.leaf) {
                let slot = &mut last[rule.layer as usize];
                *slot = (*slot).max(Some(hit));
            }
        }
        for hit in last.into_iter().flatten() {
            let shield = |hit: u16| {
                self.rule(hit)
                    .filter(|rule| !rule.lifts)
                    .map(|rule| rule.shield)
            };
            if shield(hit) > scope.worst.and_then(shield) {
                scope.worst = Some(hit);
            }
        }
    }

    fn rule(&self, index: u16) -> Option<&Rule> {
        self.inner.rules.get(usize::from(index))
    }

    fn verdict(&self, worst: Option<u16>) -> Verdict<'_> {
        match worst.and_then(|worst| self.rule(worst)) {
            None => Verdict::Free,
            Some(rule) if rule.shield == Shield::Hidden => Verdict::Hidden { rule },
            Some(rule) => Verdict::ReadOnly { rule },
        }
    }
}

fn parse(glob: &str, shield: Shield, layer: Layer) -> Result<(Rule, Pattern), PatternError> {
    let (lifts, body) = match glob.strip_prefix('!') {
        Some(body) => (true, body),
        None => (false, glob),
    };
    let rule = Rule {
        text: glob.into(),
        shield,
        layer,
        lifts,
        leaf: false,
    };
    Ok((rule, Pattern::parse(body)?))
}
