//! Subcommands: the leading words of a command that determine its effect, and the files that it runs. The other words
//! are details, such as the files to work on.

use crate::ShellWord;

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

/// A program whose first argument is a subcommand, grouped by the rest: details, one more subcommand word, or another
/// command. For subcommands in no group it is unknown how many words are significant.
struct SubcommandLevels {
    program: &'static str,
    one: &'static str,
    two: &'static str,
    runs: &'static str,
}

const fn levels(program: &'static str, one: &'static str) -> SubcommandLevels {
    SubcommandLevels {
        program,
        one,
        two: "",
        runs: "",
    }
}

/// Every argument is a goal of its own.
const GOALS: &str = "";

const LEVELS: &[SubcommandLevels] = &[
    SubcommandLevels {
        two: "services",
        ..levels(
            "brew",
            "install list search info update upgrade uninstall cleanup doctor",
        )
    },
    SubcommandLevels {
        two: "pm run",
        runs: "x",
        ..levels("bun", "add build install remove test update")
    },
    SubcommandLevels {
        two: "miri nextest run xtask",
        ..levels(
            "cargo",
            "add audit b bench build c check clean clippy deny doc expand fetch fix fmt generate-lockfile init \
             install machete metadata new outdated package publish remove rustc search t test tree uninstall \
             update vendor yank",
        )
    },
    levels(
        "composer",
        "dump-autoload install outdated remove require show update validate",
    ),
    SubcommandLevels {
        two: "run task",
        ..levels("deno", "add bench cache check fmt info install lint test")
    },
    SubcommandLevels {
        two: "add nuget remove tool",
        ..levels(
            "dotnet",
            "build clean format pack publish restore run test watch",
        )
    },
    SubcommandLevels {
        two: "alias auth cache codespace config extension gist gpg-key issue label org pr project release repo \
              ruleset run search secret ssh-key variable workflow",
        ..levels("gh", "")
    },
    SubcommandLevels {
        two: "bisect bundle lfs maintenance notes reflog remote sparse-checkout stash submodule subtree worktree",
        ..levels(
            "git",
            "add am apply archive blame branch checkout cherry-pick clean clone commit diff fetch format-patch \
             grep init log ls-files merge mv pull push rebase reset restore revert rm show status switch tag",
        )
    },
    SubcommandLevels {
        two: "mod run tool work",
        ..levels(
            "go",
            "build clean doc fix fmt generate get install list test vet",
        )
    },
    levels("gradle", GOALS),
    levels("./gradlew", GOALS),
    levels("just", GOALS),
    levels("make", GOALS),
    levels("mix", GOALS),
    levels("mvn", GOALS),
    levels("./mvnw", GOALS),
    SubcommandLevels {
        two: "access audit cache config dist-tag org owner pkg profile run run-script team token",
        runs: "exec x",
        ..levels(
            "npm",
            "add ci i install link outdated pack prune publish rebuild remove start t test uninstall update",
        )
    },
    levels("pip", "download freeze install list show uninstall wheel"),
    levels("pip3", "download freeze install list show uninstall wheel"),
    SubcommandLevels {
        two: "config run store",
        runs: "dlx exec",
        ..levels(
            "pnpm",
            "add build dev format i install lint outdated remove start test typecheck update",
        )
    },
    SubcommandLevels {
        two: "cache config env self source",
        runs: "run",
        ..levels("poetry", "add build check install lock remove show update")
    },
    SubcommandLevels {
        two: "component override self target toolchain",
        ..levels("rustup", "default update")
    },
    SubcommandLevels {
        runs: "exec",
        ..levels("stack", "bench build clean haddock test")
    },
    SubcommandLevels {
        two: "package",
        ..levels("swift", "build run test")
    },
    levels("task", GOALS),
    SubcommandLevels {
        two: "providers state workspace",
        ..levels("terraform", "fmt get graph init output plan show validate")
    },
    SubcommandLevels {
        two: "cache pip python self tool",
        runs: "run",
        ..levels("uv", "add build export init lock remove sync tree venv")
    },
    SubcommandLevels {
        two: "config run workspaces",
        runs: "dlx exec",
        ..levels(
            "yarn",
            "add build dev format install lint outdated remove start test typecheck up upgrade",
        )
    },
    SubcommandLevels {
        two: "build",
        ..levels("zig", "fmt test")
    },
];

