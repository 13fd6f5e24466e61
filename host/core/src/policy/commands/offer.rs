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

/// Programs of these lists that run nothing which the project says.
const RUN_THEIR_OWN: &[&str] = &[
    "black",
    "brew",
    "clang-format",
    "gh",
    "git",
    "gofmt",
    "mkdir",
    "mypy",
    "pip",
    "pip3",
    "ruff",
    "rustfmt",
    "rustup",
    "shellcheck",
    "stylua",
    "terraform",
    "touch",
];

/// Whether what a command runs is said by files of the project.
pub(super) fn builds(words: &[Word]) -> bool {
    let program = words.first().and_then(Word::known).unwrap_or_default();
    let listed = PROGRAM.contains(&program) || SUBCOMMAND.contains(&program);
    listed && !RUN_THEIR_OWN.contains(&program)
}

/// The word that names the file which the command runs, if it names one: a program by its path, or what an interpreter is
/// given. What a build runs is named nowhere.
pub(super) fn code(words: &[Word]) -> Option<&Word> {
    let program = words.first()?;
    let name = program.known()?;
    if name.contains('/') {
        return Some(program);
    }
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let reads = |one: &str| one == name || one == name.trim_end_matches(digits);
    if !matches!(name, "." | "source") && !INTERPRETERS.iter().any(|one| reads(one)) {
        return None;
    }
    let mut rest = words[1..].iter();
    rest.find(|word| !word.text().starts_with('-'))
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
    fn what_is_run_is_named() {
        for (command, wanted) in [
            ("sh x.sh a", Some("x.sh")),
            ("python3.12 -u x.py", Some("x.py")),
            (". ./env.sh", Some("./env.sh")),
            ("./run --fast x", Some("./run")),
            ("bin/tool", Some("bin/tool")),
            ("cargo test x.rs", None),
            ("python3", None),
            ("cat x.sh", None),
        ] {
            let words = command.split(' ').map(|word| Word::Known(word.to_owned()));
            let words: Vec<Word> = words.collect();
            let named = code(&words).and_then(Word::known);
            assert_eq!(named, wanted, "{command}");
        }
    }

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
