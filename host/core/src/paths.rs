//! Path rules for tools: pure matching of workspace-relative paths, without I/O.
//!
//! The caller first resolves all links and `..` of a path and then checks the canonical path. Names are folded before
//! comparison (case, Unicode form, invisible characters, trailing dots and spaces), because several spellings name one
//! file on some file systems. On other file systems, the rules refuse slightly more than needed.
//!
//! Out of scope: opening files, and how tools see refusals.

mod fold;
mod matcher;
mod name_index;
mod obeyed;
mod protected;
mod rule;
#[cfg(test)]
mod tests;
mod windows_names;

use std::sync::{Arc, LazyLock};

use matcher::{PathMatcher, PathPattern, PathWalk};

pub use obeyed::{is_obeyed, obeyed_note};
pub use protected::SHARED_SKILL_FOLDERS;
pub use rule::{PathRule, PathRuleLayer, ProtectionLevel};
pub use windows_names::windows_name_rule;

/// Folds a path for comparison. Spellings that name one file on some file system fold to the same path.
pub(crate) fn fold_path(path: &str) -> String {
    let parts: Vec<_> = path.split('/').map(fold::fold).collect();
    parts.join("/")
}

/// Error of path patterns.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PathPatternError {
    /// The pattern cannot match a path below the workspace.
    #[error("the pattern `{pattern}` is not valid: {reason}")]
    Malformed {
        /// The pattern as written.
        pattern: String,
        /// The fault.
        reason: &'static str,
    },
    /// A part of the pattern is not a valid glob.
    #[error("the pattern `{pattern}` is not a valid glob: {source}")]
    Glob {
        /// The invalid part.
        pattern: String,
        /// The fault.
        source: globset::Error,
    },
    /// There are more rules than supported.
    #[error("there are {count} path rules: expected at most {max}")]
    TooMany {
        /// The number of rules.
        count: usize,
        /// The maximum.
        max: usize,
    },
}

/// The verdict of the rules on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathVerdict<'a> {
    /// No rule matches.
    Free,
    /// The path may be read and listed, but not changed.
    ReadOnly {
        /// The rule.
        rule: &'a PathRule,
    },
    /// The path must not be accessed.
    Hidden {
        /// The rule.
        rule: &'a PathRule,
    },
}

impl<'a> PathVerdict<'a> {
    /// Returns the rule that forbids changing the path.
    pub fn against_writing(self) -> Option<&'a PathRule> {
        match self {
            Self::Free => None,
            Self::ReadOnly { rule } | Self::Hidden { rule } => Some(rule),
        }
    }

    /// Returns the rule that forbids reading the path.
    pub fn against_reading(self) -> Option<&'a PathRule> {
        match self {
            Self::Free | Self::ReadOnly { .. } => None,
            Self::Hidden { rule } => Some(rule),
        }
    }
}

/// An ordered set of compiled path rules. Cloning is cheap.
///
/// ```
/// use mimir_core::paths::PathRules;
/// let rules = PathRules::protected().deny(["build/**", "*.sqlite"])?.reveal(["config/.env"])?;
/// assert!(rules.check("src/main.rs").against_writing().is_none());
/// assert!(rules.check("sub/.ENV").against_reading().is_some());
/// assert!(rules.check("config/.env").against_reading().is_none());
/// assert!(rules.check(".mimir/config.yml").against_reading().is_none());
/// assert!(rules.check(".mimir/config.yml").against_writing().is_some());
/// # Ok::<(), mimir_core::paths::PathPatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PathRules {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: Vec<PathRule>,
    patterns: Vec<PathPattern>,
    matcher: PathMatcher,
}

impl PathRules {
    /// Returns true if both are clones of one set of rules, not just equal.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Default for PathRules {
    /// Returns [`protected`](Self::protected).
    fn default() -> Self {
        Self::protected()
    }
}

/// The match state of a directory, so that its entries are checked without walking its path again.
#[derive(Debug, Clone)]
pub struct PathScope {
    walk: PathWalk,
    worst: Option<u16>,
}

impl PathRules {
    /// Returns an empty set of rules, which allows every path.
    pub fn none() -> Self {
        Self::from_parts(Vec::new(), Vec::new(), PathMatcher::default())
    }

