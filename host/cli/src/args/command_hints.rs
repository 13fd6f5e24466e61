//! Commands that people type by mistake, and the commands that they mean.

use clap::Command;

use crate::arguments::quote_for_shell;

/// A word that is not a command, the command that is meant, and a placeholder for its missing argument.
type CommandHint = (&'static [&'static str], &'static str, &'static str);

/// The hints. No word in them is a command.
const HINTS: &[CommandHint] = &[
    (&["install", "add"], "tools add", "FILE"),
    (&["remove", "rm", "delete"], "tools remove", "NAME"),
    (&["uninstall", "teardown"], "setup --undo", ""),
    (&["list", "ls"], "tools list", ""),
    (&["tool", "plugin", "plugins"], "tools", ""),
    (&["new", "create", "generate"], "tools new", "NAME"),
    (&["build", "compile"], "tools build", ""),
    (&["check", "validate", "lint"], "tools check", "FILE"),
    (&["enable"], "tools enable", "NAME"),
    (&["disable"], "tools disable", "NAME"),
    (&["info", "show", "describe"], "tools info", "NAME"),
    (&["search", "find"], "tools search", "WORDS"),
    (&["tokens", "cost", "costs"], "tools tokens", ""),
    (&["trust", "grant"], "tools trust", "NAME"),
    (&["revoke"], "tools revoke", "NAME"),
    (&["server", "up", "listen"], "serve", ""),
    (&["login", "auth"], "mcp login", "NAME"),
    (&["logout"], "mcp logout", "NAME"),
    (&["import"], "mcp import", ""),
    (&["servers"], "mcp list", ""),
    (&["exec", "execute", "invoke", "use"], "call", "TOOL"),
    (&["ask", "agent", "do"], "run", "TASK"),
    (&["repl", "interactive"], "chat", ""),
    (&["secret"], "secrets", ""),
    (&["approval"], "approvals", ""),
    (&["accept"], "policy accept", ""),
    (&["explain"], "policy explain", "TOOL"),
    (&["log", "logs", "history"], "audit tail", ""),
    (&["verify"], "audit verify", ""),
    (&["settings", "configure", "cfg"], "config", ""),
    (&["get"], "config get", "KEY"),
    (&["set"], "config set", "KEY VALUE"),
    (&["revert", "rollback"], "undo", ""),
    (&["status", "health", "diagnose"], "doctor", ""),
    (&["onboard", "quickstart"], "setup", ""),
    (&["mask", "scrub"], "redact", ""),
    (&["completion"], "completions", "SHELL"),
    (&["docs", "man", "manual"], "help", ""),
];

/// The message for a word that is not a command, if the command that is meant is known. `rest` are the words after it.
pub fn command_hint(word: &str, rest: &[String]) -> Option<String> {
    let shown = mimir_core::text::visible(word);
    let rest: String = rest
        .iter()
        .map(|word| format!(" {}", mimir_core::text::visible(&quote_for_shell(word))))
        .collect();
    if matches!(word, "uninstall" | "remove") && !rest.contains(" -") {
        let tool = if rest.is_empty() { " NAME" } else { &rest };
        return Some(format!(
            "`{shown}` is not a command; `mimir setup --undo` takes mimir out of your agents, `mimir tools remove{tool}` removes a tool"
        ));
    }
    let known = HINTS.iter().find(|(words, ..)| words.contains(&word));
    if let Some((_, command, argument)) = known {
        let rest = match rest.as_str() {
            "" if argument.is_empty() => String::new(),
            "" => format!(" {argument}"),
            _ => rest,
        };
        return Some(format!(
            "`{shown}` is not a command; use `mimir {command}{rest}`"
        ));
    }
    let is_call = rest.contains('=') || rest.trim_start().starts_with("'{");
    is_call.then(|| {
        format!("`{shown}` is not a command; to call a tool, use `mimir call {shown}{rest}`")
    })
}

/// The words after the first word that is not an option, if that word is not a command of `root`.
pub fn unknown_command<'w>(root: &Command, words: &'w [String]) -> Option<(&'w str, &'w [String])> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            // The value is the next word.
            "-C" | "--workspace" => at += 2,
            option if option.starts_with('-') => at += 1,
            word if root.find_subcommand(word).is_some() => return None,
            word => return Some((word, words.get(at + 1..).unwrap_or_default())),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CliArgs;

    #[test]
    fn command_hints_name_existing_commands_only() {
        let mut root = CliArgs::command();
        root.build();
        for (words, command, _) in HINTS {
            for word in *words {
                assert!(
                    root.find_subcommand(word).is_none(),
                    "`{word}` is a command"
                );
            }
            let found = command
                .split(' ')
                .filter(|word| !word.starts_with("--"))
                .try_fold(&root, |at, word| at.find_subcommand(word));
            assert!(found.is_some(), "`mimir {command}` does not exist");
        }
    }

    #[test]
    fn command_hints_repeat_the_arguments() {
        let hint = |word: &str, rest: &[&str]| {
            let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
            command_hint(word, &rest)
        };
        for (word, rest, wanted) in [
            ("install", &["a b.wasm"][..], "`mimir tools add 'a b.wasm'`"),
            ("add", &[], "`mimir tools add FILE`"),
            ("list", &[], "`mimir tools list`"),
            ("uninstall", &[], "`mimir setup --undo`"),
            ("remove", &["x"], "`mimir tools remove x`"),
            ("tool", &["list"], "`mimir tools list`"),
            ("server", &[], "`mimir serve`"),
            ("login", &[], "`mimir mcp login NAME`"),
            ("read_file", &["path=a"], "`mimir call read_file path=a`"),
        ] {
            let hint = hint(word, rest).unwrap();
            assert!(hint.contains(wanted), "{hint}");
        }
        assert_eq!(hint("bogus", &["x"]), None);
    }

    #[test]
    fn unknown_command_is_the_first_word_that_is_no_option() {
        let root = CliArgs::command();
        let find = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            unknown_command(&root, &words).map(|(word, rest)| (word.to_owned(), rest.to_vec()))
        };
        assert_eq!(
            find("mimir -C x --json install y"),
            Some(("install".to_owned(), vec!["y".to_owned()]))
        );
        assert_eq!(find("mimir tools install"), None);
        assert_eq!(find("mimir --json"), None);
    }
}
