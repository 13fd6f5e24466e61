//! Unified diffs of small texts.

use similar::TextDiff;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// The unified diff of two texts; `None` stands for a missing file. Empty if they are equal.
pub fn unified_diff(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let side = |text: Option<&str>, prefix: &str| match text {
        Some(_) => format!("{prefix}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (side(before, "a"), side(after, "b"));
    let diff = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
    diff.unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&old, &new)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unified_diff_names_both_sides_and_shows_context() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace("5\n", "five\n");
        assert_eq!(
            unified_diff("x.json", Some(before), Some(&after)),
            "--- a/x.json\n+++ b/x.json\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
        assert_eq!(
            unified_diff("x", None, Some("new\n")),
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+new\n"
        );
        assert_eq!(unified_diff("x", Some("same\n"), Some("same\n")), "");
    }
}