    /// Returns the built-in rules: files that other programs execute or follow are read-only, and secret files are
    /// hidden.
    pub fn protected() -> Self {
        static PROTECTED: LazyLock<PathRules> = LazyLock::new(|| {
            let list: Result<Vec<_>, _> = [
                (
                    protected::READ_ONLY_LEAF,
                    ProtectionLevel::ReadOnly,
                    PathRuleLayer::Protected,
                    true,
                ),
                (
                    protected::READ_ONLY,
                    ProtectionLevel::ReadOnly,
                    PathRuleLayer::Protected,
                    false,
                ),
                (
                    protected::HIDDEN,
                    ProtectionLevel::Hidden,
                    PathRuleLayer::Protected,
                    false,
                ),
                (
                    protected::SKILLS,
                    ProtectionLevel::Hidden,
                    PathRuleLayer::Protected,
                    false,
                ),
                (
                    protected::SECRETS,
                    ProtectionLevel::Hidden,
                    PathRuleLayer::Secrets,
                    false,
                ),
            ]
            .into_iter()
            .flat_map(|(globs, protection, layer, leaf)| {
                globs.iter().map(move |glob| {
                    let (rule, pattern) = parse(glob, protection, layer)?;
                    Ok((PathRule { leaf, ..rule }, pattern))
                })
            })
            .collect();
            // The tables are constants, and tests cover every entry. If an entry is invalid nevertheless, all access is
            // refused.
            list.and_then(|list| PathRules::none().with_rules(list))
                .unwrap_or_else(|_: PathPatternError| PathRules::hide_everything())
        });
        PROTECTED.clone()
    }

    /// Returns rules that hide everything.
    pub fn hide_everything() -> Self {
        let rule = parse("**", ProtectionLevel::Hidden, PathRuleLayer::Denied);
        rule.and_then(|rule| Self::none().with_rules(vec![rule]))
            .unwrap_or_else(|_| Self::none())
    }

    /// Adds rules that hide the paths denied by a person. Later globs take precedence over earlier ones; `!glob` is an
    /// exception.
    pub fn deny<S: AsRef<str>>(
        &self,
        globs: impl IntoIterator<Item = S>,
    ) -> Result<Self, PathPatternError> {
        let added = globs.into_iter().map(|glob| {
            parse(
                glob.as_ref(),
                ProtectionLevel::Hidden,
                PathRuleLayer::Denied,
            )
        });
        self.with_rules(added.collect::<Result<_, _>>()?)
    }

    /// Adds exceptions for secret files that a person has granted, each by its exact path from the workspace root.
    /// Read-only paths and paths denied by a person are not affected.
    pub fn reveal<S: AsRef<str>>(
        &self,
        paths: impl IntoIterator<Item = S>,
    ) -> Result<Self, PathPatternError> {
        let added = paths.into_iter().map(|path| {
            let path = path.as_ref();
            let rule = PathRule {
                text: format!("!{path}").into(),
                protection: ProtectionLevel::Hidden,
                layer: PathRuleLayer::Secrets,
                is_exception: true,
                leaf: false,
            };
            Ok((rule, PathPattern::literal(path)?))
        });
        self.with_rules(added.collect::<Result<_, _>>()?)
    }

    /// Adds exceptions for the folders of trusted skills, each by its exact path from the workspace root. Their files
    /// become readable and stay read-only.
    pub fn show_skills<S: AsRef<str>>(
        &self,
        folders: impl IntoIterator<Item = S>,
    ) -> Result<Self, PathPatternError> {
        let added = folders.into_iter().map(|folder| {
            let folder = folder.as_ref();
            let rule = PathRule {
                text: format!("!{folder}").into(),
                protection: ProtectionLevel::Hidden,
                layer: PathRuleLayer::Protected,
                is_exception: true,
                leaf: false,
            };
            Ok((rule, PathPattern::literal(folder)?))
        });
        self.with_rules(added.collect::<Result<_, _>>()?)
    }

    /// Returns the rules added with `deny`. They also apply in mimir's own folders that tools can access.
    #[must_use]
    pub fn person_rules(&self) -> Self {
        let denied = self
            .pairs()
            .filter(|(rule, _)| rule.layer == PathRuleLayer::Denied);
        Self::none()
            .with_rules(denied.collect())
            .unwrap_or_else(|_| Self::hide_everything())
    }

