//! Matching of the marks in a new text with those of the replaced text: by name, and, if several values have marks of
//! one name, by the lines around each mark.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::{MARK, MarkFacts, MaskSlot, MaskedText, RestoreError};

/// Maximum number of comparisons of marks, and of the lines around them.
const COMPARED_MAX: usize = 20_000_000;

impl MaskedText<'_> {
    /// Finds the slot of each mark in a new text.
    pub(super) fn align<'s>(
        &'s self,
        new: &str,
        new_marks: &[Range<usize>],
        around: Option<&'s Self>,
        facts: MarkFacts<'_>,
    ) -> Result<Vec<Option<(&'s Self, &'s MaskSlot)>>, RestoreError> {
        let mut chosen: Vec<Option<(&Self, &MaskSlot)>> = vec![None; new_marks.len()];
        let mut names: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, at) in new_marks.iter().enumerate() {
            names.entry(&new[at.clone()]).or_default().push(number);
        }
        for (mark, numbers_of_mark) in names {
            let own_slots = self.slots_of(mark);
            let outer_slots = around.map_or_else(Vec::new, |around| around.slots_of(mark));
            let mark = mark.to_owned();
            let rule = &mark[MARK.len()..mark.len() - 1];
            // The mark may stand for a value of another text, so its position must match that of the value here.
            if (facts.has_other_values)(rule)
                && !self.is_anchored(&own_slots, new, new_marks, &numbers_of_mark, around)
            {
                return if own_slots.is_empty() && outer_slots.is_empty() {
                    Err(RestoreError::Unknown { mark })
                } else {
                    Err(RestoreError::Ambiguous { mark })
                };
            }
            let numbers: Vec<usize> = match (
                self.slot_of_single_value(&own_slots),
                around.and_then(|around| around.slot_of_single_value(&outer_slots)),
            ) {
                (Some(slot), _) => {
                    numbers_of_mark
                        .iter()
                        .for_each(|number| chosen[*number] = Some((self, slot)));
                    continue;
                }
                (None, Some(slot)) if own_slots.is_empty() => {
                    let around = around.unwrap_or(self);
                    numbers_of_mark
                        .iter()
                        .for_each(|number| chosen[*number] = Some((around, slot)));
                    continue;
                }
                (None, _) if own_slots.is_empty() && outer_slots.is_empty() => {
                    if (facts.is_literal)(rule) {
                        continue;
                    }
                    return Err(RestoreError::Unknown { mark });
                }
                (None, _) if own_slots.is_empty() => return Err(RestoreError::Ambiguous { mark }),
                (None, _) => numbers_of_mark,
            };
            let ranges: Vec<Range<usize>> = numbers
                .iter()
                .map(|number| new_marks[*number].clone())
                .collect();
            let matched = self.match_by_context(&own_slots, new, &ranges);
            for (number, slot) in numbers.iter().zip(matched) {
                let Some(slot) = slot else {
                    return Err(RestoreError::Ambiguous { mark });
                };
                chosen[*number] = Some((self, slot));
            }
        }
        Ok(chosen)
    }

    /// Returns true if each of these marks of a new text follows the same text on its line as one of the slots, or if a
    /// part is replaced by a text with as many marks.
    fn is_anchored(
        &self,
        slots: &[&MaskSlot],
        new: &str,
        new_marks: &[Range<usize>],
        numbers_of_mark: &[usize],
        around: Option<&Self>,
    ) -> bool {
        if around.is_some() && numbers_of_mark.len() == slots.len() {
            return true;
        }
        let before = slots.iter().map(|slot| text_before(&self.text, &slot.mark));
        let before: HashSet<&str> = before.collect();
        let mut marks = numbers_of_mark
            .iter()
            .map(|number| text_before(new, &new_marks[*number]));
        marks.all(|text| before.contains(text))
    }

    fn slots_of(&self, mark: &str) -> Vec<&MaskSlot> {
        let slots = self.slots.iter();
        slots
            .filter(|slot| &self.text[slot.mark.clone()] == mark)
            .collect()
    }

    /// Returns the first slot, if all slots have the same value.
    fn slot_of_single_value<'s>(&self, slots: &[&'s MaskSlot]) -> Option<&'s MaskSlot> {
        let first = *slots.first()?;
        slots
            .iter()
            .all(|slot| self.value(slot) == self.value(first))
            .then_some(first)
    }

    /// Matches marks of one name by the text around them. A mark gets the slot that is more similar than any other
    /// slot, provided that the slot is less similar to every other mark.
    fn match_by_context<'s>(
        &self,
        slots: &[&'s MaskSlot],
        new: &str,
        marks: &[Range<usize>],
    ) -> Vec<Option<&'s MaskSlot>> {
        let mut matched = vec![None; marks.len()];
        let mut ids = HashMap::from([(String::new(), BLANK)]);
        let (old, new) = (
            NumberedLines::new(&self.text, &mut ids),
            NumberedLines::new(new, &mut ids),
        );
        let mut budget = COMPARED_MAX;
        let mut scores = Vec::with_capacity(marks.len());
        for mark in marks {
            let mut row = Vec::with_capacity(slots.len());
            for slot in slots {
                row.push(similarity((&old, &slot.mark), (&new, mark), &mut budget));
            }
            if budget == 0 {
                return matched;
            }
            scores.push(row);
        }
        let mut free = vec![true; slots.len()];
        loop {
            let mut progress = false;
            for mark in 0..marks.len() {
                if matched[mark].is_some() {
                    continue;
                }
                let best = (0..slots.len())
                    .filter(|slot| free[*slot])
                    .max_by_key(|slot| scores[mark][*slot]);
                let Some(best) =
                    best.filter(|best| scores[mark][*best] > MarkSimilarity::default())
                else {
                    continue;
                };
                let score = scores[mark][best];
                let mut others = (0..slots.len()).filter(|slot| free[*slot] && *slot != best);
                let mut rivals =
                    (0..marks.len()).filter(|other| *other != mark && matched[*other].is_none());
                if others.any(|other| scores[mark][other] >= score)
                    || rivals.any(|rival| scores[rival][best] >= score)
                {
                    continue;
                }
                matched[mark] = Some(slots[best]);
                free[best] = false;
                progress = true;
            }
            if !progress {
                return matched;
            }
        }
    }
}

