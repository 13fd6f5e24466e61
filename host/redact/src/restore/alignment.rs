//! Matching of the marks in a new text with those of the text that it replaces: by name, and if several values have
//! marks of one name, by the lines around each mark.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::{MARK, MarkFacts, MaskSlot, MaskedText, RestoreError};

/// Maximum number of comparisons of marks, and of the lines around them.
const COMPARED_MAX: usize = 20_000_000;

impl MaskedText<'_> {
    /// Finds the slot of each mark of a new text.
    pub(super) fn align<'s>(
        &'s self,
        new: &str,
        found: &[Range<usize>],
        around: Option<&'s Self>,
        facts: MarkFacts<'_>,
    ) -> Result<Vec<Option<(&'s Self, &'s MaskSlot)>>, RestoreError> {
        let mut chosen: Vec<Option<(&Self, &MaskSlot)>> = vec![None; found.len()];
        let mut names: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, at) in found.iter().enumerate() {
            names.entry(&new[at.clone()]).or_default().push(number);
        }
        for (mark, wanted) in names {
            let own = self.slots_of(mark);
            let all = around.map_or_else(Vec::new, |around| around.slots_of(mark));
            let mark = mark.to_owned();
            let rule = &mark[MARK.len()..mark.len() - 1];
            // The mark may stand for a value of another text, so its position must be that of the value here.
            if (facts.has_other_values)(rule)
                && !self.is_anchored(&own, new, found, &wanted, around)
            {
                return match own.is_empty() && all.is_empty() {
                    true => Err(RestoreError::Unknown { mark }),
                    false => Err(RestoreError::Ambiguous { mark }),
                };
            }
            let numbers: Vec<usize> = match (
                self.single(&own),
                around.and_then(|around| around.single(&all)),
            ) {
                (Some(slot), _) => {
                    wanted
                        .iter()
                        .for_each(|number| chosen[*number] = Some((self, slot)));
                    continue;
                }
                (None, Some(slot)) if own.is_empty() => {
                    let around = around.unwrap_or(self);
                    wanted
                        .iter()
                        .for_each(|number| chosen[*number] = Some((around, slot)));
                    continue;
                }
                (None, _) if own.is_empty() && all.is_empty() => {
                    if (facts.is_literal)(rule) {
                        continue;
                    }
                    return Err(RestoreError::Unknown { mark });
                }
                (None, _) if own.is_empty() => return Err(RestoreError::Ambiguous { mark }),
                (None, _) => wanted,
            };
            let places: Vec<Range<usize>> = numbers
                .iter()
                .map(|number| found[*number].clone())
                .collect();
            let matched = self.matched(&own, new, &places);
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
        found: &[Range<usize>],
        wanted: &[usize],
        around: Option<&Self>,
    ) -> bool {
        if around.is_some() && wanted.len() == slots.len() {
            return true;
        }
        let before = slots.iter().map(|slot| text_before(&self.text, &slot.mark));
        let before: HashSet<&str> = before.collect();
        let mut marks = wanted
            .iter()
            .map(|number| text_before(new, &found[*number]));
        marks.all(|text| before.contains(text))
    }

    fn slots_of(&self, mark: &str) -> Vec<&MaskSlot> {
        let slots = self.slots.iter();
        slots
            .filter(|slot| &self.text[slot.mark.clone()] == mark)
            .collect()
    }

    /// The first of these slots, if all of them have the same value.
    fn single<'s>(&self, slots: &[&'s MaskSlot]) -> Option<&'s MaskSlot> {
        let first = *slots.first()?;
        slots
            .iter()
            .all(|slot| self.value(slot) == self.value(first))
            .then_some(first)
    }

    /// Matches marks of one name by the text around them. A mark gets the slot that is more similar than any other
    /// slot, provided that the slot is less similar to every other mark.
    fn matched<'s>(
        &self,
        slots: &[&'s MaskSlot],
        new: &str,
        places: &[Range<usize>],
    ) -> Vec<Option<&'s MaskSlot>> {
        let mut matched = vec![None; places.len()];
        let mut ids = HashMap::from([(String::new(), BLANK)]);
        let (old, new) = (
            NumberedLines::new(&self.text, &mut ids),
            NumberedLines::new(new, &mut ids),
        );
        let mut budget = COMPARED_MAX;
        let mut scores = Vec::with_capacity(places.len());
        for place in places {
            let mut row = Vec::with_capacity(slots.len());
            for slot in slots {
                row.push(likeness((&old, &slot.mark), (&new, place), &mut budget));
            }
            if budget == 0 {
                return matched;
            }
            scores.push(row);
        }
        let mut free = vec![true; slots.len()];
        loop {
            let mut progress = false;
            for place in 0..places.len() {
                if matched[place].is_some() {
                    continue;
                }
                let best = (0..slots.len())
                    .filter(|slot| free[*slot])
                    .max_by_key(|slot| scores[place][*slot]);
                let Some(best) =
                    best.filter(|best| scores[place][*best] > MarkSimilarity::default())
                else {
                    continue;
                };
                let score = scores[place][best];
                let mut others = (0..slots.len()).filter(|slot| free[*slot] && *slot != best);
                let mut rivals =
                    (0..places.len()).filter(|other| *other != place && matched[*other].is_none());
                if others.any(|other| scores[place][other] >= score)
                    || rivals.any(|rival| scores[rival][best] >= score)
                {
                    continue;
                }
                matched[place] = Some(slots[best]);
                free[best] = false;
                progress = true;
            }
            if !progress {
                return matched;
            }
        }
    }
}