    /// Combines these rules with those of the caller. Paths denied by either are hidden, and secret files are visible
    /// only if both allow it.
    #[must_use]
    pub fn combined_with(&self, outer: &Self) -> Self {
        let is_kept = |rule: &PathRule| {
            let is_grant = rule.is_exception && rule.layer == PathRuleLayer::Secrets;
            !is_grant || outer.inner.rules.contains(rule)
        };
        let is_added = |rule: &PathRule| {
            rule.layer == PathRuleLayer::Denied && !self.inner.rules.contains(rule)
        };
        if self.rules().iter().all(is_kept) && !outer.rules().iter().any(is_added) {
            return self.clone();
        }
        let kept = self.pairs().filter(|(rule, _)| is_kept(rule));
        let added = outer.pairs().filter(|(rule, _)| is_added(rule));
        // With too many rules in total, all access is refused.
        Self::none()
            .with_rules(kept.chain(added).collect())
            .unwrap_or_else(|_| Self::hide_everything())
    }

    fn pairs(&self) -> impl Iterator<Item = (PathRule, PathPattern)> {
        let pairs = self.pairs_by_ref();
        pairs.map(|(rule, pattern)| (rule.clone(), pattern.clone()))
    }

    fn pairs_by_ref(&self) -> impl Iterator<Item = (&PathRule, &PathPattern)> {
        self.inner.rules.iter().zip(&self.inner.patterns)
    }

    fn with_rules(&self, added: Vec<(PathRule, PathPattern)>) -> Result<Self, PathPatternError> {
        let (mut rules, mut patterns) = (self.inner.rules.clone(), self.inner.patterns.clone());
        for (rule, pattern) in added {
            rules.push(rule);
            patterns.push(pattern);
        }
        let matcher = PathMatcher::compile(patterns.clone())?;
        Ok(Self::from_parts(rules, patterns, matcher))
    }

    fn from_parts(rules: Vec<PathRule>, patterns: Vec<PathPattern>, matcher: PathMatcher) -> Self {
        Self {
            inner: Arc::new(Inner {
                rules,
                patterns,
                matcher,
            }),
        }
    }

    /// Returns the rules in order.
    pub fn rules(&self) -> &[PathRule] {
        &self.inner.rules
    }

