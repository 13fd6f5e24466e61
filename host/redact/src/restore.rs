//! Restoring of masked values in a new version of a text.
//!
//! No state is stored: the current text is masked again, and each mark in the new text is matched with a mark of the
//! current text. A value is restored only if the same rule masks it in the new text, so that a reader of the new text
//! sees only the marks that were written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::mask::{self, SecretFinding};
use super::{MARK, Redactor, SecretDigest};

mod alignment;

/// Maximum length of a rule name in a mark.
const NAME_MAX: usize = 128;

/// Maximum distance from a value in bytes at which the ends of its lines are searched.
const LINE_MAX: usize = 4 << 10;

/// A text with marks in place of its secrets, and the value of each mark.
pub struct MaskedText<'a> {
    original: &'a str,
    text: String,
    slots: Vec<MaskSlot>,
}

/// A mark in a masked text.
#[derive(Debug, Clone)]
struct MaskSlot {
    /// Range in the masked text, including the quotes that masking has added around the mark.
    at: Range<usize>,
    /// Range of the mark without these quotes.
    mark: Range<usize>,
    /// Range of the value in the original, or `None` if the original contains the mark itself.
    value: Option<Range<usize>>,
    /// True if the value is masked even if only its lines are shown.
    in_lines: bool,
}

/// A text with its values restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredText {
    /// The text.
    pub text: String,
    values: Vec<RestoredValue>,
}

/// A value that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RestoredValue {
    /// The rule that masks the value.
    rule: String,
    /// The range in the text.
    at: Range<usize>,
    /// True if the original value was masked even if only its lines were shown.
    in_lines: bool,
}

/// Facts about the marks of a rule that the texts alone do not show.
#[derive(Clone, Copy)]
pub struct MarkFacts<'a> {
    /// Returns true if a mark that replaces no value is literal text.
    pub is_literal: &'a dyn Fn(&str) -> bool,
    /// Returns true if the writer has also seen marks of values that are not in the current text.
    pub has_other_values: &'a dyn Fn(&str) -> bool,
}

/// Reason why a mark cannot be replaced by its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreError {
    /// The current text does not contain the mark.
    Unknown {
        /// The mark.
        mark: String,
    },
    /// The mark could stand for several values.
    Ambiguous {
        /// The mark.
        mark: String,
    },
    /// The value would not be masked at its new position.
    Exposed {
        /// The mark.
        mark: String,
    },
}

impl RestoreError {
    /// Returns the mark that cannot be replaced.
    pub fn mark(&self) -> &str {
        match self {
            Self::Unknown { mark } | Self::Ambiguous { mark } | Self::Exposed { mark } => mark,
        }
    }
}

/// Returns true if a text contains a mark.
pub fn has_mark(text: &str) -> bool {
    marks(text).next().is_some()
}

/// Returns the rules whose marks are in a text.
pub fn rules_of_marks(text: &str) -> BTreeSet<&str> {
    marks(text)
        .map(|at| &text[at.start + MARK.len()..at.end - 1])
        .collect()
}

/// Returns the ranges of the marks in a text.
fn marks(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(MARK).filter_map(|(start, _)| {
        let name = start + MARK.len();
        let rest = &text.as_bytes()[name..text.len().min(name + NAME_MAX)];
        let length = rest
            .iter()
            .position(|byte| matches!(byte, b']' | b'[' | b'\n' | b'"' | b'\\'))?;
        (length > 0 && rest[length] == b']').then_some(start..name + length + 1)
    })
}

