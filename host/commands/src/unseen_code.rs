//! Commands that run code which their words do not show: from the standard input, or in arguments that are not analyzed.
//! No stored approval covers them, since the next call with the same words may run other code.

use crate::git;
use crate::interpreters::{CodeSource, code_source, is_input_word, runs_input};
use crate::path_text::base_name;
use crate::read_only::only_reads;
use crate::subcommands::has_known_actions;
use crate::{ParsedCommand, ShellWord};

/// Programs that run a file among their arguments, such as the one after `-f`.
const RUNNERS: &[&str] = &[
    "ansible-playbook",
    "bun",
    "cmake",
    "deno",
    "ed",
    "emacs",
    "ex",
    "gdb",
    "gmake",
    "go",
    "just",
    "lldb",
    "make",
    "ninja",
    "nix-shell",
    "nvim",
    "rake",
    "samu",
    "task",
    "vi",
    "view",
    "vim",
];

/// Programs that run the command in their arguments, and the subcommand for it; an empty text stands for none.
const COMMAND_RUNNERS: &[(&str, &str)] = &[
    ("bun", "run"),
    ("bun", "x"),
    ("bundle", "exec"),
    ("bunx", ""),
    ("conda", "run"),
    ("direnv", "exec"),
    ("hatch", "run"),
    ("mise", "exec"),
    ("mise", "x"),
    ("nix", "develop"),
    ("nix", "shell"),
    ("nix-shell", ""),
    ("npm", "exec"),
    ("npm", "x"),
    ("npx", ""),
    ("pdm", "run"),
    ("pipenv", "run"),
    ("pipx", "run"),
    ("pixi", "run"),
    ("pnpm", "dlx"),
    ("pnpm", "exec"),
    ("pnpx", ""),
    ("poetry", "run"),
    ("rustup", "run"),
    ("rye", "run"),
    ("stack", "exec"),
    ("uv", "run"),
    ("uvx", ""),
    ("yarn", "dlx"),
    ("yarn", "exec"),
    ("yarn", "run"),
];

/// Other programs with a subcommand that runs code from the standard input.
const CODE_RUNNERS: &[&str] = &["dotnet", "rails", "swift", "terraform"];

/// Subcommands of [`COMMAND_RUNNERS`] and [`CODE_RUNNERS`] that run no input.
const PACKAGE_ACTIONS: &[&str] = &[
    "add",
    "apply",
    "build",
    "check",
    "ci",
    "fmt",
    "format",
    "i",
    "init",
    "install",
    "lint",
    "lock",
    "plan",
    "publish",
    "remove",
    "restore",
    "run-script",
    "start",
    "sync",
    "test",
    "uninstall",
    "update",
    "upgrade",
    "validate",
];

/// Editors and debuggers that read commands from their standard input.
const INPUT_EDITORS: &[&str] = &[
    "ed", "emacs", "ex", "gdb", "lldb", "nvim", "vi", "view", "vim",
];

/// Variables whose value is code that programs or shells load.
const LOADED_VARIABLES: &[&str] = &[
    "BASH_ENV",
    "DYLD_INSERT_LIBRARIES",
    "ENV",
    "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "LD_AUDIT",
    "LD_PRELOAD",
    "PERL5OPT",
    "PYTHONSTARTUP",
    "RUBYOPT",
];

/// Programs that only read their standard input as data, or do not read it.
const DATA_READERS: &[&str] = &[
    "apk",
    "apt",
    "apt-get",
    "awk",
    "b2sum",
    "base32",
    "base64",
    "bc",
    "brew",
    "bzip2",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "clang-format",
    "cmp",
    "column",
    "comm",
    "cp",
    "cut",
    "date",
    "diff",
    "dnf",
    "echo",
    "egrep",
    "expand",
    "expr",
    "false",
    "fgrep",
    "file",
    "fmt",
    "fold",
    "gawk",
    "gh",
    "git",
    "grep",
    "gsed",
    "gunzip",
    "gzip",
    "head",
    "hexdump",
    "iconv",
    "join",
    "jq",
    "kill",
    "less",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "more",
    "mv",
    "nl",
    "od",
    "paste",
    "printf",
    "ps",
    "pwd",
    "read",
    "rev",
    "rg",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shuf",
    "sleep",
    "sort",
    "strings",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "tsort",
    "unexpand",
    "uniq",
    "unxz",
    "wc",
    "xxd",
    "xz",
    "yq",
    "yum",
    "zcat",
    "zstd",
];

