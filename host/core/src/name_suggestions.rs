//! Suggestions for misspelt names.

/// Maximum relative distance of a helpful suggestion.
const FAR: f64 = 0.6;

/// Suggestions further from the nearest one than this are dropped.
const WORSE: f64 = 0.25;

/// Maximum number of suggestions in a message.
const MOST: usize = 3;

/// The known names nearest to `wanted`, best first, at most three.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let mut score = strsim::jaro_winkler(&wanted, &lower);
            // One swap or one wrong letter is near, however short the name.
            if strsim::damerau_levenshtein(&wanted, &lower) <= 1 {
                score = score.max(0.95);
            }
            if wanted.len() >= 3 && (lower.contains(&wanted) || wanted.contains(&lower)) {
                score = score.max(0.9);
            }
            (score, name)
        })
        .filter(|(score, _)| *score > FAR)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    scored.retain(|(score, _)| *score > best - WORSE);
    scored.truncate(MOST);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// The tool name of a function name: `parseHTML` becomes `parse_html`.
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

/// ` Did you mean a, b or c?`, or an empty string if no name is near.
pub fn did_you_mean<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(wanted, known).as_slice() {
        [] => String::new(),
        [one] => format!(" Did you mean `{one}`?"),
        [rest @ .., last] => {
            let rest: Vec<_> = rest.iter().map(|name| format!("`{name}`")).collect();
            format!(" Did you mean {} or `{last}`?", rest.join(", "))
        }
    }
}

/// Adds the nearest known key or value to an error of serde about an unknown one, which lists all known ones in
/// backticks.
pub fn with_nearest_name(message: &str) -> String {
    for (theirs, ours) in [
        ("unknown field ", "unknown key "),
        ("unknown variant ", "unknown value "),
    ] {
        let Some((before, after)) = message.split_once(theirs) else {
            continue;
        };
        let names: Vec<&str> = after.split('`').skip(1).step_by(2).collect();
        let Some((unknown, known)) = names.split_first() else {
            continue;
        };
        let near = did_you_mean(unknown, known.iter().copied());
        let all = if known.is_empty() {
            " Nothing is known there.".to_owned()
        } else {
            format!(" Known: {}.", known.join(", "))
        };
        return format!("{before}{ours}`{unknown}`.{near}{all}");
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
    fn name_suggestions_find_the_nearest_name() {
        let known = ["read_file", "write_file", "file_search", "git"];
        assert_eq!(nearest("raed_file", known).first(), Some(&"read_file"));
        assert_eq!(nearest("search", known).first(), Some(&"file_search"));
        assert!(nearest("zzzzzz", known).is_empty());
        assert_eq!(did_you_mean("gti", ["git"]), " Did you mean `git`?");
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
