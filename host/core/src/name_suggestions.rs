//! Suggestions for misspelt names.

/// Minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// Suggestions whose similarity is lower than the best one's by this much are dropped.
const MAX_SIMILARITY_GAP: f64 = 0.25;

/// Maximum number of suggestions in a message.
const MAX_SUGGESTIONS: usize = 3;

/// Maximum number of names in a list of all known ones.
const MAX_LISTED: usize = 30;

/// Returns the known names most similar to `requested`, at most three, the best first.
pub fn nearest<'a>(requested: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let requested = requested.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let mut score = strsim::jaro_winkler(&requested, &lower);
            // One swapped or wrong letter is similar, even in a short name.
            if strsim::damerau_levenshtein(&requested, &lower) <= 1 {
                score = score.max(0.95);
            }
            if requested.len() >= 3 && (lower.contains(&requested) || requested.contains(&lower)) {
                score = score.max(0.9);
            }
            (score, name)
        })
        .filter(|(score, _)| *score > MIN_SIMILARITY)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    scored.retain(|(score, _)| *score > best - MAX_SIMILARITY_GAP);
    scored.truncate(MAX_SUGGESTIONS);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// Converts a function name to a tool name: `parseHTML` becomes `parse_html`. Names of MCP servers and their tools are
/// converted by [`mcp_snake`] instead.
pub fn snake(name: &str) -> String {
    let all: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (at, c) in all.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| all.get(at));
        let begins = before.is_some_and(|before| {
            before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || before.is_ascii_uppercase()
                    && all.get(at + 1).is_some_and(char::is_ascii_lowercase)
        });
        if c.is_ascii_uppercase() && begins {
            snake.push('_');
        }
        match c {
            '-' | '.' | ' ' => snake.push('_'),
            c => snake.push(c.to_ascii_lowercase()),
        }
    }
    snake
}

/// Converts the name of an MCP server or of its tool: `getFile` and `get-file` become `get_file`. Unlike [`snake`], it
/// separates no acronyms and replaces all special characters: `HTTPGet` becomes `httpget`, and `repos/list` becomes
/// `repos_list`. Settings refer to the resulting tool names, so they must not change.
pub fn mcp_snake(remote: &str) -> String {
    let mut name = String::with_capacity(remote.len());
    let mut after_lower_case = false;
    for c in remote.chars() {
        if c.is_ascii_uppercase() && after_lower_case {
            name.push('_');
        }
        after_lower_case = c.is_ascii_lowercase() || c.is_ascii_digit();
        name.push(match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => c,
            _ => '_',
        });
    }
    name
}

/// Returns ` Did you mean a, b or c?`, or an empty string if no known name is similar.
pub fn did_you_mean<'a>(requested: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(requested, known).as_slice() {
        [] => String::new(),
        [one] => format!(" Did you mean `{one}`?"),
        [rest @ .., last] => {
            let rest: Vec<_> = rest.iter().map(|name| format!("`{name}`")).collect();
            format!(" Did you mean {} or `{last}`?", rest.join(", "))
        }
    }
}

/// Returns the known names in backticks, such as `` `a`, `b` and `c` ``; the first ones and the number of the others if
/// there are many, and `None` if there are none. Control characters are replaced.
pub fn list_known<'a>(known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let all: Vec<String> = known
        .into_iter()
        .map(|name| format!("`{}`", crate::text::visible(name)))
        .collect();
    match all.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        names if names.len() > MAX_LISTED => {
            let rest = names.len() - MAX_LISTED;
            Some(format!(
                "{} and {rest} more",
                names[..MAX_LISTED].join(", ")
            ))
        }
        [rest @ .., last] => Some(format!("{} and {last}", rest.join(", "))),
    }
}

/// Adds a suggestion to a serde error about an unknown field or variant. Such an error lists the known names in
/// backticks.
pub fn with_nearest_name(message: &str) -> String {
    for (serde_words, own_words) in [
        ("unknown field ", "unknown key "),
        ("unknown variant ", "unknown value "),
    ] {
        let Some((before, after)) = message.split_once(serde_words) else {
            continue;
        };
        let names: Vec<&str> = after.split('`').skip(1).step_by(2).collect();
        let Some((unknown, known)) = names.split_first() else {
            continue;
        };
        let near = did_you_mean(unknown, known.iter().copied());
        let all = if known.is_empty() {
            " None are supported here.".to_owned()
        } else {
            format!(" Known: {}.", known.join(", "))
        };
        return format!("{before}{own_words}`{unknown}`.{near}{all}");
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snake_case_tool_names_come_from_function_names() {
        for (name, tool) in [
            ("calculateFibonacci", "calculate_fibonacci"),
            ("parseHTML", "parse_html"),
            ("HTMLParse", "html_parse"),
            ("run_tests", "run_tests"),
            ("run-tests", "run_tests"),
            ("sha256Sum", "sha256_sum"),
            ("a", "a"),
        ] {
            assert_eq!(snake(name), tool);
        }
    }

    #[test]
    fn mcp_snake_names_keep_acronyms_and_replace_special_characters() {
        for (name, tool) in [
            ("getFile", "get_file"),
            ("get-file", "get_file"),
            ("listPRs", "list_prs"),
            ("HTTPGet", "httpget"),
            ("repos/list", "repos_list"),
            ("sha256Sum", "sha256_sum"),
            ("ä.b", "__b"),
        ] {
            assert_eq!(mcp_snake(name), tool);
        }
    }

    #[test]
    fn name_suggestions_find_the_nearest_name() {
        let known = ["read_file", "write_file", "file_search", "git"];
        assert_eq!(nearest("raed_file", known).first(), Some(&"read_file"));
        assert_eq!(nearest("search", known).first(), Some(&"file_search"));
        assert!(nearest("zzzzzz", known).is_empty());
        assert_eq!(did_you_mean("gti", ["git"]), " Did you mean `git`?");
    }

    #[test]
    fn name_list_is_short_and_visible() {
        assert_eq!(list_known([]), None);
        assert_eq!(list_known(["a"]).unwrap(), "`a`");
        assert_eq!(list_known(["a", "b\n", "c"]).unwrap(), "`a`, `b ` and `c`");
        let many: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
        let list = list_known(many.iter().map(String::as_str)).unwrap();
        assert!(list.ends_with("`n29` and 10 more"), "{list}");
    }

    #[test]
    fn name_suggestions_are_added_to_serde_errors() {
        assert_eq!(
            with_nearest_name(
                "permissions: unknown field `allowlst`, expected `allowlist` or `autoAccept`"
            ),
            "permissions: unknown key `allowlst`. Did you mean `allowlist`? Known: allowlist, autoAccept."
        );
        assert_eq!(
            with_nearest_name("missing field `name`"),
            "missing field `name`"
        );
    }
}
