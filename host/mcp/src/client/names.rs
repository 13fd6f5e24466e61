//! Names for the tools of servers: valid for every model provider, and unique.

use std::collections::HashMap;

use mimir_core::ToolName;
use mimir_core::name_suggestions::mcp_snake;
use sha2::{Digest as _, Sha256};

/// Maximum length of a tool name.
const MAX_NAME_LENGTH: usize = 64;

/// Number of hash digits that make names unique: the chance of a collision is one in four billion.
const HASH_DIGITS: usize = 8;

/// Returns a tool name for each of the server's names, in order, or `None` if no unique name is possible. A new tool
/// never takes the name of an older tool whose own name has exactly that spelling.
pub(super) fn unique_names(prefix: &str, remote: &[&str]) -> Vec<Option<ToolName>> {
    let plain: Vec<String> = remote
        .iter()
        .map(|name| format!("{prefix}{}", mcp_snake(name)))
        .collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *count.entry(name).or_default() += 1;
    }
    let is_own = |plain: &String, remote: &str| *plain == format!("{prefix}{remote}");
    let names = plain.iter().zip(remote).map(|(plain, remote)| {
        let own = is_own(plain, remote);
        let shared = count.get(plain.as_str()).is_some_and(|count| *count > 1);
        let is_reserved = crate::discovery::is_discovery_tool(plain);
        if plain.len() > MAX_NAME_LENGTH || (shared && !own) || is_reserved {
            with_hash(plain, remote)
        } else {
            plain.clone()
        }
    });
    let unique: Vec<String> = names.collect();
    // A name may equal another name with its hash.
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &unique {
        *count.entry(name).or_default() += 1;
    }
    let names = unique.iter().zip(remote).map(|(name, remote)| {
        let shared = count.get(name.as_str()).is_some_and(|count| *count > 1);
        if shared && !is_own(name, remote) {
            None
        } else {
            ToolName::new(name).ok()
        }
    });
    names.collect()
}

/// Returns true if a tool of a server with this prefix may have this name.
pub(super) fn may_name_tool(prefix: &str, name: &str) -> bool {
    // A long prefix is truncated in names.
    name.starts_with(mimir_core::text::prefix_bytes(
        prefix,
        MAX_NAME_LENGTH - HASH_DIGITS - 1,
    ))
}

/// Returns a name truncated to the limit, with a hash of the original name.
fn with_hash(plain: &str, remote: &str) -> String {
    let hash = format!("{:x}", Sha256::digest(remote));
    let prefix = mimir_core::text::prefix_bytes(plain, MAX_NAME_LENGTH - HASH_DIGITS - 1);
    format!("{prefix}_{}", &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, remote: &[&str]) -> Vec<String> {
        let unique = unique_names(prefix, remote).into_iter();
        unique.map(|name| name.unwrap().to_string()).collect()
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
        let with_hash = &names("", &["a_b", "a-b"])[1];
        let unique = unique_names("", &["a_b", "a-b", with_hash]);
        assert_eq!(unique[1], None);
        assert_eq!(
            unique[2].as_ref().map(ToolName::as_str),
            Some(with_hash.as_str())
        );
    }

    #[test]
    fn names_avoid_discovery_tools() {
        for (prefix, remote) in [
            ("mimir_", "call_tool"),
            ("", "mimir_call_tool"),
            ("", "mimirSearchTools"),
            ("mimir_describe_", "tool"),
        ] {
            let [name] = &names(prefix, &[remote])[..] else {
                panic!("{remote} has no name");
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
