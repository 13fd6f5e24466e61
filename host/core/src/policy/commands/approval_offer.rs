//! The pattern that the answer "always" stores for a command: the program and its subcommand with any arguments. For a
//! program whose arguments may change what it does: exactly the same words.

use mimir_commands::subcommands::{count_action_words, runs_test_module};

use crate::command::ShellWord;

/// Returns the pattern that covers this command and similar ones. `None` if no pattern can express the command.
pub(super) fn pattern_for(words: &[ShellWord]) -> Option<String> {
    let known: Vec<Option<&str>> = words.iter().map(ShellWord::known).collect();
    let action_words = count_action_words(words);
    let is_module = runs_test_module(words);
    let head = |count: usize| -> Option<Vec<&str>> {
        let head = known.get(..count)?.iter().copied();
        let head: Vec<&str> = head.collect::<Option<_>>()?;
        let is_name = |word: &&str| is_plain(word) && (is_module || !word.starts_with('-'));
        head.iter().all(is_name).then_some(head)
    };
    match action_words.and_then(head) {
        Some(head) => Some(format!("{} *", head.join(" "))),
        None => {
            let words: Vec<&str> = known.into_iter().collect::<Option<_>>()?;
            words
                .iter()
                .all(|word| is_plain(word))
                .then(|| words.join(" "))
        }
    }
}

/// Returns true if a word matches only itself in a pattern.
fn is_plain(word: &str) -> bool {
    let is_special = |c: char| c.is_whitespace() || c.is_control() || "*?[]{}\\!,'\"`".contains(c);
    !word.is_empty() && !word.contains(is_special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandPattern;

    #[test]
    fn approval_offer_pattern_covers_the_shown_command() {
        for (command, offered) in [
            ("cargo test --workspace", Some("cargo test *")),
            ("cargo --locked test", Some("cargo --locked test")),
            ("cargo", Some("cargo")),
            ("npm run build -- --x", Some("npm run build *")),
            ("npm test", Some("npm test *")),
            ("make", Some("make")),
            ("make all", Some("make all")),
            ("mvn -q verify", Some("mvn -q verify")),
            ("python3 tools/gen.py a", Some("python3 tools/gen.py *")),
            ("python3 -c x", Some("python3 -c x")),
            ("rm a b", Some("rm a b")),
            ("mkdir -p a", Some("mkdir *")),
            ("rm *", None),
            ("rm $x", None),
            ("$x", None),
            ("git commit -m $x", Some("git commit *")),
            ("git $x", None),
            // If one more word selects the action, it is kept; if that is unknown, all words are kept.
            ("gh repo view", Some("gh repo view *")),
            ("gh pr list --limit 3", Some("gh pr list *")),
            ("gh repo", Some("gh repo")),
            ("gh repo -h", Some("gh repo -h")),
            ("gh repo $x", None),
            ("gh api repos/a/b", Some("gh api repos/a/b")),
            ("git stash", Some("git stash")),
            ("git stash list", Some("git stash list *")),
            ("git remote -v", Some("git remote -v")),
            ("git config user.name a", Some("git config user.name a")),
            ("terraform state list", Some("terraform state list *")),
            ("terraform apply", Some("terraform apply")),
            ("uv pip list", Some("uv pip list *")),
            ("uv run pytest -x", Some("uv run pytest *")),
            ("uv run python a.py b", Some("uv run python a.py *")),
            ("uv run a.py b", Some("uv run a.py b")),
            ("uv tool run ruff check", Some("uv tool run ruff *")),
            ("npm config get x", Some("npm config get *")),
            ("npm exec eslint a", Some("npm exec eslint *")),
            ("npx tsc --noEmit", Some("npx tsc *")),
            ("python3 -m unittest -v", Some("python3 -m unittest *")),
            ("python -m pytest tests -x", Some("python -m pytest *")),
            ("python3 -m tool a", Some("python3 -m tool a")),
            ("npx prisma migrate dev", Some("npx prisma migrate dev")),
            ("docker container ls", Some("docker container ls")),
            ("kubectl config view", Some("kubectl config view")),
            ("aws s3 ls", Some("aws s3 ls")),
            (
                "cargo sqlx database create",
                Some("cargo sqlx database create"),
            ),
            ("cargo nextest run a", Some("cargo nextest run *")),
            ("go mod tidy -v", Some("go mod tidy *")),
            ("yarn workspace a add b", Some("yarn workspace a add b")),
        ] {
            let word = |word: &str| match word.starts_with('$') {
                true => ShellWord::Unknown(word.to_owned()),
                false => ShellWord::Known(word.to_owned()),
            };
            let words: Vec<ShellWord> = command.split(' ').map(word).collect();
            let pattern = pattern_for(&words);
            assert_eq!(pattern.as_deref(), offered, "{command}");
            if let Some(pattern) = pattern {
                assert!(
                    CommandPattern::parse(&pattern).unwrap().matches(&words),
                    "{command}"
                );
            }
        }
    }
}
