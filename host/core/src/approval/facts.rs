//! What a card says beside the arguments, in the order in which a person reads it: the same on a terminal and in
//! another program's window.

use super::Card;
use crate::text::visible;

/// A heading and the lines under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The heading, in mimir's own words.
    pub title: &'static str,
    /// The lines. A tool had a hand in them, so a face shows them as quotations.
    pub lines: Vec<String>,
}

impl Card {
    /// What may happen, what a yes would give, and why a person is asked. What there is nothing to say of is left out.
    pub fn facts(&self) -> Vec<Fact> {
        let reasons = self.reasons.iter().map(|reason| {
            let (decision, text, source) = (reason.decision.as_str(), &reason.text, reason.place());
            visible(&format!("{decision}: {text} ({source})"))
        });
        let always = self.always.as_ref();
        let all = [
            ("could go wrong", self.risks.clone()),
            ("yes also grants, for this call", self.grants.clone()),
            ("has changed since it was granted", self.changes.clone()),
            ("its imports prove that it", self.proofs.clone()),
            ("asked because", reasons.collect()),
            ("is not asked again after", self.way_out.clone()),
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
        let all = all.into_iter().map(|(title, lines)| Fact { title, lines });
        all.filter(|fact| !fact.lines.is_empty()).collect()
    }
}
