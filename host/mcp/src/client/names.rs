//! What tools of a server are called here: names that every model provider takes, no two of them the same.

use std::collections::HashMap;

use mimir_core::ToolName;
use sha2::{Digest as _, Sha256};

/// The longest name of a tool.
const MOST: usize = 64;

/// Digits of a hash that keep names apart: one in four billion are the same.
const DIGITS: usize = 8;

/// A name of theirs in the letters of ours: `getFile` and `get-file` are `get_file`.
pub(super) fn word(theirs: &str) -> String {
    let mut ours = String::with_capacity(theirs.len());
    let mut small = false;
    for c in theirs.chars() {
        if c.is_ascii_uppercase() && small {
            ours.push('_');
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
        ours.push(match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => c,
            _ => '_',
        });
    }
    ours
}

/// A name for each of theirs, in their order. Which one a tool gets depends on no other that was there before: a new
/// one never takes the name of an old one that had it to itself by its own spelling.
pub(super) fn fit(prefix: &str, theirs: &[&str]) -> Vec<Option<ToolName>> {
    let plain: Vec<String> = theirs
        .iter()
        .map(|name| format!("{prefix}{}", word(name)))
        .collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *count.entry(name).or_default() += 1;
    }
    let is_own = |plain: &String, theirs: &str| *plain == format!("{prefix}{theirs}");
    let each = plain.iter().zip(theirs).map(|(plain, theirs)| {
        let own = is_own(plain, theirs);
        let shared = count.get(plain.as_str()).is_some_and(|count| *count > 1);
        let taken = crate::discovery::is_taken(plain);
        match plain.len() > MOST || (shared && !own) || taken {
            true => marked(plain, theirs),
            false => plain.clone(),
        }
    });
    let fitted: Vec<String> = each.collect();
    // A name may be spelled as another was marked.
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &fitted {
        *count.entry(name).or_default() += 1;
    }
    let each = fitted.iter().zip(theirs).map(|(name, theirs)| {
        let shared = count.get(name.as_str()).is_some_and(|count| *count > 1);
        match shared && !is_own(name, theirs) {
            true => None,
            false => ToolName::new(name).ok(),
        }
    });
    each.collect()
}

/// Whether a tool of a server with this prefix may be called so.
pub(super) fn may_be(prefix: &str, name: &str) -> bool {
    // The whole of a long prefix does not stand in the names.
    name.starts_with(mimir_core::text::prefix_bytes(prefix, MOST - DIGITS - 1))
}

/// A name that is cut to its limit and told apart by what it was.
fn marked(plain: &str, theirs: &str) -> String {
    let hash = format!("{:x}", Sha256::digest(theirs));
    let cut = mimir_core::text::prefix_bytes(plain, MOST - DIGITS - 1);
    format!("{cut}_{}", &hash[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, theirs: &[&str]) -> Vec<String> {
        let fitted = fit(prefix, theirs).into_iter();
        fitted.map(|name| name.unwrap().to_string()).collect()
    }

    #[test]
    fn names_are_in_our_letters_and_never_the_same() {
        assert_eq!(
            names("mcp_fs_", &["readFile", "list-dir", "HTTP", "ä.b"]),
            [
                "mcp_fs_read_file",
                "mcp_fs_list_dir",
                "mcp_fs_http",
                "mcp_fs___b"
            ]
        );
        let twins = names("", &["a_b", "a-b", "a.b"]);
        assert_eq!(twins[0], "a_b", "the own spelling keeps its name");
        assert!(twins[1].starts_with("a_b_") && twins[1] != twins[2]);
        let long = ["x".repeat(100), format!("{}y", "x".repeat(99))];
        let long = names("mcp_server_", &[&long[0], &long[1]]);
        assert!(long.iter().all(|name| name.len() == 64) && long[0] != long[1]);
    }

    #[test]
    fn a_name_says_whose_it_may_be() {
        for prefix in ["mcp_fs_", "", &"x".repeat(60)] {
            for name in names(prefix, &["go", &"y".repeat(70)]) {
                assert!(may_be(prefix, &name), "{prefix} {name}");
            }
        }
        assert!(!may_be("mcp_fs_", "mcp_other_go") && !may_be("mcp_fs_", "read_file"));
    }

    #[test]
    fn a_name_that_is_spelled_as_another_was_marked_is_not_that_one() {
        let marked = &names("", &["a_b", "a-b"])[1];
        let fitted = fit("", &["a_b", "a-b", marked]);
        assert_eq!(fitted[1], None);
        assert_eq!(
            fitted[2].as_ref().map(ToolName::as_str),
            Some(marked.as_str())
        );
    }

    #[test]
    fn no_tool_is_called_as_one_of_ours_is() {
        for (prefix, theirs) in [
            ("mimir_", "call_tool"),
            ("", "mimir_call_tool"),
            ("", "mimirSearchTools"),
            ("mimir_describe_", "tool"),
        ] {
            let [name] = &names(prefix, &[theirs])[..] else {
                panic!("{theirs} has no name");
            };
            let ours = [
                "mimir_call_tool",
                "mimir_search_tools",
                "mimir_describe_tool",
            ];
            let plain = ours.iter().find(|ours| name.starts_with(**ours)).unwrap();
            assert_eq!(name.len(), plain.len() + 1 + DIGITS, "{name}");
        }
    }

    #[test]
    fn a_newcomer_takes_no_name() {
        let before = names("", &["get-file"]);
        assert_eq!(before, ["get_file"]);
        let after = names("", &["get_file", "get-file"]);
        assert_eq!(after[0], "get_file");
        assert_ne!(after[1], "get_file");
    }
}
