//! Built-in danger patterns: effects that the user must see in advance, even if a rule allows the command. They match
//! parsed commands, not text.

use crate::interpreters::{self, common_name, is_interpreter};
use crate::path_text::{base_name, is_safe_device, lexical};
use crate::unseen_code::takes_script_from_input;
use crate::{
    EnclosingCommand, InsertedText, ParsedCommand, ParsedProgram, PlainCommand, ShellWord,
};

mod git_dangers;

/// A dangerous effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandDanger {
    /// Name of the pattern, such as `rm -r`.
    pub name: &'static str,
    /// Effect, as a clause after the command, such as "removes whole folders".
    pub effect: &'static str,
}

/// Returns the dangers of the command at `index` in the script.
pub fn dangers(script: &ParsedProgram, index: usize) -> Vec<CommandDanger> {
    let Some(simple) = script.commands.get(index) else {
        return Vec::new();
    };
    let command = AnalyzedCommand {
        simple,
        piped_from: input_programs(script, simple),
        nested: nested_programs(script, index),
        reads_found_names: reads_finder_output(script, simple),
    };
    PATTERNS
        .iter()
        .filter(|(_, _, test)| test(&command))
        .map(|&(name, effect, _)| CommandDanger { name, effect })
        .collect()
}

/// Returns a danger of a command that cannot be analyzed, if there is one.
pub fn hidden_danger(simple: &ParsedCommand) -> Option<CommandDanger> {
    if simple.hides_command {
        return Some(CommandDanger {
            name: "unknown command",
            effect: "runs a command that only the shell can determine, so it may do anything",
        });
    }
    // If a program runs its arguments, the command may begin at any word.
    if simple.unknown.is_empty() {
        return None;
    }
    let is_separator = |c: char| c.is_whitespace() || "\"'`;|&(){}".contains(c);
    let parts = simple.words.iter().skip(1).map(ShellWord::text);
    let parts = parts
        .flat_map(|text| text.split(is_separator))
        .filter(|part| !part.is_empty());
    let words: Vec<ShellWord> = parts
        .take(MAX_PARTS)
        .map(|part| ShellWord::Known(part.to_owned()))
        .collect();
    (0..words.len()).find_map(|at| {
        let inner = ParsedCommand {
            words: words[at..].to_vec(),
            ..ParsedCommand::default()
        };
        let command = AnalyzedCommand {
            simple: &inner,
            piped_from: Vec::new(),
            nested: Vec::new(),
            reads_found_names: false,
        };
        let mut patterns = PATTERNS
            .iter()
            .filter(|(name, ..)| UNLIKELY_IN_TEXT.contains(name));
        let &(name, effect, _) = patterns.find(|(_, _, test)| test(&command))?;
        Some(CommandDanger { name, effect })
    })
}

/// Patterns that do not match ordinary text by chance.
const UNLIKELY_IN_TEXT: &[&str] = &[
    "rm -r",
    "mkfs",
    "chmod 777",
    "chown -R",
    "credentials",
    "git history",
];

/// Maximum number of parts of a command to check for a nested command.
const MAX_PARTS: usize = 64;

/// A command with its context in the script.
struct AnalyzedCommand<'a> {
    simple: &'a ParsedCommand,
    /// Programs whose output the command reads, directly or through others.
    piped_from: Vec<&'a str>,
    /// Programs whose output becomes a part of its words or its standard input: `<(…)`, `$(…)`.
    nested: Vec<&'a str>,
    /// True if the input consists of file names from `find`, which never begin with a dash.
    reads_found_names: bool,
}

/// Returns the programs whose output a command reads, directly or through others.
fn input_programs<'a>(script: &'a ParsedProgram, simple: &ParsedCommand) -> Vec<&'a str> {
    let mut programs = Vec::new();
    let mut from = simple.piped_from;
    // A pipeline has one direction, so the loop visits each command once.
    while let Some(previous) = from.and_then(|at| script.commands.get(at)) {
        programs.extend(previous.program().map(base_name));
        from = previous.piped_from.filter(|next| Some(*next) < from);
    }
    programs
}

