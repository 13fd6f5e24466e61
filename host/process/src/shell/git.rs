//! What git could be made to run: its options and some of its commands name programs, or settings that do.

use mimir_core::command::Word;

/// What git could be made to run.
pub(super) fn unknown(words: &[Word]) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = words.iter().skip(1);
    let mut command = None;
    while let Some(word) = rest.next() {
        match word.known() {
            None => all.push(
                "`git` may be told to run something by a word that only the shell will know"
                    .to_owned(),
            ),
            Some(
                "--no-pager"
                | "-P"
                | "--bare"
                | "--no-optional-locks"
                | "--literal-pathspecs"
                | "--version"
                | "--help",
            ) => continue,
            Some("-C") => {
                all.push("`git -C` obeys the settings of another folder".to_owned());
                rest.next();
                continue;
            }
            Some(text) if text.starts_with('-') => {
                all.push(format!(
                    "`git {text}` may name a program or settings that git obeys"
                ));
                continue;
            }
            Some(text) => command = Some(text),
        }
        break;
    }
    let rest: Vec<&str> = rest.map(Word::text).collect();
    let has = |options: &[&str]| {
        rest.iter()
            .any(|word| options.iter().any(|option| word.starts_with(option)))
    };
    let first = rest.first().copied().unwrap_or_default();
    let runs = match command {
        Some("config") => !has(&["--get", "--list", "-l", "get", "list"]),
        Some("grep") => has(&["-O", "--open"]),
        Some("rebase") => has(&["-x", "--exec", "-i", "--interactive", "--edit"]),
        Some("bisect") => first == "run",
        Some("submodule") => matches!(first, "foreach" | "add" | "update" | "init"),
        Some(
            "difftool" | "mergetool" | "filter-branch" | "daemon" | "shell" | "send-email"
            | "instaweb" | "hook" | "maintenance" | "credential" | "web--browse" | "bundle-uri"
            | "remote-ext",
        ) => true,
        Some(
            "clone" | "fetch" | "pull" | "push" | "ls-remote" | "archive" | "fetch-pack"
            | "send-pack",
        ) => {
            has(&[
                "--upload-pack",
                "--receive-pack",
                "--exec",
                "-u",
                "-c",
                "--config",
                "--template",
            ]) || rest.iter().any(|word| word.contains("::"))
        }
        Some("diff" | "log" | "show") => has(&["--ext-diff", "--output"]),
        Some("init") => has(&["--template"]),
        Some("commit" | "merge" | "tag") => has(&["--gpg-sign", "-S"]),
        Some("remote") => matches!(first, "add" | "set-url"),
        Some("var" | "worktree" | "stash") | None => false,
        Some(_) => false,
    };
    if runs && let Some(command) = command {
        all.push(format!(
            "`git {command}` with these words may run something, or set what git runs later"
        ));
    }
    all
}
