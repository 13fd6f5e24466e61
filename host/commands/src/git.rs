//! Git commands that may run other programs through options, subcommands or settings.

use crate::ShellWord;

pub(crate) mod pathspecs;

/// Git settings, with the value that only disables something.
const OFF_SETTINGS: [(&str, &str); 17] = [
    ("color.ui", "false"),
    ("commit.gpgSign", "false"),
    ("core.askPass", "false"),
    ("core.editor", "false"),
    ("core.fsmonitor", "false"),
    ("core.gitProxy", ""),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gc.auto", "0"),
    ("log.showSignature", "false"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
];

/// Settings with a variable middle part: start and end of the name, and the value that only disables something.
const OFF_SETTING_PATTERNS: [(&str, &str, &str); 9] = [
    ("diff.", ".command", ""),
    ("diff.", ".textconv", ""),
    ("filter.", ".clean", ""),
    ("filter.", ".process", ""),
    ("filter.", ".required", "false"),
    ("filter.", ".smudge", ""),
    ("hook.", ".enabled", "false"),
    ("merge.", ".driver", "false"),
    ("protocol.", ".allow", "never"),
];

/// Removes options before the subcommand that only disable something, since they are irrelevant to the check of the
/// command.
pub(crate) fn strip_off_switches(words: &mut Vec<ShellWord>) {
    while let Some(option) = words.get(1).and_then(ShellWord::known) {
        let count = match option {
            "--no-pager" | "-P" | "--no-optional-locks" => 1,
            "-c" if words.get(2).and_then(ShellWord::known).is_some_and(is_off) => 2,
            _ => return,
        };
        words.drain(1..=count);
    }
}

/// Returns true if `name=value` only disables something.
fn is_off(setting: &str) -> bool {
    let Some((name, value)) = setting.split_once('=') else {
        return false;
    };
    let matches_pattern = |(begin, end, off): &(&str, &str, &str)| {
        let rest = name.strip_prefix(begin);
        *off == value && rest.is_some_and(|rest| rest.len() > end.len() && rest.ends_with(end))
    };
    let matches_setting =
        |(known, off): &(&str, &str)| name.eq_ignore_ascii_case(known) && *off == value;
    OFF_SETTINGS.iter().any(matches_setting) || OFF_SETTING_PATTERNS.iter().any(matches_pattern)
}

/// Subcommands that accept the options of `git diff` and `git log`, or pass them on.
const DIFF_SUBCOMMANDS: &[&str] = &[
    "annotate",
    "blame",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "grep",
    "log",
    "range-diff",
    "reflog",
    "rev-list",
    "shortlog",
    "show",
    "stash",
    "whatchanged",
];

/// Options of [`DIFF_SUBCOMMANDS`] that write a file or run a program.
const WRITING_OPTIONS: &[&str] = &[
    "ext-diff",
    "output",
    "remerge-diff",
    "show-signature",
    "textconv",
];

/// Returns true if a word is one of [`WRITING_OPTIONS`], possibly abbreviated: git accepts any unique prefix.
fn is_writing_option(word: &str) -> bool {
    let name = word
        .strip_prefix("--")
        .map(|rest| rest.split('=').next().unwrap_or(rest));
    let is_prefix =
        |name: &str| name != "text" && WRITING_OPTIONS.iter().any(|long| long.starts_with(name));
    name.is_some_and(|name| !name.is_empty() && is_prefix(name))
}

/// Returns true if an option shows the content of files that git treats as binary, in the form of text or of a patch:
/// the sandbox hides the committed content of hidden files in this way.
fn shows_binary_files(word: &str, subcommand: &str) -> bool {
    if let Some(name) = word.strip_prefix("--") {
        // Git accepts any unique prefix. One letter is never unique.
        return name.len() > 1 && ("text".starts_with(name) || "binary".starts_with(name));
    }
    // The rest of a cluster after these letters is a value.
    let with_value = if subcommand == "grep" {
        "ABCOefm"
    } else {
        "BCDGILMOSUXln"
    };
    let letters = word.strip_prefix('-').unwrap_or_default().chars();
    let mut letters = letters.take_while(|c| !with_value.contains(*c));
    letters.any(|c| c == 'a')
}

/// Values of `--diff-merges` that compare without merging. `remerge` would run merge drivers.
const COMPARING_FORMATS: [&str; 10] = [
    "1",
    "c",
    "cc",
    "combined",
    "dense-combined",
    "first-parent",
    "m",
    "none",
    "off",
    "separate",
];

/// Returns true if the value of `--diff-merges` may repeat a merge. `on` is the default format, which the sandbox
/// configures.
fn may_merge(words: &[&str]) -> bool {
    let options = words.iter().take_while(|word| **word != "--").enumerate();
    let mut formats = options.filter_map(|(at, word)| {
        let rest = word.strip_prefix("--diff-m")?;
        let format = match rest.split_once('=') {
            Some((_, format)) => Some(format),
            None => words.get(at + 1).copied(),
        };
        Some(format.unwrap_or_default())
    });
    formats.any(|format| format != "on" && !COMPARING_FORMATS.contains(&format))
}

/// Returns true if a letter cluster of `git grep` opens a pager: `O` before any letter that takes a value.
fn opens_pager(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let mut letters = letters.unwrap_or_default().chars();
    letters.find(|c| "ABCOefm".contains(*c)) == Some('O')
}

/// Returns true if the arguments of `git grep` open the files found in a program.
fn greps_into_pager(arguments: &[&str]) -> bool {
    let mut arguments = arguments.iter();
    arguments.any(|word| word.starts_with("--op") || opens_pager(word))
}

/// Returns true if a word names the program at the other end of a connection. Options may be abbreviated.
fn names_remote_program(word: &str) -> bool {
    let name = word.strip_prefix("--").unwrap_or_default();
    let name = name.split('=').next().unwrap_or(name);
    let options = ["exec", "receive-pack", "upload-pack"];
    let is_option = |option: &&str| option.starts_with(name) || name.starts_with(*option);
    !name.is_empty() && options.iter().any(is_option)
}

/// Returns the reasons why a git command may run something that its words do not show.
pub(super) fn risky_arguments(words: &[ShellWord]) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut rest = words.iter().skip(1);
    let mut subcommand = None;
    while let Some(word) = rest.next() {
        match word.known() {
            None => reasons.push(
                "a word that is known only when the shell runs may make `git` run something"
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
                reasons.push("`git -C` obeys the settings of another folder".to_owned());
                rest.next();
                continue;
            }
            Some(text) if text.starts_with('-') => {
                reasons.push(format!(
                    "`git {text}` may name a program or settings that git obeys"
                ));
                continue;
            }
            Some(text) => subcommand = Some(text),
        }
        break;
    }
    let rest: Vec<&str> = rest.map(ShellWord::text).collect();
    let has_prefix = |options: &[&str]| {
        rest.iter()
            .any(|word| options.iter().any(|option| word.starts_with(option)))
    };
    let first = rest.first().copied().unwrap_or_default();
    if let Some(subcommand) = subcommand.filter(|subcommand| DIFF_SUBCOMMANDS.contains(subcommand))
    {
        let mut options = rest.iter().take_while(|word| **word != "--");
        // Signatures are checked by a program from the settings.
        let risky = options.find(|word| is_writing_option(word) || word.contains("%G"));
        reasons.extend(risky.map(|word| {
            format!("`git {subcommand} {word}` may write a file or run a program of the settings")
        }));
        // `git stash -a` does not print anything.
        let prints = subcommand != "stash" || matches!(first, "show" | "list");
        let mut options = rest.iter().take_while(|word| **word != "--");
        let shown = options.find(|word| prints && shows_binary_files(word, subcommand));
        reasons.extend(shown.map(|word| {
            format!("`git {subcommand} {word}` may print the committed content of files that no tool may read")
        }));
        if may_merge(&rest) {
            reasons.push(format!(
                "`git {subcommand} --diff-merges` may run a program of the settings"
            ));
        }
    }
    let is_risky = match subcommand {
        Some("config") => !has_prefix(&["--get", "--list", "-l", "get", "list"]),
        Some("grep") => greps_into_pager(&rest),
        Some("rebase") => has_prefix(&["-x", "--exec", "-i", "--interactive", "--edit"]),
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
            let names_program = |word: &&str| names_remote_program(word) || word.contains("::");
            has_prefix(&["-u", "-c", "--config", "--template"]) || rest.iter().any(names_program)
        }
        Some("init") => has_prefix(&["--template"]),
        Some("commit" | "merge" | "tag") => has_prefix(&["--gpg-sign", "-S"]),
        Some("remote") => matches!(first, "add" | "set-url"),
        Some(_) | None => false,
    };
    if is_risky && let Some(subcommand) = subcommand {
        reasons.push(format!(
            "`git {subcommand}` with these arguments may run something, or change what git runs later"
        ));
    }
    reasons
}

