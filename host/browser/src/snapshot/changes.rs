//! The difference between two snapshots of a page.

use std::collections::HashMap;

/// Returns the lines of `new` that are not in `old`, each below its ancestors. Lines that are left out between them are
/// not marked.
pub(crate) fn changed_lines(old: &[String], new: &[String]) -> Vec<String> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for line in old {
        *known.entry(line).or_default() += 1;
    }
    let mut is_shown = vec![false; new.len()];
    // The indices of the current line's ancestors, outermost first.
    let mut ancestors: Vec<usize> = Vec::new();
    for (index, line) in new.iter().enumerate() {
        let depth = depth_of(line);
        ancestors.retain(|ancestor| {
            new.get(*ancestor)
                .is_some_and(|line| depth_of(line) < depth)
        });
        match known.get_mut(line.as_str()) {
            Some(count) if *count > 0 => *count -= 1,
            _ => {
                for shown in ancestors.iter().chain([&index]) {
                    if let Some(shown) = is_shown.get_mut(*shown) {
                        *shown = true;
                    }
                }
            }
        }
        ancestors.push(index);
    }
    let shown = new.iter().zip(is_shown);
    shown
        .filter(|(_, is_shown)| *is_shown)
        .map(|(line, _)| line.clone())
        .collect()
}

fn depth_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn changes_are_shown_below_their_ancestors() {
        let old = lines("- list:\n  - item: a\n  - item: b\n- text: end");
        let new = lines("- list:\n  - item: a\n  - item: c\n- text: end\n- dialog:\n  - item: a");
        assert_eq!(
            changed_lines(&old, &new),
            lines("- list:\n  - item: c\n- dialog:\n  - item: a")
        );
        assert!(changed_lines(&new, &new).is_empty());
    }
}
