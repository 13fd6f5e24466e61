//! Ranges of missing line numbers.

use super::LinePosition;

/// A range of numbers for which no line has been found yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SequenceGap {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Position of the line that follows.
    pub(super) following: LinePosition,
}

/// All gaps, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct SequenceGaps(Vec<SequenceGap>);

impl SequenceGaps {
    /// Records that the lines `from` to `to` are missing.
    pub(super) fn add(&mut self, from: u64, to: u64, following: LinePosition) {
        self.0.push(SequenceGap {
            from,
            to,
            following,
        });
    }

    /// Removes a line that was found later. Returns false if the line was not missing.
    pub(super) fn fill(&mut self, seq: u64) -> bool {
        let Some(index) = self
            .0
            .iter()
            .position(|gap| (gap.from..=gap.to).contains(&seq))
        else {
            return false;
        };
        let SequenceGap {
            from,
            to,
            following,
        } = self.0.remove(index);
        let parts = [(from, seq - 1), (seq + 1, to)];
        for (from, to) in parts.into_iter().rev().filter(|(from, to)| from <= to) {
            let following = following.clone();
            self.0.insert(
                index,
                SequenceGap {
                    from,
                    to,
                    following,
                },
            );
        }
        true
    }

    /// Returns the remaining gaps, from line `first` on.
    pub(super) fn remaining(self, first: u64) -> impl Iterator<Item = SequenceGap> {
        self.0.into_iter().filter_map(move |gap| {
            let from = gap.from.max(first);
            (from <= gap.to).then_some(SequenceGap { from, ..gap })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_split_by_late_lines() {
        let position = LinePosition {
            file: "audit.jsonl".to_owned(),
            line: 1,
        };
        let mut gaps = SequenceGaps::default();
        gaps.add(3, 9, position);
        assert!(gaps.fill(5) && gaps.fill(9) && gaps.fill(3));
        assert!(!gaps.fill(5) && !gaps.fill(10));
        let remaining: Vec<_> = gaps.remaining(4).map(|gap| (gap.from, gap.to)).collect();
        assert_eq!(remaining, [(4, 4), (6, 8)]);
    }
}