impl Redactor {
    /// Masks a text and records the value of each mark.
    pub fn mask_restorable<'a>(&self, original: &'a str) -> MaskedText<'a> {
        let mut text = String::with_capacity(original.len());
        let mut slots = Vec::new();
        let mut copied = 0;
        let push_literal = |text: &mut String, slots: &mut Vec<MaskSlot>, part: &str| {
            let start = text.len();
            slots.extend(marks(part).map(|at| {
                let at = start + at.start..start + at.end;
                MaskSlot {
                    mark: at.clone(),
                    at,
                    value: None,
                    in_lines: false,
                }
            }));
            text.push_str(part);
        };
        let mut quotes = mask::MarkQuotes::new(original);
        for (finding, value) in self.values_of(original) {
            push_literal(&mut text, &mut slots, &original[copied..value.start]);
            let (quote, mark) = (quotes.quote(&finding), finding.mark());
            let start = text.len();
            text.push_str(quote);
            text.push_str(&mark);
            text.push_str(quote);
            let inner = start + quote.len();
            slots.push(MaskSlot {
                at: start..text.len(),
                mark: inner..inner + mark.len(),
                value: Some(value.clone()),
                in_lines: self.masks_in_lines(original, &value),
            });
            copied = value.end;
        }
        push_literal(&mut text, &mut slots, &original[copied..]);
        MaskedText {
            original,
            text,
            slots,
        }
    }

    /// Finds the secrets in a text, each with the range of whole characters that its mark replaces.
    fn values_of(&self, text: &str) -> Vec<(SecretFinding, Range<usize>)> {
        let mut copied = 0;
        let findings = self.find(text.as_bytes()).into_iter();
        findings
            .map(|finding| {
                let start = text.floor_char_boundary(finding.start).max(copied);
                copied = text.ceil_char_boundary(finding.end).max(start);
                (finding, start..copied)
            })
            .collect()
    }

    /// Returns true if a value is masked when only its lines are shown, as by a search or a read of some lines.
    fn masks_in_lines(&self, text: &str, value: &Range<usize>) -> bool {
        let before = &text.as_bytes()[value.start.saturating_sub(LINE_MAX)..value.start];
        let start = value.start
            - before
                .iter()
                .rev()
                .take_while(|byte| **byte != b'\n')
                .count();
        let after = &text.as_bytes()[value.end..text.len().min(value.end + LINE_MAX)];
        let end = value.end + after.iter().take_while(|byte| **byte != b'\n').count();
        let findings = self.find(&text.as_bytes()[start..end]);
        findings
            .iter()
            .any(|finding| start + finding.start <= value.start && value.end <= start + finding.end)
    }

    /// Checks that the rule of its mark masks each restored value at the new position, and in its lines alone if that
    /// was the case before.
    pub fn check_masked(&self, restored: &RestoredText) -> Result<(), RestoreError> {
        let masked = self.values_of(&restored.text);
        let rules: HashMap<_, _> = masked
            .iter()
            .map(|(finding, at)| (at.clone(), &*finding.rule))
            .collect();
        for value in &restored.values {
            let is_masked = rules.get(&value.at).is_some_and(|rule| *rule == value.rule)
                && (!value.in_lines || self.masks_in_lines(&restored.text, &value.at));
            if !is_masked {
                return Err(RestoreError::Exposed {
                    mark: format!("{MARK}{}]", value.rule),
                });
            }
        }
        Ok(())
    }
}

impl RestoredText {
    /// Creates a text without marks.
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            values: Vec::new(),
        }
    }

    /// Concatenates several texts.
    pub fn concat(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self::plain(String::new());
        for part in parts {
            let offset = whole.text.len();
            whole.text.push_str(&part.text);
            let moved = |value: RestoredValue| RestoredValue {
                at: value.at.start + offset..value.at.end + offset,
                ..value
            };
            whole.values.extend(part.values.into_iter().map(moved));
        }
        whole
    }
}

impl<'a> MaskedText<'a> {
    /// Returns the masked text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the rules of the masked values.
    pub fn rules(&self) -> BTreeSet<&str> {
        let values = self.slots.iter().filter(|slot| slot.value.is_some());
        values.map(|slot| self.rule(slot)).collect()
    }

    /// Returns the masked values, each with the rule that found it.
    pub fn values(&self) -> Vec<(String, String)> {
        let pair =
            |slot: &MaskSlot| Some((self.rule(slot).to_owned(), self.value(slot)?.to_owned()));
        self.slots.iter().filter_map(pair).collect()
    }