/// Returns true if a word names the standard input as a file: alone, or attached to an option as in `-f-` and
/// `--file=/dev/stdin`.
fn names_input(word: &str) -> bool {
    let attached = || {
        let (_, value) = word.split_once('=')?;
        Some(is_input_word(value))
    };
    let after_letter = || {
        let option = word.strip_prefix('-')?;
        let value = option.get(1..)?;
        Some(!option.starts_with('-') && is_input_word(value))
    };
    is_input_word(word)
        || attached().unwrap_or_default()
        || word.starts_with('-') && after_letter().unwrap_or_default()
}

fn known_words(words: &[ShellWord]) -> impl Iterator<Item = &str> {
    words.iter().filter_map(ShellWord::known)
}

/// Returns the command that a program such as `uv run` runs, with the options before it.
fn inner_words(words: &[ShellWord]) -> Option<&[ShellWord]> {
    let program = base_name(words.first()?.known()?);
    let subcommand = words.get(1).and_then(ShellWord::known);
    let (_, runner) = COMMAND_RUNNERS.iter().find(|(name, runner)| {
        *name == program && (runner.is_empty() || subcommand == Some(*runner))
    })?;
    words.get(if runner.is_empty() { 1 } else { 2 }..)
}

/// Returns true if a program runs a command or code for some subcommands.
fn may_run_commands(program: &str) -> bool {
    COMMAND_RUNNERS.iter().any(|(name, _)| *name == program) || CODE_RUNNERS.contains(&program)
}

/// Returns the reason why a command runs code that its words do not show, as a clause such as "`make` runs its standard
/// input". `has_input` is true if the caller sets the standard input.
pub fn unseen_code(simple: &ParsedCommand, has_input: bool) -> Option<String> {
    let has_input = has_input || simple.has_input;
    let variables = simple.assignments.iter().map(|(name, _)| name.as_str());
    if let Some(name) = variables.clone().find(|name| loads_code(name)) {
        return Some(format!("the variable `{name}` loads code"));
    }
    if only_reads(simple) {
        return None;
    }
    let words = simple.words.as_slice();
    let path = words.first()?.known()?;
    let program = base_name(path);
    let runs_its_input = || Some(format!("`{program}` runs its standard input"));
    match code_source(words) {
        Some(CodeSource::Input) => return runs_its_input(),
        Some(CodeSource::Unknown(files)) if has_input || files.is_empty() => {
            return runs_its_input();
        }
        _ => {}
    }
    let arguments = words.get(1..).unwrap_or_default();
    let runs_file = RUNNERS.contains(&program)
        || program == "uv" && arguments.first().and_then(ShellWord::known) == Some("run");
    if runs_file && known_words(arguments).any(names_input)
        || INPUT_EDITORS.contains(&program) && has_input
        || has_input && attaches_input(program, arguments)
        || takes_script_from_input(program, arguments)
    {
        return runs_its_input();
    }
    if let Some(inner) = inner_words(words)
        && (0..inner.len()).any(|at| runs_input(&inner[at..]))
    {
        return runs_its_input();
    }
    if let Some(reason) = crate::executing_arguments::unseen_command(program, words) {
        return Some(reason);
    }
    (program == "git")
        .then(|| git::unseen_command(words))
        .flatten()
}