/// Ends of the names of settings whose value is a program or a command, in lower case.
const PROGRAM_SETTINGS: &[&str] = &[
    ".path",
    "askpass",
    "clean",
    "cmd",
    "command",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "helper",
    "hookspath",
    "packobjectshook",
    "pager",
    "process",
    "program",
    "receivepack",
    "smudge",
    "templatedir",
    "textconv",
    "uploadpack",
];

/// Returns true if `name=value` makes git run a program other than the usual ones.
fn sets_program(setting: &str) -> bool {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "?"));
    let name = name.to_ascii_lowercase();
    name.starts_with("alias.") && value.starts_with('!')
        || PROGRAM_SETTINGS.iter().any(|end| name.ends_with(end))
            && !matches!(value, "" | ":" | "cat" | "false" | "true")
}

/// Returns the reason why a git command runs a command that is not analyzed.
pub(crate) fn unseen_command(words: &[ShellWord]) -> Option<String> {
    let texts: Vec<&str> = words.iter().skip(1).map(ShellWord::text).collect();
    let mut at = 0;
    while let Some(option) = texts.get(at).filter(|text| text.starts_with('-')) {
        let value = texts.get(at + 1).copied().unwrap_or_default();
        if *option == "-c" && sets_program(value)
            || *option == "--config-env"
            || option.starts_with("--config-env=")
            || option.starts_with("--exec-path=")
        {
            return Some("`git` runs a program that a setting names".to_owned());
        }
        let takes_value = matches!(
            *option,
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--attr-source"
        );
        at += 1 + usize::from(takes_value);
    }
    let (subcommand, rest) = texts.get(at..)?.split_first()?;
    let runs = |word: &&&str| {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        word.starts_with("--ex") || letters.is_some_and(|letters| letters.contains('x'))
    };
    let is_unseen = match *subcommand {
        "bisect" => rest.first() == Some(&"run"),
        "rebase" | "difftool" => rest.iter().any(|word| runs(&word)),
        "submodule" => rest.contains(&"foreach"),
        "grep" => greps_into_pager(rest),
        "clone" if rest.contains(&"-u") => true,
        "archive" | "clone" | "fetch" | "ls-remote" | "pull" | "push" => {
            rest.iter().any(|word| names_remote_program(word))
        }
        _ => false,
    };
    is_unseen.then(|| format!("`git {subcommand}` runs a command that is not analyzed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(line: &str) -> String {
        let mut words: Vec<ShellWord> = line
            .split(' ')
            .map(|word| ShellWord::Known(word.to_owned()))
            .collect();
        strip_off_switches(&mut words);
        words
            .iter()
            .map(ShellWord::text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn git_options_that_print_the_content_of_binary_files_are_found() {
        let reasons = |line: &str| {
            let words: Vec<ShellWord> = line
                .split(' ')
                .map(|word| ShellWord::Known(word.to_owned()))
                .collect();
            risky_arguments(&words)
        };
        for line in [
            "git grep -a API HEAD",
            "git grep --cached -na API",
            "git grep -Ia API HEAD",
            "git grep --tex API HEAD",
            "git show --text HEAD~1",
            "git show -pa HEAD",
            "git log -p --te",
            "git log -p -1 -wa",
            "git diff --binary TREE HEAD",
            "git diff --bi TREE HEAD",
            "git diff-tree -p -a HEAD",
            "git stash show -p -a",
            "git range-diff -a a b",
            "git --no-pager whatchanged -p -a",
        ] {
            let found = reasons(line);
            assert!(
                found.iter().any(|it| it.contains("committed content")),
                "{line}: {found:?}"
            );
        }
        for line in [
            "git grep -e -API HEAD",
            "git grep -nea HEAD",
            "git log -Sabc --all --author=a -- -a",
            "git log -Gabc -p",
            "git diff --stat -Ma",
            "git reflog --all",
            "git stash -a",
            "git branch -a",
            "git log --abbrev-commit --name-only",
            "git rev-list --bisect HEAD",
            "git log --branches --before=yesterday",
        ] {
            let found = reasons(line);
            assert!(
                !found.iter().any(|it| it.contains("committed content")),
                "{line}: {found:?}"
            );
        }
    }

    #[test]
    fn git_options_that_only_disable_features_are_removed() {
        for (line, expected) in [
            (
                "git --no-pager -c core.hooksPath=/dev/null -c filter.lfs.clean= status -s",
                "git status -s",
            ),
            ("git -c CORE.pager=cat log", "git log"),
            (
                "git -c protocol.file.allow=never -c hook.a.b.enabled=false log",
                "git log",
            ),
            ("git status", "git status"),
            ("git", "git"),
        ] {
            assert_eq!(stripped(line), expected);
        }
        for unchanged in [
            "git -c core.hooksPath=hooks status",
            "git -c core.pager=sh log",
            "git -c filter.x.clean=sh status",
            "git -c filter.clean= status",
            "git -c core.fsmonitor status",
            "git -c alias.status=!sh status",
            "git -C elsewhere status",
            "git commit -c core.pager=cat",
        ] {
            assert_eq!(stripped(unchanged), unchanged);
        }
    }
}