    /// Returns the digests of the masked values by rule.
    pub fn digests(&self) -> BTreeMap<&str, BTreeSet<SecretDigest>> {
        let mut digests_by_rule: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for slot in &self.slots {
            if let Some(value) = self.value(slot) {
                let digests = digests_by_rule.entry(self.rule(slot)).or_default();
                digests.insert(SecretDigest::new(value.as_bytes()));
            }
        }
        digests_by_rule
    }

    fn rule(&self, slot: &MaskSlot) -> &str {
        &self.text[slot.mark.start + MARK.len()..slot.mark.end - 1]
    }

    fn value(&self, slot: &MaskSlot) -> Option<&'a str> {
        slot.value.clone().map(|at| &self.original[at])
    }

    /// Converts a range of the masked text to a range of the original. Returns `None` if it begins or ends inside a
    /// mark.
    pub fn original(&self, part: Range<usize>) -> Option<Range<usize>> {
        Some(self.original_offset(part.start)?..self.original_offset(part.end)?)
    }

    fn original_offset(&self, at: usize) -> Option<usize> {
        let masked = self.slots.iter().filter(|slot| slot.value.is_some());
        let before = masked.take_while(|slot| slot.at.start < at).last();
        match before {
            None => Some(at),
            Some(slot) if slot.at.end <= at => {
                let end = slot.value.as_ref().map_or(slot.at.end, |value| value.end);
                Some(end + at - slot.at.end)
            }
            Some(_) => None,
        }
    }

    /// Returns a part of the text, or `None` if the part begins or ends inside a mark.
    pub fn part(&self, part: Range<usize>) -> Option<MaskedText<'a>> {
        let at = self.original(part.clone())?;
        let original = &self.original[at.clone()];
        let inside = self
            .slots
            .iter()
            .filter(|slot| part.start <= slot.at.start && slot.at.end <= part.end);
        let moved = |range: &Range<usize>, by: usize| range.start - by..range.end - by;
        let slots = inside.map(|slot| MaskSlot {
            at: moved(&slot.at, part.start),
            mark: moved(&slot.mark, part.start),
            value: slot.value.as_ref().map(|value| moved(value, at.start)),
            in_lines: slot.in_lines,
        });
        Some(MaskedText {
            original,
            text: self.text[part.clone()].to_owned(),
            slots: slots.collect(),
        })
    }

    /// Restores the values in a text that is to replace this one. `around` is a text that contains this one, for marks
    /// that this text does not have; all marks of a name in `around` must then have the same value.
    pub fn restore(
        &self,
        new: &str,
        around: Option<&Self>,
        facts: MarkFacts<'_>,
    ) -> Result<RestoredText, RestoreError> {
        let mut restored = RestoredText::plain(String::with_capacity(new.len()));
        let new_marks: Vec<Range<usize>> = marks(new).collect();
        let chosen = self.align(new, &new_marks, around, facts)?;
        let mut copied = 0;
        for (at, slot) in new_marks.iter().zip(chosen) {
            let Some((source, slot)) = slot else {
                continue;
            };
            let Some(value) = source.value(slot) else {
                continue;
            };
            // The quotes that masking has added around a number are removed as well.
            let quote = &source.text[slot.at.start..slot.mark.start];
            let is_quoted = new[..at.start].ends_with(quote) && new[at.end..].starts_with(quote);
            let quote_length = if is_quoted { quote.len() } else { 0 };
            restored
                .text
                .push_str(&new[copied..at.start - quote_length]);
            let start = restored.text.len();
            restored.text.push_str(value);
            restored.values.push(RestoredValue {
                rule: source.rule(slot).to_owned(),
                at: start..restored.text.len(),
                in_lines: slot.in_lines,
            });
            copied = at.end + quote_length;
        }
        restored.text.push_str(&new[copied..]);
        Ok(restored)
    }
}