/// Returns true for a variable whose value is code that programs or shells load, in any case.
pub fn loads_code(name: &str) -> bool {
    LOADED_VARIABLES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns true if a command in a container or pod gets the standard input.
fn attaches_input(program: &str, arguments: &[ShellWord]) -> bool {
    let containers = ["docker", "kubectl", "lxc", "nerdctl", "oc", "podman"];
    let attaches = |word: &str| {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        word.starts_with("--interactive")
            || word.starts_with("--stdin")
            || letters.is_some_and(|letters| letters.contains('i'))
    };
    containers.contains(&program) && known_words(arguments).any(attaches)
}

/// Returns true if `sed` or `awk` takes its script from the standard input.
pub(crate) fn takes_script_from_input(program: &str, arguments: &[ShellWord]) -> bool {
    let mut follows_option = false;
    ["awk", "gawk", "gsed", "mawk", "nawk", "sed"].contains(&program)
        && known_words(arguments).any(|word| {
            let is_script = follows_option && is_input_word(word);
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            let ends_in_letter = letters.is_some_and(|letters| letters.ends_with('f'));
            follows_option = ends_in_letter || matches!(word, "--file" | "--expression-file");
            let attached = letters.and_then(|letters| letters.split_once('f'));
            let long = word.strip_prefix("--file=");
            let value = attached.map(|(_, value)| value).or(long);
            is_script || value.is_some_and(is_input_word)
        })
}

/// Returns true if a command reads its standard input only as data, so that a stored pattern may cover it with any
/// input.
pub fn reads_input_as_data(words: &[ShellWord]) -> bool {
    let Some(program) = words.first().and_then(ShellWord::known) else {
        return false;
    };
    if !program.contains('/') && DATA_READERS.contains(&program) {
        return true;
    }
    let names_input = words
        .iter()
        .skip(1)
        .any(|word| word.known().is_none_or(names_input));
    match code_source(words) {
        Some(source) => matches!(source, CodeSource::Files(_)),
        None if names_input => false,
        // The approval is bound to the content of the file.
        None if program.contains('/') => !program.starts_with('/'),
        None => match inner_words(words) {
            Some(inner) => reads_input_as_data(inner),
            None if may_run_commands(program) => {
                let action = words.get(1).and_then(ShellWord::known);
                action.is_some_and(|action| PACKAGE_ACTIONS.contains(&action))
            }
            None => has_known_actions(program),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> ParsedCommand {
        let words = line
            .split(' ')
            .map(|word| ShellWord::Known(word.to_owned()));
        ParsedCommand {
            words: words.collect(),
            ..ParsedCommand::default()
        }
    }

    #[test]
    fn unseen_code_is_found_in_input_and_arguments() {
        for line in [
            "python3.11 -",
            "/usr/bin/python3.11 -",
            "tclsh",
            "python3 -i x.py",
            "make -f -",
            "make -f- all",
            "make --file=- all",
            "make -f /dev/stdin",
            "make test -f /dev/fd/3",
            "just -f -",
            "ninja -f /proc/self/fd/0",
            "deno run -",
            "bun run -",
            "uv run -",
            "npx tsx -",
            "npx tsx",
            "uv run python",
            "uv run --with a python -",
            "poetry run python3 -",
            "go run /dev/stdin",
            "sed -n -f -",
            "awk -f/dev/stdin",
            "sed --file=- x",
            "ssh host ls",
            "parallel rm",
            "chroot / ls",
            "su -c ls",
            "script -c ls",
            "strace ls",
            "fd -x rm",
            "fd --exec rm",
            "alias ls=rm",
            "git submodule foreach ls",
            "git bisect run ./x",
            "git rebase -x ls main",
            "git rebase --exec=ls main",
            "git -c alias.z=!ls z",
            "git -c core.editor=./x commit",
        ] {
            assert!(unseen_code(&command(line), false).is_some(), "{line}");
        }
        for line in [
            "docker exec -i c sh",
            "kubectl exec -it p sh",
            "ed x",
            "ruby -C a x",
        ] {
            assert!(unseen_code(&command(line), true).is_some(), "{line}");
            assert_eq!(unseen_code(&command(line), false), None, "{line}");
        }
        for line in [
            "python3 x.py",
            "python3 -m pytest",
            "python3 -c 1",
            "make test",
            "make -j 4",
            "npm test",
            "npm run build",
            "npx tsc --noEmit",
            "uv run pytest -x",
            "cargo test -- -",
            "git commit -F -",
            "git -c user.name=a commit",
            "git -c core.editor=true rebase --continue",
            "git rebase main",
            "docker ps",
            "docker compose up",
            "cat -",
            "sed -n 1p -",
            "jq -f - x",
            "fd x",
            "foo -",
        ] {
            assert_eq!(unseen_code(&command(line), true), None, "{line}");
        }
        let mut preloaded = command("ls");
        preloaded
            .assignments
            .push(("LD_PRELOAD".into(), ShellWord::Known("./x.so".into())));
        assert!(unseen_code(&preloaded, false).is_some());
    }

    #[test]
    fn input_is_data_for_listed_programs_only() {
        for line in [
            "cat",
            "grep y",
            "tee -",
            "git commit -F -",
            "cargo run",
            "npm test",
            "python3 x.py",
            "./x.sh a",
            "npx prettier --stdin-filepath a",
            "uv run pytest",
        ] {
            assert!(reads_input_as_data(&command(line).words), "{line}");
        }
        for line in [
            "foo",
            "csh93x",
            "/opt/foo",
            "psql a",
            "docker exec -i c sh",
            "npx foo",
            "python3.11 -",
            "./x.sh -",
            "make -f -",
            "npm exec -- foo",
        ] {
            assert!(!reads_input_as_data(&command(line).words), "{line}");
        }
    }
}