/// Returns the programs of nested commands. In the script, they directly precede the command that contains them.
fn nested_programs(script: &ParsedProgram, index: usize) -> Vec<&str> {
    let enclosing = &script.commands[index].wrappers;
    // Wrappers after the last substitution belong to the command itself.
    let enclosing = &enclosing[..enclosing
        .iter()
        .rposition(EnclosingCommand::is_substitution)
        .map_or(0, |index| index + 1)];
    let before = script.commands[..index].iter().rev();
    let inner = before.take_while(|command| {
        let rest = command.wrappers.strip_prefix(enclosing);
        rest.is_some_and(|rest| rest.iter().any(EnclosingCommand::is_substitution))
    });
    inner
        .filter_map(|command| command.program().map(base_name))
        .collect()
}

/// Returns true if a command reads the file names that `find` prints.
fn reads_finder_output(script: &ParsedProgram, simple: &ParsedCommand) -> bool {
    let previous = simple.piped_from.and_then(|at| script.commands.get(at));
    previous.is_some_and(|previous| {
        let prints = |word: &ShellWord| matches!(word.text(), "-printf" | "-fprintf");
        is_program(previous, &["find"]) && !previous.words.iter().any(prints)
    })
}

type DangerTest = fn(&AnalyzedCommand<'_>) -> bool;

/// Name, effect, and test.
const PATTERNS: &[(&str, &str, DangerTest)] = &[
    ("rm -r", "removes whole folders", |command| {
        is_program(command.simple, &["rm"])
            && (has_option(&command.simple.words, &["--recursive"], "rR")
                || command.may_have_options())
    }),
    ("dd", "writes blocks to any file or device", |command| {
        is_program(command.simple, &["dd"])
    }),
    (
        "find -delete",
        "removes the files that it finds",
        |command| {
            is_program(command.simple, &["find"])
                && arguments(command.simple).any(|word| word == "-delete")
        },
    ),
    (
        "fork bomb",
        "multiplies its processes until the machine hangs",
        |command| command.simple.may_fork_bomb,
    ),
    ("mkfs", "makes or removes file systems", |command| {
        let program = command.simple.program().map(base_name).unwrap_or_default();
        program.starts_with("mkfs")
            || is_program(
                command.simple,
                &[
                    "blkdiscard",
                    "fdisk",
                    "mkswap",
                    "parted",
                    "sfdisk",
                    "sgdisk",
                    "shred",
                    "wipefs",
                ],
            )
    }),
    (
        "chmod 777",
        "lets other users write, or run as the owner",
        |command| {
            let simple = command.simple;
            let unclear =
                is_program(simple, &["chmod"]) && operand(&simple.words).is_some_and(is_unclear);
            unclear
                || is_program(simple, &["chmod", "install"]) && arguments(simple).any(is_wide_mode)
        },
    ),
    (
        "chown -R",
        "gives whole folders to another user",
        |command| {
            is_program(command.simple, &["chown", "chgrp"])
                && (has_option(&command.simple.words, &["--recursive"], "R")
                    || command.may_have_options())
        },
    ),
    ("> /dev", "writes to a device", |command| {
        let simple = command.simple;
        let mut targets = simple
            .redirections
            .iter()
            .filter(|redirection| redirection.writes);
        targets.any(|redirection| is_device(redirection.target.text()))
            || written_files(simple).any(is_device)
    }),
    ("curl | sh", "runs code from the network", |command| {
        let fetches = |programs: &[&str]| {
            let known = ["curl", "fetch", "ftp", "nc", "ncat", "wget"];
            programs.iter().any(|program| known.contains(program))
        };
        let may_run_text = is_shell(command.simple)
            || runs_text(command.simple)
            || is_program(command.simple, &["eval", ".", "source"]);
        may_run_text
            && (fetches(&command.piped_from)
                || fetches(&command.nested) && runs_nested(command.simple))
    }),
    ("| sh", "runs the output of another program", |command| {
        let is_option = |word: &str| word.starts_with('-');
        is_shell(command.simple)
            && !command.piped_from.is_empty()
            && arguments(command.simple).all(is_option)
    }),
    ("power", "stops the machine or many processes", |command| {
        is_program(
            command.simple,
            &[
                "halt", "init", "killall", "pkill", "poweroff", "reboot", "shutdown", "telinit",
            ],
        ) || is_program(command.simple, &["kill"])
            && (arguments(command.simple).any(|word| word == "-1") || command.may_have_options())
    }),
    ("system", "changes the system configuration", |command| {
        let programs = [
            "at",
            "batch",
            "chsh",
            "crontab",
            "insmod",
            "iptables",
            "launchctl",
            "modprobe",
            "mount",
            "nft",
            "passwd",
            "rmmod",
            "sysctl",
            "systemctl",
            "umount",
            "update-alternatives",
            "useradd",
            "userdel",
            "usermod",
            "visudo",
        ];
        is_program(command.simple, &programs)
    }),
    (
        "history",
        "reads or removes the command history",
        |command| {
            is_program(command.simple, &["fc", "history"])
                || words(command.simple).any(|word| word.ends_with("_history"))
        },
    ),
    (
        "credentials",
        "accesses a file with credentials",
        |command| words(command.simple).any(is_credentials),
    ),
    ("git history", "discards work or history", |command| {
        is_program(command.simple, &["git"])
            && git_dangers::discards_work(&PlainCommand::normalize(&command.simple.words).words)
    }),
    ("publish", "publishes a package", |command| {
        let publish = [
            "cargo", "gem", "npm", "pnpm", "poetry", "twine", "uv", "yarn",
        ];
        is_program(command.simple, &publish) && publishes(&command.simple.words)
    }),
    (
        "docker --privileged",
        "gives a container access to the machine",
        |command| {
            let grants_access = |word: &str| {
                word == "--privileged"
                    || word.contains("docker.sock")
                    || word == "--pid=host"
                    || word.starts_with("/:")
                    || word.starts_with("-v/:")
                    || word.starts_with("--volume=/:")
            };
            is_program(command.simple, &["docker", "podman", "nerdctl"])
                && (arguments(command.simple).any(grants_access) || command.may_have_options())
        },
    ),
];

impl AnalyzedCommand<'_> {
    /// Returns true if an unknown word may become an option. Ignores a lone word: as an option, it would have no
    /// operand.
    fn may_have_options(&self) -> bool {
        let rest = self.simple.words.get(1..).unwrap_or_default();
        let mut options = rest.iter().take_while(|word| word.known() != Some("--"));
        let alone = rest.len() == 1 && rest[0].is_single();
        !alone
            && options.any(|word| match word {
                ShellWord::Known(_) => false,
                ShellWord::Glob(text) | ShellWord::GlobMatch(text) => {
                    word.may_be_option() && may_match_option(text)
                }
                // A name inserted by `find` begins with its search folder.
                ShellWord::Inserted { text, source } => {
                    let is_read = *source == InsertedText::ReadName;
                    !(text.contains("{}") || is_read && self.reads_found_names)
                }
                ShellWord::Unknown(_) | ShellWord::PipeName => word.may_be_option(),
            })
    }
}

