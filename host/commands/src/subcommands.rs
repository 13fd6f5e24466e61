//! Subcommands: the leading words of a command that determine its effect, and the files that it runs. The other words
//! are details, such as the files to process.

use crate::ShellWord;
use crate::interpreters::{CodeSource, code_source};

/// Programs without subcommands. Their arguments are details, such as the files to process.
const WITHOUT_SUBCOMMANDS: &[&str] = &[
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

/// A program whose first argument is a subcommand. The lists, separated by spaces, group subcommands by the words that
/// follow. For unlisted subcommands, the number of significant words is unknown.
struct SubcommandLevels {
    program: &'static str,
    /// Subcommands followed by details.
    single: &'static str,
    /// Subcommands followed by one more significant word.
    nested: &'static str,
    /// Subcommands followed by another command.
    wrapping: &'static str,
}

const fn levels(program: &'static str, single: &'static str) -> SubcommandLevels {
    SubcommandLevels {
        program,
        single,
        nested: "",
        wrapping: "",
    }
}

/// Subcommands of a build tool in which every argument is a target.
const TARGETS_ONLY: &str = "";

const LEVELS: &[SubcommandLevels] = &[
    SubcommandLevels {
        nested: "services",
        ..levels(
            "brew",
            "install list search info update upgrade uninstall cleanup doctor",
        )
    },
    SubcommandLevels {
        nested: "pm run",
        wrapping: "x",
        ..levels("bun", "add build install remove test update")
    },
    SubcommandLevels {
        nested: "miri nextest run xtask",
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
        nested: "run task",
        ..levels("deno", "add bench cache check fmt info install lint test")
    },
    SubcommandLevels {
        nested: "add nuget remove tool",
        ..levels(
            "dotnet",
            "build clean format pack publish restore run test watch",
        )
    },
    SubcommandLevels {
        nested: "alias auth cache codespace config extension gist gpg-key issue label org pr project release repo \
              ruleset run search secret ssh-key variable workflow",
        ..levels("gh", "")
    },
    SubcommandLevels {
        nested: "bisect bundle lfs maintenance notes reflog remote sparse-checkout stash submodule subtree worktree",
        ..levels(
            "git",
            "add am apply archive blame branch checkout cherry-pick clean clone commit diff fetch format-patch \
             grep init log ls-files merge mv pull push rebase reset restore revert rm show status switch tag",
        )
    },
    SubcommandLevels {
        nested: "mod run tool work",
        ..levels(
            "go",
            "build clean doc fix fmt generate get install list test vet",
        )
    },
    levels("gradle", TARGETS_ONLY),
    levels("./gradlew", TARGETS_ONLY),
    levels("just", TARGETS_ONLY),
    levels("make", TARGETS_ONLY),
    levels("mix", TARGETS_ONLY),
    levels("mvn", TARGETS_ONLY),
    levels("./mvnw", TARGETS_ONLY),
    SubcommandLevels {
        nested: "access audit cache config dist-tag org owner pkg profile run run-script team token",
        wrapping: "exec x",
        ..levels(
            "npm",
            "add ci i install link outdated pack prune publish rebuild remove start t test uninstall update",
        )
    },
    levels("pip", "download freeze install list show uninstall wheel"),
    levels("pip3", "download freeze install list show uninstall wheel"),
    SubcommandLevels {
        nested: "config run store",
        wrapping: "dlx exec",
        ..levels(
            "pnpm",
            "add build dev format i install lint outdated remove start test typecheck update",
        )
    },
    SubcommandLevels {
        nested: "cache config env self source",
        wrapping: "run",
        ..levels("poetry", "add build check install lock remove show update")
    },
    SubcommandLevels {
        nested: "component override self target toolchain",
        ..levels("rustup", "default update")
    },
    SubcommandLevels {
        wrapping: "exec",
        ..levels("stack", "bench build clean haddock test")
    },
    SubcommandLevels {
        nested: "package",
        ..levels("swift", "build run test")
    },
    levels("task", TARGETS_ONLY),
    SubcommandLevels {
        nested: "providers state workspace",
        ..levels("terraform", "fmt get graph init output plan show validate")
    },
    SubcommandLevels {
        nested: "cache pip python self tool",
        wrapping: "run",
        ..levels("uv", "add build export init lock remove sync tree venv")
    },
    SubcommandLevels {
        nested: "config run workspaces",
        wrapping: "dlx exec",
        ..levels(
            "yarn",
            "add build dev format install lint outdated remove start test typecheck up upgrade",
        )
    },
    SubcommandLevels {
        nested: "build",
        ..levels("zig", "fmt test")
    },
];

/// Returns the number of leading words that determine the effect, or `None` if unknown.
pub fn count_action_words(words: &[ShellWord]) -> Option<usize> {
    action_word_count(&known_texts(words))
}

/// Returns true if a command begins with `python3 -m` and a module that runs the tests of the project.
pub fn runs_test_module(words: &[ShellWord]) -> bool {
    runs_tests(&known_texts(words))
}

fn action_word_count(known: &[Option<&str>]) -> Option<usize> {
    let program = known.first().copied().flatten()?;
    if WITHOUT_SUBCOMMANDS.contains(&program) {
        return Some(1);
    }
    if runs_tests(known) {
        return Some(3);
    }
    if INTERPRETERS.contains(&program) {
        return Some(2);
    }
    if program == "npx" {
        return inner_action_word_count(known, 1);
    }
    let levels = LEVELS.iter().find(|levels| levels.program == program)?;
    let first = known.get(1).copied().flatten()?;
    let is_in = |list: &str| list.split_whitespace().any(|word| word == first);
    if is_in(levels.wrapping) {
        inner_action_word_count(known, 2)
    } else if (program, first) == ("uv", "tool") && known.get(2) == Some(&Some("run")) {
        inner_action_word_count(known, 3)
    } else if is_in(levels.nested) {
        Some(3)
    } else if is_in(levels.single) {
        Some(2)
    } else {
        None
    }
}

/// Returns the number of leading words if another command begins at index `start`.
fn inner_action_word_count(known: &[Option<&str>], start: usize) -> Option<usize> {
    action_word_count(known.get(start..)?).map(|count| start + count)
}

/// Interpreters, for which the file to run is significant, too.
const INTERPRETERS: &[&str] = &[
    "bash", "lua", "node", "perl", "php", "python", "python3", "ruby", "sh", "ts-node", "tsx",
];

/// Python modules that run the tests of the project.
const TEST_MODULES: &[&str] = &["pytest", "unittest"];

/// Returns true if a command begins with `python3 -m` and one of these modules.
fn runs_tests(known: &[Option<&str>]) -> bool {
    matches!(known, [Some("python" | "python3"), Some("-m"), Some(module), ..] if TEST_MODULES.contains(module))
}

/// Returns the texts of the words, with `None` for each that only the shell can expand.
fn known_texts(words: &[ShellWord]) -> Vec<Option<&str>> {
    words.iter().map(ShellWord::known).collect()
}

/// Programs of the lists above that run no code of the project.
const RUN_NO_PROJECT_CODE: &[&str] = &[
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
    let has_subcommands = || LEVELS.iter().any(|levels| levels.program == program);
    let is_listed = WITHOUT_SUBCOMMANDS.contains(&program)
        || program == "npx"
        || has_subcommands()
        || runs_test_module(words);
    is_listed && !RUN_NO_PROJECT_CODE.contains(&program)
}

/// Returns true for a program whose subcommands or arguments are listed here.
pub(crate) fn has_known_actions(program: &str) -> bool {
    WITHOUT_SUBCOMMANDS.contains(&program) || LEVELS.iter().any(|levels| levels.program == program)
}

/// Returns the files that a command runs, if its words show them: a program by path, and the files that an interpreter
/// runs or loads. Files run by a build are not shown, and code among the words is not a file.
pub fn executed_files(words: &[ShellWord]) -> Vec<ShellWord> {
    let Some(name) = words.first().and_then(ShellWord::known) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    if name.contains('/') {
        files.extend(words.first().cloned());
    }
    if matches!(name, "." | "source") {
        files.extend(words.get(1).cloned());
    } else if !runs_test_module(words)
        && let Some(CodeSource::Files(run) | CodeSource::Unknown(run)) = code_source(words)
    {
        files.extend(run);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_name_the_script_that_runs() {
        for (command, expected) in [
            ("sh x.sh a", Some("x.sh")),
            ("python3.12 -u x.py", Some("x.py")),
            (". ./env.sh", Some("./env.sh")),
            ("./run --fast x", Some("./run")),
            ("bin/tool", Some("bin/tool")),
            ("cargo test x.rs", None),
            ("python3 -m unittest x.py", None),
            ("python3 -m tool x.py", Some("tool.py")),
            ("/usr/bin/python3.11 x.py", Some("/usr/bin/python3.11")),
            ("python3", None),
            ("python3 -u -c print(1)", None),
            ("node -e 1 x.js", None),
            ("bash -e x.sh", Some("x.sh")),
            ("tclsh8.6 x.tcl", Some("x.tcl")),
            ("python3 --odd x.py", Some("x.py")),
            ("python3 x.py -c a", Some("x.py")),
            ("cat x.sh", None),
        ] {
            let words = command
                .split(' ')
                .map(|word| ShellWord::Known(word.to_owned()));
            let words: Vec<ShellWord> = words.collect();
            let files = executed_files(&words);
            let file = files.first().and_then(ShellWord::known);
            assert_eq!(file, expected, "{command}");
        }
    }
}