/// Returns the text before a mark on its line, without the indentation.
fn text_before<'t>(text: &'t str, mark: &Range<usize>) -> &'t str {
    let start = text[..mark.start].rfind('\n').map_or(0, |at| at + 1);
    text[start..mark.start].trim_start()
}

/// The similarity of the surroundings of two marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct MarkSimilarity {
    /// 2 if the lines are equal, 1 if they are equal up to the mark.
    line: u8,
    /// The number of equal lines above and below.
    lines: usize,
}

fn similarity(
    (old, slot): (&NumberedLines<'_>, &Range<usize>),
    (new, mark): (&NumberedLines<'_>, &Range<usize>),
    budget: &mut usize,
) -> MarkSimilarity {
    let (old_line, new_line) = (old.at(slot.start), new.at(mark.start));
    let has_same_start = old.text[old.starts[old_line]..slot.start].trim_start()
        == new.text[new.starts[new_line]..mark.start].trim_start();
    // A mark contains no line end.
    let is_same = |(a, b): &(&u32, &u32)| a == b;
    // Blank lines do not distinguish positions.
    let is_distinctive = |(id, _): &(&u32, &u32)| **id != BLANK;
    let above = old.ids[..old_line]
        .iter()
        .rev()
        .zip(new.ids[..new_line].iter().rev());
    let below = old.ids[old_line + 1..].iter().zip(&new.ids[new_line + 1..]);
    let mut compared = 0;
    let mut compare = |pair: &(&u32, &u32)| {
        compared += 1;
        is_same(pair)
    };
    let lines = above
        .take_while(&mut compare)
        .filter(is_distinctive)
        .count()
        + below
            .take_while(&mut compare)
            .filter(is_distinctive)
            .count();
    *budget = budget.saturating_sub(compared + 1);
    MarkSimilarity {
        line: match (has_same_start, old.ids[old_line] == new.ids[new_line]) {
            (true, true) => 2,
            (true, false) => 1,
            (false, _) => 0,
        },
        lines,
    }
}

/// Number that blank lines share.
const BLANK: u32 = 0;

/// The lines of a text, numbered so that equal lines have equal numbers.
struct NumberedLines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    ids: Vec<u32>,
}

impl<'t> NumberedLines<'t> {
    fn new(text: &'t str, line_ids: &mut HashMap<String, u32>) -> Self {
        let (mut starts, mut ids) = (Vec::new(), Vec::new());
        let mut at = 0;
        for line in text.split('\n') {
            starts.push(at);
            at += line.len() + 1;
            let next = line_ids.len() as u32;
            let line = match line.trim() {
                "" => "",
                _ => line.trim_end_matches('\r'),
            };
            ids.push(*line_ids.entry(line.to_owned()).or_insert(next));
        }
        Self { text, starts, ids }
    }

    /// Returns the index of the line that contains a byte.
    fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) - 1
    }
}