/// Returns true if a file whose name is an option may match the glob. A glob such as `*.o` is assumed to match none,
/// because no dangerous option ends with an extension.
fn may_match_option(glob: &str) -> bool {
    let ending = glob.rsplit(['*', '?', ']']).next().unwrap_or(glob);
    !ending.contains('.')
}

/// Returns true if a word is unknown and may be an option or a subcommand.
fn is_unclear(word: &ShellWord) -> bool {
    word.known().is_none() && word.may_be_option()
}

/// Returns the first word after the program that is not an option.
fn operand(words: &[ShellWord]) -> Option<&ShellWord> {
    let mut rest = words.iter().skip(1);
    rest.find(|word| !word.known().is_some_and(|text| text.starts_with('-')))
}

/// Returns true if the command executes the output of its nested command: as text, as a file or as input.
fn runs_nested(simple: &ParsedCommand) -> bool {
    let is_eval = is_program(simple, &["eval"]);
    let is_unknown = |word: &ShellWord| {
        matches!(
            word,
            ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName
        )
    };
    match operand(&simple.words) {
        Some(word) => is_unknown(word) || is_eval && simple.words.iter().any(is_unknown),
        None => true,
    }
}

/// Returns the files that a copying, moving or truncating program writes.
fn written_files(simple: &ParsedCommand) -> impl Iterator<Item = &str> {
    let writes_all = is_program(simple, &["mv", "tee", "truncate"]);
    let writes_last = is_program(simple, &["cp", "install", "ln", "rsync", "scp"]);
    let first = if writes_all {
        1
    } else if writes_last {
        simple.words.len().saturating_sub(1).max(1)
    } else {
        simple.words.len()
    };
    let targets = simple.words.iter().skip(first).map(ShellWord::text);
    targets.map(|text| text.split_once('=').map_or(text, |(_, value)| value))
}

