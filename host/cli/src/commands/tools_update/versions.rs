//! Comparison of versions in annotations, in the order of semantic versioning.

use std::cmp::Ordering;

/// Compares two versions; `None` if one of them has no numeric form, such as `main`.
pub fn compare_versions(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (
        ComparableVersion::parse(one)?,
        ComparableVersion::parse(other)?,
    );
    let numbers = one.numbers.cmp(&other.numbers);
    Some(numbers.then_with(|| compare_pre_releases(one.pre_release, other.pre_release)))
}

/// A parsed version. Build metadata after `+` does not count.
struct ComparableVersion<'a> {
    /// The numbers, without zeros at the end.
    numbers: Vec<u64>,
    pre_release: &'a str,
}

impl<'a> ComparableVersion<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next().unwrap_or_default();
        let (core, pre_release) = text.split_once('-').unwrap_or((text, ""));
        let is_number = |part: &str| part.bytes().all(|c| c.is_ascii_digit());
        let numbers = core.split('.');
        let numbers = numbers.map(|part| part.parse().ok().filter(|_| is_number(part)));
        let mut numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Some(Self {
            numbers,
            pre_release,
        })
    }
}

fn compare_pre_releases(one: &str, other: &str) -> Ordering {
    match (one.is_empty(), other.is_empty()) {
        (true, true) => return Ordering::Equal,
        // A pre-release is older than its release.
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        let order = match (one.next(), other.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_by_semantic_versioning() {
        for (older, newer) in [
            ("1.2.0", "1.10.0"),
            ("1.2", "1.2.1"),
            ("v1.9", "2"),
            ("1.0.0-alpha", "1.0.0"),
            ("1.0.0-alpha.1", "1.0.0-alpha.beta"),
            ("1.0.0-beta.2", "1.0.0-beta.11"),
            ("1.0.0-rc", "1.0.0-rc.1"),
        ] {
            assert_eq!(compare_versions(older, newer), Some(Ordering::Less));
            assert_eq!(compare_versions(newer, older), Some(Ordering::Greater));
        }
        assert_eq!(compare_versions("1.2", "v1.2.0+b7"), Some(Ordering::Equal));
        for unknown in ["main", "", "1.x", "99999999999999999999", "+1"] {
            assert_eq!(compare_versions(unknown, "1.0"), None, "{unknown}");
        }
    }
}