/// The number of leading words that determine the effect; `None` if unknown.
pub fn count_action_words(words: &[ShellWord]) -> Option<usize> {
    action_word_count(&known(words))
}

/// Returns true if a command's first words are `python3 -m` and a module that runs the tests of the project.
pub fn runs_test_module(words: &[ShellWord]) -> bool {
    runs_tests(&known(words))
}

fn action_word_count(known: &[Option<&str>]) -> Option<usize> {
    let program = known.first().copied().flatten()?;
    if PROGRAM.contains(&program) {
        return Some(1);
    }
    if runs_tests(known) {
        return Some(3);
    }
    if INTERPRETERS.contains(&program) {
        return Some(2);
    }
    if program == "npx" {
        return inner(known, 1);
    }
    let levels = LEVELS.iter().find(|levels| levels.program == program)?;
    let first = known.get(1).copied().flatten()?;
    let has = |list: &str| list.split_whitespace().any(|word| word == first);
    match () {
        () if has(levels.runs) => inner(known, 2),
        () if (program, first) == ("uv", "tool") && known.get(2) == Some(&Some("run")) => {
            inner(known, 3)
        }
        () if has(levels.two) => Some(3),
        () if has(levels.one) => Some(2),
        () => None,
    }
}

/// The number of leading words, for a command inside another one.
fn inner(known: &[Option<&str>], from: usize) -> Option<usize> {
    action_word_count(known.get(from..)?).map(|count| from + count)
}

/// Interpreters: the pattern includes the file that they run.
const INTERPRETERS: &[&str] = &[
    "bash", "lua", "node", "perl", "php", "python", "python3", "ruby", "sh", "ts-node", "tsx",
];

/// Python modules that run the tests of the project, as `python3 -m` names them.
const TEST_MODULES: &[&str] = &["pytest", "unittest"];

/// Returns true if a command's first words are `python3 -m` and one of these modules.
fn runs_tests(known: &[Option<&str>]) -> bool {
    let modules = TEST_MODULES;
    matches!(known, [Some("python" | "python3"), Some("-m"), Some(module), ..] if modules.contains(module))
}

/// The words of a command; `None` for each that only the shell can expand.
fn known(words: &[ShellWord]) -> Vec<Option<&str>> {
    words.iter().map(ShellWord::known).collect()
}

/// Programs of these lists that run no code of the project.
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

/// Returns true if files of the project determine the code that a command runs.
pub fn runs_project_code(words: &[ShellWord]) -> bool {
    let program = words.first().and_then(ShellWord::known).unwrap_or_default();
    let levels = || LEVELS.iter().any(|levels| levels.program == program);
    let listed =
        PROGRAM.contains(&program) || program == "npx" || levels() || runs_test_module(words);
    listed && !RUN_THEIR_OWN.contains(&program)
}

/// The word that names the file a command runs, if any: a program by its path, or the argument of an interpreter. The
/// code of a build is not named.
pub fn executed_file(words: &[ShellWord]) -> Option<&ShellWord> {
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
    if runs_test_module(words) {
        return None;
    }
    let mut rest = words[1..].iter();
    rest.find(|word| !word.text().starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_name_the_script_that_runs() {
        for (command, wanted) in [
            ("sh x.sh a", Some("x.sh")),
            ("python3.12 -u x.py", Some("x.py")),
            (". ./env.sh", Some("./env.sh")),
            ("./run --fast x", Some("./run")),
            ("bin/tool", Some("bin/tool")),
            ("cargo test x.rs", None),
            ("python3 -m unittest x.py", None),
            ("python3 -m tool x.py", Some("tool")),
            ("python3", None),
            ("cat x.sh", None),
        ] {
            let words = command
                .split(' ')
                .map(|word| ShellWord::Known(word.to_owned()));
            let words: Vec<ShellWord> = words.collect();
            let named = executed_file(&words).and_then(ShellWord::known);
            assert_eq!(named, wanted, "{command}");
        }
    }
}