/// Returns true if the subcommand publishes a package, in any reading of the options before it.
fn publishes(words: &[ShellWord]) -> bool {
    let normalized = PlainCommand::normalize(words);
    let mut readings = normalized.alternatives.iter().chain([&normalized.words]);
    readings.any(|words| match words.get(1) {
        Some(ShellWord::Known(word)) => match words[0].known() {
            Some("twine") => word == "upload",
            _ => word == "publish",
        },
        Some(word) => is_unclear(word),
        None => false,
    })
}

/// Returns true if a path is a device, except those that every program may use.
fn is_device(path: &str) -> bool {
    let Some(absolute) = path.strip_prefix('/') else {
        return false;
    };
    match lexical(absolute.trim_start_matches('/')) {
        Some(clean) => clean.starts_with("dev/") && !is_safe_device(&format!("/{clean}")),
        None => path.contains("/dev/"),
    }
}

fn is_program(simple: &ParsedCommand, programs: &[&str]) -> bool {
    simple
        .program()
        .is_some_and(|program| programs.contains(&base_name(program)))
}

fn is_shell(simple: &ParsedCommand) -> bool {
    simple.program().is_some_and(interpreters::is_shell)
}

/// Interpreters whose code often takes its data, and more code, from the network.
const LANGUAGES: &[&str] = &[
    "lua", "node", "perl", "php", "python", "ruby", "ts-node", "tsx",
];

/// Returns true if an interpreter may run text that it reads. For less usual interpreters, the words must not name the
/// code.
fn runs_text(simple: &ParsedCommand) -> bool {
    let Some(program) = simple.program().map(base_name) else {
        return false;
    };
    common_name(program).is_some_and(|name| LANGUAGES.contains(&name))
        || is_interpreter(program) && interpreters::runs_input(&simple.words)
        || takes_script_from_input(program, simple.words.get(1..).unwrap_or_default())
}

fn arguments(simple: &ParsedCommand) -> impl Iterator<Item = &str> {
    simple.words.iter().skip(1).filter_map(ShellWord::known)
}

/// Returns all text in the command, known or not, including redirection targets.
fn words(simple: &ParsedCommand) -> impl Iterator<Item = &str> {
    let targets = simple
        .redirections
        .iter()
        .map(|redirection| redirection.target.text());
    simple.words.iter().map(ShellWord::text).chain(targets)
}

/// Returns true if one of these long options, possibly abbreviated, or one of the letters is present.
fn has_option(words: &[ShellWord], long: &[&str], letters: &str) -> bool {
    let known = words.iter().skip(1).filter_map(ShellWord::known);
    let mut options = known.take_while(|word| *word != "--");
    options.any(|word| match word.strip_prefix("--") {
        Some(name) => !name.is_empty() && long.iter().any(|option| option[2..].starts_with(name)),
        None => word
            .strip_prefix('-')
            .is_some_and(|set| set.contains(|c| letters.contains(c))),
    })
}

/// Returns true if a mode lets others write, or makes the file run as its owner.
fn is_wide_mode(word: &str) -> bool {
    if word.len() >= 3 && word.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        let special = word.len() > 3 && !word[..word.len() - 3].bytes().all(|byte| byte == b'0');
        let others = word.as_bytes()[word.len() - 1] - b'0';
        return special || others & 2 != 0;
    }
    word.split(',').any(|part| {
        let Some(at) = part.find(['+', '=']) else {
            return false;
        };
        let (who, what) = part.split_at(at);
        let includes_others = who.is_empty() || who.contains(['o', 'a']);
        (includes_others && what.contains('w')) || what.contains('s')
    })
}

fn is_credentials(word: &str) -> bool {
    let parts = [
        ".ssh/",
        ".aws/",
        ".gnupg/",
        ".kube/config",
        ".docker/config.json",
        ".config/gcloud",
        ".config/gh/",
        ".git-credentials",
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/gshadow",
        "Library/Keychains",
        ".password-store",
    ];
    let names = [
        "id_rsa",
        "id_ed25519",
        "id_ecdsa",
        "id_dsa",
        ".netrc",
        "_netrc",
        ".pgpass",
        ".npmrc",
        ".pypirc",
        ".ssh",
        ".aws",
        ".gnupg",
    ];
    let is_environment = word.starts_with("/proc/") && word.ends_with("/environ");
    is_environment
        || parts.iter().any(|part| word.contains(part))
        || names.contains(&base_name(word))
}
