//! The sections of a card besides the arguments, in reading order. All front ends show the same sections.

use super::Card;
use crate::decision::{Decision, DecisionReason};
use crate::text::visible;

/// A section of a card: a heading and its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardSection {
    /// The heading, in mimir's own words.
    pub title: &'static str,
    /// The lines. Parts of them may come from a tool, so front ends show them as quotations.
    pub lines: Vec<String>,
}

impl Card {
    /// Returns the sections: possible consequences, the rights that an approval grants, changes, the reasons to ask and the
    /// other ones, remedies, and the coverage of "always". Empty sections are left out.
    pub fn sections(&self) -> Vec<CardSection> {
        let line = |reason: &DecisionReason| {
            let (decision, text, source) =
                (reason.decision.as_str(), &reason.text, reason.location());
            visible(&format!("{decision}: {text} ({source})"))
        };
        let (others, asking): (Vec<_>, Vec<_>) = self
            .reasons
            .iter()
            .partition(|reason| reason.decision == Decision::Allow);
        let commands = self.facts.commands.iter();
        let allowed = commands.filter(|verdict| verdict.decision == Decision::Allow);
        let allowed = allowed
            .map(|verdict| visible(&format!("allow: `{}`: {}", verdict.command, verdict.why)));
        let always = self.always.as_ref();
        let sections = [
            ("could go wrong", self.risks.clone()),
            ("yes also grants, for this call", self.grants.clone()),
            ("has changed since it was granted", self.changes.clone()),
            ("its imports prove that it", self.proofs.clone()),
            ("asked because", asking.into_iter().map(line).collect()),
            (
                "also considered",
                others.into_iter().map(line).chain(allowed).collect(),
            ),
            ("to allow without asking", self.remedies.clone()),
            (
                "\"always\" would",
                always
                    .map(|always| always.text.clone())
                    .into_iter()
                    .collect(),
            ),
            (
                "which gives",
                always
                    .map(|always| always.grants.clone())
                    .unwrap_or_default(),
            ),
            (
                "and withholds, as before",
                always
                    .map(|always| always.withheld.clone())
                    .unwrap_or_default(),
            ),
        ];
        let sections = sections
            .into_iter()
            .map(|(title, lines)| CardSection { title, lines });
        sections
            .filter(|section| !section.lines.is_empty())
            .collect()
    }
}
