//! The numbers of lines that are missing so far.

use super::Place;

/// A row of numbers that no line has had yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The line that follows.
    pub(super) before: Place,
}

/// All of them, in the order in which they were noticed.
#[derive(Debug, Default)]
pub(super) struct Gaps(Vec<Gap>);

impl Gaps {
    /// The lines `from` to `to` are missing.
    pub(super) fn add(&mut self, from: u64, to: u64, before: Place) {
        self.0.push(Gap { from, to, before });
    }

    /// A line has come after all; false if it was not missing.
    pub(super) fn fill(&mut self, seq: u64) -> bool {
        let Some(at) = self
            .0
            .iter()
            .position(|gap| (gap.from..=gap.to).contains(&seq))
        else {
            return false;
        };
        let Gap { from, to, before } = self.0.remove(at);
        let parts = [(from, seq - 1), (seq + 1, to)];
        for (from, to) in parts.into_iter().rev().filter(|(from, to)| from <= to) {
            let before = before.clone();
            self.0.insert(at, Gap { from, to, before });
        }
        true
    }

    /// What is still missing from `first` on.
    pub(super) fn left(self, first: u64) -> impl Iterator<Item = Gap> {
        self.0.into_iter().filter_map(move |gap| {
            let from = gap.from.max(first);
            (from <= gap.to).then_some(Gap { from, ..gap })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_all_splits_a_gap() {
        let place = Place {
            file: "audit.jsonl".to_owned(),
            line: 1,
        };
        let mut gaps = Gaps::default();
        gaps.add(3, 9, place);
        assert!(gaps.fill(5) && gaps.fill(9) && gaps.fill(3));
        assert!(!gaps.fill(5) && !gaps.fill(10));
        let left: Vec<_> = gaps.left(4).map(|gap| (gap.from, gap.to)).collect();
        assert_eq!(left, [(4, 4), (6, 8)]);
    }
}