/// The text before a mark on its line, without its indentation.
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

fn likeness(
    (old, slot): (&NumberedLines<'_>, &Range<usize>),
    (new, place): (&NumberedLines<'_>, &Range<usize>),
    budget: &mut usize,
) -> MarkSimilarity {
    let (here, there) = (old.at(slot.start), new.at(place.start));
    let same_start = old.text[old.starts[here]..slot.start].trim_start()
        == new.text[new.starts[there]..place.start].trim_start();
    // A mark contains no line end.
    let same = |(a, b): &(&u32, &u32)| a == b;
    // Blank lines do not distinguish positions.
    let telling = |(id, _): &(&u32, &u32)| **id != BLANK;
    let above = old.ids[..here]
        .iter()
        .rev()
        .zip(new.ids[..there].iter().rev());
    let below = old.ids[here + 1..].iter().zip(&new.ids[there + 1..]);
    let mut compared = 0;
    let mut run = |pair: &(&u32, &u32)| {
        compared += 1;
        same(pair)
    };
    let lines = above.take_while(&mut run).filter(telling).count()
        + below.take_while(&mut run).filter(telling).count();
    *budget = budget.saturating_sub(compared + 1);
    MarkSimilarity {
        line: match (same_start, old.ids[here] == new.ids[there]) {
            (true, true) => 2,
            (true, false) => 1,
            (false, _) => 0,
        },
        lines,
    }
}

/// The number of all blank lines.
const BLANK: u32 = 0;

/// The lines of a text, numbered so that equal lines have equal numbers.
struct NumberedLines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    ids: Vec<u32>,
}

impl<'t> NumberedLines<'t> {
    fn new(text: &'t str, known: &mut HashMap<String, u32>) -> Self {
        let (mut starts, mut ids) = (Vec::new(), Vec::new());
        let mut at = 0;
        for line in text.split('\n') {
            starts.push(at);
            at += line.len() + 1;
            let next = known.len() as u32;
            let line = match line.trim() {
                "" => "",
                _ => line.trim_end_matches('\r'),
            };
            ids.push(*known.entry(line.to_owned()).or_insert(next));
        }
        Self { text, starts, ids }
    }

    /// The line that a byte is in.
    fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) - 1
    }
}
