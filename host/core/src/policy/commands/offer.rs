//! What "always" stores for a command: the program, what it is told to do, and anything after that; for a program of
//! which is not known where its arguments begin to be details, the very same words.

use crate::command::Word;

/// Programs whose arguments are details: the files and options that they work on.
const PROGRAM: &[&str] = &[
    "black",
    "clang-format",
    "eslint",
    "gofmt",
    "jest",
    "mkdir",
    "mypy",
    "prettier",
    "pytest",
    "ruff",
    "rustfmt",
    "shellcheck",
    "stylua",
    "touch",
    "tsc",
    "vitest",
];

/// Programs whose first argument says what they do.
const SUBCOMMAND: &[&str] = &[
    "brew",
    "bun",
    "cargo",
    "composer",
    "deno",
    "dotnet",
    "gh",
    "git",
    "go",
    "gradle",
    "./gradlew",
    "just",
    "make",
    "mix",
    "mvn",
    "./mvnw",
    "npm",
    "npx",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "rustup",
    "stack",
    "swift",
    "task",
    "terraform",
    "uv",
    "yarn",
    "zig",
];

/// Subcommands that run what their own first argument names, so that one more word is kept.
const RUNS: &[(&str, &[&str])] = &[
    ("bun", &["run", "x"]),
    ("cargo", &["run", "xtask"]),
    ("deno", &["run", "task"]),
    ("go", &["run", "tool"]),
    ("npm", &["run", "run-script", "exec"]),
    ("pnpm", &["run", "exec", "dlx"]),
    ("poetry", &["run"]),
    ("uv", &["run", "tool"]),
    ("yarn", &["run", "exec", "dlx"]),
    ("zig", &["build"]),
];

/// Interpreters: the file that they run is kept.
const INTERPRETERS: &[&str] = &[
    "bash", "lua", "node", "perl", "php", "python", "python3", "ruby", "sh", "ts-node", "tsx",
];

/// The pattern that covers this command and those that are like it; nothing if none says so in words.
pub(super) fn pattern(words: &[Word]) -> Option<String> {
    let known: Vec<Option<&str>> = words.iter().map(Word::known).collect();
    let program = known
        .first()
        .copied()
        .flatten()
        .filter(|word| is_plain(word))?;
    let first = known.get(1).copied().flatten();
    let keep = match program {
        _ if PROGRAM.contains(&program) => Some(1),
        _ if SUBCOMMAND.contains(&program) => {
            let runs = RUNS.iter().find(|(name, _)| *name == program);
            match first {
                Some(word) if runs.is_some_and(|(_, all)| all.contains(&word)) => Some(3),
                _ => Some(2),
            }
        }
        _ if INTERPRETERS.contains(&program) => Some(2),
        _ => None,
    };
    let head = |count: usize| -> Option<Vec<&str>> {
        let head = known.get(..count)?.iter().copied();
        let head: Vec<&str> = head.collect::<Option<_>>()?;
        let is_name = |word: &&str| is_plain(word) && !word.starts_with('-');
        head.iter().all(is_name).then_some(head)
    };
    match keep.and_then(head) {
        Some(head) => Some(format!("{} *", head.join(" "))),
        None => {
            let all: Vec<&str> = known.into_iter().collect::<Option<_>>()?;
            all.iter().all(|word| is_plain(word)).then(|| all.join(" "))
        }
    }
}

/// Whether a word stands in a pattern for itself and nothing else.
fn is_plain(word: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "*?[]{}\\!,'\"`".contains(c);
    !word.is_empty() && !word.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandPattern;

    #[test]
    fn a_pattern_covers_what_was_seen() {
        for (command, offered) in [
            ("cargo test --workspace", Some("cargo test *")),
            ("cargo --locked test", Some("cargo --locked test")),
            ("cargo", Some("cargo")),
            ("npm run build -- --x", Some("npm run build *")),
            ("npm test", Some("npm test *")),
            ("make", Some("make")),
            ("make all", Some("make all *")),
            ("python3 tools/gen.py a", Some("python3 tools/gen.py *")),
            ("python3 -c x", Some("python3 -c x")),
            ("rm a b", Some("rm a b")),
            ("mkdir -p a", Some("mkdir *")),
            ("rm *", None),
            ("rm $x", None),
            ("$x", None),
            ("git commit -m $x", Some("git commit *")),
            ("git $x", None),
        ] {
            let word = |word: &str| match word.starts_with('$') {
                true => Word::Unknown(word.to_owned()),
                false => Word::Known(word.to_owned()),
            };
            let words: Vec<Word> = command.split(' ').map(word).collect();
            let pattern = pattern(&words);
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
