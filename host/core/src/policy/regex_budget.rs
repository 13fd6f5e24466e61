//! The size limit for the regular expressions in one file, so that a file in a repository cannot make every command
//! slow. Here, an expression is parsed and its compiled size is estimated, which takes microseconds. It is compiled
//! when a call first needs it.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Maximum estimated size of one expression in bytes. Usual expressions take some kilobytes; `(a{1000}){1000}` would
/// take hundreds of megabytes.
const EACH_MAX: usize = 512 << 10;

/// Maximum estimated size of all expressions in one file, in bytes. Compiling that much takes some tenths of a second.
const ALL_MAX: usize = 16 << 20;

/// Approximate size of one automaton state in bytes.
const STATE: usize = 64;

/// Approximate base size of a character class beyond ASCII, such as `.`, in bytes.
const CLASS: usize = 1024;

/// Size limit of a compiled set in bytes: the estimated maximum with some margin.
pub(super) const SET_MAX: usize = 4 * ALL_MAX;

/// The total estimated size of the expressions of one file so far.
#[derive(Debug, Default)]
pub(super) struct RegexBudget {
    used: usize,
}

impl RegexBudget {
    /// Parses an expression and adds its estimated size. Fails with a one-line message if the expression is not valid
    /// or exceeds a limit.
    pub(super) fn take(&mut self, text: &str) -> Result<(), String> {
        let parsed = regex_syntax::Parser::new().parse(text).map_err(|error| {
            let error = error.to_string();
            let last = error.lines().last().unwrap_or_default();
            let why = last.strip_prefix("error: ").unwrap_or(last);
            format!(
                "`{}` is not a valid regular expression: {why}",
                shorten(text)
            )
        })?;
        let weight = weigh(&parsed);
        if weight > EACH_MAX {
            return Err(format!(
                "the regular expression `{}` would take more than {} KB; limit its repetitions, or use `[a-z]` for `\\w`",
                shorten(text),
                EACH_MAX >> 10
            ));
        }
        self.used = self.used.saturating_add(weight);
        if self.used > ALL_MAX {
            return Err(format!(
                "with `{}` the regular expressions of this file would take more than {} MB; use `[a-z]` for `\\w`, or `glob` and `inside` where possible",
                shorten(text),
                ALL_MAX >> 20
            ));
        }
        Ok(())
    }
}

/// Shortens a pattern for a message.
pub(super) fn shorten(text: &str) -> String {
    crate::text::visible(crate::text::prefix(text, 100))
}

/// Estimates the size of the compiled expression in bytes.
fn weigh(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => STATE,
        HirKind::Literal(literal) => literal.0.len().saturating_mul(STATE),
        HirKind::Class(Class::Bytes(_)) => STATE,
        // A range of characters takes up to four ranges of bytes.
        HirKind::Class(Class::Unicode(class)) => {
            let ascii = class.ranges().iter().all(|range| range.end().is_ascii());
            if ascii {
                STATE
            } else {
                class
                    .ranges()
                    .len()
                    .saturating_mul(STATE)
                    .saturating_add(CLASS)
            }
        }
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min.saturating_add(1));
            let inner = weigh(&repeated.sub).saturating_add(STATE);
            inner.saturating_mul((times as usize).max(1))
        }
        HirKind::Capture(capture) => weigh(&capture.sub).saturating_add(2 * STATE),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(weigh).fold(STATE, usize::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::RegexSetBuilder;

    #[test]
    fn regex_budget_accepts_what_can_be_compiled() {
        for text in [
            "^rm -rf /",
            r"\bsudo\b",
            r"\w{9}N",
            r"(?i)drop\s+table",
            "a{1000}",
            "[a-z0-9]{500}",
            r"^https?://([a-z]+\.)*example\.com(/.*)?$",
            r"\pL{10}",
            ".{200}",
            r"(?i)straße|größe|[äöü]{30}",
        ] {
            let mut budget = RegexBudget::default();
            budget.take(text).unwrap_or_else(|why| panic!("{why}"));
            let built = |limit: usize| RegexSetBuilder::new([text]).size_limit(limit).build();
            // The estimate errs by less than the size limit of a set allows for.
            assert!(
                built(4 * budget.used + (64 << 10)).is_ok(),
                "{text}: {}",
                budget.used
            );
        }
    }

    #[test]
    fn regex_budget_rejects_expressions_that_explode() {
        for text in [
            "(a{1000}){1000}",
            r"\w{500}",
            "((a{100}){100}){100}",
            "(((((x{99}){99}){99}){99}){99}){99}",
        ] {
            let why = RegexBudget::default().take(text).unwrap_err();
            assert!(why.contains("more than 512 KB"), "{why}");
        }
        for text in ["(", "a{2,1}", "(?<n", &"(".repeat(1000)] {
            let why = RegexBudget::default().take(text).unwrap_err();
            assert!(why.contains("is not a valid regular expression"), "{why}");
        }
        let mut budget = RegexBudget::default();
        let taken = (0..1000)
            .take_while(|_| budget.take(r"\w{5}N").is_ok())
            .count();
        assert!((10..100).contains(&taken), "{taken}");
        let mut budget = RegexBudget::default();
        for number in 0..1000 {
            budget
                .take(&format!(r"^(git|cargo) (push|publish) --{number}\b.*$"))
                .unwrap();
        }
    }
}
