//! Names for the tools of servers: valid for every model provider, and unique.

use std::collections::HashMap;

use mimir_core::ToolName;
use sha2::{Digest as _, Sha256};

/// Maximum length of a tool name.
const MAX_NAME_LENGTH: usize = 64;

/// Number of hash digits that make names unique: the chance of a collision is one in four billion.
const HASH_DIGITS: usize = 8;

/// Converts a server's name to snake case: `getFile` and `get-file` become `get_file`.
pub(super) fn snake_name(theirs: &str) -> String {
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

/// Returns a name for each of the server's names, in order. The name of a tool does not depend on tools that were
/// added later: a new tool never takes the name of an old one that had that spelling to itself.
pub(super) fn unique_names(prefix: &str, theirs: &[&str]) -> Vec<Option<ToolName>> {
    let plain: Vec<String> = theirs
        .iter()
        .map(|name| format!("{prefix}{}", snake_name(name)))
        .collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *count.entry(name).or_default() += 1;
    }
    let is_own = |plain: &String, theirs: &str| *plain == format!("{prefix}{theirs}");
    let each = plain.iter().zip(theirs).map(|(plain, theirs)| {
        let own = is_own(plain, theirs);
        let shared = count.get(plain.as_str()).is_some_and(|count| *count > 1);
        let taken = crate::discovery::is_discovery_tool(plain);
        match plain.len() > MAX_NAME_LENGTH || (shared && !own) || taken {
            true => marked(plain, theirs),
            false => plain.clone(),
        }
    });
    let fitted: Vec<String> = each.collect();
    // A name may be spelled like another with a hash appended.
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

/// Returns true if a tool of a server with this prefix may have this name.
pub(super) fn may_name_tool(prefix: &str, name: &str) -> bool {
    // Names contain a long prefix only up to the length limit.
    name.starts_with(mimir_core::text::prefix_bytes(
        prefix,
        MAX_NAME_LENGTH - HASH_DIGITS - 1,
    ))
}

/// Returns a name truncated to the limit, with a hash of the original name.
fn marked(plain: &str, theirs: &str) -> String {
    let hash = format!("{:x}", Sha256::digest(theirs));
    let cut = mimir_core::text::prefix_bytes(plain, MAX_NAME_LENGTH - HASH_DIGITS - 1);
    format!("{cut}_{}", &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, theirs: &[&str]) -> Vec<String> {
        let fitted = unique_names(prefix, theirs).into_iter();
        fitted.map(|name| name.unwrap().to_string()).collect()
    }

    #[test]
    fn names_are_valid_and_unique() {
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
    fn names_match_the_prefix_of_their_server() {
        for prefix in ["mcp_fs_", "", &"x".repeat(60)] {
            for name in names(prefix, &["go", &"y".repeat(70)]) {
                assert!(may_name_tool(prefix, &name), "{prefix} {name}");
            }
        }
        assert!(
            !may_name_tool("mcp_fs_", "mcp_other_go") && !may_name_tool("mcp_fs_", "read_file")
        );
    }

    #[test]
    fn names_do_not_collide_with_hashed_names() {
        let marked = &names("", &["a_b", "a-b"])[1];
        let fitted = unique_names("", &["a_b", "a-b", marked]);
        assert_eq!(fitted[1], None);
        assert_eq!(
            fitted[2].as_ref().map(ToolName::as_str),
            Some(marked.as_str())
        );
    }

    #[test]
    fn names_avoid_discovery_tools() {
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
            assert_eq!(name.len(), plain.len() + 1 + HASH_DIGITS, "{name}");
        }
    }

    #[test]
    fn names_of_new_tools_replace_no_old_ones() {
        let before = names("", &["get-file"]);
        assert_eq!(before, ["get_file"]);
        let after = names("", &["get_file", "get-file"]);
        assert_eq!(after[0], "get_file");
        assert_ne!(after[1], "get_file");
    }
}