    /// Checks access to a directory, or reading a file. `path` is canonical and relative to the workspace root, with
    /// `/` between components; the root is `""`.
    pub fn check(&self, path: &str) -> PathVerdict<'_> {
        self.evaluate(path, false)
    }

    /// Checks creating, changing or removing a file or link at `path`.
    pub fn check_file(&self, path: &str) -> PathVerdict<'_> {
        self.evaluate(path, true)
    }

    /// Returns the rule that forbids opening `path` for reading, or for changing it if `writes` is true. `path` may be
    /// a file or a directory.
    pub(crate) fn blocking_rule(&self, path: &str, writes: bool) -> Option<&PathRule> {
        let verdict = self.check(path);
        if writes {
            let file = self.check_file(path).against_writing();
            file.or(verdict.against_writing())
        } else {
            verdict.against_reading()
        }
    }

    /// Returns a rule that may protect something below the directory `dir` because of the path of `dir`. Rules that
    /// match names at any depth are not included, because they apply wherever a directory is moved.
    pub fn may_cover_below(&self, dir: &str) -> Option<&PathRule> {
        let scope = self.scope(dir);
        scope
            .walk
            .live()
            .first()
            .and_then(|live| self.rule(live.rule))
    }

    /// Returns true if a rule added with `deny` may match something below the directory `dir`, because of the path of
    /// `dir` or a name at any depth.
    pub fn may_deny_below(&self, dir: &str) -> bool {
        let denies = |rule: &PathRule| rule.layer == PathRuleLayer::Denied && !rule.is_exception;
        self.pairs_by_ref()
            .any(|(rule, pattern)| denies(rule) && pattern.matches_any_depth())
            || self
                .scope(dir)
                .walk
                .live()
                .iter()
                .any(|live| self.rule(live.rule).is_some_and(denies))
    }

    /// Returns the rule that forbids moving a directory, or a link to one, from `from` to `to`: a rule that protects
    /// content below only one of the two paths, or that matches a part of a path by name.
    pub fn against_moving(&self, from: &str, to: &str) -> Option<&PathRule> {
        let (from, to) = (self.scope(from), self.scope(to));
        let by_name = from
            .walk
            .live()
            .iter()
            .chain(to.walk.live())
            .find(|live| live.named);
        if let Some(live) = by_name {
            return self.rule(live.rule);
        }
        if from.walk.state_positions() == to.walk.state_positions() {
            return None;
        }
        from.walk
            .live()
            .iter()
            .chain(to.walk.live())
            .next()
            .and_then(|live| self.rule(live.rule))
    }

    /// Returns the match state of the directory `dir`, for [`check_in`](Self::check_in).
    pub fn scope(&self, dir: &str) -> PathScope {
        let mut scope = PathScope {
            walk: PathWalk::default(),
            worst: None,
        };
        let mut hits = Vec::new();
        for name in dir.split('/').filter(|name| !name.is_empty()) {
            self.enter(&mut scope, name, false, &mut hits);
        }
        scope
    }

    /// Checks `name` inside the directory of `scope`, as [`check`](Self::check) does.
    pub fn check_in(&self, scope: &PathScope, name: &str) -> PathVerdict<'_> {
        if cfg!(windows)
            && let Some(rule) = windows_name_rule(name)
        {
            return PathVerdict::Hidden { rule };
        }
        if self.inner.matcher.is_empty() {
            return PathVerdict::Free;
        }
        let mut scope = scope.clone();
        self.enter(&mut scope, name, false, &mut Vec::new());
        self.verdict(scope.worst)
    }

    fn evaluate(&self, path: &str, file: bool) -> PathVerdict<'_> {
        if cfg!(windows)
            && let Some(rule) = windows_name_rule(path)
        {
            return PathVerdict::Hidden { rule };
        }
        if self.inner.matcher.is_empty() {
            return PathVerdict::Free;
        }
        let mut scope = PathScope {
            walk: PathWalk::default(),
            worst: None,
        };
        let mut hits = Vec::new();
        let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            self.enter(&mut scope, name, file && names.peek().is_none(), &mut hits);
        }
        self.verdict(scope.worst)
    }

    /// Enters one component of a path. Within a layer, the last matching rule applies, and of all layers, the
    /// strictest.
    fn enter(&self, scope: &mut PathScope, name: &str, leaf: bool, hits: &mut Vec<u16>) {
        scope.walk.enter(&self.inner.matcher, name, hits);
        if hits.is_empty() {
            return;
        }
        let mut last: [Option<u16>; PathRuleLayer::COUNT] = [None; PathRuleLayer::COUNT];
        for &hit in hits.iter() {
            if let Some(rule) = self.rule(hit).filter(|rule| leaf || !rule.leaf) {
                let slot = &mut last[rule.layer as usize];
                *slot = (*slot).max(Some(hit));
            }
        }
        for hit in last.into_iter().flatten() {
            let protection = |hit: u16| {
                self.rule(hit)
                    .filter(|rule| !rule.is_exception)
                    .map(|rule| rule.protection)
            };
            if protection(hit) > scope.worst.and_then(protection) {
                scope.worst = Some(hit);
            }
        }
    }

    fn rule(&self, index: u16) -> Option<&PathRule> {
        self.inner.rules.get(usize::from(index))
    }

    fn verdict(&self, worst: Option<u16>) -> PathVerdict<'_> {
        match worst.and_then(|worst| self.rule(worst)) {
            None => PathVerdict::Free,
            Some(rule) if rule.protection == ProtectionLevel::Hidden => {
                PathVerdict::Hidden { rule }
            }
            Some(rule) => PathVerdict::ReadOnly { rule },
        }
    }
}

fn parse(
    glob: &str,
    protection: ProtectionLevel,
    layer: PathRuleLayer,
) -> Result<(PathRule, PathPattern), PathPatternError> {
    let (is_exception, body) = match glob.strip_prefix('!') {
        Some(body) => (true, body),
        None => (false, glob),
    };
    let rule = PathRule {
        text: glob.into(),
        protection,
        layer,
        is_exception,
        leaf: false,
    };
    Ok((rule, PathPattern::parse(body)?))
}
